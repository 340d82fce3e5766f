"""The page of a problem: what it asks and promises, what hardware allows, how far models and our own kernels are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.site.common import render
from harness.site.model import Honest, Site, Trial
from harness.site.pictures import Scale, dots, scale
from harness.statistics.board import CellSummary
from kbh_lint.authors.floors import Floor, floor
from kbh_lint.base.formulas import FormulaError
from kbh_lint.problems import Contract, Problem, Shape, Target

__all__ = ["problem_page", "problems_page"]

STRIP = 26  # units of height of a strip of trials
MOST_RUNS = 60  # gradings without a run that are listed


@dataclass(frozen=True, slots=True)
class _Tensor:
    role: str
    name: str
    dtype: str
    sizes: str


@dataclass(frozen=True, slots=True)
class _Ceiling:
    """A target: the floor of each shape, and our best kernel there."""

    target: Target
    floors: tuple[tuple[Floor, float | None], ...]
    best: Honest | None


@dataclass(frozen=True, slots=True)
class _Model:
    cell: CellSummary
    trial: Trial
    dots: str


@dataclass(frozen=True, slots=True)
class _Group:
    """Models on one target, by their means, on a scale that holds our best kernel too."""

    target: str
    axis: Scale
    models: tuple[_Model, ...]
    best: Honest | None


def problems_page(site: Site) -> str:
    """All problems of the board."""
    return render(
        "problems.html.j2", top="", title=f"{site.title}: problems", here="problems.html", site=site,
        ids=sorted({trial.facts.problem for trial in site.trials}), summary=_summary(site),
    )  # fmt: skip


def problem_page(site: Site, id_: str, trials: Sequence[Trial]) -> str:
    """One problem. `trials` are those on it, gradings without a run among them."""
    problem = site.problems.get(id_)
    shapes = [(shape, *_work(problem, shape)) for shape in problem.shapes] if problem is not None else []
    gradings = [trial for trial in trials if not trial.model]
    return render(
        "problem.html.j2", top="../", title=f"{site.title}: {id_}", here="", site=site, id=id_, problem=problem,
        contracts=[(one, list(_tensors(one))) for one in problem.contracts.values()] if problem is not None else [],
        shapes=shapes, ceilings=list(_ceilings(site, problem, trials)) if problem is not None else [],
        groups=list(_groups(site, id_, trials)), gradings=gradings[:MOST_RUNS], more=len(gradings) - MOST_RUNS,
    )  # fmt: skip


def _summary(site: Site) -> dict[str, tuple[int, int, int]]:
    """By problem: trials, those with a score, leaks."""
    found: dict[str, tuple[int, int, int]] = {}
    for trial in site.trials:
        count, scored, leaks = found.get(trial.facts.problem, (0, 0, 0))
        found[trial.facts.problem] = (count + 1, scored + (trial.mark == "score"), leaks + (trial.mark == "leak"))
    return found


def _work(problem: Problem | None, shape: Shape) -> tuple[float, float]:
    try:
        return problem.work(shape) if problem is not None else (0.0, 0.0)
    except FormulaError:
        return 0.0, 0.0


def _tensors(contract: Contract) -> Iterator[_Tensor]:
    for role, specs in (("input", contract.forward), ("state", contract.state), ("output", contract.output)):
        for spec in specs:
            yield _Tensor(role, spec.name, spec.dtype, " x ".join(str(size) for size in spec.shape))


def _ceilings(site: Site, problem: Problem, trials: Sequence[Trial]) -> Iterator[_Ceiling]:
    """The targets that runs or our own kernels were on, those with runs first."""
    seen = {trial.facts.target for trial in trials}
    for name in sorted(problem.targets, key=lambda one: (one not in seen, one)):
        best = _best(site, problem.id, name)
        if name not in site.targets or (name not in seen and best is None):
            continue
        floors = []
        for shape in problem.shapes:
            try:
                found = floor(problem, shape, site.targets[name])
            except FormulaError:
                found = None
            if found is not None:
                floors.append((found, best.shapes.get(shape.label) if best is not None else None))
        yield _Ceiling(site.targets[name], tuple(floors), best)


def _best(site: Site, problem: str, target: str) -> Honest | None:
    return next(iter(site.honest.get((problem, target), ())), None)


def _groups(site: Site, id_: str, trials: Sequence[Trial]) -> Iterator[_Group]:
    for target, board in site.boards.items():
        cells = [cell for cell in board.cells if cell.problem == id_]
        by_model: dict[str, list[Trial]] = {}
        for trial in trials:
            if trial.model and trial.facts.target == target:
                by_model.setdefault(trial.model, []).append(trial)
        best = _best(site, id_, target)
        values = [trial.score for several in by_model.values() for trial in several if trial.score]
        axis = scale([*values, *([best.fraction] if best is not None else [])])
        models = [
            _Model(cell, max(several, key=lambda one: (one.score or 0.0, -one.trial)),
                   dots(axis, [one.score for one in several if one.score is not None], STRIP))
            for cell in cells if (several := by_model.get(cell.model))
        ]  # fmt: skip
        if models:
            models.sort(key=lambda one: (-(one.cell.score if one.cell.score is not None else -1.0), one.cell.model))
            yield _Group(target, axis, tuple(models), best)
