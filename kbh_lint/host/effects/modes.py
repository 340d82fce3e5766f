"""Modes of torch: while one is entered, its class sees every operation of torch in the process, whoever calls it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kbh_lint.base import ir
from kbh_lint.base.values import Value
from kbh_lint.host.values.frames import builtin
from kbh_lint.host.values.objects import ClassV, Instance

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

METHODS = frozenset(("__enter__", "__exit__"))
SEEN = "every operation of torch"
_MODES = ("TorchDispatchMode", "TorchFunctionMode", "BaseTorchFunctionMode")


def is_mode(cls: ClassV) -> bool:
    """Whether the objects of a class of the submission are modes."""
    return any(path.startswith("torch.") and path.rpartition(".")[2] in _MODES for path in cls.external_bases())


def method(owner: Instance, name: str) -> Callable[..., Value]:
    """What modes inherit: `mode.__enter__()` returns the mode, `mode.__exit__(...)` nothing. A mode that is entered by
    a call stays until it is left by one."""

    @builtin
    def call(interp: Run, args: list[Value], kwargs: dict[str, Value], loc: ir.Loc | None) -> Value:
        note(interp, owner, name == "__enter__", loc)
        return owner if name == "__enter__" else None

    return call


def note(interp: Run, mode: Instance, entered: bool, loc: ir.Loc | None) -> None:
    """Notes that a mode is entered or left; operations of torch call it meanwhile."""
    if entered:
        interp.may_call(f"{mode.cls.name}.__enter__", [mode], {}, loc)
    key = (f"{mode.cls.name}.__enter__", str(id(mode)))
    interp.process.hooks.setdefault(key, []).append((mode if entered else None, loc, interp.trace.call_index))
