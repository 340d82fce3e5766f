"""Whether times repeat: whole gradings of each submission, and the claimed times against a tracer's.

Gradings of all submissions take turns, so that a slow change of the machine is in all of them. Each has fresh processes
and keys, and what an empty call costs is measured anew for each. What must repeat is `t_scored` of every shape; the
class of a shape says how well. One more grading of each, with evidence, has a tracer see the kernels: event time less
the empty kernel's is held against the time from the first kernel's start to the last one's end.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.record.bundle import Bundle, BundleError, CodecError
from grader.record.cell import Cell, ShapeScore
from grader.report.view import View, load_view
from grader.score import scoring
from grader.score.targets import Chosen, hardware_file
from grader.silicon.kernels import parse_trace
from grader.silicon.ncu import ProfilerError
from kbh_lint.base import paths
from kbh_lint.problems import Problem, Target, load_deck, load_targets

__all__ = ["AGREE_S", "AGREE_SHARE", "Repeat", "Submission", "agreement", "known", "repeatability", "repeats"]

AGREE_SHARE, AGREE_S = 0.03, 1e-6  # how far event times may lie from the tracer's
AGREEMENT = (
    f"event time less the empty kernel's, and the tracer's: {AGREE_SHARE:.0%} and {AGREE_S * 1e6:g} us are allowed"
)
Submission = tuple[str, Path]
Grade = Callable[[Sequence[Submission], bool], Sequence[Path]]  # all of them, with evidence or not; returns bundles


@dataclass(frozen=True, slots=True)
class Repeat:
    """The scored and the claimed times of one shape in several gradings, in seconds, and what its class allows."""

    problem: str
    shape: str
    times: tuple[float, ...]
    claims: tuple[float, ...]
    limit: float
    spread: float  # the median of what each grading said its repeats would vary by

    @property
    def variation(self) -> float:
        """Coefficient of variation."""
        return _variation(self.times)

    @property
    def met(self) -> bool:
        """Whether it varies no more than its class allows."""
        return self.variation <= self.limit


def repeatability(submissions: Sequence[Submission], count: int, grade: Grade) -> bool:
    """Prints a table over `count` gradings of each submission; whether every shape repeats as its class wants."""
    cells: list[list[Cell]] = [[] for _ in submissions]
    for _ in range(count):
        for found, folder in zip(cells, grade(submissions, False), strict=True):
            found.append(load_view(folder).cell)
    return _table(cells)


def known(folders: Sequence[Path]) -> bool:
    """Both tables from bundles that there are: repeats of what was graded more than once, traces where there are any.

    Raises BundleError, with the folder, or Unfinished where one cannot be read.
    """
    views = [(folder, _view(folder)) for folder in folders]
    graded: dict[tuple[str, str], list[Cell]] = {}
    for _, view in views:
        graded.setdefault((view.cell.problem, view.cell.submission), []).append(view.cell)
    again = [cells for cells in graded.values() if len(cells) > 1]
    good = _table(again) if again else True
    print(AGREEMENT)
    rows = [_agrees(folder, view.cell) for folder, view in views if view.silicon is not None]
    print(f"  {sum(sum(row) for row in rows)} of {sum(map(len, rows))} shapes agree", flush=True)
    return good and all(map(all, rows))


def _view(folder: Path) -> View:
    try:
        return load_view(folder)
    except (BundleError, CodecError, OSError) as error:
        raise BundleError(f"{folder}: {error}") from None


def _table(cells: Sequence[Sequence[Cell]]) -> bool:
    rows = [row for found in cells for row in repeats(found)]
    print(
        f"t_scored over {max(map(len, cells), default=0)} gradings: mean, coefficient of variation and what is allowed"
    )
    for row in rows:
        mean, standing = statistics.fmean(row.times) * 1e6, "ok" if row.met else "MISSED"
        others = f"({row.spread:.2%} told, claims {_variation(row.claims):.2%})"
        varies = f"{row.variation:>8.2%} of {row.limit:.1%} {others}"
        print(f"  {row.problem:<28}{row.shape:<30}{mean:>10.2f} us{varies}  {standing}")
    print(f"  {sum(row.met for row in rows)} of {len(rows)} shapes repeat", flush=True)
    return all(row.met for row in rows)


def repeats(cells: Sequence[Cell]) -> list[Repeat]:
    """The shapes that have a score in every one of these gradings of one submission."""
    if not cells:
        return []
    problem = load_deck(paths.problems_dir())[cells[0].problem]
    scores = [{score.shape: score for score in cell.shapes} for cell in cells]
    found = []
    for first in cells[0].shapes:
        ours = [one[first.shape] for one in scores if first.shape in one]
        if len(ours) == len(cells) > 1:
            times = tuple(score.t_scored for score in ours)
            claims = tuple(score.t_event for score in ours)
            limit = scoring.noise_limit(problem, _chosen(cells[0], problem), _typical(ours))
            told = statistics.median(s.spread for s in ours)
            found.append(Repeat(problem.id, first.shape, times, claims, limit, told))
    return found


def agreement(submissions: Sequence[Submission], grade: Grade) -> bool:
    """Prints event times beside a tracer's, one grading with evidence each; whether all agree."""
    print(AGREEMENT)
    rows = [_agrees(folder, load_view(folder).cell) for folder in grade(submissions, True)]
    return all(map(all, rows))


def _agrees(folder: Path, cell: Cell) -> list[bool]:
    """Prints what a bundle's cell claims for each shape beside the tracer's time; whether they agree."""
    spans, found = traced(folder), []
    for score in cell.shapes:
        claimed, seen = score.t_event - score.t_null, spans.get(score.shape)
        if seen is None:
            print(f"  {cell.problem:<28}{score.shape:<30}{claimed * 1e6:>10.2f} us  no trace  MISSED")
            found.append(False)
            continue
        found.append(abs(claimed - seen) <= AGREE_SHARE * seen + AGREE_S)
        apart = f"{claimed * 1e6:>10.2f} us{seen * 1e6:>10.2f} us{(claimed - seen) * 1e6:>+8.2f} us"
        print(f"  {cell.problem:<28}{score.shape:<30}{apart}  {'ok' if found[-1] else 'MISSED'}", flush=True)
    return found


def traced(folder: Path) -> Mapping[str, float]:
    """Seconds from the first start to the last end of a call at each shape, as the tracer saw it; the median call."""
    silicon, bundle = load_view(folder).silicon, Bundle.open(folder)
    if silicon is None or not silicon.shapes or len(silicon.traces) % len(silicon.shapes):
        return {}
    each = len(silicon.traces) // len(silicon.shapes)
    found = {}
    for index, shape in enumerate(silicon.shapes):
        names = silicon.traces[index * each : (index + 1) * each]
        try:
            spans = [parse_trace(bundle.get(name).decode("utf-8", "replace")).span for name in names]
        except ProfilerError:
            continue
        if spans and min(spans) > 0:
            found[shape.shape] = statistics.median(spans)
    return found


def _variation(times: Sequence[float]) -> float:
    return statistics.stdev(times) / statistics.fmean(times)


def _chosen(cell: Cell, problem: Problem) -> Chosen:
    """The target of a cell; a CPU's peaks are not in it, and its limit does not depend on them."""
    record = cell.target
    cpu = Target(record.id, record.id, record.product, record.dram_gbps, {})
    return Chosen(load_targets(hardware_file(problem)).get(record.id, cpu), record)


def _typical(scores: Sequence[ShapeScore]) -> ShapeScore:
    return sorted(scores, key=lambda score: score.t_scored)[len(scores) // 2]
