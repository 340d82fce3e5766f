"""What a kernel of CuTe DSL or TileLang is given, and what it sees of the host: objects of the submission with their
fields and methods, tables, namespaces, classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbh_lint.base.values import UNKNOWN, DType, Env, Func, Made, Scalar, Sym, Value
from kbh_lint.dsl.tensors import kinds
from kbh_lint.host.gpu import launch_arguments
from kbh_lint.host.values.library_objects import ClassMethod, OwnModule, Property, StaticMethod
from kbh_lint.host.values.named_objects import Namespace
from kbh_lint.host.values.objects import ClassV, Instance, Memo

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

_MAX_FIELDS = 200
_DEPTH = 3


def argument(interp: Run, value: object, level: int = 0) -> Any:
    """A launch argument as the kernel analysis takes it; objects of the submission are passed with their attributes."""
    if isinstance(value, Made):
        return value
    if isinstance(value, Instance):
        return _object(interp, value, level)
    if isinstance(value, (tuple, list)):
        return tuple(argument(interp, v, level + 1) for v in list(value)[:_MAX_FIELDS])
    table = value if isinstance(value, dict) else _namespace(value)
    if table is not None and level < _DEPTH:
        return _table(interp, kinds.Table if table is value else kinds.Namespace, table, level)
    if level and isinstance(value, (bool, int, float, str)) and interp.tensor_at(value) is None:
        return value
    return launch_arguments.of(interp, value, isinstance(value, bool))


def _namespace(value: object) -> dict[str, Value] | None:
    """What a `types.SimpleNamespace` holds; None for anything else."""
    return value.attrs if isinstance(value, Namespace) else None


def _table(interp: Run, kind: type[kinds.Table | kinds.Namespace], table: dict[Any, Any], level: int) -> Made:
    """A dict, or a namespace, by its keys."""
    items: list[tuple[Any, Any]] = [(k, v) for k, v in table.items() if isinstance(k, (str, int, DType))]
    return kind(fields=tuple((k, argument(interp, v, level + 1)) for k, v in items[:_MAX_FIELDS]))


def outer(interp: Run, known: dict[int, Any], value: object) -> Value:
    """A host value that a kernel sees through its scope, as the kernel analysis takes it; UNKNOWN for values that
    kernels cannot use. `known` has the objects that were converted before."""
    while isinstance(value, Memo):
        value = value.func
    if isinstance(value, (ClassV, Instance)):
        if id(value) not in known:
            known[id(value)] = (
                value,
                _class(interp, value) if isinstance(value, ClassV) else _object(interp, value, 0),
            )
        return known[id(value)][1]
    if isinstance(value, OwnModule):  # a file beside the submission
        return kinds.Class(methods=Env(value.attrs))
    if isinstance(value, dict) or _namespace(value) is not None:
        return argument(interp, value)
    return value if isinstance(value, (Func, Made, DType, Sym, int, float, str, tuple)) else UNKNOWN


def _class(interp: Run, cls: ClassV) -> Made:
    """A class of the submission, whose objects a kernel makes."""
    fields = (("name", cls.name), ("names", tuple(cls.fields)), ("dataclass", cls.dataclass))
    return kinds.Class(fields=fields, methods=_methods(interp, cls, 0))


def _methods(interp: Run, cls: ClassV, level: int) -> Env:
    found: dict[str, Any] = {}
    for base in reversed(cls.mro()):
        found.update((name, _member(interp, value, level)) for name, value in base.env.vars.items())
    return Env(found)


def _object(interp: Run, owner: Instance, level: int) -> Made | Scalar:
    if level >= _DEPTH:
        return Scalar(UNKNOWN)
    items = list(owner.attrs.items())[:_MAX_FIELDS]
    return kinds.Object(
        fields=tuple((k, argument(interp, v, level + 1)) for k, v in items), methods=_methods(interp, owner.cls, level)
    )


def _member(interp: Run, value: object, level: int) -> Value:
    """What a class holds under a name."""
    if isinstance(value, StaticMethod):
        return kinds.Static(fields=(("func", value.func),))
    if isinstance(value, ClassMethod):
        return kinds.ClassMethod(fields=(("func", value.func),))
    if isinstance(value, Property):
        return kinds.PropertyOf(fields=(("func", value.getter),))
    return value if isinstance(value, (Func, Made, DType, Sym, int, float, str)) else Scalar(UNKNOWN)
