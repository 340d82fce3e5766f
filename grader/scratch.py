"""Private folders for what a grading writes on the way, taken away also when the process that made them was killed."""

from __future__ import annotations

import contextlib
import fcntl
import hmac
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from grader.builds import builds_folder
from grader.request import GradeError
from grader.supervise import remove

__all__ = ["scratch_folder"]

LOCK = ".lock"
KEY_BYTES = 32
# The submission's user must be able to pass through to its own folders, whose names nobody can guess or list.
PASSABLE = stat.S_IRWXU | stat.S_IXGRP | stat.S_IXOTH


@contextlib.contextmanager
def scratch_folder(base: Path | None = None, *, of: bytes = b"") -> Iterator[Path]:
    """A new folder below `base` (by default one of this user's in the temporary folder), deleted at the end.

    For the same text `of` it has the same path each time, unless that one is in use: Triton and ninja note where their
    caches lie, and find nothing of an earlier grading elsewhere. Folders of processes that are gone are deleted first.
    Raises GradeError where `base` cannot be had.
    """
    base = Path(tempfile.gettempdir()) / f"kbh-grade-{os.getuid()}" if base is None else base
    folder, lock = _new(base, _name(of) if of else "")
    try:
        yield folder
    finally:
        remove(folder)
        os.close(lock)


def _name(of: bytes) -> str:
    """A name that only this user can work out; none where no key can be kept beside the builds."""
    file = builds_folder().parent / "scratch.key"
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with contextlib.suppress(FileExistsError):
            made = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(made, "wb") as out:
                out.write(secrets.token_bytes(KEY_BYTES))
        key = file.read_bytes()
        if len(key) == KEY_BYTES:
            return hmac.digest(key, of, "sha256").hex()[:16]
    return ""


def _new(base: Path, name: str) -> tuple[Path, int]:
    try:
        _own(base)
        with _locked(base / LOCK):  # so that nobody takes our folder for a left-over before it is locked
            for left in base.iterdir():
                if left.name != LOCK and _abandoned(left):
                    remove(left)
            folder = base / name
            if name and not folder.exists():
                folder.mkdir()
            else:
                folder = Path(tempfile.mkdtemp(dir=base))
            folder.chmod(PASSABLE)
            lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return folder, lock
    except OSError as error:
        raise GradeError(f"there is no place for temporary files at {base}: {error.strerror}") from None


def _own(base: Path) -> None:
    """Makes sure that the folder is ours: the temporary folder is shared by all users."""
    base.mkdir(mode=PASSABLE, exist_ok=True)
    found = base.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise GradeError(f"{base} belongs to somebody else; set TMPDIR to a folder of your own")
    base.chmod(PASSABLE)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _abandoned(folder: Path) -> bool:
    """Whether the process that made the folder is gone: the lock that it held is free."""
    try:
        fd = os.open(folder / LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return True
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    finally:
        os.close(fd)
