"""What a library is to the host: functions with named parameters, and classes for the objects that they make.

A function or method is a Python method marked with `@models("its name")`. Its first parameter after `self` is the
`Site` of the call; the others are those of the real function, with its names and defaults, and arguments are bound to
them as Python binds them. A call that they do not fit is answered by `other`.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import field
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from kbh_lint import registry
from kbh_lint.base import ir
from kbh_lint.base.records import dataclass
from kbh_lint.base.values import Func, JitFunction, Made
from kbh_lint.base.values import Value as Value
from kbh_lint.host.values.frames import builtin
from kbh_lint.host.values.objects import HANDED, Instance, LibObject, Method, Specialized
from kbh_lint.host.values.tensors import Tensor, Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

Owner = LibObject | Instance  # whose methods libraries have
_T = TypeVar("_T")
_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Site:
    """One call: the run in which it happens, the full path of what is called, where it is written, and all arguments
    as they were given."""

    run: Run
    path: str
    loc: ir.Loc | None
    args: list[Value] = field(default_factory=list)
    kwargs: dict[str, Value] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition(".")[2]


def models(*names: str) -> Callable[[_F], _F]:
    """Marks a method of a `Library` or of a `Modelled` class as the model of functions with these names. For a
    library's function a name with dots is its full path, where the library has several functions of one name."""

    def mark(func: _F) -> _F:
        func.__dict__["models"] = names
        return func

    return mark


def modelled(cls: type) -> dict[str, Callable[..., Any]]:
    """Returns the models that a class and its bases define, by the names of the functions that they model."""
    return {
        name: func
        for base in reversed(cls.__mro__)
        for func in vars(base).values()
        if callable(func)
        for name in getattr(func, "models", ())
    }


@cache
def _signature(func: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(func)


@cache
def _room(func: Callable[..., Any]) -> tuple[int, int]:
    """How many arguments a function takes at least and at most, where none is named; nothing fits one with a parameter
    that has to be."""
    params = _signature(func).parameters.values()
    plain = [p for p in params if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    named = any(p.kind is p.KEYWORD_ONLY and p.default is p.empty for p in params)
    most = sys.maxsize if any(p.kind is p.VAR_POSITIONAL for p in params) else len(plain)
    return sum(p.default is p.empty for p in plain), -1 if named else most


def _answer(found: Callable[..., Any], given: tuple[object, ...], site: Site) -> Value:
    """What a model answers, after what it is given for every call; NotImplemented where the arguments do not fit its
    parameters."""
    if site.kwargs:
        try:
            _signature(found).bind(*given, *site.args, **site.kwargs)
        except TypeError:
            return NotImplemented
    else:
        least, most = _room(found)
        if not least <= len(given) + len(site.args) <= most:
            return NotImplemented
    return found(*given, *site.args, **site.kwargs)


class Library:
    """A package that programs import."""

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}

    def __init_subclass__(cls) -> None:
        cls.functions = modelled(cls)

    def call(self, site: Site) -> Value:
        """Calls a function or class of the package, by its full path or its name; calls without a fitting model go to
        `other`."""
        found = self.functions.get(site.path) or self.functions.get(site.name)
        made = _answer(found, (self, site), site) if found is not None else NotImplemented
        if made is not NotImplemented:
            return made
        if not HANDED.isdisjoint(map(type, (*site.args, *site.kwargs.values()))):
            site.run.may_call(site.path, site.args, site.kwargs, site.loc)
        return self.other(site)

    def other(self, site: Site) -> Value:
        """Answers a call that has no model, or whose arguments do not fit its model."""
        return LibObject.by_path(site.path, {}, tuple(site.args), site.kwargs)

    def decorate(self, site: Site, decorator: Value, target: Value) -> Value:
        """Applies `@decorator` (a symbol of the package, or an object that it made) to a function or class; returns the
        decorated value."""
        return target

    def element_type(self, path: str) -> str | None:
        """Returns the element type that a path names, as in `kbh_lint.base.dtypes`; None where it names none."""
        return None

    def call_function(self, site: Site, func: Func) -> Value:
        """Calls, on the host, a function written in the package's language; NotImplemented where it runs like any other
        function."""
        return NotImplemented

    def kernel_method(self, site: Site, kernel: JitFunction) -> Value:
        """Calls a method of a kernel that is launched with brackets; `__getitem__` stands for the brackets themselves.
        NotImplemented where it behaves as Triton's, with the grid in the brackets."""
        return NotImplemented

    def launch(self, site: Site, made: Specialized) -> Value:
        """Calls a compiled function (`objects.Specialized`); NotImplemented where it runs like any other function."""
        return NotImplemented

    def tensor_attribute(self, tensor: Tensor, name: str) -> Value:
        """Returns an attribute that the package adds to tensors; NotImplemented where it is a method."""
        return NotImplemented

    def set_tensor_attribute(self, tensor: Tensor, name: str, value: Value) -> bool:
        """Evaluates `tensor.name = value` for an attribute that the package adds; returns False where it is an ordinary
        attribute."""
        return False

    def tensor_method(self, tensor: Tensor, name: str) -> Value:
        """Calls a method that the package adds to tensors; NotImplemented for other names."""
        return NotImplemented

    def made_attribute(self, made: Made, name: str) -> Value:
        """Returns an attribute of an object that the package made for kernels."""
        return Unknown((), name)

    def made_call(self, site: Site, made: Made) -> Value:
        """Calls an object that the package made for kernels."""
        return Unknown(site.run.contents_of(site.args), made.path)


def of_kernel(site: Site, kernel: JitFunction) -> Value:
    """Calls a method of a kernel that is launched with brackets, as its language defines it; NotImplemented where it
    behaves as Triton's."""
    row = registry.of_function(kernel.func.language)
    made: Value = NotImplemented if row is None else row.library.kernel_method(site, kernel)
    return made


class Builtin(Library):
    """A library of built-in functions, which need no import."""

    @classmethod
    def functions_by_name(cls) -> dict[str, Callable[..., Any]]:
        """Returns the models as built-in functions of the interpreted program, by name."""
        library = cls()

        def made(name: str) -> Callable[..., Any]:
            path = f"builtins.{name}"
            return builtin(lambda run, args, kwargs, loc: library.call(Site(run, path, loc, args, kwargs)))

        return {name: made(name) for name in cls.functions}

    def other(self, site: Site) -> Value:
        """Raises TypeError: Python refuses the arguments."""
        raise TypeError(f"the arguments of {site.path}")


class Modelled(LibObject):
    """An object that a library made, whose class models its methods. `path` is its name in reports."""

    methods: ClassVar[dict[str, Callable[..., Any]]] = {}

    def __init_subclass__(cls) -> None:
        cls.methods = modelled(cls)

    def attribute(self, interp: Run, name: str, loc: ir.Loc | None) -> Value:
        """Evaluates `owner.name`."""
        return self.attrs[name] if name in self.attrs else Method(self, name)

    def item(self, interp: Run, key: Value, loc: ir.Loc | None) -> Value:
        """Evaluates `owner[key]`; NotImplemented for an object without items."""
        return NotImplemented

    def called(self, site: Site) -> Value:
        """Evaluates `owner(...)`."""
        return Unknown(site.run.contents_of(site.args), site.path)

    def method(self, site: Site) -> Value:
        """Evaluates `owner.name(...)`."""
        found = self.methods.get(site.name)
        made = _answer(found, (self, site), site) if found is not None else NotImplemented
        return self.other(site) if made is NotImplemented else made

    def other(self, site: Site) -> Value:
        """Answers a call of a method that has no model, or whose arguments do not fit its model."""
        return LibObject.by_path(site.path, {}, tuple(site.args), site.kwargs)


class Methods(Generic[_T]):
    """The methods of objects of one class, where that class stands in a module below those that its methods need. The
    first parameters of a method's model are the `Site` and the object."""

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}

    def __init_subclass__(cls) -> None:
        cls.functions = modelled(cls)

    def call(self, site: Site, owner: _T) -> Value:
        """Evaluates `owner.name(...)`; NotImplemented where nothing is known of the method."""
        found = self.functions.get(site.name)
        made = _answer(found, (self, site, owner), site) if found is not None else NotImplemented
        return self.other(site, owner) if made is NotImplemented else made

    def attribute(self, run: Run, owner: _T, name: str, loc: ir.Loc | None) -> Value:
        """Evaluates `owner.name` for a name that is not among the object's `attrs`; NotImplemented for methods."""
        return NotImplemented

    def called(self, site: Site, owner: _T) -> Value:
        """Evaluates `owner(...)`; NotImplemented where nothing is known of the call."""
        return NotImplemented

    def other(self, site: Site, owner: _T) -> Value:
        """Answers a call of a method that has no model, or whose arguments do not fit its model."""
        return NotImplemented


Rows = dict[type[LibObject], Methods[Any]]
