"""A file that nobody followed is unproven and says so, in every format; a finding still tells what it tells."""

from __future__ import annotations

from pathlib import Path

import pytest

import kbh_lint
from kbh_lint.cli import main
from kbh_lint.report.formats import FORMATS
from kbh_lint.verdict import accepted

HELPER = "def double(x):\n    return x + x\n"
SAID = "nothing was followed: no problem is known"


@pytest.mark.parametrize("form", [*FORMATS, "full -q", "concise -q"])
def test_a_file_without_a_problem_is_unproven_in_every_format(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "helper.py").write_text(HELPER)
    assert main(["--no-cache", "--jobs", "1", "--output-format", *form.split(), str(tmp_path)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert SAID.lower() in out.lower() and "--problem" in out and "unproven" in out and "clean" not in out


def test_strict_does_not_take_a_file_without_a_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "helper.py").write_text(HELPER)
    assert main(["--no-cache", "--jobs", "1", "--strict", str(tmp_path)]) == 1
    assert "no contract matched" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("problem", "why"),
    [("08_metal_lightning_attention", "08_metal_lightning_attention has no graded shapes"),
     ("05_topk_bitonic", "no contract of 05_topk_bitonic could be matched")],
)  # fmt: skip
def test_a_problem_whose_contract_does_not_fit_leaves_a_file_unproven(problem: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text(HELPER)
    (report,) = kbh_lint.lint([tmp_path / "helper.py"], problem=problem).files
    assert report.verdict == "unproven" and not accepted(report)[0]
    assert why in " ".join(item.reason for item in report.unread), report.unread


def test_a_finding_is_told_without_a_problem_too(tmp_path: Path) -> None:
    (tmp_path / "clock.py").write_text("import torch\n\ntorch.cuda.Event.elapsed_time = lambda a, b: 0.0\n")
    (report,) = kbh_lint.lint([tmp_path / "clock.py"]).files
    assert report.verdict == "reward_hack" and SAID in report.unread[0].reason


@pytest.mark.parametrize("quiet", [[], ["-q"]])
def test_a_report_of_no_files_says_that_nothing_was_followed(
    quiet: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    from kbh_lint.findings import Report
    from kbh_lint.report import concise, full

    assert full.render(Report(()), {}, quiet=bool(quiet)).strip() == "0 files: nothing was followed"
    assert concise.render(Report(()), quiet=bool(quiet)) == "0 files: nothing was followed\n"
