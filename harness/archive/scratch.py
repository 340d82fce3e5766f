"""Folders for what is unpacked only to be read: in memory where it is small, and gone after the next command at last.

A command that is killed leaves its folder. So each is locked while it is used, and whoever makes one first removes
those of the same user and prefix that nobody holds.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from harness.archive.layout import Manifest

__all__ = ["Unpack", "scratch", "unpacking"]

MEMORY = Path("/dev/shm")
MEMORY_BYTES = 8 << 20  # of an entry; larger ones are unpacked on the disk
MEMORY_SPARE = 256 << 20  # that stay free there, many times what a command takes of it
_MADE = re.compile(r"[a-z0-9_]{8}")  # what tempfile adds to a prefix
Unpack = Callable[[Manifest], "tempfile.TemporaryDirectory[str]"]


@contextlib.contextmanager
def scratch(prefix: str, root: Path | None = None) -> Iterator[Path]:
    """A new folder (default: where TMPDIR says), removed at the end. Raises OSError."""
    where = Path(tempfile.gettempdir()) if root is None else root
    _clear(where, prefix)
    folder, lock = _locked(where, prefix)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


@contextlib.contextmanager
def unpacking(prefix: str, disk: Path | None = None) -> Iterator[Unpack]:
    """Gives a function that unpacks an entry into a new folder, below `disk` or a folder of its own.

    Entries are many and small, and some file systems need longer for each file the more were removed before it; so
    small entries lie in memory, where there is room.
    """
    with contextlib.ExitStack() as stack:
        memory: Path | None = None
        if _has_room(0):
            with contextlib.suppress(OSError):
                memory = stack.enter_context(scratch(prefix, MEMORY))
        place = stack.enter_context(scratch(prefix)) if disk is None else disk

        def unpack(manifest: Manifest) -> tempfile.TemporaryDirectory[str]:
            small = manifest.bytes <= MEMORY_BYTES and len(manifest.files) <= 1000
            root = memory if memory is not None and small and _has_room(manifest.bytes) else place
            return tempfile.TemporaryDirectory(prefix="entry-", dir=root)

        yield unpack


def _has_room(size: int) -> bool:
    try:
        return MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= MEMORY_SPARE + size
    except OSError:
        return False


def _locked(where: Path, prefix: str) -> tuple[Path, int]:
    """A new folder and its lock; one that was removed before it was locked is made again."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=where))
        try:
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        with contextlib.suppress(OSError):  # a file system without locks; nobody else can lock it either
            fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            if os.path.samestat(os.fstat(lock), os.lstat(folder)):
                return folder, lock
        except FileNotFoundError:
            pass
        os.close(lock)


def _clear(where: Path, prefix: str) -> None:
    """Removes what killed commands left; what cannot be removed stays."""
    with contextlib.suppress(OSError), os.scandir(where) as found:
        for item in found:
            if item.name.startswith(prefix) and _MADE.fullmatch(item.name.removeprefix(prefix)):
                with contextlib.suppress(OSError):
                    _remove(Path(item.path))


def _remove(folder: Path) -> None:
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(lock)
        if status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) == 0o700:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)
