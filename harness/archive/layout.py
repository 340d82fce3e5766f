"""How an archive lies on the disk, its bounds, and its manifests, which a stranger may have written.

    kbh-archive.json        {"format":1}
    objects/ab/SHA256       the bytes of a file, under their own hash
    manifests/ab/SHA256     one run or one bundle: its name, and each of its files with hash and size
    index.sqlite            made from the others (harness.archive.index); never believed over them
    tmp/, lock              files that are being written; held by the one process that writes

A manifest is canonical JSON and is called what its bytes hash to, which is the id of the entry. So the same run is the
same file on every host, and two archives are merged by copying.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, cast

from grader.record.bundle import BundleError
from grader.record.bundle.read import canonical, is_sha256, shown

__all__ = [
    "DEPTH", "ENTRY_BYTES", "FILE_BYTES", "FILES", "FORMAT", "MANIFEST_BYTES", "MARKER", "MOST_ENTRIES", "Kind",
    "Manifest", "StoreError", "Stored", "check_path", "manifest_bytes", "manifest_parts", "parse_manifest",
]  # fmt: skip

FORMAT = 1
MARKER = "kbh-archive.json"
FILE_BYTES = 256 << 20
ENTRY_BYTES = 4 << 30
FILES = 50_000
MANIFEST_BYTES = 16 << 20
MOST_ENTRIES = 1_000_000
DEPTH = 12
PATH_CHARACTERS = 400
PART_BYTES = 200
_NAME = re.compile(r"[A-Za-z0-9][\w.+@-]{0,199}", re.ASCII)
_FIELDS = frozenset({"format", "kind", "name", "files"})
Kind = Literal["run", "bundle"]


class StoreError(Exception):
    """An archive, or an entry of it, cannot be read or written; the text is one sentence."""


@dataclass(frozen=True, slots=True)
class Stored:
    """One file of an entry: its SHA-256 and its size in bytes."""

    sha256: str
    bytes: int


@dataclass(frozen=True)
class Manifest:
    """One entry. `name` is the run's id or the bundle's folder; `files` are by path, in order. `id` is its own hash."""

    id: str
    kind: Kind
    name: str
    files: Mapping[str, Stored] = field(repr=False)

    @cached_property
    def bytes(self) -> int:
        """The size of all its files."""
        return sum(file.bytes for file in self.files.values())


def manifest_parts(id_: str) -> tuple[str, str, str]:
    """Where a manifest lies below the archive. Raises StoreError for what is no SHA-256."""
    if not is_sha256(id_):
        raise StoreError(f"{shown(str(id_))!r} is not the id of an entry")
    return "manifests", id_[:2], id_


def manifest_bytes(kind: Kind, name: str, files: Mapping[str, Stored]) -> bytes:
    """A manifest as it is written. Raises StoreError for an entry that is beyond the bounds."""
    listed = [[path, files[path].sha256, files[path].bytes] for path in sorted(files)]
    try:
        data = canonical({"format": FORMAT, "kind": kind, "name": name, "files": listed})
    except BundleError as error:
        raise StoreError(str(error)) from None
    parse_manifest(data, hashlib.sha256(data).hexdigest())  # what cannot be read back is not written
    return data


def parse_manifest(data: bytes, id_: str) -> Manifest:
    """Reads the manifest that should be called `id_`. Raises StoreError."""
    if len(data) > MANIFEST_BYTES:
        raise StoreError(f"the manifest {id_[:12]} has more than {MANIFEST_BYTES:,} bytes")
    if hashlib.sha256(data).hexdigest() != id_:
        raise StoreError(f"the manifest {id_[:12]} does not hold the bytes that its name says")
    try:
        found = json.loads(data)
        same = canonical(found) == data
    except (ValueError, RecursionError, BundleError):
        raise StoreError(f"the manifest {id_[:12]} is not JSON as an archive holds it") from None
    if not same or not isinstance(found, dict) or found.get("format") != FORMAT or set(found) != _FIELDS:
        raise StoreError(f"the manifest {id_[:12]} is not one of format {FORMAT}")
    kind, name = found["kind"], found["name"]
    if kind not in ("run", "bundle") or not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise StoreError(f"the manifest {id_[:12]} names no run and no bundle")
    try:
        return Manifest(id_, cast(Kind, kind), name, dict(_files(found["files"])))
    except StoreError as error:
        raise StoreError(f"the manifest {id_[:12]} ({shown(name)}): {error}") from None


def _files(listed: object) -> Iterator[tuple[str, Stored]]:
    if not isinstance(listed, list) or not 1 <= len(listed) <= FILES:
        raise StoreError(f"an entry has 1 to {FILES:,} files")
    before, total = "", 0
    folders: set[str] = set()
    for item in listed:
        if not isinstance(item, list) or len(item) != 3 or not isinstance(item[0], str) or not is_sha256(item[1]):
            raise StoreError("a file is a path, a SHA-256 and a size")
        path, sha256, size = item
        check_path(path)
        if path <= before:
            raise StoreError(f"its files are not in order at {shown(path)}")
        if type(size) is not int or not 0 <= size <= FILE_BYTES:
            raise StoreError(f"{shown(path)} has a size that no file here has: at most {FILE_BYTES:,} bytes")
        total += size
        if total > ENTRY_BYTES:
            raise StoreError(f"its files have more than {ENTRY_BYTES:,} bytes")
        parts = path.split("/")
        folders.update("/".join(parts[:count]) for count in range(1, len(parts)))
        before = path
        yield path, Stored(sha256, size)
    for item in listed:
        if item[0] in folders:
            raise StoreError(f"{shown(item[0])} is a file and a folder")


def check_path(path: str) -> None:
    """Raises StoreError for a path that no file of an entry may have."""
    parts: Sequence[str] = path.split("/")
    fine = (
        0 < len(path) <= PATH_CHARACTERS
        and len(parts) <= DEPTH
        and path.isprintable()
        and "\\" not in path
        and all(part not in ("", ".", "..") and len(part.encode()) <= PART_BYTES for part in parts)
    )
    if not fine:
        raise StoreError(f"{shown(path)!r} is not a path that a file of an entry can have")
