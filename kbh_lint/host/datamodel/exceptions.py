"""Exceptions of the interpreted program: raising and catching. What fails says so by `Run.fails` or `may_fail`."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from kbh_lint.base import ir
from kbh_lint.base.values import Sym, Value
from kbh_lint.host.torch import torchlib
from kbh_lint.host.values.frames import Raised
from kbh_lint.host.values.objects import ClassV, Instance, LibObject
from kbh_lint.host.values.tensors import Tensor, Unknown
from kbh_lint.source.embedded import Text

if TYPE_CHECKING:
    from kbh_lint.host.run import Run


def exception_parts(raised: Raised | None) -> list[Value]:
    """Returns the arguments that `__exit__` gets: the exception's class, the exception and a traceback, or None three
    times."""
    if raised is None:
        return [None, None, None]
    value = raised.value
    kind = value.cls if isinstance(value, Instance) else Sym(value.path) if isinstance(value, LibObject) else value
    return [kind, value, Unknown((), "a traceback")]


_OF_LIBRARIES = {"JSONDecodeError": ValueError, "FrozenInstanceError": AttributeError}


def raised(interp: Run, value: Value, loc: ir.Loc | None) -> Raised:
    """Returns the exception that `raise value` raises; of a class, an object is made."""
    if isinstance(value, Sym) and value.path.startswith("builtins."):
        value = LibObject.by_path(value.path, {"args": ()})
    elif isinstance(value, ClassV):
        value = interp.call(value, [], {}, loc)
    return Raised(value, loc)


def raise_(name: str, args: Sequence[Value], loc: ir.Loc | None) -> NoReturn:
    """Raises the built-in exception `name` with `args` in the interpreted program."""
    raise Raised(LibObject.by_path(f"builtins.{name}", {"args": tuple(args)}), loc)


def plain(value: Value) -> bool:
    """Whether a value is a plain int, float, bool or None, which has no items and cannot be called."""
    return value is None or type(value) in (int, float, bool)


# Plain data, by its class: nothing of it can be called.
DATA: dict[type, str] = {
    int: "a number", float: "a number", bool: "a number", str: "a text", Text: "a text", list: "a list",
    tuple: "a tuple", dict: "a dict", set: "a set", type(None): "None",
}  # fmt: skip


def is_data(value: Value) -> bool:
    """Whether a value is certainly one of `DATA`, and stands for nothing else."""
    return type(value) in DATA and not (isinstance(value, dict) and value.get("__namespace__"))


_STAND_INS = frozenset("value name dtype shape numpy item decode hex tobytes".split())


def no_attribute(interp: Run, owner: Value, name: str, loc: ir.Loc | None) -> None:
    """Records that reading `owner.name` may raise AttributeError, where `owner` is a plain number, a text or None
    without that attribute. Names in `_STAND_INS` are excepted: there the value stands for an object of a library."""
    if interp.trying and (plain(owner) or isinstance(owner, str)) and not hasattr(owner, name):
        if owner is None or name not in _STAND_INS:
            interp.may_fail("AttributeError", loc)


def no_tensor_attribute(interp: Run, owner: Tensor, name: str, loc: ir.Loc | None) -> None:
    """Raises AttributeError where no tensor of torch has an attribute, and neither a class of the submission nor what
    it put into torch's may have it."""
    added = owner.attrs.get("subclass") is not None or f"torch.Tensor.{name}" in interp.process.patches
    if not added and not torchlib.has_attribute(name):
        interp.fails("builtins.AttributeError", loc)


def catches(interp: Run, kind: Value, value: Value) -> bool:
    """Whether `except kind` catches the exception `value`; `kind` is a class or a tuple of classes."""
    if isinstance(kind, tuple):
        return any(catches(interp, k, value) for k in kind)
    if isinstance(kind, ClassV):
        cls = value.cls if isinstance(value, Instance) else value
        return isinstance(cls, ClassV) and kind in cls.mro()
    name = getattr(kind, "path", "").rsplit(".", 1)[-1]
    raised = getattr(value, "path", "builtins.Exception").rsplit(".", 1)[-1]
    a, b = getattr(builtins, name, None), getattr(builtins, raised, None)
    b = _OF_LIBRARIES.get(raised, b)
    if isinstance(a, type) and isinstance(b, type):
        return issubclass(b, a)
    return name in (raised, "Exception", "BaseException")
