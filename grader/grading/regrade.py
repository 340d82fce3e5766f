"""Grading what a bundle holds again, with the options it was graded with, and holding the two cells side by side."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

from grader.grading.grade import grade
from grader.grading.progress import Progress
from grader.grading.request import GradeError, Request, options_from_json, problem_of
from grader.record import provenance
from grader.record.bundle import Bundle, cell_from_json
from grader.record.cell import Cell
from grader.report.view import submission_files
from grader.score import scoring
from grader.score.targets import choose_target
from kbh_lint.source.submissions import BadInput, discover

__all__ = ["Comparison", "compare", "grade_again"]

Word = Literal["same", "faster", "slower", "verdict changed"]
MOST_NAME = 200


@dataclass(frozen=True, slots=True)
class Comparison:
    """How a second grading compares with the first. `noise` is the relative difference that means nothing."""

    word: Word
    text: str
    noise: float | None = None


def grade_again(
    folder: Path, out: Path | None, problems_dir: Path | None, progress: Callable[[Progress], None]
) -> tuple[Cell, Path, Comparison]:
    """Grades the submission of a bundle once more, into a bundle of its own. Raises as `grade` does."""
    first = Bundle.open(folder)
    cells = [entry for entry in first.entries() if entry.kind == "cell"]
    if not cells:
        raise GradeError(f"{folder} is not finished, so there is nothing to compare with")
    before = cell_from_json(cells[-1].data)
    options = options_from_json(first.entries()[0].data.get("request"))
    with tempfile.TemporaryDirectory(prefix="kbh-again-") as place:
        solution = _restored(first, before, Path(place))
        known = provenance.from_json(first.entries()[0].data.get("provenance"))
        request = Request(
            solution, **options, out=out or folder.parent, problems_dir=problems_dir, provenance=known
        )  # fmt: skip
        after, made = grade(request, progress)
    found = compare(before, after, _noise(request, before, after))
    with Bundle.open(made, write=True) as bundle:
        data = {"bundle": folder.name, "head": first.head, "outcome": found.word, "text": found.text}
        bundle.append("regrade", data)
    return after, made, found


def _restored(bundle: Bundle, cell: Cell, place: Path) -> Path:
    """Writes the submission of a bundle as files. Raises GradeError where they are not what the cell names."""
    files = submission_files(bundle)
    for name, data in files.items():
        parts = PurePosixPath(name).parts
        if not parts or len(name) > MOST_NAME or PurePosixPath(name).is_absolute() or ".." in parts:
            raise GradeError(f"{bundle.folder} names a file that lies outside the submission's folder")
        target = place.joinpath(*parts)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    solution = place / "solution.py"
    found = next(discover([solution]))
    if isinstance(found, BadInput):
        raise GradeError(f"{bundle.folder} holds no submission: {found.message}")
    if found.sha256 != cell.submission:
        raise GradeError(f"{bundle.folder} holds other files than those whose hash its cell names")
    shown = place / (PurePosixPath(cell.file).name or "solution.py")
    return solution.rename(shown) if shown.suffix == ".py" and shown.parent == place else solution


def compare(before: Cell, after: Cell, noise: float | None) -> Comparison:
    """Verdict and outcome first; times only where both cells have them on the same shapes and kind of target."""
    changes = [f"{name} {was} is now {now}" for name, was, now in _standings(before, after) if was != now]
    if changes:
        return Comparison("verdict changed", "; ".join(changes))
    times = [{score.shape: score.t_scored for score in cell.shapes} for cell in (before, after)]
    if noise is None or not times[0] or times[0].keys() != times[1].keys():
        return Comparison("same", "the verdict and the outcome are the same; there are no times to compare")
    if before.target.id != after.target.id or before.target.product != after.target.product:
        return Comparison("same", "the verdict and the outcome are the same; times of two machines are not compared")
    ratio = math.exp(math.fsum(math.log(times[1][s] / times[0][s]) for s in times[0]) / len(times[0]))
    change = f"{abs(ratio - 1):.1%} {'faster' if ratio < 1 else 'slower'} by the geometric mean of t_scored"
    if 1 / (1 + noise) <= ratio <= 1 + noise:
        return Comparison("same", f"{change}, which is within the noise limit of {noise:.1%}", noise)
    word: Word = "faster" if ratio < 1 else "slower"
    return Comparison(word, f"{change}; the noise limit is {noise:.1%}", noise)


def _standings(before: Cell, after: Cell) -> Sequence[tuple[str, str, str]]:
    states: list[Mapping[str, str]] = [{p.id: p.state for p in cell.verdict.promises} for cell in (before, after)]
    return [
        ("the outcome", before.outcome, after.outcome),
        ("the verdict", before.verdict.verdict, after.verdict.verdict),
        *((f"the promise {name}", was, states[1].get(name, "gone")) for name, was in states[0].items()),
    ]


def _noise(request: Request, before: Cell, after: Cell) -> float | None:
    """Twice the largest spread that the shapes' class allows or that either grading saw; None without times."""
    shapes = (*before.shapes, *after.shapes)
    if not shapes:
        return None
    problem = problem_of(request)
    chosen = choose_target(problem, request.target)
    known = {shape.label for shape in problem.shapes}
    return 2 * max(
        max(score.spread, scoring.noise_limit(problem, chosen, score)) for score in shapes if score.shape in known
    )
