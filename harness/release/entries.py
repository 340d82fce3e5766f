"""The entries of an archive, worked out again: what is wrong with them, what follows from them, what cannot be told."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from grader.grading.recomputed import edition_of
from grader.grading.recomputed import faults_of as cell_faults
from grader.grading.request import problem_files
from grader.record.bundle import Bundle, BundleError
from grader.record.bundle.read import Entry, shown
from grader.report.view import submission_files
from grader.score.standard import hardware_file
from harness.archive.check import faults_of as entry_faults
from harness.archive.facts import Facts, facts_of
from harness.archive.layout import Manifest, StoreError
from harness.archive.scratch import Unpack, unpacking
from harness.archive.store import Archive
from harness.board.trials import mark_of
from harness.record.archive import RECORD
from harness.release.contents import Gathered
from harness.release.pack import ARCHIVE
from harness.release.sources import Linter, Wanted
from kbh_lint.base import paths
from kbh_lint.findings import FileReport
from kbh_lint.problems import Deck, load_deck
from kbh_lint.report.data import file_from_dict

__all__ = ["Checker", "Told", "Verified"]

AT_A_TIME = 32  # entries that lie unpacked at once
MOST_CELLS = 1000
MOST_REPORT = 32 << 20
Told = Callable[[int, int, str], None]


@dataclass(slots=True)
class Verified:
    """What checking a release came to.

    `faults` are differences between the release and what was recomputed from it, `unchecked` what could not be
    recomputed on this machine; each is a sentence that begins with the entry or the file. `id` is the release's hash.
    The numbers count what was looked at.
    """

    id: str = ""
    faults: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    entries: int = 0
    whole: int = 0
    gradings: int = 0
    linted: int = 0
    pages: int = 0


@dataclass(frozen=True, slots=True)
class _Grading:
    """A finished bundle of the entry `id`, on the disk; `title` names it for people."""

    id: str
    title: str
    below: str
    bundle: Bundle

    @property
    def entries(self) -> Sequence[Entry]:
        """The entries of the bundle, in order."""
        return self.bundle.entries()

    @property
    def cell(self) -> Mapping[str, Any]:
        """The cell, as JSON."""
        return next(entry.data for entry in reversed(self.entries) if entry.kind == "cell")


class Checker:
    """Goes through the entries of an archive: what is wrong with them, and what they say of themselves.

    `broken` are those that are not whole, whatever follows from them.
    """

    def __init__(
        self, archive: Archive, found: Verified, linter: Linter, lint: bool, problems_dir: Path | None
    ) -> None:
        self.archive = archive
        self.found = found
        self.facts: list[Facts] = []
        self.broken: list[str] = []
        self.gathered = Gathered()
        self._linter = linter
        self._lint = lint
        self._problems_dir = problems_dir
        self._used: set[str] = set()
        self._open: set[str] = set()
        self._hashes: dict[str, dict[str, str]] = {}

    @cached_property
    def _deck(self) -> Deck:
        return load_deck(paths.problems_dir(self._problems_dir))

    def check(self, place: Path, told: Told) -> None:
        """Checks every entry of the archive and notes the faults. Raises StoreError where the linter cannot work."""
        ids = self.archive.ids()
        self.found.entries = len(ids)
        with unpacking("kbh-entries-", place) as unpack:
            for start in range(0, len(ids), AT_A_TIME):
                with ExitStack() as some:
                    self._some(ids[start : start + AT_A_TIME], unpack, some)
                told(min(start + AT_A_TIME, len(ids)), len(ids), "entries")
        if not self._lint and self.found.gradings:
            self.found.unchecked.append("sources: they were not linted; verdicts stand on the reports in the bundles")

    def unreferenced(self) -> Iterator[str]:
        """Yields a sentence for each object of the archive that no entry names; a release must have none."""
        for prefix in sorted((self.archive.folder / "objects").glob("??")):
            for path in sorted(prefix.iterdir()):
                if path.name not in self._used:
                    yield f"{ARCHIVE}: objects/{prefix.name}/{path.name} belongs to no entry"

    def _some(self, ids: Sequence[str], unpack: Unpack, some: ExitStack) -> None:
        bad: set[str] = set()
        gradings: list[_Grading] = []
        for id_ in ids:
            title, faults = id_[:12], []
            try:
                manifest = self.archive.manifest(id_)
                facts = facts_of(manifest, self.archive.read)
                title = _title(facts)
                self._used.update(stored.sha256 for stored in manifest.files.values())
                self.facts.append(facts)
                folder = Path(some.enter_context(unpack(manifest))) / manifest.name
                self.archive.extract(manifest, folder)
                faults = [fault.replace(f"{folder.parent}/", "") for fault in entry_faults(folder, manifest.kind)]
                if not faults:
                    mine = list(_gradings(manifest, title, folder))
                    faults += _unfounded(facts)
                    gradings += mine
                    for grading in mine:
                        self.gathered.add(facts, grading.below, grading.entries)
            except (StoreError, BundleError) as error:
                faults = [str(error)]
            bad |= {id_} if faults else set()
            self.found.faults += [f"{title}: {fault}" for fault in faults]
        self.broken += sorted(bad)
        wanted = {grading.below + grading.id: self._wanted(grading) for grading in gradings}
        if self._lint:
            self._linter.lint([one for one in wanted.values() if one is not None])
        for grading in gradings:
            self.found.gradings += 1
            faults = list(self._grading(grading, wanted[grading.below + grading.id]))
            self.found.faults += [f"{grading.title}: {fault}" for fault in faults]
            bad |= {grading.id} if faults else set()
        self.found.whole += len(set(ids) - bad - self._open)

    def _wanted(self, grading: _Grading) -> Wanted | None:
        cell, target = grading.cell, grading.cell.get("target")
        named = target.get("id") if isinstance(target, Mapping) and target.get("device") == "cuda" else ""
        if cell.get("problem") not in self._deck:
            return None
        files = submission_files(grading.bundle)
        return Wanted(str(cell.get("submission")), str(cell["problem"]), str(named), files)

    def _grading(self, grading: _Grading, wanted: Wanted | None) -> Iterator[str]:
        """A sentence for each claim of a grading that follows neither from its samples nor from its sources here."""
        id_ = str(grading.cell.get("problem"))
        if wanted is None:
            self.found.unchecked.append(f"{grading.title}: there is no problem {shown(id_)} here")
            self._open.add(grading.id)
            return
        stored = self._stored(grading)
        report: FileReport | None = stored
        if self._lint:
            report = self._linter.reports.get(wanted.key)
            self.found.linted += report is not None
            if report is None:
                yield self._linter.refused[wanted.key]
                return
        if stored is None or report is None:
            yield "the linter's report in it cannot be read"
            return
        problem = self._deck[id_]
        if id_ not in self._hashes:
            self._hashes[id_] = problem_files(problem, hardware_file(problem))
        faults = list(cell_faults(grading.entries, problem, report))
        if _verdict_of(stored) != _verdict_of(report):
            reasons = "" if stored.verdict != report.verdict else ", for other reasons"
            said = f"and its report in the bundle says {stored.verdict}{reasons}"
            faults.insert(0, f"the linter here says {report.verdict} of its sources, {said}")
        other = edition_of(grading.entries, self._hashes[id_]).other
        if faults and other:
            why = f"{' and '.join(other)} of {id_} here is of another edition than the one that it was graded on"
            self.found.unchecked += [f"{grading.title}: {why}; by the one here {fault}" for fault in faults]
            self._open.add(grading.id)
        else:
            yield from faults

    def _stored(self, grading: _Grading) -> FileReport | None:
        key = next((str(one.data.get("report")) for one in reversed(grading.entries) if one.kind == "lint"), "")
        try:
            data = grading.bundle.get(key)
            if len(data) > MOST_REPORT:
                return None
            return file_from_dict(json.loads(data)["files"][0])
        except (BundleError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return None


def _title(facts: Facts) -> str:
    """An entry as a reader knows it."""
    who = f"{facts.agent} {facts.model}".strip() if facts.kind == "run" else "a grading"
    return shown(f"{facts.id[:12]} ({who}, {facts.problem}, trial {facts.trial})")


def _gradings(manifest: Manifest, title: str, folder: Path) -> Iterator[_Grading]:
    """The finished bundles of an entry. Raises BundleError."""
    places = [""]
    if manifest.kind == "run":
        start = f"{RECORD}/cells/"
        names = {path.removeprefix(start).split("/")[0] for path in manifest.files if path.startswith(start)}
        places = [f"{start}{name}/" for name in sorted(names)[:MOST_CELLS]]
    for below in places:
        bundle = Bundle.open(folder / below)
        if bundle.finished:
            name = shown(below.removeprefix(f"{RECORD}/cells/").rstrip("/"))
            yield _Grading(manifest.id, f"{title}: {name}" if name else title, below, bundle)


def _unfounded(facts: Facts) -> Iterator[str]:
    """A run that says that it was graded has the grading."""
    if facts.kind == "run" and facts.grade and not facts.head:
        yield f"it says that the grader gave {shown(facts.grade)} ({mark_of(facts)}), and holds no grading"


def _verdict_of(report: FileReport) -> object:
    promises = sorted((one.id, one.state) for one in report.promises)
    findings = sorted((one.rule, one.verdict, one.span.line) for one in report.findings if one.severity != "info")
    return report.verdict, report.contract, promises, findings
