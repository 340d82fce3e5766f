"""The comparison of `kbh grade` with the naive grader: what runs, when its goal is missed, when it compares nothing."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

FILE = Path(__file__).resolve().parents[2] / "bench" / "grade.py"


@pytest.fixture
def bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_grade", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["bench_grade"] = module
    spec.loader.exec_module(module)
    return module


def pretend(
    bench: ModuleType, monkeypatch: pytest.MonkeyPatch, *, naive: float, grade: float, outcome: str = "flagged"
) -> list[list[str]]:
    """Runs that take these seconds; the list holds the commands that would have run."""
    commands: list[list[str]] = []

    def run(command: list[str]) -> tuple[float, subprocess.CompletedProcess[str]]:
        commands.append(command)
        if "naive.py" in command[1]:
            return naive, subprocess.CompletedProcess(command, 0, "", "")
        cells = [{"bundle": "here", "cell": {"outcome": outcome, "problem": "05_topk_bitonic"}}]
        text = json.dumps({"cells": cells}) if outcome else ""
        return grade, subprocess.CompletedProcess(command, 1, text, "kbh grade: error: no luck\n")

    monkeypatch.setattr(bench, "_run", run)
    return commands


@pytest.mark.parametrize(
    ("naive", "grade", "code", "told"),
    [
        (20.0, 34.9, 0, "+14.90 s (at most 1 times naive and 15 s: ok)"),
        (20.0, 35.1, 1, "MISSED"),
        (50.0, 40.0, 0, "ok"),
    ],
)
def test_the_goal_is_the_naive_run_and_15_seconds(
    bench: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    naive: float,
    grade: float,
    code: int,
    told: str,
) -> None:
    commands = pretend(bench, monkeypatch, naive=naive, grade=grade)
    assert bench.main(["05_topk_bitonic", "mine.py", "--pairs", "2", "--check"]) == code
    assert told in capsys.readouterr().out
    assert ["naive.py" in command[1] for command in commands] == [True, False, False, True]
    assert [command[command.index("--samples") + 1] for command in commands if "--samples" in command] == ["10"] * 2
    assert ["--samples" in command for command in commands] == [True, False, False, True], "a cell takes what it needs"


@pytest.mark.parametrize(("device", "more", "samples"), [("cuda", [], "200"), ("cuda", ["--samples", "7"], "7")])
def test_both_sides_time_as_many_calls(
    bench: ModuleType, monkeypatch: pytest.MonkeyPatch, device: str, more: list[str], samples: str
) -> None:
    commands = pretend(bench, monkeypatch, naive=1.0, grade=2.0)
    assert bench.main(["05_topk_bitonic", "mine.py", "--device", device, *more]) == 0
    asked = [command[command.index("--samples") + 1] for command in commands if "--samples" in command]
    assert asked == [samples] * (4 if more else 2)


def test_on_a_gpu_both_run_once_before_so_that_neither_compiles(
    bench: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = pretend(bench, monkeypatch, naive=1.0, grade=2.0)
    assert bench.main(["05_topk_bitonic", "mine.py", "--device", "cuda"]) == 0
    assert len(commands) == 4


def test_what_evidence_costs_is_told_apart(
    bench: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = pretend(bench, monkeypatch, naive=20.0, grade=30.0)
    assert bench.main(["05_topk_bitonic", "mine.py", "--evidence"]) == 0
    assert ["--no-evidence" in command for command in commands] == [False, True, False]
    assert "evidence beside that: +0.00 s" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("outcome", "told"), [("wrong", "is wrong: its cost is not that of a grading"), ("", "no luck")]
)
def test_a_run_without_a_score_is_no_comparison(
    bench: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    outcome: str,
    told: str,
) -> None:
    pretend(bench, monkeypatch, naive=1.0, grade=1.0, outcome=outcome)
    assert bench.main(["05_topk_bitonic", "mine.py"]) == 2
    assert told in capsys.readouterr().err


def test_what_the_naive_grader_finds_wrong_is_told(bench: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    said = json.dumps({"message": "values differ"})
    monkeypatch.setattr(bench, "_run", lambda command: (1.0, subprocess.CompletedProcess(command, 1, said, "noise")))
    with pytest.raises(bench.BenchError, match="did not grade 05_topk_bitonic: values differ"):
        bench.Plan("05_topk_bitonic", Path("mine.py"), "cpu", 1, 1, Path("here")).naive()


def test_many_files_are_graded_by_one_command_which_must_grade_them_all(
    bench: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = pretend(bench, monkeypatch, naive=1.0, grade=2.0)
    twice = [("05_topk_bitonic", Path("mine.py"))] * 2
    with pytest.raises(bench.BenchError, match="did not grade all of 05_topk_bitonic, 05_topk_bitonic"):
        bench.graded(twice, "cuda", Path("here"))
    with pytest.raises(bench.BenchError, match="did not grade all"):
        bench.graded([twice[0], ("01_fp8_gemm", Path("other.py"))], "cuda", Path("here"))
    assert [command.count("--problem") for command in commands] == [1, 0]


def test_a_problem_without_its_file_is_told(bench: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(["05_topk_bitonic"]) == 2
    assert "in turns" in capsys.readouterr().err
