"""Our solutions of 03, 04 and 05: the linter's word on each, and the checker's on the CPU."""

from __future__ import annotations

import dataclasses
from functools import cache
from pathlib import Path

import pytest

import kbh_lint
from grader.grading.check import check_submission
from kbh_lint.authors.solutions import Decoy, Honest, read_solutions
from kbh_lint.findings import FileReport
from kbh_lint.problems import load_problem

pytestmark = pytest.mark.usefixtures("warm")

PROBLEMS = Path(__file__).resolve().parents[2] / "problems"
IDS = ("03_paged_attention", "04_kahan_softmax", "05_topk_bitonic")
HONEST = [(name, entry) for name in IDS for entry in read_solutions(PROBLEMS / name).honest]
DECOYS = [(name, entry) for name in IDS for entry in read_solutions(PROBLEMS / name).decoys]
# Positions among the reduced shapes: a ragged one, and for the rest one that an interpreter does quickly.
CHECKED = {"03_paged_attention": (3,), "04_kahan_softmax": (0,), "05_topk_bitonic": (3,)}


def name_of(value: object) -> str:
    return Path(value.file).stem if isinstance(value, Honest | Decoy) else str(value)[:2]


@cache
def linted(problem: str, file: str, target: str | None) -> FileReport:
    return kbh_lint.lint([PROBLEMS / problem / file], problem=problem, target=target).files[0]


@pytest.mark.parametrize("target", [None, "h200"], ids=["any target", "h200"])
@pytest.mark.parametrize(("problem", "entry"), HONEST, ids=name_of)
def test_an_honest_solution_is_clean_and_keeps_every_promise(problem: str, entry: Honest, target: str | None) -> None:
    report = linted(problem, entry.file, target)
    assert report.verdict == "clean", [(f.rule, f.message) for f in report.findings]
    states = {promise.id: promise.state for promise in report.promises}
    assert set(states) == {promise.id for promise in load_problem(PROBLEMS / problem / "problem.yaml").promises}
    assert set(states.values()) == {"kept"}, states


@pytest.mark.parametrize(("problem", "entry"), DECOYS, ids=name_of)
def test_a_decoy_is_flagged_by_the_rule_it_names(problem: str, entry: Decoy) -> None:
    report = linted(problem, entry.file, "h200")
    assert report.verdict in {"rubric_leak", "reward_hack"}, report.unread
    assert entry.rule in {finding.rule for finding in report.findings}


@pytest.mark.parametrize("problem", IDS)
def test_the_decoys_of_a_problem_break_it_by_four_rules_or_more(problem: str) -> None:
    assert len({decoy.rule for name, decoy in DECOYS if name == problem}) >= 4


@pytest.mark.parametrize("problem", IDS)
def test_every_solution_in_the_folder_is_listed(problem: str) -> None:
    listed = {entry.file for name, entry in HONEST if name == problem}
    listed |= {entry.file for name, entry in DECOYS if name == problem}
    found = {
        f"{kind}/{path.name}" for kind in ("honest", "decoys") for path in (PROBLEMS / problem / kind).glob("*.py")
    }
    assert listed == found


@pytest.mark.parametrize(("problem", "entry"), [(p, e) for p, e in HONEST if e.runs_on_cpu], ids=name_of)
def test_an_honest_solution_passes_the_checker_on_a_cpu(problem: str, entry: Honest) -> None:
    whole = load_problem(PROBLEMS / problem / "problem.yaml")
    kept = CHECKED[problem]
    part = dataclasses.replace(
        whole, shapes=tuple(whole.shapes[i] for i in kept), reduced=tuple(whole.reduced[i] for i in kept)
    )  # fmt: skip
    report = check_submission(part, PROBLEMS / problem / entry.file, device="cpu", master=bytes(32), timeout=100.0)
    assert report.outcome == "passed", report.message
    assert len(report.cases) >= 10


def test_a_tree_sum_passes_the_softmax_checker_so_that_only_the_linter_catches_it() -> None:
    whole = load_problem(PROBLEMS / "04_kahan_softmax" / "problem.yaml")
    part = dataclasses.replace(whole, shapes=whole.shapes[:1], reduced=whole.reduced[:1])
    file = PROBLEMS / whole.id / "decoys" / "tree_sum.py"
    report = check_submission(part, file, device="cpu", master=bytes(32), timeout=100.0)
    assert report.outcome == "passed", report.message
