"""Objects of the interpreted program that are neither numbers nor tensors.

A closed set, in one file because they hold one another: classes and objects, functions and what wraps them, and
kernels on their way to a launch. Objects of a library's own are in `library_objects` and `named_objects`, those of C++
in `cpp_objects`, lists and dicts that are more than that in `containers`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from types import FunctionType
from typing import Any, TypeVar

from kbh_lint.base import ir
from kbh_lint.base.records import dataclass
from kbh_lint.base.values import Brief, Env, Func, JitFunction, Value
from kbh_lint.host.values.tensors import Event, Tensor

MAX_MERGED = 400  # classes in the orders of a class's bases
_NOTHING = object()

MODULE_BASES = ("torch.nn.Module", "torch.nn.modules.module.Module", "torch.nn.modules.Module")


@dataclass(slots=True, eq=False, repr=False)
class ClassV(Brief):
    """A class of the submission; `bases` are ClassV or Sym. `env` holds what its body defined."""

    name: str
    bases: tuple[Any, ...]
    env: Env
    node: ir.ClassDef | None
    dataclass: bool = False
    by_identity: bool = False  # a dataclass made with eq=False
    frozen: bool = False  # a dataclass made with frozen=True
    ordered: bool = False  # a dataclass made with order=True
    fields: list[str] = field(default_factory=list)
    passed: list[str] = field(default_factory=list)  # those of a dataclass that only `__post_init__` is given
    derived: list[ClassV] = field(default_factory=list)  # the classes that have it as a base
    meta: ClassV | None = None  # a metaclass of the submission
    registered: list[Any] = field(default_factory=list)  # by ABC.register
    order: list[ClassV] | None = None  # what mro() gives, once it was asked for

    def mro(self) -> list[ClassV]:
        """Returns the submission's classes in method resolution order, this one first; the same list each time."""
        if self.order is None:
            own = [base for base in self.bases if isinstance(base, ClassV)]
            self.order = [self, *linear([*(base.mro() for base in own), own])]
        return self.order

    def get(self, name: str, default: Value = None) -> Any:
        """Returns what the class, or the first of its bases that has it, defines under a name; `default` where none
        does."""
        for cls in self.order or self.mro():
            if name in cls.env.vars:
                return cls.env.vars[name]
        return default

    def has(self, name: str) -> bool:
        """Whether the class or one of its bases defines a name."""
        return self.get(name, _NOTHING) is not _NOTHING

    def find(self, name: str) -> Any:
        """Returns what the class or the first of its bases defines under a name; raises KeyError where none does."""
        found = self.get(name, _NOTHING)
        if found is _NOTHING:
            raise KeyError(name)
        return found

    def field_names(self, passed: bool = False) -> list[str]:
        """Returns the fields of a dataclass or a named tuple, those of its bases first; none for other classes.
        `passed` adds the fields that only `__post_init__` is given."""
        out: dict[str, None] = {}
        for cls in reversed(self.mro()):
            if cls.dataclass or any(getattr(base, "path", "") == "typing.NamedTuple" for base in cls.bases):
                out.update(dict.fromkeys(name for name in cls.fields if passed or name not in cls.passed))
        return list(out)

    def compared_names(self) -> list[str]:
        """Returns the fields that equality and order compare."""
        defaults = {name: value for cls in reversed(self.mro()) for name, value in cls.env.vars.items()}
        options = {name: getattr(defaults.get(name), "kwargs", {}) for name in self.field_names()}
        return [name for name, given in options.items() if given.get("compare") is not False]

    def external_bases(self) -> list[str]:
        """Returns the paths of the library classes that the class inherits from."""
        return [b.path for c in self.order or self.mro() for b in c.bases if hasattr(b, "path")]


OBJECT = ClassV("object", (), Env(), None)  # what `object()` is of, which programs make to be like nothing else


def linear(orders: list[list[ClassV]]) -> list[ClassV]:
    """Merges orders of classes by the C3 rule, which keeps each of `orders`. Orders that contradict one another, or are
    very long, are merged in the order given."""
    out: list[ClassV] = []
    if len(orders) < 3:  # one base or none
        return orders[0]
    rest = [list(order) for order in orders if order]
    if sum(map(len, rest)) > MAX_MERGED:
        return list(dict.fromkeys(cls for order in rest for cls in order))
    while rest:
        tails = {id(cls) for order in rest for cls in order[1:]}
        head = next((order[0] for order in rest if id(order[0]) not in tails), None)
        if head is None:
            return [*out, *dict.fromkeys(cls for order in rest for cls in order)]
        out.append(head)
        rest = [left for order in rest if (left := [cls for cls in order if cls is not head])]
    return out


@dataclass(slots=True, eq=False, repr=False, weakref_slot=True)
class Instance(Brief):
    """An object of a class of the submission."""

    cls: ClassV
    attrs: dict[str, Any] = field(default_factory=dict)
    buffers: dict[str, bool] = field(default_factory=dict)  # registered name -> persistent
    items: dict[Any, Any] | None = None  # what an object of a subclass of dict holds


@dataclass(slots=True, eq=False, repr=False)
class LibObject(Brief):
    """An object a library made: a stream, a CUDA graph, an nn.Linear. `path` is the class that made it."""

    path: str
    attrs: dict[str, Any] = field(default_factory=dict)
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)

    by_fields = False  # whether two of them are equal that hold equal values

    def __repr__(self) -> str:
        return "<LibObject>"

    @staticmethod
    def by_path(
        path: str,
        attrs: dict[str, Any] | None = None,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> LibObject:
        """Makes an object of the class that is registered for a path (see `of_paths`); a plain LibObject where none
        is."""
        return class_of(path)(path, {} if attrs is None else attrs, args, {} if kwargs is None else kwargs)


_CLASSES: dict[str, type[LibObject]] = {}
_FAMILIES: dict[str, type[LibObject]] = {}  # by how their names begin
_L = TypeVar("_L", bound=type[LibObject])


def of_paths(*paths: str) -> Callable[[_L], _L]:
    """Registers a class for the objects that a library makes under these paths; `package.` or `family:` stands for all
    paths with that prefix that have no class of their own. The class has LibObject's constructor. Raises ValueError for
    a path that has a class."""

    def mark(cls: _L) -> _L:
        for path in paths:
            if (_FAMILIES if path.endswith((".", ":")) else _CLASSES).setdefault(path, cls) is not cls:
                raise ValueError(f"objects of {path} have a class already")
        return cls

    return mark


def class_of(path: str) -> type[LibObject]:
    """Returns the class registered for objects that a library makes under a path (see `of_paths`)."""
    found = _CLASSES.get(path)
    if found is None:
        found = next((cls for family, cls in _FAMILIES.items() if path.startswith(family)), LibObject)
    return found


def kind_of(value: object) -> str:
    """Returns a word for a value of which nothing else is known: its class name, the same for all objects of
    libraries."""
    return LibObject.__name__ if isinstance(value, LibObject) else type(value).__name__


class NamedTuple(LibObject):
    """An object of a class that `collections.namedtuple` made, by its fields."""

    def __init__(self, fields: dict[str, Any]) -> None:
        super().__init__("namedtuple", {"items": list(fields.values()), **fields})

    @property
    def fields(self) -> dict[str, Any]:
        """The values of the named tuple by field name."""
        return {key: value for key, value in self.attrs.items() if key != "items"}


def is_named_tuple(value: Instance) -> bool:
    """Whether an object's class derives from a named tuple."""
    return not value.cls.dataclass and bool(value.cls.field_names())


def compared_as(value: Value) -> Any:
    """Returns what equality and hashing compare: for a named tuple its fields, for an object of a dataclass or of a C++
    class its class and fields, for everything else the value itself."""
    if isinstance(value, NamedTuple):
        return tuple(value.attrs["items"])
    if isinstance(value, LibObject):
        return (value.path, *value.attrs.values()) if value.by_fields else value
    if isinstance(value, Instance) and not value.cls.by_identity and "__eq__" not in value.cls.env.vars:
        names = value.cls.compared_names()
        if names:
            fields = tuple(value.attrs.get(name) for name in names)
            return (value.cls, *fields) if value.cls.dataclass else fields
    return value


def ordered_as(value: Value) -> Value:
    """Returns what ordering compares: the fields of a named tuple or an ordered dataclass, else the value itself."""
    if isinstance(value, Instance) and (value.cls.ordered or is_named_tuple(value)):
        return tuple(ordered_as(value.attrs.get(name)) for name in value.cls.compared_names())
    return value


class ProcessNumber(int):
    """An integer that differs from process to process: an `id()`, the hash of a text, the process id. One that was
    computed from such a number may be any number; one that was not equals no number that a program writes."""

    computed: bool = False


def of_chance(value: int) -> ProcessNumber:
    """Returns a number that was computed from one that differs in each process."""
    made = ProcessNumber(value)
    made.computed = True
    return made


@dataclass(slots=True, eq=False, repr=False)
class Graph(Brief):
    """A CUDA graph: the events recorded while it was captured, to happen again at each replay, and the memory that was
    filled whole between them, with the label of what it holds then."""

    events: list[Event | tuple[Tensor, str]] = field(default_factory=list)
    attrs: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True, eq=False, repr=False)
class Bound(Brief):
    """A function bound to its `self`."""

    self: Any
    func: Any


@dataclass(slots=True, eq=False, repr=False)
class Method(Brief):
    """A method of a library value: a tensor's `copy_`, a string's `join`, a graph's `replay`."""

    self: Any
    name: str


@dataclass(slots=True, eq=False, repr=False)
class Partial(Brief):
    """functools.partial."""

    func: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass(slots=True, eq=False, repr=False)
class Memo(Brief):
    """A function under functools.lru_cache or cache, which keeps no more than its `longest` last results."""

    func: Any
    results: dict[Any, Any] = field(default_factory=dict)
    longest: int | None = None


@dataclass(slots=True, eq=False, repr=False)
class Configured(Brief):
    """A Triton kernel with its grid, `kernel[grid]`; or a compiled kernel taken from `warmup`."""

    jit: JitFunction
    grid: Any
    bound: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True, eq=False, repr=False)
class Config(Brief):
    """triton.Config; `hook` is its `pre_hook`, `options` what the compiler is told by it."""

    kwargs: dict[str, Any]
    hook: Any = None
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True, eq=False, repr=False)
class HostDescriptor(Brief):
    """A TMA descriptor made on the host over a tensor; `shape` and `strides` as they were given."""

    tensor: Tensor
    block: Any = None
    shape: Any = None
    strides: Any = None


@dataclass(slots=True, eq=False, repr=False)
class Extension(Brief):
    """A C++ extension built from source. `env` resolves its functions; `functions` are those it exports."""

    name: str
    env: Env
    modules: list[ir.Module] = field(default_factory=list)
    flags: tuple[str, ...] = ()
    attrs: dict[str, Any] = field(default_factory=dict)


Authored = Extension | JitFunction  # what holds kernels of the submission: C++ that is built, a function of Triton


@dataclass(slots=True, eq=False, repr=False)
class ExtFunction(Brief):
    """A function of a C++ extension; `func` is Func, Overloads or a class that it binds, `binding` how it is bound,
    `this` the object whose method it is."""

    extension: Extension
    name: str
    func: Any
    binding: Any = None
    this: Any = None


@dataclass(slots=True, eq=False, repr=False)
class Blob(Brief):
    """Machine code without source: a library that was loaded, not built."""

    path: str
    loc: ir.Loc | None


class UnknownLibrary(Blob):
    """A library that was loaded from a place that is not known."""

    __slots__ = ()


@dataclass(slots=True, eq=False, repr=False)
class Compiled(Brief):
    """A function or module under torch.compile."""

    func: Any
    loc: ir.Loc | None


@dataclass(slots=True, eq=False, repr=False)
class Specialized(Brief):
    """A function of a kernel language compiled for its compile-time arguments, which are in `fixed` by name; `outputs`
    are the places of the parameters for which a call allocates tensors, and gives them back. `others` are what the
    other configurations of an autotuner made; `cut` says which of them were not looked at. `scope` is what the names
    in it meant when it was compiled."""

    func: Any
    fixed: dict[str, Any] = field(default_factory=dict)
    outputs: tuple[int, ...] = ()
    others: tuple[Func, ...] = ()
    cut: str = ""
    scope: Any = None


CALLABLES = (Func, Bound, Method, Partial, Memo, Configured, ExtFunction, JitFunction, ClassV, Compiled, Specialized)


# What others may call that they are given: functions of the submission or built in, objects and classes.
HANDED = frozenset((Func, Bound, Partial, Memo, Compiled, Instance, ClassV, FunctionType))


def is_module(cls: ClassV) -> bool:
    """Whether a class derives from torch.nn.Module or from a torch layer."""
    return any(path in MODULE_BASES or path.startswith("torch.nn.") for path in cls.external_bases())


def find_method(owner: Instance, name: str) -> Any:
    """Returns a method of an object's class, bound to the object; None where there is none."""
    found = owner.cls.get(name, _NOTHING)
    return Bound(owner, found) if found is not _NOTHING else None


def function_of(found: Value) -> Any:
    """Returns the function under `staticmethod`, `classmethod` and the like; any other value unchanged."""
    return found.attrs["func"] if isinstance(found, LibObject) and "func" in found.attrs else found


def meta_method(owner: Value, name: str) -> Any:
    """Returns a method that a class's metaclass defines, bound to the class; None where there is none."""
    if not isinstance(owner, ClassV) or owner.meta is None:
        return None
    found = owner.meta.get(name, _NOTHING)
    return Bound(owner, found) if found is not _NOTHING else None


OF_TORCH = "torch.cuda.cudart"
