"""Finished compiler caches, kept from one grading to the next.

A build belongs to one submission on one problem and target, with the versions that made it, and is never offered to
another. It was written by that submission's own process, so it is only ever copied into the scratch folder of another.
When it is kept, the SHA-256 of each file is noted beside it; each copy is held against that before a process gets it.
Two gradings that want the same build do not both make it: the second waits for the first.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import itertools
import json
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from time import time as now

from grader.record.bundle.read import canonical
from grader.sandbox.folders import CachesError, remove, restore_caches
from grader.sandbox.users import give

__all__ = [
    "Builds", "build_key", "builds_folder", "cache_folder", "files_of", "hand_in", "hand_out", "untuned",
    "without_batons",
]  # fmt: skip

MOST_BUILDS = 64
MOST_BYTES = 8 << 30
STALE_SECONDS = 86_400.0
BATON = "lock"  # of torch's extension builder: left behind by a build that was killed, it is waited for for ever
TRITON, TUNED = "triton", ".autotune.json"  # the folder of its cache, and what it keeps of its choices
POLL_SECONDS = 0.2
_PART = ".part-"
_KNOWN, _LOCK = ".sha256", ".lock"
CHANGED = "the compiled code that was kept of this submission was changed since; it is taken away, so grade it again"


def cache_folder() -> Path:
    """The folder, below the user's cache folder, of what is kept from one grading to the next."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "kbh"


def builds_folder() -> Path:
    """The folder in which builds are kept."""
    return cache_folder() / "builds"


def build_key(submission: str, parts: Sequence[str], versions: Mapping[str, str]) -> str:
    """The name of a build: a hash of all that its contents depend on."""
    return hashlib.sha256(canonical({"key": [submission, *parts, dict(versions)]})).hexdigest()


class Builds:
    """The store of what compilers made of submissions. Where its folder cannot be written, builds lie in `spare` and
    are lost with it."""

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
        """The folder of a finished build, or None; one whose files are not those that were kept is taken away."""
        place = self._folder / key
        if not place.is_dir():
            return None
        if _known(place) != files_of(place):
            self._drop(place)
            return None
        with contextlib.suppress(OSError):
            os.utime(place)
        return place

    def begin(self, key: str) -> Path:
        """Names a folder, not yet there, to make a build in; `keep` puts it into its place."""
        return self._folder / f"{key}{_PART}{secrets.token_hex(4)}"

    def keep(self, key: str, made: Path) -> Path:
        """Keeps a build that came to its end, and gives the folder where it lies then. Nobody is to write to it."""
        made.mkdir(exist_ok=True)
        place = self._folder / key
        for file in _files(made):
            file.chmod(file.stat().st_mode & 0o555)
        if not place.exists():
            _write(_beside(place, _KNOWN), json.dumps(files_of(made)))
        try:
            made.rename(place)
        except OSError:  # another grading was faster
            remove(made)
        self._forget()
        return place

    @contextlib.contextmanager
    def making(self, key: str, wait: Callable[[str], None], seconds: float) -> Iterator[None]:
        """Inside the block nobody else makes this build; waits at most `seconds` for somebody who does, and tells
        `wait` so.
        """
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(OSError):
                lock = self._lock(_beside(self._folder / key, _LOCK), wait, seconds)
                stack.callback(os.close, lock)
            yield

    def _lock(self, path: Path, wait: Callable[[str], None], seconds: float) -> int:
        until, told = time.monotonic() + seconds, False
        while True:
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(lock).st_nlink:
                    return lock
            except BlockingIOError:
                if time.monotonic() > until:
                    wait("the other grading still builds it; building it here too")
                    return lock
                if not told:
                    wait("another grading builds this file; waiting for what it makes")
                    told = True
                time.sleep(POLL_SECONDS)
            os.close(lock)

    def _drop(self, place: Path) -> None:
        remove(place)
        for kind in (_KNOWN, _LOCK):
            with contextlib.suppress(OSError):
                _beside(place, kind).unlink()

    def _forget(self) -> None:
        """Takes away builds that nobody used for longest, by number and size, and parts that were never finished."""
        with contextlib.suppress(OSError):
            folders = [path for path in self._folder.iterdir() if path.is_dir()]
            found = sorted((path.stat(follow_symlinks=False).st_mtime, path) for path in folders)[::-1]
            stale = [path for time, path in found if _PART in path.name and time < now() - STALE_SECONDS]
            done = [path for _, path in found if _PART not in path.name]
            held = list(itertools.accumulate(map(_bytes, done)))
            more = [path for i, path in enumerate(done) if i >= MOST_BUILDS or (i and held[i] > MOST_BYTES)]
            for path in [*stale, *more]:
                self._drop(path)


def hand_out(caches: Path, target: Path) -> None:
    """Makes `target` a copy of a build for one process, which may write to that copy.

    Raises CachesError when a build of the store is not what was kept.
    """
    restore_caches(caches, target)
    known = _known(caches)
    if known is not None and known != files_of(target):
        remove(target)
        remove(caches)
        raise CachesError(CHANGED)


def hand_in(caches: Path, target: Path, uid: int | None) -> None:
    """As `hand_out`, into the existing folder of a process that runs already and has run no code of a submission.

    `uid` is the user that it runs as, where that is one of its own. Raises CachesError and SandboxError.
    """
    given = target.with_name(f"{target.name}-given")
    hand_out(caches, given)
    for one in given.iterdir():
        remove(target / one.name)
        one.rename(target / one.name)
    remove(given)
    if uid is not None:
        give(target, uid)


def files_of(folder: Path) -> dict[str, str]:
    """SHA-256 of each file of a build, by its path in it."""
    found = {}
    for file in _files(folder):
        with file.open("rb") as opened:
            found[str(file.relative_to(folder))] = hashlib.file_digest(opened, "sha256").hexdigest()
    return found


def untuned(made: Path) -> None:
    """Removes from the build `made` everything but what Triton compiled, and of that the choices that were made by
    timing.
    """
    for entry in made.iterdir() if made.is_dir() else ():
        if not entry.is_dir():
            entry.unlink()
        elif entry.name != TRITON:
            remove(entry)
    for file in _files(made):
        if file.name.endswith(TUNED):
            file.unlink(missing_ok=True)


def without_batons(made: Path) -> None:
    """Removes the lock files that a build which did not end normally left in `made`."""
    for file in _files(made):
        if file.name == BATON and file.parent != made:
            file.unlink(missing_ok=True)


def _files(folder: Path) -> Iterator[Path]:
    for here, _, names in os.walk(folder):
        yield from (Path(here, name) for name in sorted(names))


def _beside(place: Path, kind: str) -> Path:
    return place.with_name(f"{place.name}{kind}")


def _known(place: Path) -> dict[str, str] | None:
    """What was noted of a build when it was kept; None for a folder that is none of the store's."""
    try:
        found: object = json.loads(_beside(place, _KNOWN).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return {str(name): str(digest) for name, digest in found.items()} if isinstance(found, dict) else None


def _write(path: Path, text: str) -> None:
    """Writes a file in one step."""
    part = path.with_name(f"{path.name}{_PART}{secrets.token_hex(4)}")
    part.write_text(text, encoding="utf-8")
    part.chmod(0o400)
    part.replace(path)


def _bytes(folder: Path) -> int:
    """Bytes of all files in a build."""
    return sum(
        os.stat(os.path.join(here, name), follow_symlinks=False).st_size
        for here, _, names in os.walk(folder)
        for name in names
    )
