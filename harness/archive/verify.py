"""Holds a whole archive against itself: every hash, every bundle, every run, and the index against the files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from grader.record.bundle import BundleError
from grader.record.bundle.read import is_sha256, names_in, shown
from harness.archive.check import faults_of
from harness.archive.facts import facts_of
from harness.archive.index import believed
from harness.archive.layout import StoreError
from harness.archive.scratch import Unpack, unpacking
from harness.archive.store import NAMES, Archive

__all__ = ["Checked", "verify"]

MOST_OBJECTS = 10_000_000
Told = Callable[[int, int, str], None]


@dataclass(slots=True)
class Checked:
    """What was found: `faults` in sentences; how many entries are whole; how many objects no entry names."""

    faults: list[str] = field(default_factory=list)
    whole: int = 0
    entries: int = 0
    loose: int = 0


def verify(archive: Archive, told: Told = lambda done, total, what: None) -> Checked:
    """Checks every entry, index row and object of an archive; returns the faults found. Raises StoreError where nothing
    can be read.
    """
    found = Checked()
    found.faults += _foreign(archive)
    ids, rows = archive.ids(), believed(archive)
    found.entries = len(ids)
    used: set[str] = set()
    with unpacking("kbh-entries-") as unpack:
        for count, id_ in enumerate(ids, 1):
            faults = _entry(archive, id_, used, unpack)
            row = rows.get(id_)
            if not faults and row is not None and row != facts_of(archive.manifest(id_), archive.read):
                faults = ["the index says other things of it than its files; `kbh archive index` makes it anew"]
            found.whole += not faults
            found.faults += [f"{id_[:12]}: {fault}" for fault in faults]
            told(count, len(ids), "entries")
    _objects(archive, used, found, told)
    return found


def _entry(archive: Archive, id_: str, used: set[str], unpack: Unpack) -> list[str]:
    try:
        manifest = archive.manifest(id_)
        with unpack(manifest) as place:
            folder = Path(place) / manifest.name
            archive.extract(manifest, folder)
            used.update(stored.sha256 for stored in manifest.files.values())
            facts_of(manifest, archive.read)
            return [f"{manifest.name}: {fault}".replace(f"{place}/", "") for fault in faults_of(folder, manifest.kind)]
    except StoreError as error:
        return [str(error)]


def _foreign(archive: Archive) -> Iterator[str]:
    """What does not belong in an archive."""
    faults: list[str] = []
    for name in _names(archive, faults):
        if name not in NAMES:
            yield f"{shown(name)} does not belong in an archive"
    for prefix in _names(archive, faults, "manifests"):
        for name in _names(archive, faults, "manifests", prefix):
            if not is_sha256(name) or name[:2] != prefix:
                yield f"manifests/{shown(prefix)}/{shown(name)} is not the name of a manifest"
    yield from faults


def _names(archive: Archive, faults: list[str], *parts: str) -> list[str]:
    """The names in a folder of the archive, in order; what cannot be read is added to the faults."""
    if not os.path.lexists(archive.folder.joinpath(*parts)):
        return []
    try:
        return sorted(names_in(archive.folder, MOST_OBJECTS, *parts))
    except BundleError as error:
        faults.append(str(error))
        return []


def _objects(archive: Archive, used: set[str], found: Checked, told: Told) -> None:
    """Objects that no whole entry names: a cut left them, and each must still be what its name says."""
    prefixes = _names(archive, found.faults, "objects")
    for count, prefix in enumerate(prefixes, 1):
        for name in _names(archive, found.faults, "objects", prefix):
            if not is_sha256(name) or name[:2] != prefix:
                found.faults.append(f"objects/{shown(prefix)}/{shown(name)} is not the name of an object")
            elif name not in used:
                found.loose += 1
                _loose(archive, name, found)
        told(count, len(prefixes), "folders of objects")


def _loose(archive: Archive, name: str, found: Checked) -> None:
    try:
        archive.read(name)
    except StoreError as error:
        text = str(error)
        found.faults += [text] if text not in found.faults else []
