"""The few file operations a bundle is written with, so that a test can record them and play back every cut.

A name is durable once its folder is synced, a file's bytes once the file is. Nothing more is assumed of a disk.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

__all__ = ["DISK", "Files"]


class Files(Protocol):
    """What the store does to a disk. Every method raises OSError."""

    def mkdir(self, path: Path) -> None:
        """Makes a folder; one that is there already is no error."""

    def write(self, path: Path, data: bytes) -> None:
        """Makes a new file with these bytes; fails when the name is taken."""

    def sync(self, path: Path) -> None:
        """Returns when the bytes of a file, or the names in a folder, are on the disk."""

    def link(self, source: Path, target: Path) -> None:
        """Gives a file a second name; fails when that name is taken."""

    def rename(self, source: Path, target: Path) -> None:
        """Moves a file over whatever has the new name."""

    def unlink(self, path: Path) -> None:
        """Removes a name from its folder."""


class _Disk:
    def mkdir(self, path: Path) -> None:
        path.mkdir(exist_ok=True)

    def write(self, path: Path, data: bytes) -> None:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444)
        with os.fdopen(fd, "wb") as file:
            file.write(data)

    def sync(self, path: Path) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def link(self, source: Path, target: Path) -> None:
        os.link(source, target)

    def rename(self, source: Path, target: Path) -> None:
        os.rename(source, target)

    def unlink(self, path: Path) -> None:
        os.unlink(path)


DISK: Files = _Disk()
