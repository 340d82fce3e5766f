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

from grader.grading.request import GradeError
from grader.sandbox.builds import builds_folder
from grader.sandbox.folders import remove

__all__ = ["comes_again", "scratch_folder"]

LOCK = ".lock"
KEY_BYTES = 32
ONCE = "once-"
# The submission's user must be able to pass through to its own folders; nobody else can list them.
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
        remove(_out_of_the_way(base, folder))
        os.close(lock)


def _out_of_the_way(base: Path, folder: Path) -> Path:
    """The folder under a name that nobody wants, so that a new one of the old name is not deleted in its place."""
    with contextlib.suppress(OSError), _locked(base / LOCK):
        return folder.rename(Path(tempfile.mkdtemp(prefix=ONCE, dir=base)))
    return folder


def comes_again(folder: Path) -> bool:
    """Whether a scratch folder has the path that a later one of the same text will have."""
    return not folder.name.startswith(ONCE)


def _name(of: bytes) -> str:
    """A name that other users cannot work out beforehand; none where no key can be kept beside the builds."""
    file = builds_folder().parent / "scratch.key"
    with contextlib.suppress(OSError):
        if not file.is_file() or file.stat().st_size != KEY_BYTES:
            _make_key(file)
        key = file.read_bytes()
        return hmac.digest(key, of, "sha256").hex()[:16] if len(key) == KEY_BYTES else ""
    return ""


def _make_key(file: Path) -> None:
    """Writes a key beside its place and moves it there, so that nobody finds half of one."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fd, made = tempfile.mkstemp(prefix=file.name, dir=file.parent)  # its mode is 0600
    try:
        with os.fdopen(fd, "wb") as out:
            out.write(secrets.token_bytes(KEY_BYTES))
        os.replace(made, file)
    except OSError:
        Path(made).unlink(missing_ok=True)
        raise


def _new(base: Path, name: str) -> tuple[Path, int]:
    try:
        _own(base)
        with _locked(base / LOCK):  # so that nobody takes our folder for a left-over before it is locked
            for left in base.iterdir():
                if left.name != LOCK and _abandoned(left):
                    remove(left)  # nobody makes a folder of its name meanwhile
            folder = base / name
            if name and not folder.exists():
                folder.mkdir()
            else:
                folder = Path(tempfile.mkdtemp(prefix=ONCE, dir=base))
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
