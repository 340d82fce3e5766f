"""Reads what an archive's entries hold beyond their rows, straight from its objects."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from grader.record.bundle import BundleError, CodecError, cell_from_json, from_json
from grader.record.bundle.read import Entry, is_sha256, parse_entry
from grader.record.cell import Cell
from harness.archive.graded import entries_below
from harness.archive.layout import Manifest, StoreError
from harness.archive.scratch import unpacking
from harness.archive.store import Archive
from harness.record.archive import MAX_EVENTS, MAX_LINE_BYTES, RECORD, RUN_FILE, ArchiveError, RunFolder
from harness.record.events import Event, FileChanged, Graded, JudgeUsed, event_from_json
from harness.record.run import RunRecord
from harness.site.model import Detail, Trial
from harness.view.gather import Bounds
from harness.view.model import Snapshot, Timed
from harness.view.page import PageError, render
from harness.view.solution import read_report
from harness.view.text import short
from kbh_lint.findings import Finding

__all__ = ["ArchiveSource"]

SOLUTION = "solution.py"
MOST_SOURCE = 1 << 20
MOST_COMPARED = 60  # contents that a line is looked for in
MOST_NOTED = 400  # uses of the judge, and contents of the solution
MOST_TRAJECTORY = 64 << 20
TRANSCRIPT = Bounds(steps=600, entries=6_000, text=400_000, one_text=8_000, listed=200, called=5_000)
_WRONG = (StoreError, BundleError, CodecError, ArchiveError, ValueError, LookupError, TypeError, RecursionError)


@dataclass(frozen=True, slots=True)
class ArchiveSource:
    """Details of the entries of an archive; what cannot be read is said on the page."""

    archive: Archive
    problems_dir: Path | None = None

    def detail(self, trial: Trial) -> Detail:
        """What the entry of a trial holds. Never raises for what lies in it."""
        try:
            manifest = self.archive.manifest(trial.id)
            if manifest.kind == "bundle":
                return _graded(manifest, self.archive.read, "", Detail())
            return self._run(manifest)
        except _WRONG as error:
            return Detail(fault=short(f"this entry cannot be read whole ({error})", 300))

    def _run(self, manifest: Manifest) -> Detail:
        record = from_json(json.loads(self.archive.file(manifest, RUN_FILE)), RunRecord)
        timed, changes = _timeline(manifest, self.archive)
        detail = Detail(record=record, timed=timed, changes=changes)
        if SOLUTION in manifest.files and manifest.files[SOLUTION].bytes <= MOST_SOURCE:
            lines = _lines(self.archive.file(manifest, SOLUTION))
            detail = replace(detail, source=lines, steps=_steps(manifest, self.archive, changes, lines))
        if not record.cell:
            return detail
        return _graded(manifest, self.archive.read, f"{RECORD}/cells/{record.cell}/", detail)

    def transcript(self, trial: Trial) -> str | None:
        """The page of the trial's run, within smaller bounds than `kbh view` has; None for a grading."""
        try:
            manifest = self.archive.manifest(trial.id)
            if manifest.kind != "run":
                return None
            with unpacking("kbh-site-") as unpack, unpack(manifest) as place:
                folder = Path(place) / manifest.name
                self.archive.extract(manifest, folder)
                return render(
                    RunFolder(folder),
                    problems_dir=self.problems_dir,
                    bounds=TRANSCRIPT,
                    back=f"../cells/{trial.page}.html",
                )
        except (*_WRONG, PageError, OSError):
            return None


def _lines(data: bytes) -> tuple[str, ...]:
    lines = data.decode("utf-8", "replace").split("\n")
    return tuple(lines[:-1] if lines[-1] == "" else lines)


def _graded(manifest: Manifest, read: Callable[[str], bytes], below: str, known: Detail) -> Detail:
    """With the bundle that lies in an entry below a folder."""
    entries: list[Entry] = []
    for seq, path in enumerate(entries_below(manifest, below), 1):
        entries.append(parse_entry(read(manifest.files[path].sha256), seq, entries[-1].hash if entries else ""))
    cells = [entry for entry in entries if entry.kind == "cell"]
    if not cells:
        return known
    cell = cell_from_json(cells[-1].data)
    source = known.source or _lines(_submission(entries[0], read))
    return replace(known, cell=cell, findings=_findings(cell, read), source=source, bundle=entries[-1].hash)


def _submission(opened: Entry, read: Callable[[str], bytes]) -> bytes:
    submission = opened.data.get("submission")
    files = submission.get("files") if isinstance(submission, dict) else None
    name = files.get(SOLUTION) if isinstance(files, dict) else None
    return read(name)[:MOST_SOURCE] if isinstance(name, str) and is_sha256(name) else b""


def _findings(cell: Cell, read: Callable[[str], bytes]) -> tuple[Finding, ...]:
    report = read_report(read(cell.verdict.report)) if is_sha256(cell.verdict.report) else None
    return report.findings if report is not None else ()


def _timeline(manifest: Manifest, archive: Archive) -> tuple[tuple[Timed, ...], tuple[Snapshot, ...]]:
    """Uses of the judge and gradings, and the contents of the solution, up to where the trajectory can be read."""
    timed: list[Timed] = []
    changes: list[Snapshot] = []
    path = f"{RECORD}/trajectory.jsonl"
    if path not in manifest.files or manifest.files[path].bytes > MOST_TRAJECTORY:
        return (), ()
    for event in _events(archive.file(manifest, path)):
        data = event.data
        if isinstance(data, JudgeUsed | Graded) and len(timed) < MOST_NOTED:
            timed.append(Timed(data, event.step, event.elapsed))
        elif isinstance(data, FileChanged) and data.path == SOLUTION and len(changes) < MOST_NOTED:
            changes.append(Snapshot(len(changes) + 1, event.elapsed, event.step, data.sha256, data.bytes))
    return tuple(timed), tuple(changes)


def _steps(
    manifest: Manifest, archive: Archive, changes: Sequence[Snapshot], lines: Sequence[str]
) -> tuple[int, ...]:  # fmt: skip
    """The step at which each line of the solution was first seen; 0 where no content that was kept has it."""
    first: dict[str, int] = {}
    for change in changes[:MOST_COMPARED]:
        stored = manifest.files.get(f"{RECORD}/objects/{change.sha256[:2]}/{change.sha256}")
        if stored is None or stored.bytes > MOST_SOURCE:
            continue
        try:
            with gzip.open(io.BytesIO(archive.read(stored.sha256))) as file:
                text = file.read(MOST_SOURCE)
        except (OSError, EOFError, zlib.error):
            continue
        for line in _lines(text):
            first.setdefault(line, change.step)
    return tuple(first.get(line, 0) for line in lines)


def _events(data: bytes) -> Iterator[Event]:
    for number, line in enumerate(data.split(b"\n")):
        if number >= MAX_EVENTS or len(line) > MAX_LINE_BYTES:
            return
        try:
            found = json.loads(line) if line else None
        except (ValueError, RecursionError):
            continue  # it was cut
        try:
            if found is not None:
                yield event_from_json(found)
        except CodecError:
            return
