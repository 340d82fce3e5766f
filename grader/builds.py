"""Finished compiler caches, kept from one grading to the next.

A build belongs to one submission on one problem and target, with the versions that made it, and is never offered to
another. It was written by that submission's own process, so it is only ever copied into the scratch folder of another.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import time as now

from grader.bundle.read import canonical
from grader.supervise import remove

__all__ = ["Builds", "build_key", "builds_folder", "cache_folder"]

MOST_BUILDS = 64
MOST_BYTES = 8 << 30
STALE_SECONDS = 86_400.0
_PART = ".part-"


def cache_folder() -> Path:
    """What is kept from one grading to the next lies in a folder below the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "kbh"


def builds_folder() -> Path:
    """Where builds are kept."""
    return cache_folder() / "builds"


def build_key(submission: str, parts: Sequence[str], versions: Mapping[str, str]) -> str:
    """The name of a build: all that what the compilers wrote depends on."""
    return hashlib.sha256(canonical({"key": [submission, *parts, dict(versions)]})).hexdigest()


class Builds:
    """The store. Where its folder cannot be written, builds are kept in `spare` and lost with it."""

    def __init__(self, folder: Path, spare: Path) -> None:
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            writable = os.access(folder, os.W_OK)
        except OSError:
            writable = False
        if not writable:
            self._folder = spare
            spare.mkdir(parents=True, exist_ok=True)

    def find(self, key: str) -> Path | None:
        """The folder of a finished build, or None."""
        place = self._folder / key
        if not place.is_dir():
            return None
        with contextlib.suppress(OSError):
            os.utime(place)
        return place

    def begin(self, key: str) -> Path:
        """A name for a build that is being made; `keep` finishes it."""
        return self._folder / f"{key}{_PART}{secrets.token_hex(4)}"

    def keep(self, key: str, made: Path) -> Path:
        """Keeps a build that came to its end, and gives the folder where it lies then."""
        made.mkdir(exist_ok=True)
        place = self._folder / key
        try:
            made.rename(place)
        except OSError:  # another grading was faster
            remove(made)
        self._forget()
        return place

    def _forget(self) -> None:
        """Takes away builds that nobody used for longest, by number and size, and parts that were never finished."""
        with contextlib.suppress(OSError):
            found = sorted((path.stat(follow_symlinks=False).st_mtime, path) for path in self._folder.iterdir())[::-1]
            stale = [path for time, path in found if _PART in path.name and time < now() - STALE_SECONDS]
            done = [path for _, path in found if _PART not in path.name]
            held = list(itertools.accumulate(map(_bytes, done)))
            more = [path for i, path in enumerate(done) if i >= MOST_BUILDS or (i and held[i] > MOST_BYTES)]
            for path in [*stale, *more]:
                remove(path)


def _bytes(folder: Path) -> int:
    """Bytes of all files in a build."""
    return sum(
        os.stat(os.path.join(here, name), follow_symlinks=False).st_size
        for here, _, names in os.walk(folder)
        for name in names
    )
