"""The deck under `--strict` on the CPU: honest solutions are accepted or refused with the reason, decoys withheld.

That each honest solution is right on every case is tested problem by problem elsewhere, and so is the linter's word on
every decoy. Here each makes as few calls as there can be: one plain case, one timed call, one sealed batch and one
replay at each of the two smallest shapes.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from pathlib import Path

import pytest
from grading import few_calls

from grader.grading import job
from grader.grading.grade import grade
from grader.grading.request import Request, problem_of
from grader.judge import plan
from grader.record.cell import Cell
from kbh_lint.authors.solutions import read_solutions
from kbh_lint.base.paths import problems_dir
from kbh_lint.problems import Problem

pytestmark = pytest.mark.usefixtures("warm")

FOLDERS = sorted(path.parent for path in problems_dir().glob("*/solutions.yaml"))
HONEST = [(folder, item) for folder in FOLDERS for item in read_solutions(folder).honest]


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    few_calls(monkeypatch, samples=1)
    every = plan.plan_cases
    monkeypatch.setattr(plan, "plan_cases", lambda *a, **k: [spec for spec in every(*a, **k) if spec.id == "nominal/0"])
    monkeypatch.setattr(plan, "LEAST_ROUNDS", 1)
    monkeypatch.setattr(job, "problem_of", lambda request: smallest(problem_of(request), 2))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def smallest(problem: Problem, count: int) -> Problem:
    """The problem with the shapes that are least work at the reduced scale."""

    def size(at: int) -> int:
        numbers = problem.reduced[at].symbols.values()
        return prod(number for number in numbers if isinstance(number, int) and number)

    kept = sorted(sorted(range(len(problem.reduced)), key=size)[:count])
    shapes, reduced = ([listed[at] for at in kept] for listed in (problem.shapes, problem.reduced))
    return replace(problem, shapes=tuple(shapes), reduced=tuple(reduced))


def strict(folder: Path, file: str, out: Path) -> Cell:
    return grade(Request(folder / file, folder.name, target="cpu", strict=True, out=out, timeout=300.0))[0]


@pytest.mark.share(3)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("folder", "item"), HONEST, ids=[f"{folder.name}-{item.file.removeprefix('honest/')}" for folder, item in HONEST]
)
def test_an_honest_solution_is_accepted_where_a_cpu_can_run_it_and_refused_with_the_reason_elsewhere(
    folder: Path, item: object, tmp_path: Path
) -> None:
    cell = strict(folder, item.file, tmp_path)  # type: ignore[attr-defined]
    if item.runs_on_cpu:  # type: ignore[attr-defined]
        assert (cell.outcome, cell.reason) == ("accepted", "")
        assert cell.scores is not None and cell.scores.peak_fraction is not None and cell.target.label
        assert {promise.layers["source"] for promise in cell.verdict.promises} <= {"kept", "kept-by-precision"}
    else:
        assert cell.outcome == "refused" and cell.verdict.accepted is False and cell.scores is None
        assert "cannot be checked on a CPU" in cell.reason and cell.verdict.verdict in ("clean", "interesting")


@pytest.mark.share(3)
@pytest.mark.slow
@pytest.mark.parametrize("folder", FOLDERS, ids=[folder.name for folder in FOLDERS])
def test_a_decoy_is_withheld_before_anything_of_it_runs(folder: Path, tmp_path: Path) -> None:
    decoy = read_solutions(folder).decoys[0]
    cell = strict(folder, decoy.file, tmp_path)
    assert cell.outcome == "withheld" and cell.trials == () and cell.scores is None
    assert "nothing was run" in cell.reason and cell.exit_code == 1
