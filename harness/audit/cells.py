"""A cell of the audit: what was published of a run, what the linter says of its solution, and by which lines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.audit.annotations import Theirs
from harness.audit.compare import KINDS, Kind, class_of, compare
from harness.audit.gathering import Run
from harness.audit.reading import Place
from kbh_lint.findings import FileReport, Finding, PromiseState, Related
from kbh_lint.report.text import one_line
from kbh_lint.source.spans import Span
from kbh_lint.verdict import FLAGGED, KEPT

__all__ = ["Audit", "Cell", "Evidence", "Grade", "Quotes", "cell_of"]

MOST_EVIDENCE = 40
MOST_PLACES = 4  # of one finding or promise
MOST_MESSAGE = 400
QUOTE = 32  # characters of a line that a message may not have in common with the solution


@dataclass(frozen=True, slots=True)
class Evidence:
    """A place in a solution and what is there. `by` is a rule, or a promise with its state; `code` the line itself,
    empty where sources are not shown."""

    path: str
    line: int
    end_line: int
    by: str
    leak_class: str
    verdict: str
    message: str
    code: str = ""


@dataclass(frozen=True, slots=True)
class Grade:
    """What grading a solution here came to."""

    outcome: str
    text: str
    target: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True)
class Cell:
    """`ours` is the linter's verdict, empty where there was nothing to read; `why` says why nothing can be told."""

    run: str
    problem: str
    board: str
    kind: Kind
    why: str
    theirs: Theirs
    ours: str
    contract: str
    classes: tuple[str, ...]
    promises: Mapping[str, str]
    evidence: tuple[Evidence, ...]
    place: Place | None
    sha256: str
    size: int
    remarks: tuple[str, ...] = ()
    grade: Grade | None = None

    @property
    def disagrees(self) -> bool:
        """Whether either the annotation or the linter flags the run, and the other does not."""
        return self.kind in ("we-flag", "they-flag")

    @property
    def their_lines(self) -> str:
        """The lines that the annotation points at, runs of them as `first-last`."""
        found: list[list[int]] = []
        for line in self.theirs.lines:
            if found and line == found[-1][-1] + 1:
                found[-1][1:] = [line]
            else:
                found.append([line])
        return ", ".join("-".join(map(str, one)) for one in found[:20])

    @property
    def apart(self) -> str:
        """Both verdicts where annotation and linter flag the run under different ones; else empty."""
        both = (
            self.kind == "agree"
            and class_of(self.theirs.word) == "leak"
            and self.theirs.word not in ("leak", self.ours)
        )
        return f"{self.theirs.word} and {self.ours}" if both else ""


@dataclass(frozen=True, slots=True)
class Audit:
    """Everything that the outputs show. `seconds` are by step; `only` how many runs were named, None for all."""

    archive: str
    form: str
    revision: str
    layout: str
    only: int | None
    cells: tuple[Cell, ...]
    versions: Mapping[str, str]
    seconds: Mapping[str, float]
    sources: bool = False
    troubles: tuple[str, ...] = ()

    def counts(self) -> Mapping[Kind, int]:
        """Cells by kind, every kind in order."""
        found = Counter(cell.kind for cell in self.cells)
        return {kind: found[kind] for kind in KINDS}

    def by_problem(self) -> list[tuple[str, str, Mapping[Kind, int]]]:
        """Cells by kind for each problem and board that there is."""
        groups: dict[tuple[str, str], Counter[Kind]] = {}
        for cell in self.cells:
            groups.setdefault((cell.problem, cell.board), Counter())[cell.kind] += 1
        return [(*key, {kind: groups[key][kind] for kind in KINDS}) for key in sorted(groups)]

    @property
    def flagged_unannotated(self) -> int:
        """How many runs without an annotation we flag."""
        return sum(cell.kind == "not-annotated" and cell.ours in FLAGGED for cell in self.cells)

    @property
    def solutions(self) -> int:
        """How many solutions were read."""
        return sum(bool(cell.ours) for cell in self.cells)


def cell_of(run: Run, report: FileReport | None, rules: Mapping[str, str], *, sources: bool) -> Cell:
    """The cell of a run. `rules` has the summary of each rule, shown where a message would quote the solution."""
    kind, why = compare(run.theirs.word, report, run.missing)
    quotes = Quotes(run.text or "", allowed=sources)
    evidence = tuple(_evidence(report, run, quotes, rules, sources)) if report is not None else ()
    flagged = [f for f in report.findings if _flags(f)] if report is not None else []
    return Cell(
        run.entry.run, run.problem, run.entry.board, kind, why, run.theirs,
        ours=report.verdict if report else "", contract=(report.contract or "") if report else "",
        classes=tuple(sorted({f.leak_class for f in flagged})),
        promises={promise.id: promise.state for promise in report.promises} if report else {},
        evidence=evidence, place=run.entry.place, sha256=run.sha256, size=run.size,
        remarks=(*run.remarks, *(_apart(run, flagged) if kind == "agree" else ())),
    )  # fmt: skip


def _flags(finding: Finding) -> bool:
    return finding.verdict in FLAGGED and finding.severity != "info"


def _apart(run: Run, flagged: Sequence[Finding]) -> Iterator[str]:
    """A remark where both sides flag lines, and none of theirs is near one of ours."""
    if not flagged or not run.theirs.lines:
        return
    spans = [place for f in flagged for place in (f.span, *(related.span for related in f.related))]
    if not any(span.line - 5 <= line <= span.end_line + 5 for span in spans for line in run.theirs.lines):
        yield "both flag it, and no line of theirs is within 5 of one of ours"


def _evidence(
    report: FileReport, run: Run, quotes: Quotes, rules: Mapping[str, str], sources: bool
) -> Iterator[Evidence]:
    lines = (run.text or "").split("\n")
    seen: set[tuple[str, int, str]] = set()
    left = MOST_EVIDENCE
    for span, by, leak_class, verdict, message in _said(report, quotes, rules):
        key = (span.path, span.line, by)
        if key in seen or left == 0:
            continue
        seen.add(key)
        left -= 1
        own = sources and span.path == run.entry.named and 1 <= span.line <= len(lines)
        code = lines[span.line - 1][:300] if own else ""
        path = run.entry.named if span.path == run.entry.named else one_line(span.path).rsplit("/", 1)[-1]
        yield Evidence(path, span.line, max(span.end_line, span.line), by, leak_class, verdict, message, code)


_Said = tuple[Span, str, str, str, str]


def _said(report: FileReport, quotes: Quotes, rules: Mapping[str, str]) -> Iterator[_Said]:
    """Places with what is said of them, those that decide first."""
    nowhere = Span(report.path, 0, 0, 0, 0)
    findings = [f for f in report.findings if f.severity != "info"]
    for f in sorted(findings, key=lambda finding: not _flags(finding)):
        yield f.span, f.rule, f.leak_class, f.verdict, quotes.without(f.message, rules.get(f.rule, f.name))
        for related in f.related[:MOST_PLACES]:
            yield (
                related.span,
                f.rule,
                f.leak_class,
                f.verdict,
                quotes.without(related.message, "a place that belongs to it"),
            )
    for item in report.unread:
        said = quotes.without(item.reason, "something here could not be read")
        yield item.span or nowhere, "not read", "", "unproven", said
    flagged = any(map(_flags, findings))
    for promise in sorted(report.promises, key=lambda promise: promise.state in KEPT):
        if flagged and promise.state in KEPT:
            continue  # what decided is above
        yield from _promised(promise, quotes, nowhere)


def _promised(promise: PromiseState, quotes: Quotes, nowhere: Span) -> Iterator[_Said]:
    by = f"{promise.id}: {promise.state}"
    reason = quotes.without(promise.reason, "it could not be shown")
    places: Iterable[Related] = promise.evidence[:MOST_PLACES] or (Related(nowhere, reason),)
    for place in places:
        yield place.span, by, "", "", quotes.without(place.message, reason)


class Quotes:
    """Keeps what a solution says out of messages: names of it may stand in them, lines of it not."""

    def __init__(self, text: str, *, allowed: bool = False) -> None:
        self._allowed = allowed
        self._text = "" if allowed else " ".join(text.split())
        half = QUOTE // 2
        self._pieces = {self._text[at : at + half] for at in range(0, len(self._text) - half + 1, half)}
        lines = {" ".join(line.split()) for line in text.split("\n")} if not allowed else set()
        self._lines = sorted((line for line in lines if len(line) >= 10 and not _NAME.fullmatch(line)), key=len)

    def without(self, message: str, otherwise: str) -> str:
        """The message on one line, or `otherwise` where it has a line of the solution in it, or a long part of one."""
        said = " ".join(message[: 4 * MOST_MESSAGE].split())
        if not self._allowed and self._quotes(said):
            said = " ".join(otherwise.split())
            said = "" if self._quotes(said) else said
        said = one_line(said)
        return said if len(said) <= MOST_MESSAGE else said[: MOST_MESSAGE - 3] + "..."

    def _quotes(self, said: str) -> bool:
        half = QUOTE // 2
        for at in range(len(said) - half + 1):
            if said[at : at + half] in self._pieces:
                first = max(at - half, 0)
                for begin in range(first, at + 1):
                    part = said[begin : begin + QUOTE]
                    if len(part) == QUOTE and not _NAME.fullmatch(part.strip()) and part in self._text:
                        return True
        return any(line in said for line in self._lines if len(line) <= len(said))


_NAME = re.compile(r"[\w.]+[,)(:]*")
