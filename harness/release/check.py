"""Checks a release as a stranger would: everything in it is made again from its archive, and what differs is named.

The archive is unpacked with bounds and held against its hashes; every bundle and run against itself; of every grading
floors, scores, the verdict and the outcome are worked out again from samples, evidence and sources, which are linted
here; index, keys, environment and statistics are made again and compared.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from grader.record.bundle import BundleError
from grader.record.bundle.read import read_file, shown
from harness.archive.layout import StoreError
from harness.archive.scratch import scratch
from harness.archive.store import Archive
from harness.release.contents import MADE_WITH, code_hash, documents
from harness.release.entries import Checker, Told, Verified
from harness.release.pack import (
    ARCHIVE,
    DERIVED,
    DERIVED_BYTES,
    HEAD,
    Head,
    opened,
    read_head,
    sha256_of,
    unpack_archive,
)
from harness.release.sources import Linter

__all__ = ["verify_release"]

NEAR = 1e-6
NO_JINJA = "pages: they were not made again, as jinja2 is not installed (pip install '.[site]')"
MOST_TOLD = 200  # differences of one derived file
OTHER_CODE = "kbh here is another than the one that made this release, so what is judged may differ for that reason"


def verify_release(
    path: Path, *, jobs: int | str = "auto", lint: bool = True, problems_dir: Path | None = None, expect: str = "",
    pages: Path | None = None, audit: Path | None = None, told: Told = lambda done, total, what: None,
) -> Verified:  # fmt: skip
    """Checks a release, a folder or a tar file. Without `lint` verdicts are worked out from the linter's reports in the
    bundles, which is said. `expect` is the id that the release should have; `pages` a folder of `kbh site`, whose files
    are made again and compared, with the `audit` that they show. Raises StoreError for what is no release,
    and for one that holds what no release may.
    """
    found = Verified()
    with scratch("kbh-release-") as place:
        folder = opened(path, place)
        head = read_head(folder)
        found.id = head.id
        if expect and expect.lower() != head.id:
            found.faults.append(f"{HEAD}: the release is {head.id}, not {shown(expect)}")
        found.faults += _files(folder, head)
        archive, damaged = unpack_archive(folder / ARCHIVE, head, place / "archive")
        found.faults += [f"{ARCHIVE}: {fault}" for fault in damaged]
        found.faults += _listed(archive, head)
        checker = Checker(archive, found, Linter(problems_dir, jobs, place), lint, problems_dir)
        checker.check(place, told)
        found.faults += checker.unreferenced()
        _derived(folder, head, checker, found)
        if pages is not None:
            _pages(archive, pages, place, audit, problems_dir, found)
    return found


def _pages(
    archive: Archive, pages: Path, place: Path, audit: Path | None, problems_dir: Path | None, found: Verified
) -> None:  # fmt: skip
    if find_spec("jinja2") is None:  # of the extra `site`; all else is checked without
        found.unchecked.append(NO_JINJA)
        return
    about = import_module("harness.release.pages").check_pages(
        archive, pages, place, audit=audit, problems_dir=problems_dir
    )
    found.faults += about.faults
    found.unchecked += about.unchecked
    found.pages = about.same


def _files(folder: Path, head: Head) -> Iterator[str]:
    for name, said in head.files.items():
        if sha256_of(folder / name) != said:
            yield f"{name}: it does not have the hash and size that {HEAD} says"


def _listed(archive: Archive, head: Head) -> Iterator[str]:
    """Entries that are not there, or are and should not be."""
    there = set(archive.ids())
    yield from (
        f"{id_[:12]}: {HEAD} lists it, and it is not in the archive" for id_ in head.entries if id_ not in there
    )
    yield from (f"{id_[:12]}: it is in the archive, and {HEAD} does not list it" for id_ in there - set(head.entries))


# --- what follows from all entries ---------------------------------------------------------------------------


def _derived(folder: Path, head: Head, checker: Checker, found: Verified) -> None:
    """Index, keys, environment and statistics, made again."""
    try:
        made = documents(checker.facts, checker.gathered, head.options)
    except StoreError as error:
        found.faults.append(f"statistics.json: {error}")
        return
    for name in DERIVED:
        try:
            said = _read(folder, name)
        except StoreError as error:
            found.faults.append(f"{name}: {error}")
            continue
        if name == "environment.json":
            code = said.pop(MADE_WITH, {}) if isinstance(said, dict) else {}
            if isinstance(code, dict) and code.get("code") != code_hash() and (found.faults or found.unchecked):
                found.unchecked.append(f"{name}: {OTHER_CODE}")
        if name.endswith(".jsonl"):
            said, again = _by_entry(said), _by_entry(made[name])
        else:
            again = made[name]
        told = [f"{name}: {text}" for _, text in zip(range(MOST_TOLD), _differences(said, again, ""), strict=False)]
        found.faults += told


def _read(folder: Path, name: str) -> Any:
    try:
        data = read_file(folder, DERIVED_BYTES, name).decode()
        lines = data.splitlines() if name.endswith(".jsonl") else [data]
        found = [json.loads(line, parse_constant=_no_number) for line in lines]
    except (BundleError, ValueError, RecursionError) as error:
        raise StoreError(f"it cannot be read ({str(error)[:200]})") from None
    return found if name.endswith(".jsonl") else found[0]


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number")


def _by_entry(lines: object) -> object:
    """Lines by the entry that they are about, so that one that is missing moves no other."""
    if not isinstance(lines, list) or not all(isinstance(line, dict) for line in lines):
        return lines
    named = {}
    for line in lines:
        about = [
            str(line.get("id", line.get("entry")))[:12],
            *(str(line[n]) for n in ("grading", "trial") if n in line),
        ]
        named[" ".join(filter(None, about if "entry" in line else about[:1]))] = line
    return named if len(named) == len(lines) else lines


def _differences(said: object, made: object, where: str) -> Iterator[str]:
    """A sentence for each place at which two values differ; numbers may differ by rounding."""
    if isinstance(said, dict) and isinstance(made, dict):
        for key in sorted({*said, *made}, key=str):
            below = f"{where}.{shown(str(key))}" if where else shown(str(key))
            if key not in said or key not in made:
                yield f"{below} {'is missing' if key in made else 'does not follow from the archive'}"
            else:
                yield from _differences(said[key], made[key], below)
    elif isinstance(said, list | tuple) and isinstance(made, list | tuple):
        if len(said) != len(made):
            yield f"{where} has {len(said):,} items, and {len(made):,} follow from the archive"
            return
        for number, (one, other) in enumerate(zip(said, made, strict=True)):
            yield from _differences(one, other, f"{where}[{number}]")
    elif not _same(said, made):
        yield f"{where} is {_plain(said)}, and follows from the archive as {_plain(made)}"


def _same(said: object, made: object) -> bool:
    numbers = [one for one in (said, made) if isinstance(one, int | float) and not isinstance(one, bool)]
    if len(numbers) == 2:
        return math.isclose(numbers[0], numbers[1], rel_tol=NEAR, abs_tol=1e-9)
    return type(said) is type(made) and said == made


def _plain(value: object) -> str:
    return shown(json.dumps(value)) if isinstance(value, str | int | float | None) else f"a {type(value).__name__}"
