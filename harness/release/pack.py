"""How a release lies on the disk, and how it is unpacked from a stranger's hands.

    kbh-release.json    each other file with its SHA-256 and size, the ids of all entries, what the archive unpacks to
    archive.tar.gz      the archive (docs/archive.md) without its index: objects and manifests
    index.jsonl         what each entry says of itself, one line an entry
    keys.jsonl          the key of each trial of each grading, with the commitment that was made before
    environment.json    what it was made with, and what graded
    statistics.json     trials and boards, with intervals, ranks and pairs

They lie in a folder, or in one tar file of them.
"""

from __future__ import annotations

import errno
import gzip
import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from grader.record.bundle import BundleError
from grader.record.bundle.read import canonical, is_sha256, names_in, object_parts, read_file, shown
from harness.archive.layout import FILE_BYTES, MANIFEST_BYTES, MARKER, MOST_ENTRIES, StoreError, manifest_parts
from harness.archive.store import Archive
from harness.release.tar import CHUNK, END, Gunzip, Source, header, members, padding

__all__ = [
    "ARCHIVE", "DERIVED", "DERIVED_BYTES", "FORMAT", "HEAD", "NAMES", "Head", "head_bytes", "is_release", "opened",
    "pack_archive", "read_head", "sha256_of", "unpack_archive",
]  # fmt: skip

FORMAT = 1
HEAD, ARCHIVE = "kbh-release.json", "archive.tar.gz"
DERIVED = ("environment.json", "index.jsonl", "keys.jsonl", "statistics.json")
NAMES = (HEAD, ARCHIVE, *DERIVED)
HEAD_BYTES = 128 << 20
DERIVED_BYTES = 1 << 30
MOST_UNPACKED = 256 << 30
MOST_FILES = 20_000_000
MOST_FAULTS = 1000
SPARE_BYTES = 256 << 20  # of the disk, that are left free
_FIELDS = {"format", "files", "entries", "archive", "options"}
_OBJECT = re.compile(r"objects/([0-9a-f]{2})/(\1[0-9a-f]{62})")
_MANIFEST = re.compile(r"manifests/([0-9a-f]{2})/(\1[0-9a-f]{62})")


@dataclass(frozen=True, slots=True)
class Head:
    """kbh-release.json. `id` is the SHA-256 of its bytes, which stands for the whole release; `files` are hash and size
    by name, `unpacked` and `members` of the archive, `options` what the statistics were asked for.
    """

    id: str
    files: Mapping[str, tuple[str, int]]
    entries: tuple[str, ...]
    unpacked: int
    members: int
    options: Mapping[str, Any]


def is_release(path: Path) -> bool:
    """Whether a path looks like a release: a folder with its head, or a file that is not a folder."""
    return (path / HEAD).is_file() if path.is_dir() else path.is_file()


def head_bytes(
    files: Mapping[str, tuple[str, int]], entries: list[str], unpacked: int, count: int, options: Mapping[str, Any]
) -> bytes:
    """The bytes of kbh-release.json."""
    return canonical({
        "format": FORMAT, "files": {name: list(files[name]) for name in sorted(files)}, "entries": entries,
        "archive": {"bytes": unpacked, "files": count}, "options": dict(options),
    })  # fmt: skip


def read_head(folder: Path) -> Head:
    """Reads the head of a release. Raises StoreError for what is no head of this format."""
    try:
        data = read_file(folder, HEAD_BYTES, HEAD)
        found = json.loads(data)
        same = canonical(found) == data
    except (BundleError, ValueError, RecursionError) as error:
        raise StoreError(f"{HEAD} cannot be read ({str(error)[:200]})") from None
    if not same or not isinstance(found, dict) or found.get("format") != FORMAT or set(found) != _FIELDS:
        raise StoreError(f"{HEAD} is not one of format {FORMAT}")
    files, entries, archive, options = (found[name] for name in ("files", "entries", "archive", "options"))
    if not isinstance(files, dict) or set(files) != {ARCHIVE, *DERIVED} or not all(map(_is_file, files.values())):
        raise StoreError(f"{HEAD} does not list the files of a release, each with its SHA-256 and size")
    if not isinstance(entries, list) or not all(map(is_sha256, entries)) or entries != sorted(set(entries)):
        raise StoreError(f"{HEAD} does not list entries by their ids, in order")
    if not isinstance(options, dict) or not isinstance(archive, dict) or set(archive) != {"bytes", "files"}:
        raise StoreError(f"{HEAD} does not say what the archive holds")
    unpacked, count = archive["bytes"], archive["files"]
    if type(unpacked) is not int or type(count) is not int:
        raise StoreError(f"{HEAD} does not say what the archive holds")
    if not 0 <= unpacked <= MOST_UNPACKED or not 0 <= count <= MOST_FILES or len(entries) > MOST_ENTRIES:
        raise StoreError(f"it says to hold more than is unpacked here: {MOST_UNPACKED:,} bytes, {MOST_FILES:,} files")
    by_name = {name: (str(one[0]), int(one[1])) for name, one in files.items()}
    return Head(hashlib.sha256(data).hexdigest(), by_name, tuple(entries), unpacked, count, options)


def _is_file(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and is_sha256(value[0]) and type(value[1]) is int


def opened(path: Path, place: Path) -> Path:
    """The folder of a release; a tar file is unpacked into `place` first, and a folder is read where it lies. Raises
    StoreError, also for a folder that holds anything else.
    """
    if path.is_dir():
        try:
            names = sorted(names_in(path, 1000))
        except BundleError as error:
            raise StoreError(f"{path}: {error}") from None
        _same_names(names)
        return path
    folder = place / "release"
    folder.mkdir()
    found: list[str] = []
    with _plain_file(path, 0) as file:
        try:
            for name, size, source in members(file, len(NAMES)):
                if name not in NAMES or name in found:
                    raise StoreError(f"{shown(name)} does not belong in a release")
                room(place, size)
                found.append(name)
                with (folder / name).open("xb") as made:
                    while data := source.read(CHUNK):
                        made.write(data)
        except StoreError as error:
            raise StoreError(f"{path} is not a release: {error}") from None
    _same_names(sorted(found))
    return folder


def _same_names(names: list[str]) -> None:
    odd = sorted(set(names) ^ set(NAMES))
    if odd:
        said = "is missing" if odd[0] in NAMES else "does not belong in a release"
        raise StoreError(f"{shown(odd[0])} {said}")


def _plain_file(path: Path, flags: int = os.O_NOFOLLOW) -> BinaryIO:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | flags)
    except OSError as error:
        why = "is a link" if error.errno == errno.ELOOP else f"cannot be read: {error.strerror}"
        raise StoreError(f"{path.name} {why}") from None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise StoreError(f"{path} is not a plain file")
    return cast(BinaryIO, os.fdopen(fd, "rb"))


def room(place: Path, size: int) -> None:
    """Checks that the disk has room for `size` bytes more; raises StoreError where it has not."""
    if shutil.disk_usage(place).free < size + SPARE_BYTES:
        raise StoreError(f"the disk has no room for {size:,} bytes more (TMPDIR says where it is unpacked)")


def sha256_of(path: Path) -> tuple[str, int]:
    """The hash and the size of a file."""
    digest, size = hashlib.sha256(), 0
    with _plain_file(path) as file:
        while data := file.read(CHUNK):
            digest.update(data)
            size += len(data)
    return digest.hexdigest(), size


# --- the archive in it ---------------------------------------------------------------------------------------


def pack_archive(archive: Archive, ids: list[str], target: Path) -> tuple[int, int]:
    """Writes the entries of an archive as one file; returns the size in bytes and the number of files that it unpacks
    to. Raises StoreError.
    """
    objects: dict[str, int] = {}
    for id_ in ids:
        objects.update({stored.sha256: stored.bytes for stored in archive.manifest(id_).files.values()})
    unpacked = 0

    def parts() -> Iterator[bytes]:
        yield from _member(MARKER, read_file(archive.folder, 1000, MARKER))
        for id_ in ids:
            parts = manifest_parts(id_)
            yield from _member("/".join(parts), read_file(archive.folder, MANIFEST_BYTES, *parts))
        for sha256 in sorted(objects):
            yield from _member("/".join(object_parts(sha256)), archive.read(sha256))
        yield END

    with target.open("xb") as file, gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
        for part in parts():
            unpacked += len(part)
            packed.write(part)
    return unpacked, 1 + len(ids) + len(objects)


def _member(name: str, data: bytes) -> Iterator[bytes]:
    yield header(name, len(data))
    yield data
    yield padding(len(data))


def unpack_archive(packed: Path, head: Head, folder: Path) -> tuple[Archive, list[str]]:
    """The archive of a release in a new folder, and a sentence for each file in it that is not what its name says.

    Raises StoreError for a file that is no archive of a release, and for one that holds more than the head says.
    """
    room(folder.parent, head.unpacked)
    folder.mkdir()
    faults: list[str] = []
    made: set[Path] = set()
    before, count = "", 0
    with _plain_file(packed) as file:
        try:
            for name, size, source in members(Gunzip(file, head.unpacked), head.members):
                count += 1
                match = _OBJECT.fullmatch(name) or _MANIFEST.fullmatch(name)
                if match is None and name != MARKER:
                    raise StoreError(f"{shown(name)} does not belong in an archive")
                before = name
                data = _whole(source, size)
                if match is not None and hashlib.sha256(data).hexdigest() != match[2]:
                    faults.append(f"{name} does not hold the bytes that its name says")
                    if len(faults) > MOST_FAULTS:
                        raise StoreError(f"more than {MOST_FAULTS} files in it do not hold what their names say")
                target = folder / name
                if target.parent not in made:
                    target.parent.mkdir(parents=True, exist_ok=True)
                    made.add(target.parent)
                with target.open("xb") as written:
                    written.write(data)
        except StoreError as error:
            raise StoreError(f"{ARCHIVE}: {error}") from None
        except FileExistsError:
            raise StoreError(f"{ARCHIVE}: {shown(before)} is there twice") from None
    if count != head.members:
        raise StoreError(f"{ARCHIVE} holds {count:,} files; {HEAD} says {head.members:,}")
    return Archive.open(folder), faults


def _whole(source: Source, size: int) -> bytes:
    if size > FILE_BYTES:
        raise StoreError(f"it holds a file of more than {FILE_BYTES:,} bytes")
    data = bytearray()
    while len(data) < size:
        part = source.read(min(CHUNK, size - len(data)))
        if not part:
            raise StoreError("it is cut in the middle")
        data += part
    return bytes(data)
