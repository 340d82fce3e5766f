"""Every mutant of the deck that a CPU can judge is dead at the reduced shapes."""

from __future__ import annotations

import pytest

from grader.authoring.mutation import run, table
from grader.deck.code import load_code
from kbh_lint.base import paths
from kbh_lint.problems import load_deck

DECK = load_deck(paths.problems_dir())
GRADED = [problem_id for problem_id in DECK if DECK[problem_id].status == "graded"]


@pytest.mark.parametrize("problem_id", GRADED)
def test_a_problem_has_ten_mutants_with_ideas_of_their_own(problem_id: str) -> None:
    mutants = load_code(DECK[problem_id]).mutants
    assert len(mutants) >= 10
    assert len({mutant.id for mutant in mutants}) == len({mutant.idea for mutant in mutants}) == len(mutants)


@pytest.mark.share(4)
@pytest.mark.slow
@pytest.mark.parametrize("problem_id", GRADED)
def test_no_mutant_survives_the_reduced_shapes(problem_id: str) -> None:
    report = run(DECK[problem_id], seed=20261121)
    assert not report.survivors and not report.too_many_equivalents, table(report)
    assert report.count("killed") >= 10
