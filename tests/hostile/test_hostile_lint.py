"""What the linter says of the hostile submissions before any of them runs."""

from __future__ import annotations

from pathlib import Path

import hostile_suite as suite
import pytest
import yaml
from hostile_table import unseen

from kbh_lint import lint
from kbh_lint.findings import FileReport

SILENT = {name: group for group in unseen() for name in group["cases"]}


@pytest.fixture(scope="module")
def reports() -> dict[str, FileReport]:
    """The report on each attack, by its name."""
    files = lint([case.file for case in suite.load_cases()], problem=suite.PROBLEM, problems_dir=suite.DECK).files
    return {Path(file.path).stem: file for file in files}


def flagged(report: FileReport) -> list[str]:
    """The rules beyond those of TORCH_RULES that speak against a file."""
    return [f.rule for f in report.findings if f.rule not in suite.TORCH_RULES and f.severity != "info"]


def test_an_attack_is_flagged_unless_it_is_listed_with_a_reason(reports: dict[str, FileReport]) -> None:
    assert {name for name, report in reports.items() if not flagged(report)} == set(SILENT)


def test_what_is_listed_as_told_or_unproven_is(reports: dict[str, FileReport]) -> None:
    for name, group in SILENT.items():
        if group.get("told"):
            assert any(f.rule.startswith("KBH7") for f in reports[name].findings), name
        if group.get("unproven"):
            assert reports[name].verdict == "unproven", name


def test_a_reason_stands_once_for_each_case() -> None:
    text = yaml.safe_load((suite.HERE / "linter.yaml").read_text())
    listed = [name for group in text for name in group["cases"]]
    assert sorted(listed) == sorted(set(listed))
    assert set(listed) <= {case.name for case in suite.load_cases()}
