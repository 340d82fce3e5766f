"""Lowest and newest versions of the linter's dependencies: what is installed, and that differing reports are told."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def ranges() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tools_ranges", ROOT / "tools" / "ranges.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_lowest_versions_are_those_that_the_project_s_ranges_begin_with(ranges: ModuleType) -> None:
    text = '[project]\ndependencies = ["one>=1.2, <2", "two>=0.3.1"]'
    assert ranges.requirements(text) == {"lowest": ["one==1.2", "two==0.3.1"], "newest": ["one>=1.2, <2", "two>=0.3.1"]}


@pytest.mark.parametrize("wanted", ["one", "one==1.2", "one<2", "one>=1; python_version<'3'"])
def test_a_range_without_a_lowest_version_is_refused(ranges: ModuleType, wanted: str) -> None:
    with pytest.raises(ranges.RangeError, match="no lowest version"):
        ranges.requirements(f'[project]\ndependencies = ["{wanted}"]')


def test_the_project_s_own_ranges_are_read(ranges: ModuleType) -> None:
    found = ranges.requirements((ROOT / "pyproject.toml").read_text())
    assert len(found["lowest"]) == len(found["newest"]) >= 3


def test_files_whose_reports_differ_are_named_and_a_crash_is_told(ranges: ModuleType) -> None:
    one = {"files": [{"path": "a.py", "verdict": "clean"}, {"path": "b.py", "verdict": "clean"}]}
    other = {"files": [{"path": "a.py", "verdict": "clean"}, {"path": "b.py", "verdict": "unproven"}]}
    assert ranges.differences(one, one) == ""
    assert ranges.differences(one, other) == "1 reports differ: b.py"
    assert ranges.differences(one, {"files": [], "failed": "exit code -11: "}) == "exit code -11: "


def test_this_environment_gives_the_report_that_it_gives(ranges: ModuleType) -> None:
    paths = ["examples/01_fp8_gemm"]
    found = ranges.report(Path(sys.executable), paths)
    assert len(found["files"]) >= 2 and ranges.differences(found, ranges.report(Path(sys.executable), paths)) == ""
