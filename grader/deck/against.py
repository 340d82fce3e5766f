"""Outputs held against a problem's oracle: whole, or on rows drawn late where the whole oracle is too dear.

An oracle in fp64 costs as many operations as the problem itself, at a rate far below the tensor cores'. A problem
with a rows.py, which defines `oracle_rows` and `boundary_rows`, lets the judge ask for some rows of the first
dimension only: every boundary row, which the inputs decide (the first and last row of each expert), and ROWS others.
The draw comes from the trial's secret key and is made after the judge has its copy of the outputs, so that nobody can
know the rows while there is still something to write. One call of each shape and trial is compared whole all the same.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from grader.deck.cases import Bound, Case
from grader.deck.code import Code, DeckError, ours
from grader.deck.correctness import Comparison, compare
from grader.deck.keys import derive
from kbh_lint.problems import Problem

__all__ = ["Held", "hold", "missed", "too_dear"]

MOST_FLOPS = 1e12  # of a problem's formula; about 0.02 s of fp64 on a GPU with tensor cores for it
ROWS = 4096  # finds a share p of wrong rows with the probability 1 - (1 - p)**ROWS, each compared call anew
BEYOND = 4  # times as many rows as would be drawn, below which the whole costs about the same


@dataclass(frozen=True, slots=True)
class Held:
    """The result of comparing outputs with an oracle, on `rows` rows drawn of `of_rows`; both are 0 where the whole
    output was compared."""

    result: Comparison
    rows: int = 0
    of_rows: int = 0


def too_dear(problem: Problem, case: Case, code: Code) -> bool:
    """Whether the oracle costs so much at this shape that only some rows of the output are compared with it."""
    if code.oracle_rows is None:
        return False
    count = int(case.binding.outputs[0].shape[0])
    return count > BEYOND * ROWS and problem.work(case.shape)[0] > MOST_FLOPS


def missed(wrong: int, total: int, rows: int = ROWS) -> float:
    """The probability that none of `wrong` rows out of `total` is among `rows` that are drawn without order."""
    chance = 1.0
    for taken in range(min(rows, total)):
        chance *= max(total - wrong - taken, 0) / (total - taken)
    return chance


def hold(
    problem: Problem, code: Code, case: Case, outputs: Sequence[Tensor], master: bytes, *, whole: bool = False
) -> Held:
    """Compares copies of the outputs with the oracle. Raises DeckError for a fault of the problem's own code."""
    with ours(f"the oracle of {problem.id} on {case.spec.id} at {case.shape.label}"):
        if whole or not too_dear(problem, case, code):
            return Held(compare(outputs, code.oracle(case.binding.init, case.inputs, case.state), case))
        rows = drawn_rows(problem, code, case, master)
        return _held_on(rows, problem, code, case, outputs)


def drawn_rows(problem: Problem, code: Code, case: Case, master: bytes) -> Tensor:
    """The rows [n] i64 that a case is compared on, in order: its boundaries and ROWS others, on the outputs' device."""
    assert code.boundary_rows is not None
    count = int(case.binding.outputs[0].shape[0])
    fixed = {int(row) for row in code.boundary_rows(case.binding.init, case.inputs)}
    if not all(0 <= row < count for row in fixed):
        raise DeckError(f"a boundary row of {problem.id} lies outside of its output")
    drawn = random.Random(derive(master, "rows", problem.id, case.shape.label, case.spec.id))
    rows = fixed.union(drawn.sample(range(count), ROWS))
    return torch.tensor(sorted(rows), device=next(iter(case.inputs.values())).device)


def _held_on(rows: Tensor, problem: Problem, code: Code, case: Case, outputs: Sequence[Tensor]) -> Held:
    assert code.oracle_rows is not None
    count = int(case.binding.outputs[0].shape[0])
    for spec, bound in zip(case.binding.outputs, case.bounds, strict=True):
        if int(spec.shape[0]) != count or bound.metric == "selection" or -len(spec.shape) in bound.over:
            raise DeckError(f"outputs of {problem.id} are not compared row by row, so it cannot have oracle_rows")
    want = code.oracle_rows(case.binding.init, case.inputs, case.state, rows)
    bounds = tuple(_bound_at(bound, rows) for bound in case.bounds)
    result = compare([tensor[rows] for tensor in outputs], want, replace(case, bounds=bounds), rows=rows)
    return Held(result, len(rows), count)


def _bound_at(bound: Bound, rows: Tensor) -> Bound:
    if bound.region is None:
        return bound
    return replace(bound, region=replace(bound.region, mask=bound.region.mask[rows]))
