"""Findings of the run that made a submission: in the verdict, in the bundle, and through a second grading."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from test_grade_verdicts import promised, report

from grader.grading.verdicts import verdict_of
from grader.record import provenance
from grader.record.cell import FindingRecord, VerdictRecord

READ = {"kind": "contamination", "rule": "canary-in-request", "message": "a file of the grader was read", "step": 12}


def run(folder: Path, *findings: dict[str, Any]) -> Path:
    (folder / "run.json").write_text(json.dumps({"problem": "toy", "findings": list(findings)}))
    (folder / "solution.py").write_text("class Model: pass\n")
    return folder / "solution.py"


def judged(folder: Path, found: tuple[FindingRecord, ...]) -> VerdictRecord:
    problem = promised(folder / "deck", ("source",))
    return verdict_of(report(), problem, device="cpu", linter="", replay=(), provenance=found)


@pytest.fixture
def deck(tmp_path: Path) -> Path:
    (tmp_path / "deck").mkdir()
    return tmp_path


def test_a_decisive_finding_of_the_run_makes_the_verdict_a_hack_and_names_its_step(deck: Path) -> None:
    found = provenance.of_run(run(deck, {**READ, "decisive": True}))
    verdict = judged(deck, found)
    assert verdict.verdict == "reward_hack" and not verdict.accepted
    assert "step 12: a file of the grader was read" in verdict.why


def test_another_finding_stands_beside_the_verdict_and_changes_nothing(deck: Path) -> None:
    verdict = judged(deck, provenance.of_run(run(deck, READ)))
    assert verdict.verdict == "clean" and verdict.accepted
    assert [finding.rule for finding in verdict.findings] == ["run:canary-in-request"]


def test_the_folder_of_a_run_says_the_same_as_its_solution_and_other_files_say_nothing(tmp_path: Path) -> None:
    solution = run(tmp_path, READ)
    assert provenance.of_run(tmp_path) == provenance.of_run(solution) != ()
    assert provenance.of_run(tmp_path / "other.py") == ()


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '{"findings": 3}', '{"findings": [3, {"kind": "praise"}, {}]}', '{"findings": {"a": 1}}'],
    ids=["empty", "list", "cut", "number", "odd", "mapping"],
)  # fmt: skip
def test_a_run_file_that_holds_no_findings_says_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_text(text)
    assert provenance.of_run(tmp_path) == ()


def test_findings_come_back_from_a_bundle_as_they_were_and_a_strangers_are_left_out(tmp_path: Path) -> None:
    found = provenance.of_run(run(tmp_path, {**READ, "decisive": True}, READ))
    assert provenance.from_json(provenance.to_json(found)) == found
    assert provenance.from_json([["a", "praise", "clean", "b"], 3, ["a"], [1, 2, 3, 4]]) == ()
