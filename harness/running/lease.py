"""Which GPU a run's room gets: one that no other room has, waited for where all are taken."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import os
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

from grader.turns import FOLDER, PLACE
from harness.running.request import RunError

__all__ = ["leased"]

LOOK_SECONDS = 1.0


@contextlib.asynccontextmanager
async def leased(gpus: Sequence[str], wait: Callable[[str], None]) -> AsyncIterator[str]:
    """The UUID of a GPU that is this run's alone until the end; "" where there are none to choose from.

    The lease is a lock on a file of the machine, which ends with this process. Raises RunError where no such file can
    be had.
    """
    if not gpus:
        yield ""
        return
    told = False
    while True:
        for uuid in gpus:
            lock = _try(uuid)
            if lock is not None:
                try:
                    yield uuid
                finally:
                    os.close(lock)
                return
        if not told:
            told = True
            wait("waiting for a GPU that no other agent's room has")
        await asyncio.sleep(LOOK_SECONDS)


def _try(uuid: str) -> int | None:
    folder = Path(os.environ.get(PLACE) or FOLDER)
    path = folder / f"kbh-room-{hashlib.sha256(uuid.encode()).hexdigest()[:16]}.lock"
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        raise RunError(f"no lock for the GPU can be had in {folder}: {error.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock
