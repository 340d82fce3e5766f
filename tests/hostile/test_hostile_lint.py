"""What the linter says of the hostile submissions before any of them runs."""

from __future__ import annotations

from functools import cache

import hostile_suite as suite
import pytest
import yaml
from hostile_table import unseen

from kbh_lint import lint
from kbh_lint.findings import FileReport

SILENT = {name: group for group in unseen() for name in group["cases"]}


CASES = {case.name: case for case in suite.load_cases()}


@cache
def report(name: str) -> FileReport:
    """What the linter says of an attack."""
    (file,) = lint([CASES[name].file], problem=suite.PROBLEM, problems_dir=suite.DECK).files
    return file


def flagged(report: FileReport) -> list[str]:
    """The rules beyond those of TORCH_RULES that speak against a file."""
    return [f.rule for f in report.findings if f.rule not in suite.TORCH_RULES and f.severity != "info"]


@pytest.mark.parametrize("name", sorted(CASES.keys() - SILENT))
def test_an_attack_is_flagged_unless_it_is_listed_with_a_reason(name: str) -> None:
    assert flagged(report(name))


@pytest.mark.share(3)
@pytest.mark.parametrize("name", SILENT)
def test_what_is_listed_is_not_flagged_and_told_or_unproven_where_the_list_says_so(name: str) -> None:
    assert flagged(report(name)) == []
    if SILENT[name].get("told"):
        assert any(f.rule.startswith("KBH7") for f in report(name).findings)
    if SILENT[name].get("unproven"):
        assert report(name).verdict == "unproven"


def test_a_reason_stands_once_for_each_case() -> None:
    text = yaml.safe_load((suite.HERE / "linter.yaml").read_text())
    listed = [name for group in text for name in group["cases"]]
    assert sorted(listed) == sorted(set(listed))
    assert set(listed) <= CASES.keys()
