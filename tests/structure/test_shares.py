"""What a run leaves out of dear tests: it is drawn by the commit, and comes at another."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import shares
from shares import BUDGET, CPU, GUARDS, LONG, SECONDS, SINGLE, drawn, guarded, measured

ROOT = Path(__file__).resolve().parents[2]
CASES = [*((f"a.py::many[{at}]", 3) for at in range(31)), ("a.py::few[x]", 3), ("a.py::all[x]", 1), ("a.py::all[y]", 1)]
TOOK = {"a.py::dear": BUDGET / 4.1, "a.py::dearest": BUDGET * 2, "a.py::long": LONG * 2}
TOOK |= {f"a.py::alone{at}": LONG * 2 for at in range(8)}
DEAR = [
    *((f"a.py::dear[{at}]", 1) for at in range(31)),
    *((f"a.py::dearest[{at}]", 1) for at in range(5)),
    *((f"a.py::alone{at}", 1) for at in range(8)),
    *((f"a.py::long[{at}]", 1) for at in range(3)),
    ("a.py::cheap", 1),
]


def test_a_share_of_each_test_is_drawn_and_at_least_one_case() -> None:
    left = drawn(CASES, "a commit")
    assert sum("many" in name for name in left) == 11
    assert left >= {"a.py::few[x]", "a.py::all[x]", "a.py::all[y]"}
    assert left == drawn(reversed(CASES), "a commit")


def test_of_dear_tests_as_many_cases_are_drawn_as_the_budget_holds_and_of_long_ones_some() -> None:
    left = drawn(DEAR, "a commit", TOOK)
    count = {name: sum(one.startswith(f"a.py::{name}") for one in left) for name in ("dear[", "dearest", "cheap")}
    assert count == {"dear[": 4, "dearest": 1, "cheap": 1}
    assert sum(one.startswith(("a.py::alone", "a.py::long")) for one in left) == 9 // SINGLE
    assert left == drawn(reversed(DEAR), "a commit", TOOK)
    assert len(drawn(DEAR, "a commit", {})) == len(DEAR)


def test_a_mark_and_the_budget_both_hold() -> None:
    marked = [(f"a.py::dear[{at}]", 3) for at in range(31)]
    assert len(drawn(marked, "a commit", TOOK)) == 4
    assert len(drawn(marked[:6], "a commit", TOOK)) == 2


def test_what_guards_others_is_left_out_by_its_marks_alone() -> None:
    of = GUARDS[0]
    names = [(f"{of}.py::dear[{at}]", 1) for at in range(9)] + [(f"{of}.py::alone", 1)]
    dear = {f"{of}.py::dear": BUDGET * 9, f"{of}.py::alone": BUDGET * 9}
    assert drawn(names, "a commit", dear) == {name for name, _ in names}
    assert len(drawn([(name, 3) for name, _ in names], "a commit", dear)) == 4


@pytest.mark.parametrize(("cases", "seconds"), [(CASES, {}), (DEAR, TOOK)])
def test_every_case_comes_at_some_commit(cases: list[tuple[str, int]], seconds: dict[str, float]) -> None:
    turns = [drawn(cases, f"commit {at}", seconds) for at in range(99)]
    assert set().union(*turns) == {name for name, _ in cases}
    assert len({frozenset(turn) for turn in turns}) == len(turns)


def test_what_a_test_took_is_read_from_a_report(tmp_path: Path) -> None:
    def case(name: str, seconds: float) -> str:
        noted = f'<properties><property name="{CPU}" value="{seconds}"/></properties>'
        return f'<testcase classname="tests.a.test_b" name="{name}" time="9">{noted}</testcase>'

    report = tmp_path / "junit.xml"
    told = case("many[x]", 4) + case("many[y]", 6) + case("cheap", 0.01)
    report.write_text(f"<testsuites><testsuite>{told}</testsuite></testsuites>")
    assert measured([report]) == {"tests/a/test_b.py::many": 5}


def test_each_row_and_each_guard_names_what_is_there() -> None:
    texts = {path: path.read_text() for path in (ROOT / "tests").rglob("test_*.py")}
    written = {
        f"{path.relative_to(ROOT).as_posix()}::{name}"
        for path, text in texts.items()
        for name in re.findall(r"^def (test_\w+)", text, re.M)
    }
    assert set(SECONDS) - written == set(), f"their rows go from {shares.TABLE.name}, or take the new name"
    assert [guard for guard in GUARDS if not any(name.startswith(guard) for name in written)] == []
    assert any(guarded(name) for name in SECONDS)
