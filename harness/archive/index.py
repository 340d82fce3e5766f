"""The index of an archive: one SQLite table with the facts of each entry, made from the files and never believed over
them.

Each row carries a seal under a secret of this user, as results of the linter do: a row that somebody else wrote, or
that was changed, is read from the files again. The file is opened without its journal, written anew as a whole and
moved into its place, so neither a cut nor a stranger's file does harm.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sqlite3
import stat
from collections.abc import Callable, Iterable, Mapping
from dataclasses import astuple, dataclass, field, fields
from pathlib import Path
from typing import Any

from harness.archive.facts import Facts, facts_of
from harness.archive.layout import StoreError
from harness.archive.store import INDEX, Archive
from kbh_lint.service.cache import user_secret

__all__ = ["Found", "all_facts", "believed", "rebuild"]

MOST_BYTES = 1 << 30
MOST_VALUE = 1 << 20
TYPES = {"str": "TEXT", "int": "INTEGER", "bool": "INTEGER", "float": "REAL", "float | None": "REAL"}
COLUMNS = tuple((one.name, str(one.type)) for one in fields(Facts))
PERSON = b"kbh-index-2"  # another where facts are read another way: rows of before are read again then
TABLE = "CREATE TABLE entries ({}, seal TEXT NOT NULL)".format(
    ", ".join(f"{name} {TYPES[kind]}{' PRIMARY KEY' if name == 'id' else ''}" for name, kind in COLUMNS)
)
Told = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Found:
    """The facts of every entry that could be read, in the order of their ids; why others could not; how many rows were
    in no index that is believed, or were in one without a file.
    """

    facts: tuple[Facts, ...]
    faults: tuple[str, ...] = ()
    stale: int = 0
    rows: Mapping[str, Facts] = field(default_factory=dict, repr=False)


def all_facts(archive: Archive, told: Told = lambda done, total: None, *, keep: bool = True) -> Found:
    """The facts of every entry, from the index where it is to be believed, else from the files.

    With `keep` the index is brought up to date, where it can be written.
    """
    return _found(archive, believed(archive), told, keep=keep)


def rebuild(archive: Archive, told: Told = lambda done, total: None) -> Found:
    """Makes the index anew from the files. Raises StoreError where it cannot be written."""
    found = _found(archive, {}, told, keep=False)
    with archive.writing():
        archive.replace(INDEX, lambda path: _write(path, found.facts))
    return found


def _found(archive: Archive, rows: Mapping[str, Facts], told: Told, *, keep: bool) -> Found:
    ids = archive.ids()
    facts, faults, stale = [], [], len(set(rows) - set(ids))
    for count, id_ in enumerate(ids, 1):
        row = rows.get(id_)
        if row is None:
            stale += 1
            try:
                row = facts_of(archive.manifest(id_), archive.read)
            except StoreError as error:
                faults.append(f"{id_[:12]}: {error}")
            told(count, len(ids))
        facts += [row] if row is not None else []
    if stale and keep:
        with contextlib.suppress(StoreError), archive.writing():
            archive.replace(INDEX, lambda path: _write(path, facts))
    return Found(tuple(facts), tuple(faults), stale, rows)


def _write(path: Path, facts: Iterable[Facts]) -> None:
    secret = user_secret() or os.urandom(32)
    try:
        with contextlib.closing(sqlite3.connect(path)) as index:
            index.execute("PRAGMA journal_mode=OFF")
            index.execute(TABLE)
            marks = ", ".join("?" * (len(COLUMNS) + 1))
            rows = ((*astuple(one), _seal(secret, astuple(one))) for one in facts)
            index.executemany(f"INSERT INTO entries VALUES ({marks})", rows)
            index.commit()
    except sqlite3.Error as error:
        raise StoreError(f"the index cannot be written: {error}") from None


def believed(archive: Archive) -> dict[str, Facts]:
    """The rows of an index that this user's kbh wrote, by id; none where there is no such index."""
    path, secret = archive.folder / INDEX, user_secret()
    try:
        about = os.lstat(path)
        if secret is None or not stat.S_ISREG(about.st_mode) or about.st_size > MOST_BYTES:
            return {}
        quoted = str(path.absolute()).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
        with contextlib.closing(sqlite3.connect(f"file:{quoted}?mode=ro&immutable=1", uri=True)) as index:
            index.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_VALUE)
            index.execute("PRAGMA trusted_schema=OFF")
            tables = index.execute("SELECT type, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
            if tables != [("table", TABLE)]:
                return {}
            return {row.id: row for found in index.execute("SELECT * FROM entries") if (row := _row(secret, found))}
    except (OSError, sqlite3.Error, ValueError, TypeError, OverflowError):  # a stranger's file may hold anything
        return {}


def _row(secret: bytes, found: tuple[Any, ...]) -> Facts | None:
    values: list[Any] = [bool(v) if kind == "bool" else v for (_, kind), v in zip(COLUMNS, found[:-1], strict=True)]
    return Facts(*values) if found[-1] == _seal(secret, values) else None


def _seal(secret: bytes, values: Iterable[Any]) -> str:
    as_float = [
        float(v) if kind.startswith("float") and v is not None else v
        for (_, kind), v in zip(COLUMNS, values, strict=True)
    ]
    return hashlib.blake2b(json.dumps(as_float).encode(), key=secret, digest_size=32, person=PERSON).hexdigest()
