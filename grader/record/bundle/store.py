"""A bundle: one grading as a folder of hash-chained entries and the objects that they name.

    objects/ab/SHA256     any bytes, under their own hash
    entries/000001.json   format, seq, prev (SHA-256 of the entry before), kind, time, data, objects
    tmp/                  files that are being written; what lies there after a crash is nothing
    lock                  held by the one process that writes

An object is durable before the entry that names it is begun, and an entry gets its name only when its bytes are
durable. So a cut at any moment leaves whole entries and at most a file in tmp/. The chain shows that nothing was
changed or taken out of the middle; who wants to show that nothing was cut off the end keeps `head` elsewhere.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from grader.record.bundle.files import DISK, Files
from grader.record.bundle.read import (
    ENTRY_COUNT,
    KINDS,
    OBJECT_BYTES,
    OBJECTS_OF_ENTRY,
    BundleBusy,
    BundleError,
    Entry,
    check_weight,
    entry_bytes,
    entry_name,
    names_in,
    object_parts,
    parse_entry,
    read_entries,
    read_file,
)

__all__ = ["Bundle"]

FOLDERS = ("objects", "entries", "tmp")
LOCK = "lock"
LEFT_OVERS = 10_000


class Bundle:
    """An open bundle: `create` and `open` give one. A context manager. Every method raises BundleError."""

    def __init__(self, folder: Path, lock: int | None, files: Files) -> None:
        self.folder = folder
        self._entries: list[Entry] = []
        self._lock = lock
        self._files = files
        self._durable: set[str] = set()

    @classmethod
    def create(
        cls, folder: Path, header: Mapping[str, Any], objects: Sequence[bytes] = (), *, files: Files = DISK
    ) -> Bundle:
        """Starts a bundle with an "open" entry, which names `objects` by their hashes, and opens it for writing.

        A folder that an earlier attempt left without an entry is taken over; one with anything else in it is not.
        """
        with _told(folder):
            _make(folder, files)
        bundle = cls(folder, _locked(folder), files)
        try:
            with _told(folder):
                if read_entries(folder):
                    raise BundleError(f"{folder} is a bundle already")
                bundle._clear()
            bundle.append("open", header, tuple(dict.fromkeys(map(bundle.put, objects))))
        except BaseException:
            bundle.close()
            raise
        return bundle

    @classmethod
    def open(cls, folder: Path, *, write: bool = False, files: Files = DISK) -> Bundle:
        """Reads a bundle. With `write` it can be gone on with, and no other process can open it so at the same time."""
        bundle = cls(folder, _locked(folder) if write else None, files)
        try:
            bundle._entries = list(read_entries(folder))
            if not bundle._entries:
                raise BundleError(f"{folder} is no bundle: it has no entries")
            if bundle._entries[0].kind != "open":
                raise BundleError(f"{folder} is no bundle: it does not begin with an open entry")
            if write:
                with _told(folder):
                    _make(folder, files)
                    files.sync(folder / "entries")  # the last writer may have been killed before it did
                    bundle._clear()
        except BaseException:
            bundle.close()
            raise
        return bundle

    def put(self, data: bytes) -> str:
        """Keeps bytes and gives their SHA-256; they are durable when this returns."""
        self._writable()
        if len(data) > OBJECT_BYTES:
            raise BundleError(f"an object of {len(data):,} bytes is too large: {OBJECT_BYTES:,} is the most")
        sha256 = hashlib.sha256(data).hexdigest()
        if sha256 in self._durable:
            return sha256
        place = self.folder.joinpath(*object_parts(sha256))
        with self._writing():
            self._files.mkdir(place.parent)
            self._files.sync(place.parent.parent)
            self._files.rename(self._new_file(data), place)
            self._files.sync(place.parent)
        self._durable.add(sha256)
        return sha256

    def get(self, sha256: str) -> bytes:
        """The bytes with this SHA-256, which are checked against it."""
        data = read_file(self.folder, OBJECT_BYTES, *object_parts(sha256))
        if hashlib.sha256(data).hexdigest() != sha256:
            raise BundleError(f"objects/{sha256[:2]}/{sha256} does not hold the bytes that its name says")
        return data

    def append(self, kind: str, data: Mapping[str, Any], objects: Sequence[str] = ()) -> str:
        """Adds an entry and gives its hash; it is durable when this returns. `objects` have been `put` before.

        A finished bundle takes no entry but "regrade".
        """
        self._writable()
        if kind not in KINDS or (kind == "open") != (not self._entries):
            raise BundleError(f"an entry of kind {kind!r} cannot stand here")
        if self.finished and kind != "regrade":
            raise BundleError(f"{self.folder} is finished: it takes no {kind} entry")
        if len(self._entries) >= ENTRY_COUNT or len(objects) > OBJECTS_OF_ENTRY:
            raise BundleError(f"{self.folder} is full")
        for sha256 in objects:
            self._settle(sha256)
        seq = len(self._entries) + 1
        written = entry_bytes(seq, self.head, kind, _now(), data, tuple(objects))
        entry = parse_entry(written, seq, self.head)  # what cannot be read back is not written
        check_weight([*self._entries, entry])
        with self._writing():
            temporary = self._new_file(written)
            self._files.link(temporary, self.folder / "entries" / entry_name(seq))
            self._files.sync(self.folder / "entries")
            self._files.unlink(temporary)
        self._entries.append(entry)
        return entry.hash

    def entries(self) -> tuple[Entry, ...]:
        """The entries as they were when the bundle was opened, and those that were added here."""
        return tuple(self._entries)

    @property
    def head(self) -> str:
        """The SHA-256 of the last entry, which stands for the whole chain."""
        return self._entries[-1].hash if self._entries else ""

    @property
    def finished(self) -> bool:
        """Whether the grading came to its end: a "cell" entry is there."""
        return any(entry.kind == "cell" for entry in self._entries)

    def close(self) -> None:
        """Gives up the lock; after that the bundle can be read only."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Bundle:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _writable(self) -> None:
        if self._lock is None:
            raise BundleError(f"{self.folder} is not open for writing")

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """After a failed write nobody knows what the disk holds, so nothing more is written before it is read again."""
        try:
            with _told(self.folder):
                yield
        except BundleError:
            self.close()
            raise

    def _new_file(self, data: bytes) -> Path:
        """A durable file in tmp/."""
        path = self.folder / "tmp" / secrets.token_hex(8)
        self._files.write(path, data)
        self._files.sync(path)
        return path

    def _settle(self, sha256: str) -> None:
        """Sees to it that an object which an earlier process put is there and durable."""
        if sha256 not in self._durable:
            self.get(sha256)
            place = self.folder.joinpath(*object_parts(sha256))
            with self._writing():
                for path in (place, place.parent, place.parent.parent):
                    self._files.sync(path)
            self._durable.add(sha256)

    def _clear(self) -> None:
        """Takes away what a cut write left; makes tmp/ where a copy left it out, as version control does."""
        if not os.path.lexists(self.folder / "tmp"):
            self._files.mkdir(self.folder / "tmp")
        for name in names_in(self.folder, LEFT_OVERS, "tmp"):
            self._files.unlink(self.folder / "tmp" / name)


def _make(folder: Path, files: Files) -> None:
    """Makes the folders of a bundle, durably; refuses a folder that holds other things."""
    whole = folder.absolute()
    missing = [path for path in (whole, *whole.parents) if not path.exists()]
    deepest = missing[-1].parent if missing else whole
    with contextlib.suppress(PermissionError):  # an earlier attempt may have been killed when it had made this one
        files.sync(deepest.parent)
    for path in reversed(missing):
        files.mkdir(path)
        files.sync(path.parent)
    other = sorted(set(names_in(folder, LEFT_OVERS)) - {*FOLDERS, LOCK})
    if other:
        raise BundleError(f"{folder} is no bundle: it holds {other[0][:80]!r}")
    for name in FOLDERS:
        files.mkdir(folder / name)
    files.sync(folder)


def _locked(folder: Path) -> int:
    try:
        fd = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise BundleError(f"{folder} cannot be written: {error.strerror}") from None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        raise BundleBusy(f"{folder} is being written by another process") from None
    return fd


@contextlib.contextmanager
def _told(folder: Path) -> Iterator[None]:
    """Turns what the system says into one sentence."""
    try:
        yield
    except OSError as error:
        raise BundleError(f"{folder} cannot be written: {error.strerror or error}") from None


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
