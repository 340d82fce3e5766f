"""Opens what a plan names: solutions as texts, and what was said of each."""

from __future__ import annotations

import hashlib
import html
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.audit.annotations import Theirs, parse, results, scores, theirs
from harness.audit.layouts import Entry, Plan, problem_of
from harness.audit.reading import AuditError, Place, Reader
from kbh_lint.source.submissions import MAX_BYTES, BadInput, text_of

__all__ = ["Run", "gather", "pane", "problem_files"]

MOST_PAGE = 16 << 20
MOST_ANNOTATION = 1 << 20
MOST_DETAIL = 4 << 20
MOST_BOARD = 32 << 20
MOST_TOTAL = 1 << 30
_PANES = ('<div class="tab-pane" id="tab-solution">', '<div class="tab-pane active" id="tab-solution">')


@dataclass(frozen=True, slots=True)
class Run:
    """A run with its solution (`text` is None where there is none, and `missing` says why) and what was said of it."""

    entry: Entry
    theirs: Theirs
    problem: str
    text: str | None = None
    missing: str = ""
    sha256: str = ""
    size: int = 0
    remarks: tuple[str, ...] = ()


def gather(plan: Plan, reader: Reader, said: Mapping[str, Theirs], ids: tuple[str, ...]) -> list[Run]:
    """All runs of a plan. `said` overrides the archive's own annotations, `ids` are the problems of the deck.

    Raises AuditError where the archive cannot be read any further; what is wrong with one file is said of its run.
    """
    board = _boards(plan, reader)
    tables: dict[Place, Any] = {}
    runs: list[Run] = []
    total = 0
    for entry in plan.entries:
        run = _run(entry, reader, said, ids, board, tables)
        total += run.size
        if total > MOST_TOTAL:
            raise AuditError(f"the solutions are longer than {MOST_TOTAL >> 20} MiB together; name some with --only")
        runs.append(run)
    return runs


def problem_files(plan: Plan, reader: Reader, folder: Path) -> dict[Place, Path]:
    """KernelBench's problems as files of a folder of ours, for the linter."""
    found = {}
    for place in plan.problem_files():
        parent, name = place.path.split("/")[-2:]
        target = folder / f"{parent}_{name}"
        try:
            target.write_bytes(reader.read(place, MAX_BYTES))
        except OSError:
            continue  # its samples have no contract then, and say so
        found[place] = target
    return found


def pane(page: str) -> str | None:
    """The solution that is shown in a run's HTML page; None where it has none."""
    start = min((at for at in (page.find(mark) for mark in _PANES) if at >= 0), default=-1)
    end = page.find("</pre>", start)
    code = page.find("<code", start)
    begin = page.find(">", code) + 1
    stop = page.find("</code>", begin)
    if start < 0 or end < 0 or code < 0 or begin == 0 or not begin <= stop <= end:
        return None
    return html.unescape(page[begin:stop])


def _run(
    entry: Entry, reader: Reader, said: Mapping[str, Theirs], ids: tuple[str, ...], board: Mapping[str, Any],
    tables: dict[Place, Any],
) -> Run:  # fmt: skip
    remarks = list(entry.remarks)
    known = said.get(entry.run) or _annotation(entry, reader, tables, remarks) or Theirs()
    detail = _detail(entry, reader, remarks)
    score, model = board.get(entry.run, (None, ""))
    score = next((one for one in (known.score, detail.score, score) if one is not None), None)
    known = replace(known, score=score, model=known.model or detail.model or model)
    problem = problem_of((known.problem, detail.problem), entry.run, ids)
    text, missing, data = _solution(entry, reader)
    wanted = entry.sha256 or known.sha256
    sha256 = hashlib.sha256(data).hexdigest() if data else ""
    if wanted and sha256 and sha256 != wanted:
        remarks.append("it is not the text that was named: its sha256 is another")
    return Run(entry, known, problem, text, missing, sha256, len(data), tuple(remarks))


def _solution(entry: Entry, reader: Reader) -> tuple[str | None, str, bytes]:
    """The solution as text, why there is none, and its bytes."""
    place = entry.place
    if place is None:
        return None, "the archive has no solution of this run", b""
    try:
        data = reader.read(place, MOST_PAGE if place.form == "html" else MAX_BYTES)
    except OSError as error:
        return None, f"its solution cannot be read: {place.path} {(error.strerror or 'is not there').lower()}", b""
    if place.form == "html":
        found = pane(data.decode("utf-8", "replace"))
        if found is None:
            return None, f"{place.path} has no pane with a solution", b""
        data = found.encode("utf-8", "replace")
        if len(data) > MAX_BYTES:
            return None, f"its solution is longer than {MAX_BYTES:,} bytes", b""
    text = text_of(Path(entry.named), data)
    if isinstance(text, BadInput):
        return None, text.message.removeprefix(f"{entry.named}: ") + ": " + place.path, data
    return text, "", data


def _annotation(entry: Entry, reader: Reader, tables: dict[Place, Any], remarks: list[str]) -> Theirs | None:
    if entry.results is not None:
        if entry.results not in tables:
            tables[entry.results] = results(_parsed(reader, entry.results, MOST_BOARD), entry.results.path)
        found: Theirs | None = tables[entry.results].get(entry.sample)
        return found
    if entry.annotation is None:
        return None
    path = entry.annotation.path
    try:
        value = parse(reader.read(entry.annotation, MOST_ANNOTATION), path)
    except OSError as error:
        remarks.append(f"its annotation {path} {(error.strerror or 'cannot be read').lower()}")
        return None
    except AuditError as error:
        remarks.append(f"its annotation cannot be read: {error}")
        return None
    if not isinstance(value, Mapping):
        remarks.append(f"its annotation {path} is no mapping")
        return None
    return theirs(value, path)


def _detail(entry: Entry, reader: Reader, remarks: list[str]) -> Theirs:
    if entry.detail is None:
        return Theirs()
    try:
        value = parse(reader.read(entry.detail, MOST_DETAIL), entry.detail.path)
    except (OSError, AuditError):
        remarks.append(f"{entry.detail.path} cannot be read")
        return Theirs()
    return theirs(value, entry.detail.path) if isinstance(value, Mapping) else Theirs()


def _boards(plan: Plan, reader: Reader) -> dict[str, tuple[float | None, str]]:
    found: dict[str, tuple[float | None, str]] = {}
    for place in plan.boards:
        for run, score, model in scores(_parsed(reader, place, MOST_BOARD)):
            found.setdefault(run, (score, model))
    return found


def _parsed(reader: Reader, place: Place, most: int) -> Any:
    try:
        return parse(reader.read(place, most), place.path)
    except OSError as error:
        raise AuditError(f"{place.path} {(error.strerror or 'cannot be read').lower()}") from None
