"""The comparison of one command with many: what it prints, and that it refuses a run that left a file out."""

from __future__ import annotations

import importlib.util
import json
import subprocess
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def batch() -> ModuleType:
    file = Path(__file__).parents[2] / "bench" / "batch.py"
    spec = importlib.util.spec_from_file_location("bench_batch", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_both_ways_run_twice_and_the_ratio_is_of_their_medians(
    batch: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs: list[int] = []

    def seconds(files: list[Path], target: str, out: Path) -> float:
        runs.append(len(files))
        return 10.0 if len(files) > 1 else 6.0

    monkeypatch.setattr(batch, "_seconds", seconds)
    assert batch.main([]) == 0
    assert runs == [1, 1, 1, 3, 1, 1, 1, 1, 1, 1, 3]
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("10.00 s") and lines[1].endswith("18.00 s") and lines[2].split() == ["ratio", "1.80"]


def test_the_overheads_of_both_ways_are_told_side_by_side(batch: ModuleType) -> None:
    said = batch.report(2, [1.0], [2.0], [2e-6, 4e-6], [3.5e-6])
    assert said.splitlines()[-1].split()[-5:] == ["3.00", "us", "and", "3.50", "us"]


@pytest.mark.parametrize("out", ["", "no JSON", json.dumps({"cells": [{}]})])
def test_a_command_that_left_a_file_out_is_one_sentence(
    batch: ModuleType, out: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done = subprocess.CompletedProcess([], 2, out, "kbh grade: error: no such file\n")
    monkeypatch.setattr(subprocess, "run", lambda *a, **k: done)
    assert batch.main(["a.py", "b.py"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("bench/batch.py: kbh grade graded") and len(err.splitlines()) == 1
