"""Folders that a submission wrote to: deleted, or copied as compiler caches, whatever it did to them."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from grader.sandbox.base import CheckError

__all__ = ["CachesError", "gather_code", "remove", "restore_caches"]

MOST_CACHE_BYTES = 2 << 30
MOST_CACHE_FILES = 20_000
MOST_CACHE_DEPTH = 12  # what lies deeper is left out
MOST_GATHERED = 32  # libraries and cubins
COMPILED = (".so", ".cubin")


class CachesError(CheckError):
    """A submission's caches are none that a compiler wrote."""


def _copied(source: Path, target: Path, status: os.stat_result) -> None:
    """A copy of a file's bytes and times. Of its mode only whether it runs: it becomes ours, so never setuid."""
    shutil.copyfile(source, target, follow_symlinks=False)
    target.chmod(0o755 if status.st_mode & stat.S_IXUSR else 0o644)
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """What lies in a folder of a submission, as far as a count of MOST_CACHE_FILES; none when it keeps us out."""
    try:
        with os.scandir(folder) as found:
            return list(itertools.islice(found, MOST_CACHE_FILES + 1))
    except PermissionError:
        return []


def restore_caches(source: Path, target: Path) -> None:
    """Makes `target` a copy of the compiler caches in `source`, with their times; only plain files and folders count.

    Raises CachesError when they are larger than a compiler makes them.
    """
    remove(target)
    target.mkdir(parents=True)
    count = size = 0
    folders = [(source, target, 0)]
    while folders:
        here, there, depth = folders.pop()
        for entry in _entries(here):
            status = entry.stat(follow_symlinks=False)
            count += 1
            if stat.S_ISDIR(status.st_mode) and depth < MOST_CACHE_DEPTH:
                (there / entry.name).mkdir()
                folders.append((here / entry.name, there / entry.name, depth + 1))
            elif stat.S_ISREG(status.st_mode):
                size += status.st_size
                with contextlib.suppress(PermissionError):  # what its writer keeps from us is left out
                    _copied(Path(entry.path), there / entry.name, status)
            if count > MOST_CACHE_FILES or size > MOST_CACHE_BYTES:
                raise CachesError("the submission filled its compiler caches with more than a compiler writes")


def gather_code(source: Path, target: Path) -> None:
    """Copies what was compiled into `source`, a folder that is no cache, each file under a number: a submission may
    name the folder that it builds in. Only plain files count, and no more than a compiler makes. What `target` was
    goes: it lies among caches that the submission wrote, too."""
    remove(target)
    target.unlink(missing_ok=True)
    left, size = MOST_GATHERED, 0
    count = itertools.count()
    folders = [(source, 0)] if source.is_dir() and not source.is_symlink() else []
    while folders:
        here, depth = folders.pop()
        for entry in _entries(here):
            status = entry.stat(follow_symlinks=False)
            if next(count) > MOST_CACHE_FILES:
                return
            if stat.S_ISDIR(status.st_mode) and depth < MOST_CACHE_DEPTH:
                folders.append((here / entry.name, depth + 1))
            elif stat.S_ISREG(status.st_mode) and entry.name.endswith(COMPILED):
                size += status.st_size
                if not left or size > MOST_CACHE_BYTES:
                    return
                target.mkdir(exist_ok=True)
                with contextlib.suppress(PermissionError):
                    _copied(Path(entry.path), target / f"{MOST_GATHERED - left}{Path(entry.name).suffix}", status)
                left -= 1


def remove(folder: Path) -> None:
    """Deletes a scratch folder, whatever the submission did to it; follows no link and needs no long paths.

    A submission may nest folders deeper than a path or a recursion can be, so what lies in a folder is first moved up.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
    try:
        top = os.open(folder, flags)
    except OSError:
        return
    numbers = itertools.count()
    try:
        while names := os.listdir(top):
            if not sum([_remove_entry(top, name, flags, numbers) for name in names]):
                break
    finally:
        os.close(top)
    with contextlib.suppress(OSError):
        os.rmdir(folder)


def _remove_entry(top: int, name: str, flags: int, numbers: Iterator[int]) -> int:
    """Deletes a file, or empties a folder by moving its folders up to `top`; returns how much got done."""
    with contextlib.suppress(OSError):
        os.unlink(name, dir_fd=top)
        return 1
    try:
        here = os.open(name, flags, dir_fd=top)
    except OSError:
        return 0
    done = 0
    try:
        with contextlib.suppress(OSError):
            os.fchmod(here, 0o700)
        for child in os.listdir(here):
            try:
                os.unlink(child, dir_fd=here)
            except OSError:
                with contextlib.suppress(OSError):
                    moved = f".removed-{os.getpid()}-{next(numbers)}"
                    os.rename(child, moved, src_dir_fd=here, dst_dir_fd=top)
                    done += 1
    except OSError:
        pass
    finally:
        os.close(here)
    with contextlib.suppress(OSError):
        os.rmdir(name, dir_fd=top)
        done += 1
    return done
