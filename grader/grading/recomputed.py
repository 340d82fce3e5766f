"""A finished grading worked out again from its own samples, evidence and sources, with the problem beside it.

`grader.record.bundle.verify` holds a bundle against itself and knows nothing of problems. Here floors, fractions,
scores, the verdict of all layers and the outcome are made anew, by the code that made them, and each that differs is
named. What the judge saw (that a result was right, what a profiler counted) is its testimony and cannot be made anew
without a GPU. Needs no torch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from grader.grading.verdicts import Standing, outcome_of, verdict_of
from grader.record import provenance
from grader.record.bundle import CodecError, cell_from_json
from grader.record.bundle.read import Entry
from grader.record.cell import SCORED, Cell, Scores, ShapeScore, TrialResult, VerdictRecord
from grader.score import scoring
from grader.score.standard import Chosen, TargetError, recorded
from grader.silicon import Silicon, silicon_from_json
from kbh_lint.base.formulas import FormulaError
from kbh_lint.findings import FileReport
from kbh_lint.marked import DataError
from kbh_lint.problems import Problem

__all__ = ["Edition", "edition_of", "faults_of"]

NEAR = 1e-9
SCORED_BY = ("problem.yaml",)  # the files that floors and promises follow from; of hardware.yaml the cell has the peaks
FIELDS = (
    "t_scored", "t_event", "t_sealed", "t_floor", "t_null", "t_ungated", "t_alone", "vetoed", "samples", "clock",
    "peak_fraction", "roofline_fraction", "attainable_fraction",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Edition:
    """Which edition of a problem a submission was graded on, compared with the problem here.

    `other` names the files whose hashes differ. Unless it is empty, floors, scores and verdicts of that grading cannot
    be computed again from the files here.
    """

    id: str
    other: tuple[str, ...]


def edition_of(entries: Sequence[Entry], hashes: Mapping[str, str]) -> Edition:
    """The edition of the problem that a bundle was graded on, compared with the `hashes` of the files here."""
    header = entries[0].data.get("problem")
    header = header if isinstance(header, Mapping) else {}
    files = header.get("files")
    known = files if isinstance(files, Mapping) else {}
    return Edition(str(header.get("id")), tuple(name for name in SCORED_BY if known.get(name) != hashes.get(name)))


def faults_of(entries: Sequence[Entry], problem: Problem, report: FileReport) -> Iterator[str]:
    """A sentence for each number, verdict or outcome of a whole, finished bundle that does not follow from the rest.

    `problem` is of the edition that it was graded on, `report` the linter's on the submission.
    """
    last = next(entry for entry in reversed(entries) if entry.kind == "cell")
    try:
        cell = cell_from_json(last.data)
        chosen = recorded(problem, cell.target)
        yield from _results(cell)
        verdict = _verdict(entries, cell, problem, report)
        yield from _verdict_faults(cell.verdict, verdict)
        yield from _outcome(entries, cell, problem, chosen, verdict)
        yield from _scores(cell, problem, chosen)
    except (CodecError, TargetError, DataError, FormulaError) as error:
        yield str(error)
    except (ArithmeticError, ValueError, LookupError) as error:  # numbers that no grading gives
        yield f"it cannot be worked out again: {str(error)[:200]}"


# --- what the judge saw --------------------------------------------------------------------------------------


def _results(cell: Cell) -> Iterator[str]:
    """Whether right and wrong agree: of calls with their bounds, of shapes with their calls, of trials with theirs."""
    for trial in cell.trials:
        for shape in trial.shapes:
            where = f"trial {trial.index} at {shape.shape[:80]}"
            for case in shape.cases:
                if case.ok and case.error is not None and case.tolerance is not None and case.error > case.tolerance:
                    yield f"{where}: the case {case.case[:60]} is called right, and its error is above its bound"
            if shape.status == "right" and not all(case.ok for case in shape.cases):
                yield f"{where} is called right, and a call of it is wrong"
        if trial.status == "right" and not (trial.shapes and all(one.status == "right" for one in trial.shapes)):
            yield f"trial {trial.index} is called right, and not every shape of it is"


# --- the verdict ---------------------------------------------------------------------------------------------


def _verdict(entries: Sequence[Entry], cell: Cell, problem: Problem, report: FileReport) -> VerdictRecord:
    """As `grader.grading.grade` comes to it."""
    header = entries[0].data
    request = header.get("request")
    asked = not isinstance(request, Mapping) or request.get("evidence") is not False

    def merged(replay: Sequence[str] | None, lost: str = "", silicon: Silicon | None = None) -> VerdictRecord:
        return verdict_of(
            report, problem, device=cell.target.device, linter=cell.verdict.linter, target=cell.target.id,
            replay=replay, lost=lost, silicon=silicon, report_hash=cell.verdict.report,
            provenance=provenance.from_json(header.get("provenance")),
        )  # fmt: skip

    if not any(entry.kind == "commitment" for entry in entries):
        hoped = merged(() if asked else None)
        if not hoped.accepted:
            return replace(merged(None), why=hoped.why)
        return replace(hoped, accepted=False, why=cell.verdict.why)  # no sandbox, where --strict wants one
    told = [entry.data for entry in entries if entry.kind == "evidence"]
    replays = [data for data in told if "differences" in data]
    if not replays:
        return merged(None)
    lost, differences = str(replays[-1].get("lost", "")), _texts(replays[-1]["differences"])
    seen = [data["silicon"] for data in told if "silicon" in data]
    silicon = silicon_from_json(seen[-1]) if seen and not lost and not differences else None
    return merged(None if lost else differences, lost, silicon)


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(type(text) is str for text in value):
        raise CodecError("the differences of the evidence pass are no list of sentences")
    return tuple(value)


def _verdict_faults(said: VerdictRecord, found: VerdictRecord) -> Iterator[str]:
    for name in ("verdict", "accepted", "contract"):
        was, now = getattr(said, name), getattr(found, name)
        if was != now:
            yield f"its {name} is {was}, and follows from the sources and the evidence as {now}{_why(found, name)}"
    states = ({one.id: one for one in record.promises} for record in (said, found))
    was_by, now_by = states
    for id_ in sorted({*was_by, *now_by}):
        was_one, now_one = was_by.get(id_), now_by.get(id_)
        if was_one is None or now_one is None:
            yield f"the promise {id_[:60]} is {'not listed' if was_one is None else 'listed, and is none'}"
        elif (was_one.state, dict(was_one.layers)) != (now_one.state, dict(now_one.layers)):
            yield f"the promise {id_[:60]} is {was_one.state}, and follows as {now_one.state}"
        elif (was_one.accepts, was_one.missing) != (now_one.accepts, now_one.missing):
            yield f"what the promise {id_[:60]} takes, or lacks, does not follow"
    listed, again = ({(one.rule, one.verdict, one.layer, one.line) for one in record.findings}
                     for record in (said, found))  # fmt: skip
    for rule, verdict, layer, line in sorted(listed ^ again):
        there = "is listed, and does not follow" if (rule, verdict, layer, line) in listed else "is left out"
        yield f"the finding {rule[:60]} ({verdict}, {layer}, line {line}) {there}"


def _why(found: VerdictRecord, name: str) -> str:
    return f" ({found.why[:200]})" if name != "contract" and found.why else ""


# --- outcome and scores --------------------------------------------------------------------------------------


def _outcome(
    entries: Sequence[Entry], cell: Cell, problem: Problem, chosen: Chosen, verdict: VerdictRecord
) -> Iterator[str]:
    """The outcome by the grader's own table, from what was made anew."""
    ran = any(entry.kind == "commitment" for entry in entries)
    suspicion = scoring.suspicion(problem, chosen, cell.trials) if ran else ""
    sandbox = cell.trials[0].sandbox if cell.trials else None
    standing = Standing(
        cell.strict, cell.target.device, verdict, "", cell.trials, suspicion, sandbox, ran
    )  # fmt: skip
    found, why = outcome_of(standing)
    if found != cell.outcome:
        yield f"its outcome is {cell.outcome}, and follows as {found}{f' ({why[:200]})' if why else ''}"


def _scores(cell: Cell, problem: Problem, chosen: Chosen) -> Iterator[str]:
    timed: Sequence[TrialResult] = cell.trials if cell.outcome in (*SCORED, "wrong") else ()
    found = scoring.shape_scores(problem, chosen, timed) if timed else ()
    said = {score.shape: score for score in cell.shapes}
    if [score.shape for score in found] != [score.shape for score in cell.shapes]:
        yield "the shapes that have a score are not those that follow from its samples"
    for score in found:
        if score.shape in said:
            yield from _shape(said[score.shape], score)
    total = _total(cell, problem, chosen, found) if cell.outcome in SCORED else None
    if (total is None) != (cell.scores is None):
        yield "it has scores where it should have none, or none where it should have some"
    elif total is not None and cell.scores is not None:
        for name in ("peak_fraction", "roofline_fraction", "attainable_fraction", "peak_fraction_2026_04"):
            was, now = getattr(cell.scores, name), getattr(total, name)
            if not _near(was, now):
                yield f"its {name} is {_shown(was)}, and follows from its samples as {_shown(now)}"
    if (bool(found) and scoring.unstable(problem, chosen, found)) != cell.unstable:
        yield f"it is {'' if cell.unstable else 'not '}called unstable, and its samples say otherwise"


def _total(cell: Cell, problem: Problem, chosen: Chosen, found: Sequence[ShapeScore]) -> Scores:
    if cell.protocol == "2026-04":
        return scoring.score_2026_04(problem, chosen, found)
    return scoring.total(problem, chosen, found)


def _shape(said: ShapeScore, found: ShapeScore) -> Iterator[str]:
    for name in FIELDS:
        was, now = getattr(said, name), getattr(found, name)
        if not _near(was, now):
            yield f"{name} of {said.shape[:80]} is {_shown(was)}, and follows from its samples as {_shown(now)}"
    if not math.isclose(said.spread, found.spread, rel_tol=1e-6, abs_tol=1e-12):
        yield f"spread of {said.shape[:80]} is {said.spread:.3g}, and follows from its samples as {found.spread:.3g}"


def _near(was: object, now: object) -> bool:
    if isinstance(was, float) and isinstance(now, float):
        return math.isclose(was, now, rel_tol=NEAR, abs_tol=1e-15)
    return bool(was == now)


def _shown(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
