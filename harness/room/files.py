"""Files that an agent may change at any time, read and written from outside through the descriptor of one folder.

Every folder on a path is opened by itself, without following a link, so nothing leads out. A file is opened only so
that a pipe or a device in its place does nothing, and it must belong to the room's user: a second name of a file of
somebody else is none of the agent's.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import threading
from collections.abc import Iterator, Sequence

from harness.room.base import RoomError, Usage

__all__ = ["MOST_DEPTH", "FolderFiles", "make_folder"]

MOST_DEPTH = 64  # folders within folders; what lies deeper is left out
MOST_COUNTED = 1_000_000
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
BLOCK = 512  # of st_blocks


class FolderFiles:
    """`harness.room.base.Files` below the folder that a descriptor names, for the user `uid`.

    `own_disk` says that the folder is all of a file system. The descriptor is closed by `close`.
    """

    def __init__(self, folder: int, uid: int, *, own_disk: bool) -> None:
        self._folder, self._uid, self._own_disk = folder, uid, own_disk
        self._lock = threading.Lock()

    def close(self) -> None:
        """Nothing can be read or written any more."""
        with self._lock:
            if self._folder >= 0:
                os.close(self._folder)
            self._folder = -1

    def write(self, path: str, data: bytes, *, executable: bool = False) -> None:
        """See `Files`. What had the name before is replaced at once; whatever it was, nothing is written into it."""
        *folders, name = _parts(path)
        new = f".{secrets.token_hex(8)}.new"
        with _told(path), self._opened(folders, make=True) as here:
            fd = os.open(new, NEW, 0o600, dir_fd=here)
            try:
                with os.fdopen(fd, "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fchmod(fd, 0o755 if executable else 0o644)
                    os.fchown(fd, self._uid, self._uid)
                os.rename(new, name, src_dir_fd=here, dst_dir_fd=here)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(new, dir_fd=here)
                raise

    def read(self, path: str, most: int) -> bytes:
        """See `Files`."""
        *folders, name = _parts(path)
        with _told(path), self._opened(folders) as here, os.fdopen(os.open(name, FILE, dir_fd=here), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise RoomError(f"{path} in the room is no plain file")
            if found.st_uid != self._uid:
                raise RoomError(f"{path} in the room is a file of somebody else")
            if found.st_size > most:
                raise RoomError(f"{path} in the room has {found.st_size} bytes, more than the {most} that are read")
            data = file.read(most + 1)
            if len(data) > most:  # it grew meanwhile
                raise RoomError(f"{path} in the room has more than the {most} bytes that are read")
            return data

    def walk(self, path: str, *, most: int = 10_000) -> Sequence[tuple[str, int, int]]:
        """See `Files`. What lies deeper than MOST_DEPTH folders is left out, and names that are no UTF-8."""
        found = self._beneath(path, most)
        return sorted((at, s.st_size, s.st_mtime_ns) for at, s, _ in found if stat.S_ISREG(s.st_mode))

    def links(self, path: str, *, most: int = 10_000) -> Sequence[tuple[str, str]]:
        """See `Files`."""
        return sorted((at, target) for at, s, target in self._beneath(path, most) if stat.S_ISLNK(s.st_mode))

    def used(self) -> Usage:
        """See `Files`. Of a room that is not sealed at most MOST_COUNTED files are counted."""
        if self._own_disk:
            with _told("/agent"), self._opened([]) as here:
                disk = os.fstatvfs(here)
            return Usage((disk.f_blocks - disk.f_bfree) * disk.f_frsize, disk.f_files - disk.f_ffree)
        total = count = 0
        with contextlib.suppress(RoomError):
            for _, status, _ in self._beneath("", MOST_COUNTED):
                total += status.st_blocks * BLOCK
                count += 1
        return Usage(total, count)

    @contextlib.contextmanager
    def _opened(self, folders: Sequence[str], *, make: bool = False) -> Iterator[int]:
        """A descriptor of a folder. Raises OSError."""
        with self._lock:  # the number may be another file's as soon as it is closed
            here = os.dup(self._folder)
        try:
            for name in folders:
                if make:
                    make_folder(here, name, self._uid)
                below = os.open(name, FOLDER, dir_fd=here)
                os.close(here)
                here = below
            yield here
        finally:
            os.close(here)

    def _beneath(self, path: str, most: int) -> Iterator[tuple[str, os.stat_result, str]]:
        """(path, status, target of a link) of all beneath a folder. Raises RoomError."""
        queue = [tuple(_parts(path)) if path else ()]
        left = most
        while queue:
            folders = queue.pop()
            try:
                with self._opened(folders) as here, os.scandir(here) as entries:
                    for entry in entries:
                        left -= 1
                        if left < 0:
                            raise RoomError(f"{path or 'the room'} holds more than {most} files and folders")
                        with contextlib.suppress(OSError, UnicodeError):  # gone, or no name that can be written down
                            entry.name.encode()
                            status = os.stat(entry.name, dir_fd=here, follow_symlinks=False)
                            if stat.S_ISDIR(status.st_mode) and len(folders) < MOST_DEPTH:
                                queue.append((*folders, entry.name))
                            target = os.readlink(entry.name, dir_fd=here) if stat.S_ISLNK(status.st_mode) else ""
                            yield "/".join((*folders, entry.name)), status, target.encode("utf-8", "replace").decode()
            except OSError as error:
                if "/".join(folders) == path:
                    raise RoomError(f"{path} in the room cannot be read: {error.strerror}") from None


def make_folder(parent: int, name: str, uid: int) -> None:
    """Makes a folder that belongs to a user, unless there is something of its name. Raises OSError."""
    try:
        os.mkdir(name, 0o755, dir_fd=parent)
    except FileExistsError:
        return
    made = os.open(name, FOLDER, dir_fd=parent)
    try:
        os.fchmod(made, 0o755)
        os.fchown(made, uid, uid)
    finally:
        os.close(made)


def _parts(path: str) -> list[str]:
    """The names on a relative path. Raises RoomError."""
    parts = path.split("/")
    if not all(parts) or {".", ".."} & set(parts) or "\0" in path or len(parts) > MOST_DEPTH:
        raise RoomError(f"{path[:200]!r} is no path within the room")
    return parts


@contextlib.contextmanager
def _told(path: str) -> Iterator[None]:
    """Failures as sentences."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ELOOP or (error.errno == errno.ENOTDIR and error.filename is not None):
            reason = "a link or a file is in the way"
        elif error.errno in (errno.ENOSPC, errno.EDQUOT):
            reason = "the room's disk is full"
        elif error.errno == errno.ENXIO:
            reason = "it is no plain file"
        else:
            reason = error.strerror or "it cannot be had"
        raise RoomError(f"{path} in the room: {reason}") from None
