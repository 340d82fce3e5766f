"""What no GPU allows a launch: too many threads in a block, or too much dynamic shared memory."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from kbh_lint.base import ir
from kbh_lint.base.architectures import MOST_SHARED, STATIC_SHARED
from kbh_lint.base.values import Sym, Value

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

__all__ = ["asked_in_vain", "check", "threads_of", "too_much"]

MOST_THREADS = 1024
MORE_BY_NUMBER = 8  # the attribute of both
MORE_SHARED = ("MAXDYNAMICSHAREDMEMORYSIZE", "MAXDYNAMICSHAREDSIZEBYTES")  # of the runtime, of the driver


def too_much(interp: Run, threads: int, shared: int) -> bool:
    """Whether a launch asks for more threads in a block, or more dynamic shared memory, than any GPU has; without
    opting in, the lower default limit holds. False unless the program handles a failure, and in calls after the first
    ones."""
    if not interp.trying or interp.aged:
        return False
    opted_in = interp.cpp.opted_in or interp.session.asks_for_shared()
    most = MOST_SHARED if opted_in else STATIC_SHARED
    return threads > MOST_THREADS or shared > most


def check(interp: Run, block: Value, shared: Value, raised: str, loc: ir.Loc | None) -> None:
    """Raises in the program the exception `raised` where a launcher that is called from Python is asked for more
    threads in a block, or more dynamic shared memory, than any GPU has. Such launchers opt in to what they are asked
    for, or have a call of their own for it."""
    most = shared if type(shared) is int else 0
    if threads_of(block) > MOST_THREADS or most > MOST_SHARED:
        interp.fails(raised, loc)


def threads_of(block: Value) -> int:
    """Returns the threads of a block, of a number or of its sides; 0 where they are not known."""
    sides = block if isinstance(block, (tuple, list)) else (block,)
    return prod(side for side in sides if type(side) is int) if all(type(side) is int for side in sides) else 0


def asked_in_vain(attribute: Value, value: Value) -> bool:
    """Whether setting a kernel's `attribute` to `value` asks for more dynamic shared memory than any GPU has, which
    fails."""
    if type(value) is not int:
        return False
    if not isinstance(attribute, Sym):
        return attribute == MORE_BY_NUMBER and value > MOST_SHARED
    return attribute.path.upper().replace("_", "").endswith(MORE_SHARED) and value > MOST_SHARED
