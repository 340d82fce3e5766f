"""`kbh_lint.lint`: what the grader calls."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import kbh_lint
from kbh_lint.service import api


@pytest.fixture(autouse=True)
def fake_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "ENGINE", "fake_engine")


def test_lint_returns_files_in_order_with_verdicts_and_findings(work: Path) -> None:
    report = kbh_lint.lint([work / "odd.py", work / "leak.py"], rules_dir=work / "rules")
    assert [(Path(file.path).name, file.verdict) for file in report.files] == [
        ("odd.py", "interesting"),
        ("leak.py", "rubric_leak"),
    ]
    (finding,) = report.files[1].findings
    assert (finding.leak_class, finding.span.line) == ("library-gemm-wrapper", 1)
    assert finding.message == "the work is done by torch.matmul"
    assert report.errors == ()


def test_lint_takes_a_problem_and_reports_where_it_came_from(work: Path) -> None:
    report = kbh_lint.lint([work / "clean.py"], rules_dir=work / "rules", problem="01_fp8_gemm")
    assert (report.files[0].problem, report.files[0].problem_source) == ("01_fp8_gemm", "--problem")


def test_an_unknown_problem_or_rule_raises_a_usage_error(work: Path) -> None:
    for options in ({"problem": "99_none"}, {"select": ["KBH999"]}):
        with pytest.raises(kbh_lint.UsageError):
            kbh_lint.lint([work], rules_dir=work / "rules", **options)  # type: ignore[arg-type]


def test_progress_counts_every_file(work: Path) -> None:
    seen: list[tuple[int, int]] = []
    kbh_lint.lint([work], rules_dir=work / "rules", progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_a_rule_changed_between_two_calls_is_read_again(work: Path) -> None:
    from cli_support import write_rule

    before = kbh_lint.lint([work / "leak.py"], rules_dir=work / "rules")
    write_rule(work / "rules", verdict="reward_hack")
    after = kbh_lint.lint([work / "leak.py"], rules_dir=work / "rules")
    assert (before.files[0].verdict, after.files[0].verdict) == ("rubric_leak", "reward_hack")


def test_more_files_do_not_make_a_run_look_at_its_rules_more_often(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    listed = os.scandir
    monkeypatch.setattr(os, "scandir", lambda folder: looked.append(str(folder)) or listed(folder))
    times = []
    for names in (["leak.py"], ["leak.py", "odd.py"]):
        looked.clear()
        kbh_lint.lint([work / name for name in names], rules_dir=work / "rules")
        times.append(looked.count(str(work / "rules")))
    assert times[0] == times[1] > 0
