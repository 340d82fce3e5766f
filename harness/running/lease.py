"""Which GPU a run gets: one that no other room has, waited for where all are taken."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import os
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

from grader.judge.turns import FOLDER, PLACE
from harness.running.request import RunError

__all__ = ["leased"]

LOOK_SECONDS = 1.0
SEATS = 64  # runs of a machine that share a GPU and are counted


@contextlib.asynccontextmanager
async def leased(gpus: Sequence[str], wait: Callable[[str], None], *, alone: bool) -> AsyncIterator[str]:
    """Leases a GPU to a run until its grading is over, and yields its UUID; "" where there are none to choose from. Of
    several it is the one that the fewest runs of this machine share.

    `alone` is for a room that has the GPU's device nodes: no other run has the GPU then, neither its room nor its
    grading. Runs that reach it through the judge alone share it, and its turns (`judge.turns`). The lease is a lock on
    a file of the machine, which ends with this process. Raises RunError where no such file can be had.
    """
    if not gpus:
        yield ""
        return
    told = False
    while (chosen := _chosen(gpus, alone)) is None:
        if not told:
            told = True
            wait("waiting for a GPU that " + ("no other run has" if alone else "is in no agent's room"))
        await asyncio.sleep(LOOK_SECONDS)
    try:
        yield chosen[0]
    finally:
        for lock in chosen[1]:
            os.close(lock)


def _chosen(gpus: Sequence[str], alone: bool) -> tuple[str, list[int]] | None:
    """A GPU that can be had now, with the locks that it is held by; None where there is none."""
    seats = {uuid: (0, None) if alone or len(gpus) < 2 else _seat(uuid) for uuid in gpus}
    try:
        for uuid in sorted(gpus, key=lambda uuid: seats[uuid][0]):
            lock = _try(uuid, "room", fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
            if lock is not None:
                seat = seats.pop(uuid)[1]
                return uuid, [lock] if seat is None else [lock, seat]
        return None
    finally:
        for _, seat in seats.values():
            if seat is not None:
                os.close(seat)


def _seat(uuid: str) -> tuple[int, int | None]:
    """How many runs share a GPU, by the first seat that is free there, and the lock of that seat."""
    for number in range(SEATS):
        seat = _try(uuid, f"seat-{number}", fcntl.LOCK_EX)
        if seat is not None:
            return number, seat
    return SEATS, None


def _try(uuid: str, what: str, kind: int) -> int | None:
    folder = Path(os.environ.get(PLACE) or FOLDER)
    path = folder / f"kbh-{what}-{hashlib.sha256(uuid.encode()).hexdigest()[:16]}.lock"
    try:
        lock = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise RunError(f"no lock for the GPU can be had in {folder}: {error.strerror}") from None
    try:
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock
