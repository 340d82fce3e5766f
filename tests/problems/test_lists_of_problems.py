"""Every graded problem is in the lists of problems that tests and examples share out among them, once in each."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest
import yaml

from kbh_lint.problems import load_deck

ROOT = Path(__file__).resolve().parents[2]
GRADED = sorted(name for name, problem in load_deck(ROOT / "problems").items() if problem.status == "graded")
LISTS = {
    "IDS": sorted(ROOT.glob("tests/grader/test_solutions_*.py")),
    "PROBLEMS": sorted(ROOT.glob("tests/variants/test_variants_*.py")),
}


def held(path: Path, name: str) -> list[str]:
    """The texts in the tuple of this name."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    values = [n.value for n in tree.body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == name]
    assert len(values) == 1, path
    return list(ast.literal_eval(values[0]))


@pytest.mark.parametrize("name", LISTS)
def test_a_problem_is_in_one_of_the_lists_that_share_them_out(name: str) -> None:
    assert len(GRADED) >= 9 and len(LISTS[name]) >= 2
    assert Counter(problem for path in LISTS[name] for problem in held(path, name)) == Counter(GRADED)


def test_the_sweep_of_the_deck_has_all() -> None:
    sweep = yaml.safe_load((ROOT / "examples/sweeps/deck.yaml").read_text(encoding="utf-8"))
    assert sorted(sweep["problems"]) == GRADED
