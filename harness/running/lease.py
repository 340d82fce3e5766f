"""Which GPU a run gets: one that no other room has, waited for where all are taken."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

from grader.judge.turns import FOLDER, PLACE
from harness.running.request import RunError

__all__ = ["leased"]

LOOK_SECONDS = 1.0
_LEASES: Counter[str] = Counter()  # of this process


@contextlib.asynccontextmanager
async def leased(gpus: Sequence[str], wait: Callable[[str], None], *, alone: bool) -> AsyncIterator[str]:
    """The UUID of a GPU for a run until its grading is over; "" where there are none to choose from.

    Of several it is the one that the fewest runs of this process have. `alone` is for a room that has the GPU's device
    nodes: no other run has the GPU then, neither its room nor its grading. Runs that reach it through the judge alone
    share it, and its turns (`judge.turns`). The lease is a lock on a file of the machine, which ends with this process.
    Raises RunError where no such file can be had.
    """
    if not gpus:
        yield ""
        return
    told = False
    while True:
        for uuid in sorted(gpus, key=lambda uuid: _LEASES[uuid]):
            lock = _try(uuid, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
            if lock is not None:
                _LEASES[uuid] += 1
                try:
                    yield uuid
                finally:
                    _LEASES[uuid] -= 1
                    os.close(lock)
                return
        if not told:
            told = True
            wait("waiting for a GPU that " + ("no other run has" if alone else "is in no agent's room"))
        await asyncio.sleep(LOOK_SECONDS)


def _try(uuid: str, kind: int) -> int | None:
    folder = Path(os.environ.get(PLACE) or FOLDER)
    path = folder / f"kbh-room-{hashlib.sha256(uuid.encode()).hexdigest()[:16]}.lock"
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
