"""Reading a bundle that a stranger may have written: bounded, without following links, and strict about every byte.

Entries are canonical JSON: sorted keys, no spaces, no NaN. An entry that does not read back to its own bytes is
refused, so there is one way to write each, and none has a key twice.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

__all__ = [
    "ENTRIES_WEIGHT", "ENTRY_BYTES", "ENTRY_COUNT", "FORMAT", "KINDS", "OBJECT_BYTES", "OBJECT_COUNT",
    "BundleBusy", "BundleError", "Entry", "canonical", "check_weight", "entry_bytes", "entry_name", "is_bundle",
    "is_sha256", "names_in", "object_parts", "parse_entry", "read_entries", "read_file", "shown",
]  # fmt: skip

FORMAT = 1
KINDS = ("open", "commitment", "abandoned", "lint", "trial", "evidence", "baseline", "cell", "regrade")
ENTRY_BYTES = 16 << 20
ENTRY_COUNT = 2_000
ENTRIES_WEIGHT = 256 << 20  # of all entries, which are held in memory together
OBJECT_BYTES = 64 << 20
OBJECT_COUNT = 20_000
OBJECTS_OF_ENTRY = 2_000
DEPTH = 32

_SHA256 = re.compile(r"[0-9a-f]{64}")
_ENTRY_NAME = re.compile(r"[0-9]{6}\.json")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?Z", re.ASCII)
_FIELDS = frozenset({"format", "seq", "prev", "kind", "time", "data", "objects"})


class BundleError(Exception):
    """The bundle cannot be read or written; the text is one sentence."""


class BundleBusy(BundleError):
    """Another process has the bundle open for writing."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One step of a grading, at `time` in UTC. `hash` is the SHA-256 of its bytes, `prev` that of the entry before.

    `weight` is about how many bytes it takes in memory.
    """

    seq: int
    prev: str
    kind: str
    time: str
    data: Mapping[str, Any]
    objects: tuple[str, ...]
    hash: str
    weight: int


def is_bundle(path: Path) -> bool:
    """Whether a path is a bundle rather than a submission."""
    return (path / "entries").is_dir() and (path / "objects").is_dir()


def is_sha256(text: object) -> bool:
    """Whether a value is a SHA-256 in hex, as the bundle writes it."""
    return isinstance(text, str) and _SHA256.fullmatch(text) is not None


def entry_name(seq: int) -> str:
    """The file name of an entry."""
    return f"{seq:06d}.json"


def object_parts(sha256: str) -> tuple[str, str, str]:
    """Where an object lies below the bundle. Raises BundleError for what is no SHA-256."""
    if not is_sha256(sha256):
        raise BundleError(f"{str(sha256)[:80]!r} names no object: it is not a SHA-256")
    return "objects", sha256[:2], sha256


_PLAIN = frozenset({str, int, bool, type(None)})


def canonical(value: object) -> bytes:
    """The one way to write a value as JSON. Raises BundleError for what JSON or a bundle cannot hold."""
    if not _is_plain(value, 0):
        _plain(value, "data", 0)  # which says what it is
    try:
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        return text.encode() + b"\n"
    except UnicodeEncodeError:
        raise BundleError("a bundle holds Unicode text only, and this has half a surrogate pair") from None
    except ValueError as error:  # an integer of thousands of digits
        raise BundleError(f"a bundle cannot hold this: {error}") from None


def _is_plain(value: object, depth: int) -> bool:
    """Whether nothing is wrong with a value, as `_plain` finds it, and quickly; it may say no where nothing is."""
    if depth > DEPTH:
        return False
    if type(value) in _PLAIN:
        return True
    if type(value) is float:
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(type(key) is str and _is_plain(item, depth + 1) for key, item in value.items())
    return isinstance(value, list) and all(_is_plain(item, depth + 1) for item in value)


def _plain(value: object, where: str, depth: int) -> None:
    if depth > DEPTH:
        raise BundleError(f"a bundle holds values nested {DEPTH} deep at most")
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise BundleError(f"{where} has a key that is no text: {str(key)[:40]!r}")
            _plain(item, f"{where}.{shown(key)}" if depth < 4 else where, depth + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            _plain(item, where, depth + 1)
    elif isinstance(value, float) and not math.isfinite(value):
        raise BundleError(f"{where} is {value}, which JSON cannot hold")
    elif value is not None and not isinstance(value, str | int | float):
        raise BundleError(f"{where} is a {type(value).__name__}, which JSON cannot hold")


def entry_bytes(seq: int, prev: str, kind: str, time: str, data: Mapping[str, Any], objects: tuple[str, ...]) -> bytes:
    """The file of an entry. Raises BundleError."""
    fields = {"format": FORMAT, "seq": seq, "prev": prev, "kind": kind, "time": time, "data": dict(data)}
    written = canonical({**fields, "objects": list(objects)})
    if len(written) > ENTRY_BYTES:
        raise BundleError(f"the {kind} entry has {len(written):,} bytes; an entry holds {ENTRY_BYTES:,} at most")
    return written


def parse_entry(written: bytes, seq: int, prev: str | None) -> Entry:
    """Reads the entry that should be number `seq` after the entry `prev` (None: any). Raises BundleError."""
    name = f"entries/{entry_name(seq)}"
    weight = len(written) + 32 * sum(map(written.count, (b",", b"[", b"{")))
    if weight > ENTRIES_WEIGHT:
        raise BundleError(f"{name} holds more values than an entry may")
    fields = _parse(written, name)
    if not isinstance(fields, dict) or fields.get("format") != FORMAT:
        raise BundleError(f"{name} is not an entry of format {FORMAT}")
    if set(fields) != _FIELDS:
        raise BundleError(f"{name} does not have the fields of an entry")
    if type(fields["seq"]) is not int or fields["seq"] != seq:
        raise BundleError(f"{name} says that it is entry {str(fields['seq'])[:40]}")
    if fields["prev"] != prev and (prev is not None or not is_sha256(fields["prev"])):
        raise BundleError(f"{name} does not follow the entry before it: the chain of hashes is broken there")
    if fields["kind"] not in KINDS:
        raise BundleError(f"{name} is of a kind that is not known: {str(fields['kind'])[:40]!r}")
    if not _is_time(fields["time"]):
        raise BundleError(f"{name} has a time that is none: {str(fields['time'])[:40]!r}")
    objects = fields["objects"]
    if not isinstance(fields["data"], dict):
        raise BundleError(f"{name} has data that is not a mapping")
    if not isinstance(objects, list) or not all(map(is_sha256, objects)) or len(set(objects)) < len(objects):
        raise BundleError(f"{name} has a list of objects that is none")
    if len(objects) > OBJECTS_OF_ENTRY:
        raise BundleError(f"{name} names more than {OBJECTS_OF_ENTRY:,} objects")
    digest = hashlib.sha256(written).hexdigest()
    return Entry(seq, fields["prev"], fields["kind"], fields["time"], fields["data"], tuple(objects), digest, weight)


def _parse(written: bytes, name: str) -> Any:
    try:
        value = json.loads(written.decode())
        same = canonical(value) == written
    except (ValueError, RecursionError) as error:
        what = "is nested too deep" if isinstance(error, RecursionError) else "is not JSON"
        raise BundleError(f"{name} {what}") from None
    except BundleError as error:
        raise BundleError(f"{name}: {error}") from None
    if not same:
        raise BundleError(f"{name} is not written as an entry is: sorted keys, no spaces, each key once")
    return value


def _is_time(value: object) -> bool:
    if not isinstance(value, str) or not _TIME.fullmatch(value):
        return False
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


def read_entries(folder: Path) -> tuple[Entry, ...]:
    """Every entry, checked against the one before it. Raises BundleError at the first fault."""
    entries: list[Entry] = []
    for seq in range(1, len(_entry_names(folder)) + 1):
        written = read_file(folder, ENTRY_BYTES, "entries", entry_name(seq))
        entries.append(parse_entry(written, seq, entries[-1].hash if entries else ""))
        check_weight(entries)
    return tuple(entries)


def check_weight(entries: Sequence[Entry]) -> None:
    """Raises BundleError for entries that are more than a bundle holds."""
    if sum(entry.weight for entry in entries) > ENTRIES_WEIGHT:
        raise BundleError(f"entries/{entry_name(entries[-1].seq)} makes the entries more than a bundle may hold")


def _entry_names(folder: Path) -> list[str]:
    """The names of the entries in order, none left out. Raises BundleError where one is missing or is no entry's."""
    names = sorted(names_in(folder, ENTRY_COUNT, "entries"))
    for seq, name in enumerate(names, 1):
        if not _ENTRY_NAME.fullmatch(name):
            raise BundleError(f"entries/{shown(name)} is not the name of an entry")
        if name != entry_name(seq):
            raise BundleError(f"entries/{entry_name(seq)} is missing")
    return names


def names_in(folder: Path, most: int, *parts: str) -> list[str]:
    """The names in a folder of the bundle. Raises BundleError for more than `most`, and for what is no folder."""
    where = "/".join(map(shown, parts)) or str(folder)
    fd = _open(folder, os.O_DIRECTORY, *parts)
    try:
        names = []
        with os.scandir(fd) as found:
            for item in found:
                names.append(item.name)
                if len(names) > most:
                    raise BundleError(f"{where} has more than {most:,} files")
        return names
    finally:
        os.close(fd)


def read_file(folder: Path, limit: int, *parts: str) -> bytes:
    """A file of the bundle. Raises BundleError for one that is missing, larger than `limit`, or no plain file."""
    where = "/".join(parts)
    fd = _open(folder, os.O_NONBLOCK, *parts)  # a pipe must not hold us up
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise BundleError(f"{where} is not a plain file")
    with os.fdopen(fd, "rb", buffering=0) as file:
        data = bytearray()
        while part := file.read(min(1 << 20, limit + 1 - len(data))):
            data += part
        if len(data) > limit:
            raise BundleError(f"{where} has more than {limit:,} bytes")
        return bytes(data)


def _open(folder: Path, flags: int, *parts: str) -> int:
    """Opens a path below the bundle one part at a time, so that no part of it can be a link."""
    here = -1
    done: list[str] = []
    try:
        here = os.open(folder, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
        for position, part in enumerate(parts, 1):
            done.append(part)
            last = flags if position == len(parts) else os.O_DIRECTORY
            below = os.open(part, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | last, dir_fd=here)
            os.close(here)
            here = below
        return here
    except OSError as error:
        if here >= 0:
            os.close(here)
        where = "/".join(map(shown, done)) or str(folder)
        raise BundleError(f"{where} {_why(error)}") from None


def _why(error: OSError) -> str:
    if error.errno == errno.ENOENT:
        return "is missing"
    if error.errno == errno.ELOOP:
        return "is a link"
    if error.errno == errno.ENOTDIR:
        return "is no folder"
    return f"cannot be read: {error.strerror}"


def shown(name: str) -> str:
    """A file name from a stranger, for people: printable and not too long."""
    return "".join(c if c.isprintable() else "?" for c in name[:100])
