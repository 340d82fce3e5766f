"""What a submission's processes have on the disk in sum: no limit of a process bounds that.

Looking is dear, so it is done where the file system says that something was written, and now and then. Files are
counted by the blocks that they take, also those that were deleted and are open, or mapped where the judge is root. A
file that only a message holds that nobody has taken yet is not seen.
"""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

__all__ = ["SCRATCH_GIB", "ScratchWatch", "held", "most_bytes"]

SCRATCH_GIB = "KBH_SCRATCH_GIB"  # the variable that names another limit
MOST_GIB = 8.0
MOST_FILES = 500_000
EVERY_S = 0.2
LOOK_S = 10.0  # as others may give space up meanwhile
LOOK_SHARE = 1 / 32  # of the limit: what the file system may have less before it is looked at
COUNT_S, POLL_S = 20.0, 0.01
BLOCK = 512


def most_bytes() -> int:
    """Bytes that a submission's processes may have in their scratch folders, in sum."""
    try:
        given = float(os.environ.get(SCRATCH_GIB, ""))
    except ValueError:
        given = 0.0
    return int((given if 0 < given < 1 << 20 else MOST_GIB) * (1 << 30))


def held(
    folders: Sequence[Path], processes: Iterable[int], stop: threading.Event, seen: Sequence[PurePath] = ()
) -> tuple[int, int]:  # fmt: skip
    """Bytes and number of the files below folders, with those that processes hold open after their names were deleted.

    `seen` is where the processes see the folders, where that is elsewhere. Raises TimeoutError where there are too many
    to count in COUNT_S, and when told to `stop`.
    """
    sizes = [_listed(folders, [], stop), _listed(folders, ["--inodes"], stop)]
    deleted = {
        (found.st_dev, found.st_ino): found.st_blocks * BLOCK
        for found in _deleted([*map(os.path.realpath, folders), *map(str, seen)], processes)
    }
    return sizes[0] + sum(deleted.values()), sizes[1] + len(deleted)


def _listed(folders: Sequence[Path], more: Sequence[str], stop: threading.Event) -> int:
    """What du counts, which does not mind how deep folders are: bytes or, told so, files."""
    size = [] if more else ["--block-size=1"]
    command = ["du", "--summarize", "--total", "--one-file-system", *size, *more, "--", *map(str, folders)]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        env={"LC_ALL": "C", "PATH": os.environ.get("PATH", os.defpath)},
    ) as process:  # fmt: skip
        until = time.monotonic() + COUNT_S
        try:
            while process.poll() is None:
                if stop.wait(POLL_S) or time.monotonic() > until:
                    raise TimeoutError
        finally:
            process.kill()
        last = process.communicate()[0].splitlines()[-1:]  # files that go meanwhile are no error
    return int(last[0].split()[0]) if last else 0


def _deleted(folders: Sequence[str], processes: Iterable[int]) -> Iterable[os.stat_result]:
    """The files of folders that have no name any more and are open or mapped in a process."""
    below = tuple(folder + os.sep for folder in folders)
    for process in processes:
        for find in (_open, _mapped):
            with contextlib.suppress(OSError):  # it has ended, or it is not ours to look at
                for link in find(process, below):
                    with contextlib.suppress(OSError):
                        found = os.stat(link)
                        if found.st_nlink == 0 and stat.S_ISREG(found.st_mode):
                            yield found


def _open(process: int, below: tuple[str, ...]) -> Iterable[str]:
    place = f"/proc/{process}/fd"
    for number in os.listdir(place):
        with contextlib.suppress(OSError):
            if os.readlink(f"{place}/{number}").startswith(below):
                yield f"{place}/{number}"


def _mapped(process: int, below: tuple[str, ...]) -> Iterable[str]:
    """One mapping of each file; the links of /proc that lead to mapped files are root's alone."""
    found = {}
    with open(f"/proc/{process}/maps", encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            fields = line.rstrip("\n").split(maxsplit=5)
            if len(fields) == 6 and fields[5].startswith(below) and fields[5].endswith(" (deleted)"):
                first, _, last = fields[0].partition("-")
                found[fields[3], fields[4]] = f"/proc/{process}/map_files/{int(first, 16):x}-{int(last, 16):x}"
    return found.values()


@dataclass(frozen=True, slots=True)
class _Free:
    """Bytes and files that a file system has left; files are 0 where it does not count them."""

    size: int
    files: int

    @classmethod
    def of(cls, folder: Path) -> _Free:
        """What is free on the file system of `folder`."""
        found = os.statvfs(folder)
        return cls(found.f_bfree * found.f_frsize, found.f_ffree)


class ScratchWatch:
    """Looks at folders while processes write there, and calls `end` once when they hold too much.

    `over` then says so, as it completes "the submission ...". It must be closed before the number of a process may
    belong to another.
    """

    def __init__(
        self, folders: Sequence[Path], processes: Callable[[], Iterable[int]], end: Callable[[], None],
        seen: Sequence[PurePath] = (),
    ) -> None:  # fmt: skip
        self.over = ""
        self._folders, self._processes, self._end, self._seen = folders, processes, end, seen
        self._most = most_bytes()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stops watching."""
        self._closed.set()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _watch(self) -> None:
        with contextlib.suppress(OSError):  # the folders are gone
            last, waited = _Free.of(self._folders[0]), 0.0
            while not self._closed.wait(EVERY_S):
                waited += EVERY_S
                free = _Free.of(self._folders[0])
                taken = last.size - free.size > LOOK_SHARE * self._most
                if not taken and last.files - free.files <= LOOK_SHARE * MOST_FILES and waited < LOOK_S:
                    continue
                last, waited = free, 0.0
                self.over = self._too_much()
                if self.over:
                    self._end()
                    return

    def _too_much(self) -> str:
        try:
            size, files = held(self._folders, self._processes(), self._closed, self._seen)
        except TimeoutError:
            size, files = 0, 0 if self._closed.is_set() else MOST_FILES + 1
        if size > self._most:
            return f"wrote more than {self._most / (1 << 30):.3g} GiB to its scratch folder"
        return f"made more than {MOST_FILES} files in its scratch folder" if files > MOST_FILES else ""
