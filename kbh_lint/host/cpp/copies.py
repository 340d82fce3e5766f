"""Copies of device memory by the runtime and the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import Sym
from kbh_lint.host.torch import recording
from kbh_lint.host.values.objects import Pointer, Slot
from kbh_lint.host.values.tensors import Tensor

if TYPE_CHECKING:
    from kbh_lint.host.cpp.cpp import Cpp


def copied(run: Cpp, name: str, args: list[Any], loc: ir.Loc | None) -> Any:
    """A copy by the runtime or the driver: first comes where to, then where from."""
    ends = [a.get() if isinstance(a, Slot) else a for a in args]
    found = [a for a in ends if isinstance(a, (Pointer, Tensor))]
    if len(found) >= 2:
        target, source = (p.tensor if isinstance(p, Pointer) else p for p in found[:2])
        event = recording.record(run.interp, "copy", name, loc, [source], {"cast": False})
        recording.write(run.interp, target, event, dtype=source.storage.content.dtype)
    return Sym("cudaSuccess")
