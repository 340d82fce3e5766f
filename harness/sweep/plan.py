"""What a sweep would do, said before anything starts: runs, hours, and the most that it can cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import mean
from typing import Any

from harness.archive import Facts
from harness.record.run import RunRecord
from harness.running.display import clock
from harness.sweep.ledger import Known, Ledger
from harness.sweep.matrix import Matrix
from harness.sweep.progress import dollars

__all__ = ["Plan", "plan_json", "plan_of", "plan_text"]

MOST_ROWS = 20
GRADING_SECONDS = 600.0  # taken for a grading where none of this sweep is known


@dataclass(frozen=True, slots=True)
class Plan:
    """`cells` are all, of which `settled` are done, `grading` only to be graded, and `runs` to be run.

    `likely_s` is wall clock by the cells that are settled, None where none is; `most_s` has every agent use its budget,
    and each grading take `grading_s`: as long as the longest of this sweep.
    `run_usd` is the cap of one run; `most_usd` what all further runs can cost where no run has to be made again,
    `again_usd` where each is made as often as may be, both within the cap on the sweep. None: nothing bounds it.
    """

    cells: int
    settled: int
    grading: int
    runs: int
    jobs: int
    likely_s: float | None
    most_s: float
    grading_s: float
    run_usd: float | None
    most_usd: float | None
    again_usd: float | None
    sweep_usd: float | None
    spent_usd: float
    unpriced: int


def plan_of(matrix: Matrix, ledger: Ledger, jobs: int) -> Plan:
    """The plan for the unsettled cells of a ledger, with `jobs` at a time."""
    left = ledger.open()
    grading = sum(bool(known.resume) for known in left)
    runs = [known for known in left if not known.resume]
    took = [_seconds(known.settled) for known in ledger.known.values() if known.settled is not None]
    gradings = [max(_seconds(k.settled) - _agent(k.settled), 0.0) for k in ledger.known.values() if k.settled]
    grade_s = max(gradings) if gradings else GRADING_SECONDS
    waves = -(-len(left) // jobs)
    paid = [known for known in runs if not known.cell.scripted]
    most = _most(matrix, ledger, len(paid))
    again = _most(matrix, ledger, sum(matrix.attempts - len(known.errors) for known in paid))
    return Plan(
        len(ledger.known), len(ledger.known) - len(left), grading, len(runs), jobs,
        mean(took) * len(left) / jobs if took else None, waves * (matrix.budget_s + grade_s), grade_s,
        matrix.run_usd, most, again, matrix.sweep_usd, ledger.cost, ledger.unpriced,
    )  # fmt: skip


def _most(matrix: Matrix, ledger: Ledger, runs: int) -> float | None:
    if not runs:
        return 0.0
    if matrix.run_usd is None:
        return None
    worst = runs * matrix.run_usd
    if matrix.sweep_usd is None:
        return worst
    return min(worst, max(matrix.sweep_usd - ledger.cost - ledger.unpriced * matrix.run_usd, 0.0))


def _seconds(run: RunRecord | Facts | None) -> float:
    return max(run.ended - run.started, 0.0) if run is not None else 0.0


def _agent(run: RunRecord | Facts | None) -> float:
    """Seconds of the agent; an archive's index has them only as a part of all."""
    return run.spent.agent if isinstance(run, RunRecord) else 0.0


def plan_text(matrix: Matrix, ledger: Ledger, plan: Plan) -> str:
    """The plan as text for people."""
    axes = (
        ("agent", matrix.agents),
        ("model", matrix.models),
        ("problem", matrix.problems),
        ("target", matrix.targets),
    )
    sparse = ", where there is a file" if any(model.sparse for model in matrix.models) else ""
    rows = len(matrix.skip)
    skipped = f", without what {rows} row{' skips' if rows == 1 else 's skip'}" if rows else ""
    product = " x ".join(
        f"{count} {name}{'s' if count != 1 else ''}"
        for name, count in (*((name, len(values)) for name, values in axes), ("trial", matrix.trials))
    )
    lines = [f"{matrix.name}: {plan.cells:,} cells = {product}{sparse}{skipped}"]
    done = Counter(known.settled.outcome for known in ledger.known.values() if known.settled is not None)
    if plan.settled:
        told = ", ".join(f"{count} {outcome}" for outcome, count in sorted(done.items()))
        lines.append(f"  settled    {plan.settled:,} ({told}); spent so far: {dollars(ledger)}")
    lines.append(f"  to run     {plan.runs:,}" + (f", and {plan.grading:,} only to be graded" if plan.grading else ""))
    lines += [f"  of which   {text}" for text in _by_model(ledger.open())]
    likely = "" if plan.likely_s is None else f"about {_hours(plan.likely_s)} by the cells that are settled; "
    lines.append(
        f"  time       {likely}{_hours(plan.most_s)} if every agent uses its {clock(matrix.budget_s)}"
        f" and every grading takes {clock(plan.grading_s)}, {plan.jobs} at a time"
    )
    lines.append(f"  cost       {_cost(matrix, plan)}")
    return "\n".join(lines) + "\n"


def _by_model(left: Sequence[Known]) -> list[str]:
    counts = Counter((known.cell.request.agent, known.cell.request.model) for known in left)
    told = [f"{count:,} of {agent} {model}" for (agent, model), count in counts.items()]
    more = len(told) - MOST_ROWS
    return [] if len(told) < 2 else told if more <= 0 else [*told[:MOST_ROWS], f"and {more:,} other models"]


def _hours(seconds: float) -> str:
    return (
        f"{seconds / 3600:.1f} h"
        if seconds >= 3600
        else f"{seconds / 60:.0f} min"
        if seconds >= 90
        else f"{seconds:.0f} s"
    )


def _cost(matrix: Matrix, plan: Plan) -> str:
    if plan.most_usd is None or plan.again_usd is None:
        return "NOT BOUNDED: the matrix has no `caps: {run_usd: ...}`"
    if plan.again_usd == 0:
        return "nothing: what is left has scripts in place of models" if plan.runs else "nothing"
    more = f"; ${plan.again_usd:.2f} if each run has to be made {matrix.attempts} times"
    cap = f"; the sweep stops at ${plan.sweep_usd:.2f} in all" if plan.sweep_usd is not None else ""
    return f"${plan.most_usd:.2f} at most{more if plan.again_usd > plan.most_usd else ''}{cap}"


def plan_json(ledger: Ledger, plan: Plan) -> dict[str, Any]:
    """A plan for programs. `keys` are those of all cells, in their order."""
    return {"version": 1, "plan": asdict(plan), "keys": list(ledger.known)}
