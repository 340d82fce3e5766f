"""What no GPU allows a launch: too many threads in a block, or too much dynamic shared memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbh_lint.base.architectures import ARCHITECTURES, STATIC_SHARED
from kbh_lint.base.values import Sym, Value

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

__all__ = ["asked_in_vain", "too_much"]

MOST_THREADS = 1024
MOST_SHARED = max(one.shared_kib for one in ARCHITECTURES.values()) << 10  # bytes of a block, of all GPUs
MORE_SHARED = ("MAXDYNAMICSHAREDMEMORYSIZE", "MAXDYNAMICSHAREDSIZEBYTES")  # of the runtime, of the driver


def too_much(interp: Run, threads: int, shared: int) -> bool:
    """Whether a launch asks for more threads in a block, or more dynamic shared memory, than any GPU has; without
    opting in, the lower default limit holds. False unless the program handles a failure, and in calls after the first
    ones."""
    if not interp.trying or interp.aged:
        return False
    most = MOST_SHARED if interp.session.asks_for_shared() else STATIC_SHARED
    return threads > MOST_THREADS or shared > most


def asked_in_vain(attribute: Value, value: Value) -> bool:
    """Whether setting a kernel's `attribute` to `value` asks for more dynamic shared memory than any GPU has, which
    fails."""
    if not isinstance(attribute, Sym) or type(value) is not int:
        return False
    return attribute.path.upper().replace("_", "").endswith(MORE_SHARED) and value > MOST_SHARED
