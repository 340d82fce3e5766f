"""The files of a run or a bundle on the disk: bounded, and without following a link anywhere."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from grader.record.bundle import BundleError
from grader.record.bundle.read import read_file, shown
from harness.archive.layout import DEPTH, ENTRY_BYTES, FILE_BYTES, FILES, Kind, StoreError, check_path
from harness.record.archive import RECORD, is_run

__all__ = ["files_of", "kind_of", "read"]

_CUT = re.compile(r"\..+\.[0-9a-f]{8}")  # a file that a cut write left beside its place
_LOCKS = frozenset({"lock", f"{RECORD}/lock"})
_CELL = re.compile(rf"{RECORD}/cells/[^/]+/(lock|tmp)(/|$)")


def kind_of(folder: Path) -> Kind | None:
    """The kind of a folder, run or bundle; None when it is neither."""
    if is_run(folder):
        return "run"
    return "bundle" if (folder / "entries").is_dir() and (folder / "objects").is_dir() else None


def files_of(folder: Path, kind: Kind) -> list[str]:
    """The paths of the files that make a run or a bundle, in order; locks and what a cut write left are none of it.

    Raises StoreError for a link, a pipe, a device, or a folder beyond the bounds.
    """
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise StoreError(f"{folder} cannot be read: {error.strerror}") from None
    try:
        found: list[str] = []
        total = 0
        for path, size in _walk(fd, "", kind):
            total += size
            if len(found) >= FILES or total > ENTRY_BYTES or size > FILE_BYTES:
                raise StoreError(
                    f"{folder} is larger than an archive takes: {FILES:,} files, {FILE_BYTES:,} bytes each and "
                    f"{ENTRY_BYTES:,} in all"
                )
            found.append(path)
    except OSError as error:
        raise StoreError(f"{folder} cannot be read: {error.strerror}") from None
    finally:
        os.close(fd)
    if not found:
        raise StoreError(f"{folder} is empty")
    return sorted(found)


def _walk(fd: int, above: str, kind: Kind) -> Iterator[tuple[str, int]]:
    if above.count("/") > DEPTH:
        raise StoreError(f"{shown(above)} is nested deeper than {DEPTH} folders")
    with os.scandir(fd) as items:
        for item in items:
            path = above + item.name
            if _is_apart(path, item.name, kind):
                continue
            if item.is_dir(follow_symlinks=False):
                below = os.open(item.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
                try:
                    yield from _walk(below, f"{path}/", kind)
                finally:
                    os.close(below)
            elif item.is_file(follow_symlinks=False):
                check_path(path)
                yield path, item.stat(follow_symlinks=False).st_size
            else:
                raise StoreError(f"{shown(path)} is a link, a pipe or a device, which no archive takes")


def _is_apart(path: str, name: str, kind: Kind) -> bool:
    if kind == "bundle":
        return path in ("lock", "tmp")
    return path in _LOCKS or _CUT.fullmatch(name) is not None or _CELL.match(path) is not None


def read(folder: Path, path: str) -> bytes:
    """A file of a run or a bundle, at most FILE_BYTES. Raises StoreError, also where a part of the path is a link."""
    try:
        return read_file(folder, FILE_BYTES, *path.split("/"))
    except BundleError as error:
        raise StoreError(f"{folder}: {error}") from None
