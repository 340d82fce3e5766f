"""The values that the host interpreter computes with and that kernel analyses take as arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any, TypeAlias

from kbh_lint.base import ir
from kbh_lint.base.records import dataclass

# A value of the program that is interpreted. Numbers, texts and containers of Python are themselves, so it may be of
# any type; whoever takes one asks what it is before it does anything with it.
Value: TypeAlias = object


class _Unknown:
    """A value the interpreter does not know. Falsy tests on it are branches that both can be taken."""

    _instance: _Unknown | None = None

    def __new__(cls) -> _Unknown:
        if cls._instance is None:
            cls._instance = super().__new__(cls)
        return cls._instance

    def __repr__(self) -> str:
        return "UNKNOWN"

    def __bool__(self) -> bool:
        raise TypeError("an unknown value has no truth")


MAX_ALIASES = 8  # of one namespace
UNKNOWN = _Unknown()


class Brief:
    """An object that is compared by identity, and whose repr is the name of its class alone.

    Such objects hold one another. What one holds may be reached along so many ways that a text with all of it, which
    dataclasses make and `str` of a list or the message of a KeyError asks for, would never end.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


@dataclass(frozen=True, slots=True)
class Sym:
    """Something that lives outside the submission, by its full path: `torch.matmul`, `triton.language.dot`,
    `at::matmul`. Aliases are resolved before one is made: `import torch.nn.functional as F; F.linear` is
    `torch.nn.functional.linear`."""

    path: str


def module_names(value: Value) -> dict[str, object] | None:
    """The names that a file beside the submission defines, when `value` is that file imported as a module."""
    names = getattr(value, "attrs", None) if getattr(value, "path", "") == "module" else None
    return names if isinstance(names, dict) else None


@dataclass(frozen=True, slots=True)
class DType:
    """An element type as a value (`torch.bfloat16`, `tl.float32`); names as in `kbh_lint.base.dtypes`."""

    name: str


class Single(float):
    """A number of the host that was made in an element type narrower than Python's, as `np.float32(x)` is. What is
    computed from it is a plain number; kernels in which types of constants count see its type."""

    dtype = "f32"

    def __reduce__(self) -> tuple[type[float], tuple[float]]:
        return float, (float(self),)  # what leaves the process is a number


@dataclass(slots=True, eq=False, repr=False)
class Env(Brief):
    """Variables of one scope."""

    vars: dict[str, Any] = field(default_factory=dict)
    parent: Env | None = None
    types: dict[str, str] | None = None  # of the constants of C++ that are not of type int
    namespace: str = ""  # of C++, whose scope this is
    uses: dict[str, tuple[str, ...]] | None = None  # namespaces of C++ that are used, by the namespace that uses them

    @property
    def outermost(self) -> bool:
        """Whether this is the scope of a C++ file or of a namespace in it, rather than of a function."""
        return self.parent is None or bool(self.namespace)

    def lookup(self, name: str) -> Any:
        """The value bound to `name` in this scope or those around it; raises KeyError. For `b::f` the namespaces
        that a using directive brings in here are searched, too."""
        env: Env | None = self
        while env is not None:
            if name in env.vars:
                return env.vars[name]
            env = env.parent
        if "::" in name:
            for space in self._directives():
                found = self.get(f"{space}::{name}", self)
                if found is not self:
                    return found
        raise KeyError(name)

    def _directives(self) -> list[str]:
        """The namespaces that directives bring in here, by the names that aliases of them stand for."""
        found: list[str] = []
        env: Env | None = self
        while env is not None:
            if env.uses:
                found += env.uses.get(env.namespace, ())
            env = env.parent
        return [self._space(space) for space in found]

    def _space(self, name: str) -> str:
        for _ in range(MAX_ALIASES):
            alias = self.get(name)
            node = alias.node if isinstance(alias, CppType) else None
            kind = node.type if isinstance(node, ir.Using) else None
            if kind is None or kind.args or kind.pointers or kind.name == name:
                break
            name = kind.name
        return name

    def get(self, name: str, default: object = None) -> Any:
        """The value bound to `name` in this scope or those around it, else `default`: most names that kernels ask
        for are bound nowhere, and an exception for each costs more than the walk."""
        env: Env | None = self
        while env is not None:
            if name in env.vars:
                return env.vars[name]
            env = env.parent
        return default

    def type_of(self, name: str) -> str:
        """The integer type of the constant that a name is bound to; empty for an `int`."""
        env: Env | None = self
        while env is not None and name not in env.vars:
            env = env.parent
        return "" if env is None or env.types is None else env.types.get(name, "")


@dataclass(slots=True, eq=False, repr=False)
class Func(Brief):
    """A function of the submission, with the scope it closes over."""

    node: ir.FuncDef
    env: Env
    defaults: dict[str, Any] = field(default_factory=dict)
    attrs: dict[str, Any] = field(default_factory=dict)
    cls: Any = None  # the class whose body defined it
    language: str = ""  # what a decorator made of a Python function: `cute.kernel`, `cute.jit`, `tilelang`

    def captured(self) -> Env | None:
        """Returns the scope of what a lambda of C++ has captured by value, or under a name of its own; None where it
        has nothing."""
        named = {one.name for one in self.node.captures if one.init is not None or not one.reference}
        return self.env if self.env.vars and named >= self.env.vars.keys() else None


# --- what a kernel gets at a launch ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Buffer:
    """A pointer argument: the element type seen through the pointer and the id of the storage behind it.

    `content` is the element type of what the storage holds (it differs from `dtype` after a byte view). `leads` is the
    memory that addresses in it lead to, where it is a table of pointers, each with the field of a struct that holds it;
    the `role` of such memory is `empty` while nothing has written it, and `given` of an input or a weight.
    """

    dtype: str
    storage: int
    content: str
    leads: tuple[tuple[str, Buffer], ...] = ()
    role: str = ""


@dataclass(frozen=True, slots=True)
class StructArg:
    """A C++ struct passed by value: its fields by name, each as an argument; a field that is an array is a tuple."""

    fields: tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A TMA descriptor made on the host over a storage; `block` is the box shape where known.

    `shape` and `strides` are those of the tensor that it describes, in elements; empty where they are not known.
    """

    dtype: str
    storage: int
    content: str
    block: tuple[int, ...] | None = None
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()


OBJECT = "object"  # the path of an object of a class of the submission
FIELD = "self."  # in front of a field of one, where what a number depends on is named


@dataclass(frozen=True, slots=True)
class Made:
    """What a kernel language's own constructor made on the host and a kernel is given: a matrix instruction, a copy,
    a layout, a struct of shared memory; or (`object`) an object of a class of the submission.

    `fields` are what a kernel can ask it for, each as an argument; `methods` finds the functions of its class.
    """

    path: str
    fields: tuple[tuple[str, Any], ...] = ()
    methods: Env | None = field(default=None, repr=False, compare=False)

    def get(self, name: str, default: object = None) -> Any:
        """The field `name` of the object, else `default`."""
        return next((value for key, value in self.fields if key == name), default)


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number passed at run time: its value where the shape fixes it, else UNKNOWN; dtype where declared."""

    value: Any
    dtype: str = "?"


# An argument of a kernel: Buffer, Descriptor, Scalar, a tuple of them, or a compile-time constant (int, float,
# bool, str, None, DType, Func, Sym) for constexpr parameters and template arguments.
KernelArg = Any


@dataclass(slots=True, eq=False, repr=False)
class JitFunction(Brief):
    """A kernel that is launched with brackets, as a value: what `@triton.jit` (with autotune and heuristics around it)
    makes of a function, or another language's decorator, which its `func.language` names.

    `configs` holds the constexpr keyword values of each autotune configuration (empty: not autotuned);
    `hooks` holds the function that each configuration calls with the launch's arguments before a launch (none: none
    has one). `heuristics` maps a constexpr to the function that computes it from the launch arguments. `open` says that
    there are more configurations or heuristics, which are not known. `pruner` is the function that is asked at a launch
    which of the `tries`, the configurations as objects, are tried; `asked` says that it was. `best` gives the
    configuration of its last launch. `plain` says that it was made with no options.
    """

    func: Func
    configs: list[dict[str, Any]] = field(default_factory=list)
    heuristics: dict[str, Any] = field(default_factory=dict)
    open: bool = False
    hooks: list[Any] = field(default_factory=list)
    pruner: Any = None
    tries: list[Any] = field(default_factory=list)
    asked: bool = False
    best: Callable[[], Value] | None = None
    plain: bool = True


# --- C++ ---------------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False, repr=False)
class Overloads(Brief):
    """C++ functions of one name: overloads, templates and their specialisations, in order of definition."""

    funcs: list[Func]


@dataclass(slots=True, eq=False, repr=False)
class CppType(Brief):
    """A struct, class, enum or alias of the submission's C++ text; `special` are specialisations of a template."""

    node: ir.ClassDef | ir.Using
    env: Env
    special: list[CppType] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class TypeValue(Brief):
    """A type as a template argument, with the scope its names mean something in."""

    ref: ir.TypeRef
    env: Env
