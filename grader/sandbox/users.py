"""A user of its own for the submissions of one judge, so that limits count only them and they own nothing else."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from functools import cache
from pathlib import Path

from grader.sandbox.base import SandboxError

__all__ = ["give", "leased_uid"]

FIRST, COUNT = 2_000_000_000, 1 << 20  # far above the ranges that systems give to people, services and containers
LOCKS = Path("/run/kbh-users")
TRIES = 100


@cache
def leased_uid() -> int | None:
    """A user number that no other process has, kept until this process ends; None unless this process is root.

    Raises SandboxError when none can be had.
    """
    if os.geteuid() != 0:
        return None
    try:
        LOCKS.mkdir(mode=0o700, exist_ok=True)
        for _ in range(TRIES):
            uid = FIRST + secrets.randbelow(COUNT)
            lock = os.open(LOCKS / str(uid), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # held until the process ends: never closed
                if not _in_use(uid):
                    return uid
            os.close(lock)
    except OSError as error:
        raise SandboxError(f"no user for the submission: {LOCKS} cannot be used ({error.strerror})") from None
    raise SandboxError("no user for the submission: all that were tried are in use")


def _in_use(uid: int) -> bool:
    """Whether a process runs as this user."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                lines = (entry / "status").read_text().splitlines()
                if any(line.startswith("Uid:") and str(uid) in line.split() for line in lines):
                    return True
    return False


def give(folder: Path, uid: int) -> None:
    """Makes `uid` the owner of a folder and of all in it, following no link. Raises SandboxError.

    A file with several names is left alone: one of them may lie elsewhere, made by an earlier submission.
    """
    try:
        for _, folders, files, here in os.fwalk(folder, follow_symlinks=False):
            os.chown(here, uid, uid)
            for name in (*folders, *files):
                found = os.stat(name, dir_fd=here, follow_symlinks=False)
                if name in folders or found.st_nlink == 1:
                    os.chown(name, uid, uid, dir_fd=here, follow_symlinks=False)
    except OSError as error:
        raise SandboxError(f"{folder} cannot be given to the submission's user: {error.strerror}") from None
