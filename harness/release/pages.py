"""The pages of a release: made again from its archive, and compared with those that were published, byte for byte."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grader.record.bundle import BundleError
from grader.record.bundle.read import read_file, shown
from harness.archive.index import all_facts
from harness.archive.layout import StoreError
from harness.archive.store import Archive
from harness.site.gather import gather, read_audit
from harness.site.model import SiteError
from harness.site.write import MARKER, write_site

__all__ = ["Pages", "check_pages"]

CHUNK = 1 << 20
MOST_OPTIONS = 64 << 10
MOST_FILES = 200_000  # that are looked at
MOST_TOLD = 200
PARQUET = {"data.html", "data/runs.parquet"}  # what depends on pyarrow and its version


@dataclass(slots=True)
class Pages:
    """What came of a folder of pages: sentences on what is wrong and on what could not be told, and the files that are
    the same."""

    faults: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    same: int = 0


def check_pages(
    archive: Archive, pages: Path, place: Path, *, audit: Path | None = None, problems_dir: Path | None = None
) -> Pages:  # fmt: skip
    """Makes the pages of an archive again in `place`, with the options that the folder `pages` names, and compares each
    file. `audit` is the audit.json that they were made with. Raises StoreError where `pages` is no site, or is of an
    archive that no site can be made of.
    """
    options = _options(pages)
    found = Pages()
    excused: dict[str, str] = {}
    try:
        known = read_audit(audit) if audit is not None else None
        if options["audit"] != (_hash(known) if known is not None else ""):
            why = "it shows an audit, and --audit does not name the same" if options["audit"] else "it shows no audit"
            excused["audit.html"] = why
        site = gather(
            archive, all_facts(archive, keep=False), title=options["title"], problems_dir=problems_dir,
            over=options["over"], margin=options["margin"], level=options["level"], audit=known,
        )  # fmt: skip
        made = place / "pages"
        write_site(site, made, transcripts=options["transcripts"])
    except SiteError as error:
        raise StoreError(str(error)) from None
    again = _options(made)
    if options["pyarrow"] != again["pyarrow"]:
        here, there = (again["pyarrow"] or "none", options["pyarrow"] or "none")
        excused |= dict.fromkeys(PARQUET, f"it was made with pyarrow {shown(there)}, and here is {here}")
    _compare(pages, made, {MARKER, *excused}, found)
    found.unchecked += [f"pages: {name}: {why}" for name, why in sorted(excused.items())]
    return found


def _compare(pages: Path, made: Path, aside: set[str], found: Pages) -> None:
    expected = {path.relative_to(made).as_posix(): path for path in made.rglob("*") if path.is_file()}
    there = dict(zip(_files(pages), range(MOST_FILES), strict=False))
    faults = [f"pages: {name}: it is missing" for name in sorted(expected.keys() - there.keys() - aside)]
    faults += [f"pages: {shown(name)}: no page of this archive" for name in sorted(there.keys() - expected.keys())
               if name not in aside]  # fmt: skip
    for name in sorted(expected.keys() & there.keys() - aside):
        if _same(pages / name, expected[name]):
            found.same += 1
        else:
            faults.append(f"pages: {name}: it differs from what follows from the archive")
    found.faults += faults[:MOST_TOLD]
    if len(faults) > MOST_TOLD:
        found.faults.append(f"pages: and {len(faults) - MOST_TOLD} more files")


def _files(folder: Path) -> Iterator[str]:
    """Everything in a folder that is no folder, links too; none of them is followed."""
    for top, folders, names in os.walk(folder):
        links = [name for name in folders if os.path.islink(os.path.join(top, name))]
        for name in (*names, *links):
            yield Path(top, name).relative_to(folder).as_posix()


def _same(path: Path, made: Path) -> bool:
    """Whether a file, which is no link, has the bytes of another; no more of it is read than that has."""
    size = made.stat().st_size
    try:
        about = path.lstat()
        if not path.is_file() or path.is_symlink() or about.st_size != size:
            return False
        with path.open("rb") as one, made.open("rb") as other:
            while data := other.read(CHUNK):
                if one.read(len(data)) != data:
                    return False
            return not one.read(1)
    except OSError:
        return False


def _options(pages: Path) -> dict[str, Any]:
    """What a site says that it was made with. Raises StoreError."""
    try:
        said = json.loads(read_file(pages, MOST_OPTIONS, MARKER).decode().split("\n", 1)[1])
    except (BundleError, OSError, ValueError, IndexError, RecursionError):
        raise StoreError(f"{pages} is no site of kbh site, or one of before it wrote its options down") from None
    kinds = {"title": str, "over": str, "margin": float, "level": float, "transcripts": int, "audit": str,
             "pyarrow": str}  # fmt: skip
    wrong = not isinstance(said, dict) or any(type(said.get(name)) is not kind for name, kind in kinds.items())
    if wrong or said["over"] not in {"problems", "deck"} or not 0 < said["level"] < 1 or not 0 <= said["margin"] < 1:
        raise StoreError(f"{MARKER} of {pages} does not hold the options of kbh site")
    return {name: said[name] for name in kinds}


def _hash(audit: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(audit, sort_keys=True).encode()).hexdigest()
