"""What calling nothing costs: measured in a candidate's process before the import, when it holds no code but ours.

On a GPU it is a cost of the machine, the sandbox and the sizes of a problem's tensors, not of a submission, so that
later processes of the same command take it over for as long as nothing of the machine is likely to have changed. On a
CPU other processes move it, and it is measured in each.
"""

from __future__ import annotations

import time
from dataclasses import replace
from statistics import median

from grader import plan as planning
from grader.answers import expect
from grader.resources import ring_room
from grader.seen import Null
from grader.session import Session
from kbh_lint.problems import Binding

__all__ = ["empty_calls", "measure_empty"]

NULL_CALLS = 9
NULL_BATCHES = 5
BEFORE = "before the import"
VALID_S = 600.0  # as long as one process may take by default
_KNOWN: dict[tuple[str, str, str, str], tuple[float, Null]] = {}  # with when they were measured


def empty_calls(session: Session, problem: str, binding: Binding) -> Null:
    """The cost of an empty model at one shape, measured now or in an earlier process. Raises Ended and ChildGone."""
    if session.device.type != "cuda":
        return measure_empty(session, binding)
    key = (problem, repr(binding), str(session.device), session.setting)
    when, known = _KNOWN.get(key, (-VALID_S, None))
    if known is not None and time.monotonic() - when < VALID_S:
        return replace(known, earlier=True)
    found = measure_empty(session, binding)
    _KNOWN[key] = time.monotonic(), found
    return found


def measure_empty(session: Session, binding: Binding) -> Null:
    """The cost of an empty model at one shape. Raises Ended and ChildGone."""
    few = planning.LEAST_ROUNDS
    loaded = session.load(binding, (), rounds=few, null=True)
    expect(loaded, BEFORE)
    claims, walls = [], []
    for index in range(NULL_CALLS):
        called = session.call(index % few, None, "do nothing")
        expect(called.answer, BEFORE)
        claims.append(called.answer.numbers[0])
        walls.append(called.wall)
    slot_bytes = session.in_bytes + session.out_bytes
    many = planning.null_rounds(session.device.type, slot_bytes, ring_room(session.device))
    short, walls_of_long = min(_batches(session, few)), sorted(_batches(session, many))
    long = walls_of_long[0]
    call = max(long - short, 0.0) / (many - few)
    batch = max(short - few * call, 0.0)
    if session.device.type == "cuda":
        # A real call's outputs are in the cache when they are copied; those of the empty model's second copy are.
        call = min(call, max(min(_batches(session, many, copies=2)) - long, 0.0) / many)
    # On a CPU other processes would excuse too much. The longest but one: the system may have stopped us in one batch.
    error = walls_of_long[-2] - long if session.device.type == "cuda" else 0.0
    return Null(median(claims), median(walls), batch, call, loaded.numbers[0], error=error)


def _batches(session: Session, rounds: int, *, copies: int = 1) -> list[float]:
    """Seconds of a few empty batches."""
    expect(session.prepare(rounds, None, "do nothing", copies=copies), BEFORE)
    lot = range(min(rounds, planning.LOT))
    return [session.batch(None, rounds, lot, "do nothing").wall for _ in range(NULL_BATCHES)]
