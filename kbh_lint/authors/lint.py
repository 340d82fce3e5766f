"""Lints problem folders: reads them, has their solutions linted, derives facts, and applies the rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from kbh_lint.authors import answers, code, evidence, execution, faults, numbers, prompt, suppress
from kbh_lint.authors.folder import Folder, at, read_yaml
from kbh_lint.authors.folders import FAULTS, PROBLEM, Found
from kbh_lint.authors.solutions import Solutions, read_solutions
from kbh_lint.base import paths
from kbh_lint.base.folder_facts import Malformed
from kbh_lint.findings import Fact, FileReport, fact_of
from kbh_lint.marked import DataError
from kbh_lint.problems import Target, load_problem, load_targets
from kbh_lint.rules import Rule, apply
from kbh_lint.verdict import decide

# Lints some files of one deck under one problem each: (deck folder, [(file, problem id)]) -> reports in that order.
LintFiles = Callable[[Path, Sequence[tuple[Path, str]]], Sequence[FileReport]]


def lint(found: Found, rules: Sequence[Rule], lint_files: LintFiles, trusted: Path) -> list[FileReport]:
    """The report on every problem folder, then on every deck that keeps a list of faults.

    Code of a problem is run (in a child process) only in the deck `trusted`.
    """
    read = [_read(path) for path in found.problems]
    folders = [item for item in read if isinstance(item, Folder)]
    linted = _solutions(folders, lint_files)
    own = [f for f in folders if f.path.resolve().parent == trusted.resolve() and f.problem.contracts]
    executed, why_not = execution.ask([folder.path for folder in own]) if own else ({}, "")
    reports = []
    for item in read:
        if not isinstance(item, Folder):
            reports.append(item.report(rules))
            continue
        notes: list[str] = []
        if item.problem.contracts:
            notes = [why_not or "" if item in own else execution.NOT_TRUSTED]
        known = executed.get(str(item.path.resolve()), {})
        all_facts = [*_facts(item, linted[item.path], rules, known), *execution.facts(item, known)]
        notes += execution.notes(known)
        unasked = () if known else execution.ASKED
        own_files = suppress.files(item.path)
        told = [note for note in notes if note]
        reports.append(_report(item.path / PROBLEM, item.problem.id, all_facts, rules, told, own_files, unasked))
    reports += [_deck(deck, rules) for deck in found.decks if (deck / FAULTS).is_file()]
    return reports


class _Unreadable:
    """A problem folder whose `problem.yaml` or `solutions.yaml` cannot be used."""

    def __init__(self, path: Path, found: Sequence[Fact]) -> None:
        self.path, self.facts = path, found

    def report(self, rules: Sequence[Rule]) -> FileReport:
        return _report(self.path / PROBLEM, self.path.name, self.facts, rules, [])


def _read(path: Path) -> Folder | _Unreadable:
    file = path / PROBLEM
    found: list[Fact] = []
    try:
        data = read_yaml(file)
        if data is None:
            raise DataError(str(file), 1, "the file cannot be read as UTF-8 text")
        found = list(numbers.tolerance_keys(file, data))
        problem = load_problem(file)
        solutions: Solutions = read_solutions(path)
    except DataError as error:
        place = at(Path(error.path), error.line)
        if not any(fact.span is not None and fact.span.line == error.line for fact in found):
            found.append(fact_of(Malformed(file=Path(error.path).name, message=error.message), place))
        return _Unreadable(path, found)
    return Folder(path, data, problem, solutions, _targets(path.parent))


def _targets(deck: Path) -> Mapping[str, Target]:
    return load_targets(paths.hardware_file(deck))


def _solutions(folders: Sequence[Folder], lint_files: LintFiles) -> dict[Path, dict[str, FileReport]]:
    """The linter's reports on all solutions, deck by deck."""
    out: dict[Path, dict[str, FileReport]] = {folder.path: {} for folder in folders}
    decks: dict[Path, list[Folder]] = {}
    for folder in folders:
        decks.setdefault(folder.path.parent, []).append(folder)
    for deck, members in decks.items():
        wanted = [(folder, file) for folder in members for file in answers.files(folder)]
        reports = lint_files(deck, [(folder.path / file, folder.problem.id) for folder, file in wanted])
        for (folder, file), report in zip(wanted, reports, strict=True):
            out[folder.path][file] = report
    return out


def _facts(
    folder: Folder, reports: Mapping[str, FileReport], rules: Sequence[Rule], executed: Mapping[str, object]
) -> Iterator[Fact]:
    if not folder.problem.contracts:
        return  # deferred or retired: a description, with nothing that could be checked
    yield from numbers.traffic(folder)
    yield from numbers.regimes(folder)
    yield from numbers.reduced(folder)
    yield from numbers.tolerances(folder)
    yield from code.seeding(folder)
    yield from code.parts(folder)
    yield from code.cases(folder)
    if "inputs" not in executed:
        yield from code.constant_inputs(folder)
    yield from code.counts(folder)
    yield from evidence.facts(folder)
    yield from prompt.facts(folder)
    yield from answers.facts(folder, reports, rules)


def _deck(deck: Path, rules: Sequence[Rule]) -> FileReport:
    path = deck / FAULTS
    try:
        found = list(faults.facts(deck, {rule.id for rule in rules}))
    except DataError as error:
        fact = Malformed(file=path.name, message=error.message)
        found = [fact_of(fact, at(Path(error.path), error.line))]
    return _report(path, None, found, rules, [], [path])


def _report(
    path: Path, problem: str | None, found: Sequence[Fact], rules: Sequence[Rule], notes: Sequence[str],
    own_files: Sequence[Path] = (), unasked: Sequence[str] = (),
) -> FileReport:  # fmt: skip
    """The report over some facts; comments in `own_files` may suppress findings."""
    settled = suppress.settle(apply(rules, found, path=str(path), contract_known=False), own_files, rules, unasked)
    findings = (*settled.findings, *apply(rules, settled.facts, path=str(path), contract_known=False))
    notes = (*notes, *settled.notes)
    verdict = decide((), findings, (), True)  # of the problem itself, which facts tell whole
    return FileReport(str(path), problem, None, None, verdict, findings=findings, notes=tuple(dict.fromkeys(notes)))
