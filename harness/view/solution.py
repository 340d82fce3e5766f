"""The solution as the run left it, with what the linter says of its lines, and how it came to be."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from grader.record.bundle import Bundle, BundleError, CodecError
from grader.record.cell import Cell
from grader.report.view import Unfinished, load_view, submission_files
from harness.record.archive import RECORD, ArchiveError, RunFolder
from harness.record.run import RunRecord
from harness.view.diffs import Work, diff, parts_within
from harness.view.entries import MOST_FILE
from harness.view.model import Snapshot
from harness.view.text import cost, short
from kbh_lint.findings import FileReport, Finding
from kbh_lint.report.data import file_from_dict

__all__ = ["NAME", "Line", "Solution", "grading", "load_solution", "read_report", "snapshots"]

NAME = "solution.py"
MOST_BYTES = 4 << 20
MOST_LINES, MOST_TEXT, MOST_COLUMNS = 4_000, 1_200_000, 2_000
MOST_FINDINGS = 60
MOST_REPORT = 32 << 20
DIFFS = 1_500_000  # bytes of the page for all snapshots
LINT_SECONDS, GRACE_SECONDS = 60, 30
_BOOT = (  # isolated, with a search path of ours: the folder that it runs in belongs to the submission
    "import os, sys; sys.path[:] = sys.argv[1].split(os.pathsep); "
    "from kbh_lint.cli import main; sys.exit(main(sys.argv[2:]))"
)


@dataclass(frozen=True, slots=True)
class Line:
    """A line with the findings that begin at it; `marked` where one is about it, with the worst verdict's class."""

    number: int
    text: str
    marked: str = ""
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class Solution:
    """`report` is the linter's, None where it could not work; `source` says where the report is from."""

    lines: Sequence[Line]
    bytes: int
    left_out: int
    report: FileReport | None
    source: str
    elsewhere: Sequence[Finding] = ()


def grading(folder: RunFolder, record: RunRecord) -> tuple[Cell | None, FileReport | None, bytes | None]:
    """What the final grading left: its cell, the linter's report in its bundle, and the solution that it graded; None
    for each that is missing.
    """
    name = record.cell.removeprefix(f"{RECORD}/cells/")
    if not name or Path(name).name != name or name in (".", ".."):
        return None, None, None
    place = folder.path / RECORD / "cells" / name
    try:
        cell = load_view(place).cell
        bundle = Bundle.open(place)
        graded = submission_files(bundle).get(NAME)
        report = read_report(bundle.get(cell.verdict.report)) if cell.verdict.report else None
        return cell, report, graded
    except (BundleError, CodecError, Unfinished, OSError, ValueError, RecursionError):
        return None, None, None


def load_solution(folder: RunFolder, record: RunRecord, problems_dir: Path | None) -> Solution | None:
    """The solution in the archive; None where there is none."""
    path = folder.path / NAME
    try:
        if path.is_symlink() or not path.is_file():
            return None
        with path.open("rb") as file:
            data = file.read(MOST_BYTES)
    except OSError:
        return None
    _, report, graded = grading(folder, record)
    source = "the linter's report of the grading"
    if report is None or graded != data:
        report, source = _lint(path, record.problem, problems_dir)
    found = [f for f in report.findings[:MOST_FINDINGS] if Path(f.span.path).name == NAME] if report else []
    lines, left_out = _lines(data.decode("utf-8", "replace"), found)
    elsewhere = [f for f in report.findings[:MOST_FINDINGS] if f not in found] if report else []
    return Solution(lines, len(data), left_out, report, source, elsewhere)


def _lines(text: str, findings: Sequence[Finding]) -> tuple[list[Line], int]:
    lines, left = [], MOST_TEXT
    raw = text.split("\n")
    raw = raw[:-1] if raw and raw[-1] == "" else raw
    for number, line in enumerate(raw[:MOST_LINES], 1):
        shown = line.removesuffix("\r")[:MOST_COLUMNS]
        left -= cost(shown)
        if left < 0:
            break
        here = tuple(f for f in findings if f.span.line == number)
        about = [f for f in findings if f.span.line <= number <= max(f.span.end_line, f.span.line)]
        rest = len(line) - len(shown) > 1
        lines.append(Line(number, shown + " ..." * rest, about[0].verdict if about else "", here))
    return lines, len(raw) - len(lines)


def _lint(path: Path, problem: str, problems_dir: Path | None) -> tuple[FileReport | None, str]:
    """Lints in a process of its own, which a hostile file may end."""
    options = ["--output-format", "json", "--no-cache", "--exit-zero", "--jobs", "1", "--timeout", str(LINT_SECONDS)]
    options += ["--problem", problem, *(["--problems-dir", str(problems_dir.absolute())] if problems_dir else [])]
    command = [sys.executable, "-I", "-c", _BOOT, os.pathsep.join(filter(None, sys.path)), *options, path.name]
    try:
        done = subprocess.run(
            command, cwd=path.parent, stdin=subprocess.DEVNULL, capture_output=True,
            timeout=LINT_SECONDS + GRACE_SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return None, f"the linter did not come to an end within {LINT_SECONDS + GRACE_SECONDS} s"
    report = read_report(done.stdout) if done.returncode in (0, 2) and len(done.stdout) <= MOST_REPORT else None
    if report is None:
        said = done.stderr[-2_000:].decode("utf-8", "replace").strip().splitlines() or ["it says nothing"]
        return None, f"the linter could not work: {short(said[-1], 300)}"
    return report, "linted for this page"


def read_report(data: bytes) -> FileReport | None:
    """A report in the linter's JSON; None where it is none, for an archive may hold anything."""
    try:
        files = json.loads(data)["files"]
        report = file_from_dict(files[0]) if files else None
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return report if report is not None and _sound(report) else None


def _sound(report: FileReport) -> bool:
    """Whether what the page shows of a report has the types that it should have."""
    places = [f.span for f in report.findings]
    for related in (*(f.related for f in report.findings), *(p.evidence for p in report.promises)):
        places += [one.span for one in related]
    texts: list[object] = [report.verdict, *(u.reason for u in report.unread), *(span.path for span in places)]
    for finding in report.findings:
        texts += [finding.rule, finding.verdict, finding.leak_class, finding.confidence, finding.message]
        texts += [one.message for one in finding.related]
    for promise in report.promises:
        texts += [promise.id, promise.state, promise.reason, *(one.message for one in promise.evidence)]
    numbers = [number for span in places for number in (span.line, span.end_line)]
    return all(isinstance(text, str) for text in texts) and all(type(number) is int for number in numbers)


def snapshots(folder: RunFolder, changes: Sequence[Snapshot]) -> Iterator[Snapshot]:
    """The solution's contents in order, each with what changed since the one before."""
    each = DIFFS // max(len(changes), 1)
    before, work = "", Work()
    for change in changes:
        if not change.sha256:
            before = ""
            yield replace(change, remark="it was removed")
            continue
        try:
            data = folder.get(change.sha256)
        except ArchiveError as error:
            yield replace(change, remark=short(str(error), 200))
            continue
        if len(data) > MOST_FILE:
            yield replace(change, remark=f"too long to be compared ({len(data):,} bytes)")
            continue
        text = data.decode("utf-8", "replace")
        parts = diff(before, text, work)
        before = text
        added, removed = (
            sum(part.text.count("\n") + 1 for part in parts if part.kind == kind) for kind in ("add", "del")
        )
        kept, left_out = parts_within(parts, max(each, 400))
        yield replace(change, parts=kept, added=added, removed=removed, left_out=left_out,
                      remark="" if parts else "the same content as before")  # fmt: skip
