"""isinstance, issubclass and callable: what is asked of the kind of a value."""

from __future__ import annotations

import builtins
import collections.abc
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from kbh_lint.base.values import DType, Sym, Value
from kbh_lint.host.torch import tensor_views
from kbh_lint.host.values import unknowns
from kbh_lint.host.values.containers import Once
from kbh_lint.host.values.named_objects import BuiltinObject, TorchLayer, UnionType
from kbh_lint.host.values.objects import (
    CALLABLES,
    ClassV,
    Instance,
    LibObject,
    find_method,
    function_of,
    is_module,
    is_named_tuple,
    meta_method,
)
from kbh_lint.host.values.tensors import Sort, Tensor, Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

# The plain values of the interpreter, which are of the classes that the program sees.
_PLAIN = (bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset, range, slice)
_ABSTRACT = ("collections.abc.", "typing.", "numbers.")


def is_instance(interp: Run, value: Value, kinds: Value, plainly: bool = False) -> Value:
    """Models isinstance(value, kinds): True, False or an Unknown; with `plainly`, `__instancecheck__` of metaclasses is
    ignored."""
    return _any_of(_is_of(interp, value, kind, plainly) for kind in _kinds(kinds))


def _is_of(interp: Run, value: Value, kind: Value, plainly: bool) -> Value:
    own = None if plainly else meta_method(kind, "__instancecheck__")
    if own is not None:
        answer = interp.call(own, [value], {}, None)
        return answer if isinstance(answer, Unknown) else interp.truth(answer, None)
    if isinstance(value, Unknown):
        return unknowns.merged(interp, value, why="a type test")
    return _is_a(interp, value, kind)


def is_subclass(interp: Run, cls: Value, kinds: Value) -> Value:
    """Models issubclass(cls, kinds): True, False or an Unknown."""
    return _any_of(_is_below(interp, cls, kind) for kind in _kinds(kinds))


def _any_of(answers: Iterable[Value]) -> Value:
    """True when an answer is; else the last that is not known, else False."""
    doubt: Any = False
    for answer in answers:
        if answer is True:
            return True
        doubt = doubt if answer is False else answer
    return doubt


def is_callable(interp: Run, value: Value) -> Value:
    """Models callable(value): True, False or an Unknown."""
    if isinstance(value, Instance):
        return is_module(value.cls) or find_method(value, "__call__") is not None
    if isinstance(value, LibObject):
        return isinstance(value, TorchLayer) or unknowns.merged(interp, value, why="a type test")
    if isinstance(value, Unknown):
        return unknowns.merged(interp, value, why="a type test")
    return isinstance(value, (*CALLABLES, Sym)) or bool(getattr(value, "__kbh_builtin__", False))


def _kinds(kinds: Value) -> tuple[Value, ...]:
    """The classes in the second argument: one, a tuple of them, a union."""
    if isinstance(kinds, UnionType):
        kinds = kinds.args
    return tuple(one for kind in kinds for one in _kinds(kind)) if isinstance(kinds, tuple) else (kinds,)


def _path(kind: Value) -> str:
    return str(getattr(kind, "path", "") or getattr(kind, "__kbh_name__", ""))


def _is_a(interp: Run, value: Value, kind: Value) -> Value:
    if isinstance(kind, Unknown):
        return unknowns.merged(interp, kind, why="a type test")
    if isinstance(kind, ClassV):
        if isinstance(value, Instance) and kind in value.cls.mro():
            return True
        return _is_like(interp, value, value.cls if isinstance(value, Instance) else None, kind)
    path = _path(kind)
    name = path.rsplit(".", 1)[-1]
    if kind is None or value is None:
        return value is None and (kind is None or name in ("object", "NoneType", "Hashable"))
    if path == "builtins.object":
        return True
    if path.startswith(_ABSTRACT):
        return _is_abstract(interp, value, path, name)
    row = _NAMED.get(name) or _NAMED.get(path)
    if row is not None:
        return row(interp, value)
    if isinstance(value, Instance):
        return path == "builtins.tuple" and is_named_tuple(value) or path in value.cls.external_bases()
    real = getattr(builtins, name, None)
    if isinstance(value, LibObject):
        return _is_of_library(value, name, real)
    return isinstance(real, type) and isinstance(value, real) and not isinstance(value, Once)


def _is_type(interp: Run, value: Value) -> bool:
    named = isinstance(value, Sym) and value.path.rpartition(".")[2][:1].isupper()
    return isinstance(value, ClassV) or named or getattr(value, "__kbh_name__", "").startswith("builtins.")


def _is_size(interp: Run, value: Value) -> Value:
    return isinstance(value, tuple) and unknowns.merged(interp, value, why="a type test")


_NAMED: dict[str, Callable[[Run, Value], Value]] = {  # by the last part of a class's name, or by all of it
    "Tensor": lambda interp, value: isinstance(value, Tensor) and tensor_views.ARRAY not in value.attrs,
    "cupy.ndarray": lambda interp, value: isinstance(value, Tensor) and tensor_views.ARRAY in value.attrs,
    "Parameter": lambda interp, value: isinstance(value, Tensor) and value.parameter,
    "dtype": lambda interp, value: isinstance(value, DType),
    "Module": lambda interp, value: isinstance(value, (Instance, TorchLayer)),
    "Size": _is_size,
    "builtins.type": _is_type,
}


def _is_of_library(value: LibObject, name: str, real: object) -> bool:
    """Whether an object of a library is of a class of this name; exceptions of Python's are of those above, too."""
    own = value.path.rsplit(".", 1)[-1]
    raised = getattr(builtins, own, None) if isinstance(value, BuiltinObject) else None
    return own == name or isinstance(raised, type) and isinstance(real, type) and issubclass(raised, real)


def _is_like(interp: Run, value: Value, cls: ClassV | None, kind: ClassV) -> Value:
    """Whether a class that does not derive from it passes for an abstract class: by registration, by what its
    `__subclasshook__` says, or by the members that a protocol asks for. `value` is an object, or the class itself."""
    doubt: Any = False
    for other in kind.registered:
        answer = _is_below(interp, value, other) if value is cls else _is_a(interp, value, other)
        if answer is True:
            return True
        doubt = doubt if answer is False else answer
    hook = kind.get("__subclasshook__")
    protocol = any(getattr(base, "path", "") == "typing.Protocol" for base in kind.bases)
    if not protocol and hook is None:
        return doubt
    if cls is None:
        return unknowns.merged(interp, value, why="a type test")
    if hook is not None:
        answer = interp.call(function_of(hook), [kind, cls], {}, None)
        known = not (isinstance(answer, Unknown) and answer.sort is Sort.NOT_IMPLEMENTED)
        return doubt if not known else answer if isinstance(answer, Unknown) else interp.truth(answer, None)
    wanted = [name for name in (*kind.env.vars, *kind.fields) if name and not name.startswith("__")]
    held = {name for base in cls.mro() for name in base.env.vars}
    return all(name in held or isinstance(value, Instance) and name in value.attrs for name in wanted)


def _is_abstract(interp: Run, value: Value, path: str, name: str) -> Value:
    """Whether a value is of an abstract class of the standard library."""
    if name == "Callable":
        return is_callable(interp, value)
    import numbers

    names = {"List": list, "Dict": dict, "Tuple": tuple, "FrozenSet": frozenset}
    real = names.get(name) or getattr(numbers if path.startswith("numbers.") else collections.abc, name, None)
    if isinstance(value, Once):
        return isinstance(real, type) and isinstance(iter(()), real)
    if isinstance(value, _PLAIN) and isinstance(real, type):
        return isinstance(value, real)
    if isinstance(value, Tensor) and name in ("Number", "Real", "Integral", "Mapping", "Sequence", "Set"):
        return False
    return unknowns.merged(interp, value, why="a type test")


def _is_below(interp: Run, cls: Value, kind: Value) -> Value:
    if isinstance(cls, ClassV) and isinstance(kind, ClassV):
        return kind in cls.mro() or _is_like(interp, cls, cls, kind)
    path = _path(kind)
    if path == "builtins.object" or cls is kind and path:
        return True
    if isinstance(cls, ClassV) and path:
        if path.endswith("nn.Module") or path == "builtins.object":
            return path == "builtins.object" or is_module(cls)
        return path in cls.external_bases() or unknowns.merged(interp, cls, why="a type test")
    one, other = (getattr(builtins, _path(c).removeprefix("builtins."), None) for c in (cls, kind))
    if isinstance(one, type) and isinstance(other, type):
        return issubclass(one, other)
    return unknowns.merged(interp, cls, kind, why="a type test")
