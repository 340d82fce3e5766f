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
LEAST = 1 << 15  # users that a container must have for one of them to be taken
CAP_SETGID, CAP_SETUID = 6, 7
LOCKS = Path("/run/kbh-users")
TRIES = 100


@cache
def leased_uid(place: int = 0) -> int | None:
    """A user number that no other process has, kept until this process ends; None where this process cannot change it.

    Each `place` has another one. Raises SandboxError when none can be had.
    """
    numbers = _numbers()
    if numbers is None:
        return None
    try:
        LOCKS.mkdir(mode=0o700, exist_ok=True)
        for name in os.listdir(LOCKS):
            _locked(name, remove=True)
        for _ in range(TRIES):
            uid = numbers[secrets.randbelow(len(numbers))]
            if _locked(str(uid), remove=False) and not _in_use(uid):  # a lock of ours counts as taken too
                return uid
    except OSError as error:
        raise SandboxError(f"no user for the submission: {LOCKS} cannot be used ({error.strerror})") from None
    raise SandboxError("no user for the submission: all that were tried are in use")


def _locked(name: str, *, remove: bool) -> bool:
    """Takes the lock of a user until this process ends, or, to `remove` it, only when nobody else has it."""
    lock = os.open(LOCKS / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return False
    if remove:
        (LOCKS / name).unlink(missing_ok=True)
        os.close(lock)
        return False
    return os.fstat(lock).st_nlink > 0  # else another process has removed it since it was opened


def _numbers() -> range | None:
    """The user numbers to take one of: ours, or the upper half of those that a container has."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    effective = int(status["CapEff"], 16)
    if os.geteuid() != 0 or not (effective >> CAP_SETUID & effective >> CAP_SETGID & 1):
        return None
    users, groups = (_mapped(Path(f"/proc/self/{kind}_map")) for kind in ("uid", "gid"))
    known = range(max(users.start, groups.start), min(users.stop, groups.stop))
    if FIRST in known and FIRST + COUNT - 1 in known:
        return range(FIRST, FIRST + COUNT)
    return known[len(known) // 2 :] if len(known) >= LEAST else None


def _mapped(table: Path) -> range:
    """The longest run of numbers that exist in this user namespace."""
    rows = [[int(part) for part in line.split()] for line in table.read_text().splitlines()]
    start, _, count = max(rows, key=lambda row: row[2])
    return range(start, start + count)


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
