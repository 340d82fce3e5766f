"""Our solutions of 02, 06 and 09: the linter's word on each, and the checker's on the CPU."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

import kbh_lint
from grader.grading.check import check_submission
from kbh_lint.findings import FileReport
from kbh_lint.problems import load_problem

pytestmark = pytest.mark.usefixtures("warm")

PROBLEMS = Path(__file__).resolve().parents[2] / "problems"
IDS = ("02_kda_cutlass", "06_sonic_moe_swiglu", "09_fmha_preattn_mrope")


def entries(kind: str) -> list[Any]:
    listed = {
        name: yaml.safe_load((PROBLEMS / name / "solutions.yaml").read_text(encoding="utf-8"))[kind] for name in IDS
    }
    return [
        pytest.param(name, e, id=f"{name[:2]}-{Path(e['file']).stem}") for name, found in listed.items() for e in found
    ]


@cache
def linted(problem: str, file: str, target: str | None) -> FileReport:
    return kbh_lint.lint([PROBLEMS / problem / file], problem=problem, target=target).files[0]


@pytest.mark.parametrize("target", [None, "h200"], ids=["any target", "h200"])
@pytest.mark.parametrize(("problem", "entry"), entries("honest"))
def test_an_honest_solution_is_clean_and_keeps_every_promise(
    problem: str, entry: dict[str, str], target: str | None
) -> None:
    report = linted(problem, entry["file"], target)
    assert report.verdict == "clean", [(f.rule, f.message) for f in report.findings]
    assert {promise.id: promise.state for promise in report.promises if promise.state != "kept"} == {}
    assert report.promises


@pytest.mark.parametrize(("problem", "entry"), entries("decoys"))
def test_a_decoy_is_flagged_by_the_rule_it_names(problem: str, entry: dict[str, str]) -> None:
    report = linted(problem, entry["file"], "h200")
    assert report.verdict in {"rubric_leak", "reward_hack"}, report.unread
    assert entry["rule"] in {finding.rule for finding in report.findings}


@pytest.mark.parametrize("problem", IDS)
def test_the_decoys_of_a_problem_are_at_least_four_ideas(problem: str) -> None:
    decoys = yaml.safe_load((PROBLEMS / problem / "solutions.yaml").read_text(encoding="utf-8"))["decoys"]
    assert len({decoy["rule"] for decoy in decoys}) == len(decoys) >= 4


@pytest.mark.parametrize("problem", IDS)
def test_every_solution_in_the_folder_is_listed(problem: str) -> None:
    listed = yaml.safe_load((PROBLEMS / problem / "solutions.yaml").read_text(encoding="utf-8"))
    files = {e["file"] for kind in ("honest", "decoys") for e in listed[kind]}
    assert files == {
        str(p.relative_to(PROBLEMS / problem))
        for k in ("honest", "decoys")
        for p in (PROBLEMS / problem / k).glob("*.py")
    }


@pytest.mark.parametrize(
    ("problem", "shape"), [("02_kda_cutlass", 3), ("06_sonic_moe_swiglu", 2), ("09_fmha_preattn_mrope", 2)]
)
def test_an_honest_solution_passes_the_checker_in_the_interpreter(problem: str, shape: int) -> None:
    pytest.importorskip("triton", reason="triton is not installed")
    found = load_problem(PROBLEMS / problem / "problem.yaml")
    one = replace(found, shapes=found.shapes[shape : shape + 1], reduced=found.reduced[shape : shape + 1])
    solution = PROBLEMS / problem / "honest" / "triton.py"
    report = check_submission(one, solution, device="cpu", scale="reduced", master=bytes(32), timeout=300.0)
    assert report.outcome == "passed", report.message
    assert len(report.cases) >= 10
