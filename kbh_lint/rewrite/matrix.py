"""Rewrites against verdicts: which rewrite of which program the linter still judges as it judged the original."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field, replace
from pathlib import Path
from time import monotonic

from kbh_lint.base.limits import TimeUp, time_limit
from kbh_lint.base.records import dataclass
from kbh_lint.findings import FileReport
from kbh_lint.rewrite.cells import Case, Cell, Column
from kbh_lint.rewrite.compose import apply, compose, drawn
from kbh_lint.rewrite.program import NotApplicable, Program, Rewrite, read_program
from kbh_lint.rewrite.results import Results
from kbh_lint.rules import load_rules
from kbh_lint.service.jobs import run
from kbh_lint.service.one_file import Options, Outcome
from kbh_lint.source.sidecars import Sidecar
from kbh_lint.source.submissions import BadInput, Submission, discover

BATCH = 6  # cases whose rewritten programs are held in memory and linted at a time
REWRITE_SECONDS = 30.0

Judge = Callable[[FileReport, FileReport, tuple[str, ...]], str]
Filter = Callable[[FileReport, Rewrite], str]


@dataclass(frozen=True, slots=True)
class Matrix:
    """All cells, and the verdicts of the cases before any rewrite.

    `left` cells were not tried, since the time was up. `versions` counts cells by the version of the linter that judged
    them, where results are kept.
    """

    cells: tuple[Cell, ...]
    verdicts: dict[str, str] = field(default_factory=dict)
    left: int = 0
    versions: dict[str, int] = field(default_factory=dict)

    def tried(self) -> list[Cell]:
        """The cells in which a rewritten program was judged."""
        return [cell for cell in self.cells if cell.state in ("kept", "lost")]

    def share(self) -> float:
        """The share of tried cells that are kept; 1 when none was tried."""
        tried = self.tried()
        return sum(cell.state == "kept" for cell in tried) / len(tried) if tried else 1.0


def columns(rewrites: Iterable[Rewrite], compositions: int, seed: int, count: int = 6) -> list[Column]:
    """The columns of the matrix: every rewrite alone, then `compositions` random sequences of `count` rewrites."""
    single = [Column(rewrite.name, (rewrite,), seed) for rewrite in rewrites]
    return single + [
        Column(f"composed-{at}", tuple(drawn(seed * 1000 + at, count)), seed * 1000 + at)
        for at in range(1, compositions + 1)
    ]


def submission(program: Program, path: str, problem: str | None) -> Submission:
    """A program as what the linter reads; nothing is written to a disk."""
    sidecars = {name: Sidecar(name, text, name, size=len(text.encode())) for name, text in program.sidecars.items()}
    digest = hashlib.sha256(program.bundle().encode()).hexdigest()
    # Readers know Python by its suffix, which the name of an example has not.
    name = path if path.endswith(".py") else f"{path}.py"
    return Submission(Path(name), program.main, sidecars, problem=problem, sha256=digest)


def check(
    cases: Sequence[Case],
    chosen: Sequence[Column],
    options: Options,
    jobs: int,
    judge: Judge,
    wanted: Filter | None = None,
    tell: Callable[[str], None] | None = None,
    draw: Callable[[Case], Sequence[Column]] | None = None,
    results: Results | None = None,
    seconds: float | None = None,
) -> Matrix:
    """Lints every case before and after every column's rewrites.

    `judge(before, after, names of what was applied)` says what was lost ("" for nothing); `wanted(before, rewrite)` why
    a rewrite is not tried on a case ("" to try it). `draw` chooses the columns of each case, all when it is None. A
    case whose own analysis did not come to an end is skipped. Cells that `results` knows are not tried again, and new
    ones are written there one by one. After `seconds` no further cell is begun. Raises ResultsError.
    """
    end = monotonic() + seconds if seconds is not None else None
    work = [(case, draw(case) if draw else chosen) for case in cases]
    cells: list[Cell] = []
    verdicts: dict[str, str] = {}
    versions: Counter[str] = Counter()
    todo: list[tuple[Case, list[Column]]] = []
    for case, some in work:
        found = {column.name: results.known(case, column) if results else None for column in some}
        for it in found.values():
            if it is not None:
                cells.append(it.cell)
                verdicts[case.name] = it.before
                versions[it.version] += 1
        if missing := [column for column in some if found[column.name] is None]:
            todo.append((case, missing))
    # Each start of workers costs, and a batch is held in memory; without workers nothing is gained by batches.
    size = BATCH if jobs > 1 else 1
    for at in range(0, len(todo), size):
        if end is not None and monotonic() >= end:
            break
        for case, column, cell, before in _batch(todo[at : at + size], options, jobs, judge, wanted, end):
            cells.append(cell)
            verdicts[case.name] = before
            if results:
                results.add(case, column, cell, before)
                versions[results.version] += 1
        if tell:
            tell(f"{len(cells)} cells")
    order = {(case.name, column.name): (i, j) for i, case in enumerate(cases) for j, column in enumerate(chosen)}
    cells.sort(key=lambda cell: order[cell.case, cell.column])
    left = sum(len(some) for _, some in work) - len(cells)
    return Matrix(tuple(cells), verdicts, left, dict(versions))


def _batch(
    work: Sequence[tuple[Case, Sequence[Column]]],
    options: Options,
    jobs: int,
    judge: Judge,
    wanted: Filter | None,
    end: float | None,
) -> Iterator[tuple[Case, Column, Cell, str]]:
    """Cells of some cases one by one, with the verdict before. Each case and each rewritten text is linted once."""
    originals = [submission(case.program, case.name, case.problem) for case, _ in work]
    before = dict(run(originals, options, min(jobs, len(originals))))
    made: list[Submission] = []
    about: list[list[tuple[Case, Column, FileReport, tuple[str, ...]]]] = []
    for at, (case, some) in enumerate(work):
        base = before[at]
        known = replace(case.program, problem=case.problem, contract=base.report.contract)
        texts: dict[str, int] = {}
        for column in some:
            if end is not None and monotonic() >= end:
                break
            new = _rewritten(replace(case, program=known), column, base, wanted)
            if isinstance(new, Cell):
                yield case, column, new, base.report.verdict
                continue
            program, names = new
            text = program.bundle()
            if text not in texts:
                texts[text] = len(made)
                made.append(submission(program, case.name, case.problem))
                about.append([])
            about[texts[text]].append((case, column, base.report, names))
    for index, outcome in run(made, options, min(jobs, len(made)) if made else 1):
        for case, column, report, names in about[index]:
            lost = judge(report, outcome.report, names)
            state, verdict = "lost" if lost else "kept", outcome.report.verdict
            cell = Cell(case.name, case.group, column.name, state, lost, names, verdict)
            yield case, column, cell, report.verdict
        if end is not None and monotonic() >= end:
            return


def _rewritten(
    case: Case, column: Column, base: Outcome, wanted: Filter | None
) -> Cell | tuple[Program, tuple[str, ...]]:
    """The rewritten program with the names of what was applied, or the cell that says why there is none."""

    def cell(state: str, why: str) -> Cell:
        return Cell(case.name, case.group, column.name, state, why)

    if not base.stable:
        return cell("skipped", "the original could not be analysed to the end")
    try:
        with time_limit(REWRITE_SECONDS):
            if len(column.rewrites) == 1:
                rewrite = column.rewrites[0]
                refused = wanted(base.report, rewrite) if wanted else ""
                if refused:
                    return cell("skipped", refused)
                return apply(rewrite, case.program, column.seed), (rewrite.name,)
            program, names = compose(column.rewrites, case.program, column.seed)
            if program == case.program:
                return cell("skipped", "none of them applies")
            return program, names
    except NotApplicable as error:
        return cell("skipped", str(error))
    except TimeUp:
        return cell("failed", f"the rewrite took longer than {REWRITE_SECONDS:g} s")
    except Exception as error:
        return cell("failed", f"the rewrite raised {type(error).__name__}: {str(error)[:200]}")


def classes(report: FileReport) -> set[str]:
    """The classes of the findings in a report that count."""
    return {finding.leak_class for finding in report.findings if finding.severity != "info"}


def evaded(before: FileReport, after: FileReport, names: tuple[str, ...]) -> str:
    """What a rewrite that keeps the meaning changed in the report: the verdict, a class, a promise; "" when nothing."""
    if before.verdict != after.verdict:
        return f"the verdict {before.verdict} became {after.verdict}{_unread(after)}"
    old, now = _as_one(classes(before)), _as_one(classes(after))
    gone, new = old - now, now - old
    if any(name.startswith("dead-") for name in names):
        new = new - {"dead-decoy-kernel"}  # an idle kernel was put in, and is reported
    if gone or new:
        return "; ".join([*(f"{name} is gone" for name in sorted(gone)), *(f"{name} is new" for name in sorted(new))])
    states = {promise.id: promise.state for promise in after.promises}
    for promise in before.promises:
        if states.get(promise.id) != promise.state:
            return f"the promise {promise.id} was {promise.state} and is {states.get(promise.id)}"
    return ""


# What differs in these is only how a banned operation is spelled, which rewrites are there to change.
_SPELLINGS = {"forbidden-op-alias": "forbidden-op"}


def _as_one(names: set[str]) -> set[str]:
    return {_SPELLINGS.get(name, name) for name in names}


def all_kept(report: FileReport) -> bool:
    """Whether a file is honest as far as the linter can tell: every promise kept, and no finding that counts."""
    kept = bool(report.promises) and all(promise.state in promise.accepts for promise in report.promises)
    return kept and report.verdict in ("clean", "interesting")


def unchanged(before: FileReport, after: FileReport, names: tuple[str, ...]) -> str:
    """Why a rewrite that changes the meaning went unnoticed: all promises are still kept, the verdict is the same."""
    if after.verdict == before.verdict and all_kept(after) and classes(after) == classes(before):
        return f"the verdict is still {after.verdict}, with every promise kept"
    return ""


def honest(before: FileReport, rewrite: Rewrite) -> str:
    """Why a rewrite that changes the meaning is not tried on a file, such as that it is no honest one; "" where it
    is tried."""
    if not all_kept(before):
        return "the original does not keep every promise"
    kinds = {promise.kind for promise in before.promises}
    if rewrite.kinds and not rewrite.kinds & kinds:
        return "its problem makes no such promise"
    return ""


def _unread(report: FileReport) -> str:
    reasons = [item.reason for item in report.unread] + [p.reason for p in report.promises if p.state == "unproven"]
    return f" ({reasons[0][:160]})" if reasons and report.verdict == "unproven" else ""


def rule_cases(rules_dir: Path, *, good: bool = True, bad: bool = True) -> Iterator[Case]:
    """The examples of all rules about submissions, equal ones once, grouped by rule."""
    seen: set[tuple[str | None, str]] = set()
    for rule in load_rules(rules_dir):
        if rule.id.startswith("KBH9"):
            continue
        for example in (*(rule.bad if bad else ()), *(rule.good if good else ())):
            if (example.problem, example.code) not in seen:
                seen.add((example.problem, example.code))
                yield Case(f"{rule.id}/{example.name}", rule.id, Program(example.code), example.problem)


def path_cases(paths: Sequence[str], problem: str | None, problems_dir: Path) -> Iterator[Case | str]:
    """The submissions under some paths, grouped by folder; a sentence for what cannot be read."""

    for item in discover(paths, problem=problem, problems_dir=problems_dir):
        if isinstance(item, BadInput):
            yield item.message
            continue
        sidecars = {name: sidecar.text for name, sidecar in item.sidecars.items() if not sidecar.binary}
        yield Case(str(item.path), str(item.path.parent), Program(item.text, sidecars), item.problem)


def program_from(path: Path) -> Program:
    """The program in a file. Raises OSError and UnicodeDecodeError."""
    return read_program(path.read_text(encoding="utf-8"), str(path))


def summary(matrix: Matrix, by: Callable[[Cell], str]) -> list[tuple[str, Counter[str]]]:
    """Counts of states by column or group, in the order of their first cells."""
    rows: dict[str, Counter[str]] = {}
    for cell in matrix.cells:
        rows.setdefault(by(cell), Counter())[cell.state] += 1
    return list(rows.items())
