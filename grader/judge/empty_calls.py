"""What calling nothing costs: measured in a candidate's process before the import, when it holds no code but ours.

On a GPU it is a cost of the machine, the sandbox and the sizes of a problem's tensors, not of a submission, so that
later processes and commands of the same user take it over for as long as nothing of the machine is likely to have
changed. On a CPU other processes move it, and it is measured in each.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import secrets
import time
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from statistics import median

import torch

from grader.judge import plan as planning
from grader.judge.answers import expect
from grader.judge.resources import ring_room
from grader.judge.seen import Null
from grader.judge.session import Session
from grader.judge.turns import device_key
from grader.sandbox.builds import cache_folder
from kbh_lint import __version__
from kbh_lint.problems import Binding

__all__ = ["BEFORE", "empty_calls", "lesser", "made_again", "measure_empty", "together"]

NULL_CALLS = 9
NULL_BATCHES = 5
LEAST_BATCHES = 4  # of which the quickest counts
ERROR_BATCHES, QUICKEST = 9, 3  # empty batches, and how many of them say by how much one varies
ALONE_CALLS = 15
BEFORE = "before the import"
IN_A_ROW = 0.07  # of calls and copies on a GPU: on an H200 they take 2 to 7 % longer in a row than alone
BYTE_SECONDS, SAME_SECONDS = 4e-12, 10e-6  # of a call alone: for a byte that it has more, and what differs besides
VALID_S = 600.0  # as long as one process may take by default
MOST_BYTES = 4096  # of what is kept
BOOT = Path("/proc/sys/kernel/random/boot_id")


def empty_calls(session: Session, problem: str, binding: Binding) -> Null:
    """The cost of an empty model at one shape, measured now or in an earlier process. Raises Ended and ChildGone.

    What an empty call alone costs is always measured in this process too, because it changes with what else the host
    does: the smaller of both counts, since as much is excused of the submission's calls.
    """
    if session.device.type != "cuda":
        return measure_empty(session, binding)
    file = _file(session, problem, binding)
    if file in session.measured:
        return session.measured[file]
    known = _kept(file)
    if known is not None:
        _called(session, binding)
        found = lesser(replace(known, earlier=True), _with_calls_alone(session, known))
    else:
        found = measure_empty(session, binding)
        _keep(file, found)
    session.measured[file] = found
    return found


def made_again(session: Session, binding: Binding) -> None:
    """Makes the calls that `measure_empty` makes, only so that this process is in the same state as one that measured;
    their times are not used. Raises Ended and ChildGone.
    """
    _with_calls_alone(session, _called(session, binding))


def together(nulls: Mapping[str, Null], sizes: Mapping[str, int]) -> dict[str, Null]:
    """Corrects the costs of all shapes, by their labels, by each other: an empty call alone costs at no shape more than
    it does at another plus what its own bytes explain.

    `sizes` are bytes of the inputs and outputs of a call, for the shapes that were measured one after the other. For a
    second or more a host may make every call alone 0.2 ms longer, and another shape is measured at another time. Work
    hidden in as much would not be seen.
    """
    found = dict(nulls)
    for label, size in sizes.items():
        for other, less in sizes.items():
            one, more = nulls[other], SAME_SECONDS + BYTE_SECONDS * max(size - less, 0)
            if other != label and one.alone_middle:
                longer = replace(one, alone=one.alone + more, alone_middle=one.alone_middle + more)
                found[label] = lesser(found[label], longer)
    return found


def lesser(null: Null, other: Null) -> Null:
    """`null` with the cost of a call alone taken from `other` where that is smaller."""
    if other.alone + other.alone_error < null.alone + null.alone_error:
        null = replace(null, alone=other.alone, alone_error=other.alone_error)
    return replace(null, alone_middle=min(null.alone_middle, other.alone_middle))


def _file(session: Session, problem: str, binding: Binding) -> Path:
    """Where a cost is kept: by all that it depends on. The clock counts from the start of the machine."""
    boot = BOOT.read_text(encoding="ascii", errors="replace") if BOOT.exists() else ""
    parts = (
        problem, repr(binding), device_key(session.device), session.setting, torch.__version__, __version__, boot,
    )  # fmt: skip
    return cache_folder() / "empty-calls" / f"{hashlib.sha256(repr(parts).encode()).hexdigest()}.json"


def _kept(file: Path) -> Null | None:
    """What an earlier process of this user measured, while it is valid."""
    try:
        with file.open("rb") as opened:
            said = json.loads(opened.read(MOST_BYTES))
        when, numbers = said.pop("when"), {one.name: said[one.name] for one in fields(Null)}
        if not all(type(one) in (bool, float) and math.isfinite(one) for one in (when, *numbers.values())):
            return None
        return Null(**numbers) if 0 <= time.monotonic() - when < VALID_S else None
    except (OSError, ValueError, LookupError, AttributeError, TypeError):
        return None


def _keep(file: Path, found: Null) -> None:
    """Keeps it in one step; where nothing can be kept, the next process measures again."""
    part = file.with_suffix(f".{secrets.token_hex(4)}")
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        part.write_text(json.dumps({"when": time.monotonic(), **asdict(found)}), encoding="ascii")
        os.replace(part, file)


def measure_empty(session: Session, binding: Binding) -> Null:
    """The cost of an empty model at one shape. Raises Ended and ChildGone."""
    one = _called(session, binding)
    slot_bytes = session.in_bytes + session.out_bytes
    many = planning.null_rounds(session.device.type, slot_bytes, ring_room(session.device))
    found = (_of_gpu if session.device.type == "cuda" else _of_cpu)(session, planning.LEAST_ROUNDS, many)
    return _with_calls_alone(session, replace(found, seconds=one.seconds, wall=one.wall, canary=one.canary))


def _called(session: Session, binding: Binding) -> Null:
    """Has the empty model of a shape made and called, and tells what a call costs.

    Each process that is timed on a GPU makes these calls before the import, also where it is known what they cost:
    where in memory later tensors lie depends on them, and so how long a call takes (on an H200 all shapes of a solution
    of 05 took 0.9 us longer without).
    """
    few = planning.LEAST_ROUNDS
    loaded = session.load(binding, (), rounds=few, null=True)
    expect(loaded, BEFORE)
    claims, walls = [], []
    for index in range(NULL_CALLS):
        called = session.call(index % few, None, "do nothing")
        expect(called.answer, BEFORE)
        claims.append(called.answer.numbers[0])
        walls.append(called.wall)
    return Null(median(claims), median(walls), 0.0, 0.0, 0.0, loaded.numbers[0])


def _with_calls_alone(session: Session, null: Null) -> Null:
    """The same with what empty calls alone cost now, of the shape that is loaded."""
    expect(session.prepare(1, None, "do nothing"), BEFORE)
    alone = sorted(_alone(session) for _ in range(ALONE_CALLS))
    error = alone[QUICKEST - 1] - alone[0]
    return replace(null, alone=alone[0], alone_error=error, alone_middle=median(alone))


def _alone(session: Session) -> float:
    called = session.alone(None, "do nothing")
    expect(called.answer, BEFORE)
    return called.wall


def _of_cpu(session: Session, few: int, many: int) -> Null:
    """What a batch costs and each call of it. Other processes would excuse too much: there is no error."""
    short, long = min(_batches(session, few)), min(_batches(session, many))
    call = max(long - short, 0.0) / (many - few)
    return Null(0.0, 0.0, max(short - few * call, 0.0), 0.0, call, 0.0)


def _of_gpu(session: Session, few: int, many: int) -> Null:
    """What a batch costs, and for each of its calls mapping the inputs (0.1 us for 2 MB on an H200) and a copy.

    A real call's outputs are in the cache when they are copied; those of the empty model's second copy are. So the
    cheaper of two copies counts, and mapping, which costs what it costs, is learned from batches that copy nothing.
    """
    short, bare, twice = (
        min(_batches(session, rounds, copies=copies, times=LEAST_BATCHES))
        for rounds, copies in ((few, 0), (many, 0), (many, 2))
    )
    once = sorted(_batches(session, many, times=ERROR_BATCHES))
    mapping = max(bare - short, 0.0) / (many - few)
    copy = max(min(once[0] - bare, twice - once[0]), 0.0) / many
    error = once[QUICKEST - 1] - once[0]  # as of batches that count, which are the quickest of several too
    batch = max(short - few * mapping, 0.0)
    return Null(0.0, 0.0, batch, mapping, copy, 0.0, error=error, in_a_row=IN_A_ROW)


def _batches(session: Session, rounds: int, *, copies: int = 1, times: int = NULL_BATCHES) -> list[float]:
    """Seconds of a few empty batches."""
    expect(session.prepare(rounds, None, "do nothing", copies=copies), BEFORE)
    lot = range(min(rounds, planning.LOT))
    found = []
    for _ in range(times):
        batch = session.batch(None, rounds, lot, "do nothing")
        expect(batch.answer, BEFORE)
        found.append(batch.wall)
    return found
