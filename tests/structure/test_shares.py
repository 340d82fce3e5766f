"""What a run leaves out of tests with very many cases: it is drawn by the commit, and comes at another."""

from __future__ import annotations

from shares import drawn

CASES = [*((f"a.py::many[{at}]", 3) for at in range(31)), ("a.py::few[x]", 3), ("a.py::all[x]", 1), ("a.py::all[y]", 1)]


def test_a_share_of_each_test_is_drawn_and_at_least_one_case() -> None:
    left = drawn(CASES, "a commit")
    assert sum("many" in name for name in left) == 11
    assert left >= {"a.py::few[x]", "a.py::all[x]", "a.py::all[y]"}
    assert left == drawn(reversed(CASES), "a commit")


def test_every_case_comes_at_some_commit() -> None:
    turns = [drawn(CASES, f"commit {at}") for at in range(40)]
    assert set().union(*turns) == {name for name, _ in CASES}
    assert len({frozenset(turn) for turn in turns}) == len(turns)
