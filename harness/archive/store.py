"""The archive itself: runs and bundles are added, other archives are merged in, and nothing is ever changed.

A file is written in tmp/, synced and given its name; the objects of an entry are durable before its manifest gets its
name. So a cut at any moment leaves whole entries, and at most objects that no manifest names yet.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from grader.record.bundle import BundleError
from grader.record.bundle.files import DISK, Files
from grader.record.bundle.read import canonical, is_sha256, names_in, object_parts, read_file, shown
from harness.archive import source
from harness.archive.check import faults_of
from harness.archive.facts import facts_of
from harness.archive.layout import (
    FILE_BYTES,
    FORMAT,
    MANIFEST_BYTES,
    MARKER,
    MOST_ENTRIES,
    Kind,
    Manifest,
    Stored,
    StoreError,
    manifest_bytes,
    manifest_parts,
    parse_manifest,
)
from harness.record.archive import ArchiveError, RunFolder

__all__ = ["INDEX", "Archive", "Merged"]

INDEX, LOCK = "index.sqlite", "lock"
FOLDERS = ("objects", "manifests", "tmp")
NAMES = frozenset({MARKER, INDEX, LOCK, *FOLDERS})
LEFT_OVERS = 10_000
SIGN = canonical({"format": FORMAT})
Told = Callable[[int, int], None]


@dataclass(slots=True)
class Merged:
    """What a merge did: the ids that are new here, how many were here before, and why others were refused."""

    new: list[str] = field(default_factory=list)
    same: int = 0
    refused: list[str] = field(default_factory=list)


class Archive:
    """An archive: `create` and `open` give one. Every method raises StoreError."""

    def __init__(self, folder: Path, files: Files = DISK) -> None:
        self.folder = folder
        self._files = files
        self._made: set[Path] = set()

    @classmethod
    def create(cls, folder: Path, *, files: Files = DISK) -> Archive:
        """Opens the archive in a folder, which is made where it is not there. A folder that holds other things is
        refused.
        """
        archive = cls(folder, files)
        if os.path.lexists(folder / MARKER):
            return cls.open(folder, files=files)
        with _told(folder):
            archive._make()
        with archive.writing(), _told(folder):
            if not os.path.lexists(folder / MARKER):
                archive._place(SIGN, folder / MARKER)
        return archive

    @classmethod
    def open(cls, folder: Path, *, files: Files = DISK) -> Archive:
        """Opens the archive in a folder, for reading, or for adding to it."""
        try:
            sign = read_file(folder, 1000, MARKER)
        except BundleError:
            meant = f"; {folder / 'archive'} is one" if (folder / "archive" / MARKER).is_file() else ""
            raise StoreError(f"{folder} is no archive: it has no {MARKER}{meant}") from None
        if sign != SIGN:
            raise StoreError(f"{folder} is not an archive of format {FORMAT}, which is what this version reads")
        return cls(folder, files)

    # --- reading -----------------------------------------------------------------------------------------

    def ids(self) -> list[str]:
        """The ids of all entries, in order. Other files among the manifests are left for `verify` to report."""
        found: list[str] = []
        for prefix in self._names("manifests"):
            with contextlib.suppress(StoreError):  # one stray file takes no entry away
                found += [name for name in self._names("manifests", prefix) if is_sha256(name) and name[:2] == prefix]
            if len(found) > MOST_ENTRIES:
                raise StoreError(f"{self.folder} has more than {MOST_ENTRIES:,} entries")
        return sorted(found)

    def _names(self, *parts: str) -> list[str]:
        try:
            if not os.path.lexists(self.folder.joinpath(*parts)):
                return []
            return names_in(self.folder, MOST_ENTRIES, *parts)
        except BundleError as error:
            raise StoreError(f"{self.folder}: {error}") from None

    def manifest(self, id_: str) -> Manifest:
        """Reads one entry's manifest, and checks that it has the hash in its name."""
        try:
            return parse_manifest(read_file(self.folder, MANIFEST_BYTES, *manifest_parts(id_)), id_)
        except BundleError as error:
            raise StoreError(f"{self.folder}: {error}") from None

    def read(self, sha256: str) -> bytes:
        """Reads the bytes under a SHA-256, and checks that they have it."""
        try:
            data = read_file(self.folder, FILE_BYTES, *object_parts(sha256))
        except BundleError as error:
            raise StoreError(f"{self.folder}: {error}") from None
        if hashlib.sha256(data).hexdigest() != sha256:
            raise StoreError(f"{self.folder}: objects/{sha256[:2]}/{sha256} does not hold the bytes that its name says")
        return data

    def file(self, manifest: Manifest, path: str) -> bytes:
        """The bytes of one file of an entry, of the size that its manifest says."""
        stored = manifest.files.get(path)
        if stored is None:
            raise StoreError(f"{manifest.name} has no file {shown(path)}")
        data = self.read(stored.sha256)
        if len(data) != stored.bytes:
            raise StoreError(
                f"{manifest.name}: {shown(path)} has {len(data):,} bytes, its manifest says {stored.bytes:,}"
            )
        return data

    def extract(self, manifest: Manifest, target: Path, below: str = "") -> None:
        """Writes the files of an entry whose paths begin with `below` into a folder of that name, without it."""
        with _told(target):
            target.mkdir(parents=True)
            for path in manifest.files:
                if path.startswith(below):
                    place = target.joinpath(*path.removeprefix(below).split("/"))
                    place.parent.mkdir(parents=True, exist_ok=True)
                    with place.open("xb") as file:
                        file.write(self.file(manifest, path))

    # --- adding ------------------------------------------------------------------------------------------

    def add(self, folder: Path) -> tuple[str, bool]:
        """Adds a run that is over, or a finished bundle; gives its id, and whether it is new here.

        It is held against itself first; what is not whole, or is still at work, is refused.
        """
        kind = source.kind_of(folder)
        if kind is None:
            other = "; it is an archive: kbh archive merge adds those" if (folder / MARKER).is_file() else ""
            raise StoreError(f"{folder} is neither a run nor a bundle{other}")
        with _still(folder, kind):
            faults = faults_of(folder, kind)
            if faults:
                more = f", and {len(faults) - 1} more faults" if len(faults) > 1 else ""
                raise StoreError(f"{folder} is not whole: {faults[0]}{more}")
            paths = source.files_of(folder, kind)
            with self.writing():
                files, touched = {}, set()
                for path in paths:
                    data = source.read(folder, path)
                    files[path] = Stored(hashlib.sha256(data).hexdigest(), len(data))
                    touched.add(self._put(data, files[path].sha256))
                written = manifest_bytes(kind, _name(folder, kind), files)
                return self._entry(written, touched)

    def merge(self, other: Archive, told: Told = lambda done, total: None) -> Merged:
        """Adds every entry of another archive that is not here. One whose files are not what its manifest says, or that
        is no record of a run or a grading, is refused and named; the others come all the same.
        """
        result, ids = Merged(), other.ids()
        with self.writing():
            here = set(self.ids())
            for count, id_ in enumerate(ids, 1):
                try:
                    manifest = other.manifest(id_)
                    if id_ in here and self._has_all(manifest):
                        result.same += 1
                    else:
                        facts_of(manifest, other.read)
                        self._copy(other, manifest)
                        result.new.append(id_)
                except StoreError as error:
                    result.refused.append(f"{id_[:12]}: {error}")
                told(count, len(ids))
        return result

    def _has_all(self, manifest: Manifest) -> bool:
        """Whether the files of an entry that is here are here too, by size; a damaged archive may lack some."""
        for stored in manifest.files.values():
            try:
                if os.lstat(self.folder.joinpath(*object_parts(stored.sha256))).st_size != stored.bytes:
                    return False
            except OSError:
                return False
        return True

    def _copy(self, other: Archive, manifest: Manifest) -> None:
        touched = set()
        for path, stored in manifest.files.items():
            touched.add(self._put(other.file(manifest, path), stored.sha256))
        self._entry(manifest_bytes(manifest.kind, manifest.name, manifest.files), touched)

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Holds the lock of the archive, for which it waits, and clears what a cut write left."""
        with _told(self.folder):
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            lock = os.open(self.folder / LOCK, flags, 0o644)
        try:
            with _told(self.folder):
                fcntl.flock(lock, fcntl.LOCK_EX)
                self._files.mkdir(self.folder / "tmp")
                for name in names_in(self.folder, LEFT_OVERS, "tmp"):
                    self._files.unlink(self.folder / "tmp" / name)
            yield
        except BundleError as error:
            raise StoreError(f"{self.folder}: {error}") from None
        finally:
            os.close(lock)

    def replace(self, name: str, made: Callable[[Path], None]) -> None:
        """Writes a file of the archive's own, such as its index, as a whole; the caller holds the lock."""
        with _told(self.folder):
            path = self.folder / "tmp" / secrets.token_hex(8)
            made(path)
            self._files.sync(path)
            self._files.rename(path, self.folder / name)
            self._files.sync(self.folder)

    def _put(self, data: bytes, sha256: str) -> Path:
        """Keeps bytes, also in the place of damaged ones; gives the folder to sync before a manifest names them."""
        place = self.folder.joinpath(*object_parts(sha256))
        with _told(self.folder):
            self._folder(place.parent)
            try:
                same = os.path.lexists(place) and self.read(sha256) == data
            except StoreError:
                same = False
            if same:
                self._files.sync(place)  # the process that put it may have been killed before it did
            else:
                self._place(data, place)
        return place.parent

    def _entry(self, written: bytes, touched: set[Path]) -> tuple[str, bool]:
        """Names an entry, whose objects lie in the folders `touched`."""
        id_ = hashlib.sha256(written).hexdigest()
        place = self.folder.joinpath(*manifest_parts(id_))
        with _told(self.folder):
            for folder in sorted(touched):
                self._files.sync(folder)
            self._folder(place.parent)
            new = not os.path.lexists(place)
            if new or self._damaged(id_):
                self._place(written, place)
            else:
                self._files.sync(place)  # as an object's
            self._files.sync(place.parent)
        return id_, new

    def _damaged(self, id_: str) -> bool:
        try:
            self.manifest(id_)
        except StoreError:
            return True
        return False

    def _place(self, data: bytes, place: Path) -> None:
        """A durable file under a name that is durable once its folder is synced."""
        path = self.folder / "tmp" / secrets.token_hex(8)
        self._files.write(path, data)
        self._files.sync(path)
        self._files.rename(path, place)
        if place.parent == self.folder:
            self._files.sync(self.folder)

    def _folder(self, path: Path) -> None:
        """Makes a folder, once a process, durably."""
        if path not in self._made:
            self._files.mkdir(path)
            self._files.sync(path.parent)
            self._made.add(path)

    def _make(self) -> None:
        whole = self.folder.absolute()
        missing = [path for path in (whole, *whole.parents) if not path.exists()]
        deepest = missing[-1].parent if missing else whole
        with contextlib.suppress(PermissionError):  # an earlier attempt may have been killed when it had made this one
            self._files.sync(deepest.parent)
        for path in reversed(missing):
            self._files.mkdir(path)
            self._files.sync(path.parent)
        other = sorted(set(names_in(self.folder, LEFT_OVERS)) - NAMES)
        if other:
            raise StoreError(f"{self.folder} is no archive: it holds {shown(other[0])!r}")
        for name in FOLDERS:
            self._files.mkdir(self.folder / name)
        self._files.sync(self.folder)


def _name(folder: Path, kind: Kind) -> str:
    return RunFolder(folder).load().run_id if kind == "run" else folder.resolve().name


@contextlib.contextmanager
def _still(folder: Path, kind: Kind) -> Iterator[None]:
    """Keeps others from writing a run meanwhile; one on a medium that cannot be written is nobody's work."""
    run = RunFolder(folder)
    try:
        if kind == "run" and not run.take():
            raise StoreError(f"{folder} is at work")
    except OSError:
        pass
    try:
        yield
    except ArchiveError as error:
        raise StoreError(str(error)) from None
    finally:
        run.release()


@contextlib.contextmanager
def _told(folder: Path) -> Iterator[None]:
    """Turns what the system says into one sentence."""
    try:
        yield
    except OSError as error:
        raise StoreError(f"{folder} cannot be written: {error.strerror or error}") from None
    except BundleError as error:
        raise StoreError(f"{folder}: {error}") from None
