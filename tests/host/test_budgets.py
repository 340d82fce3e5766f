"""What one file may cost in all its parts together."""

from __future__ import annotations

from kbh_lint.base import paths
from kbh_lint.base.limits import Budget, Budgets
from kbh_lint.frontends import python
from kbh_lint.host.explore.exploration import MAX_FORCED, explore
from kbh_lint.host.values.session import Session
from kbh_lint.problems import load_problem

TEXT = """\
class Model:
    def __init__(self, M, N, K): pass

    def forward(self, x):
        n = 0
        if x.sum() > 1: n = 1
        if x.amax() > 1: n = 2
        for i in range(400): n += i
        return x + n
"""


def calls(steps: int) -> int:
    """How many calls of forward come to an end, over all paths and shapes, when a file may take so many steps."""
    session = Session(python.lower(TEXT, "solution.py"), {}, (9, 0), Budgets(host=Budget(steps)))
    problem = load_problem(paths.problems_dir() / "01_fp8_gemm" / "problem.yaml")
    return sum(len(run.calls) for path in explore(session, problem, None, MAX_FORCED) for run in path.shapes)


def test_all_paths_of_a_file_share_the_steps_that_it_may_take() -> None:
    assert calls(10) == 0 < calls(9_000) < calls(1_000_000) == calls(2_000_000)


def test_what_a_part_did_not_take_is_left_to_the_next() -> None:
    budget = Budget(100)
    assert budget.grant(80) == 80
    budget.take(30)
    assert budget.grant(80) == 70
    budget.take(75)
    assert budget.grant(80) == 0
