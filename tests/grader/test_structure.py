"""Plans are plain data that depend on the seed alone."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from grader.deck.code import DeckError
from grader.deck.structure import Structure, plans

SYMBOLS = {"n": 4096}


def lengths(symbols: Mapping[str, Any]) -> SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"lengths": st.lists(st.integers(1, symbols["n"]), min_size=8, max_size=8)})


def nothing(*_: Any) -> None:
    return None


def test_the_same_seed_gives_the_same_plans_and_another_seed_others() -> None:
    structure = Structure(lengths, nothing)
    assert plans(structure, SYMBOLS, 7, 3) == plans(structure, SYMBOLS, 7, 3)
    assert plans(structure, SYMBOLS, 7, 3) != plans(structure, SYMBOLS, 8, 3)


def test_plans_depend_neither_on_other_imports_nor_on_the_process_and_leave_no_files(tmp_path: Path) -> None:
    (tmp_path / "noise.py").write_text("X = [1234, 2345, 3456, 777, 888, 999]\n")
    script = (
        "import noise\nfrom tests.grader.test_structure import *\n"
        "print(json.dumps(plans(Structure(lengths, nothing), SYMBOLS, 7, 20)))"
    )
    env = {
        **os.environ,
        "PYTHONPATH": f"{Path(__file__).parents[2]}{os.pathsep}{tmp_path}",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, env=env, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == plans(Structure(lengths, nothing), SYMBOLS, 7, 20)
    assert [path.name for path in tmp_path.iterdir()] == ["noise.py"]


def test_plans_are_distinct_and_vary_with_the_seed_even_when_only_one_is_asked_for() -> None:
    structure = Structure(lengths, nothing)
    many = plans(structure, SYMBOLS, 1, 12)
    assert len({json.dumps(plan) for plan in many}) == 12
    assert len({json.dumps(plans(structure, SYMBOLS, seed, 1)) for seed in range(10)}) == 10


def test_a_strategy_with_fewer_plans_than_wanted_repeats_them() -> None:
    structure = Structure(lambda symbols: st.just({"order": "reversed"}), nothing)
    assert plans(structure, SYMBOLS, 1, 3) == [{"order": "reversed"}] * 3


@pytest.mark.parametrize("plan", [{"a": (1, 2)}, {"a": {1}}, {1: 2}, {"a": float("nan")}, [1]])
def test_a_plan_that_json_does_not_give_back_is_a_fault_of_the_problem(plan: Any) -> None:
    with pytest.raises(DeckError, match="JSON"):
        plans(Structure(lambda symbols: st.just(plan), nothing), SYMBOLS, 1, 1)
