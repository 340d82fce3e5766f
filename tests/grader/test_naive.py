"""The naive grader: right, wrong and impossible submissions, and what it tells of its cost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAIVE = str(ROOT / "bench" / "naive.py")
EAGER = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, batch, n, k):
        super().__init__()
        self.k = k
        self.register_buffer("_dummy", torch.zeros(1))

    def forward(self, x):
        values, indices = torch.topk(x, self.k)
        return VALUES, indices
"""


def naive(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, NAIVE, "05_topk_bitonic", *words, "--caches", str(tmp_path / "caches")]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_a_right_submission_is_timed_at_every_shape_and_the_stages_add_up(tmp_path: Path) -> None:
    file = tmp_path / "right.py"
    file.write_text(EAGER.replace("VALUES", "values"))
    done = naive(tmp_path, str(file), "--samples", "3", "--warmups", "1", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["outcome"] == "right"
    assert len(report["shapes"]) == 5 and all(seconds > 0 for seconds in report["shapes"].values())
    assert report["cases"] == 5 * 16
    assert {"start torch", "import", "draw", "load", "calls", "oracle and compare", "timing"} == set(report["stages"])
    assert 0.5 * report["seconds"] < sum(report["stages"].values()) <= report["seconds"]
    assert sorted(path.name for path in next((tmp_path / "caches").iterdir()).iterdir()) == [
        "cuda", "extensions", "inductor", "triton",
    ]  # fmt: skip


def test_a_submission_finds_the_headers_of_cutlass_where_kbh_grade_shows_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else one that falls back to a kernel without them would be timed in place of the one that is graded."""
    header = tmp_path / "cutlass" / "include" / "cutlass" / "cutlass.h"
    header.parent.mkdir(parents=True)
    header.write_text("")
    file = tmp_path / "includes.py"
    named = 'import os\nassert os.environ["CPLUS_INCLUDE_PATH"].split(":")[0] == FOLDER\n'
    file.write_text(named.replace("FOLDER", repr(str(header.parents[1]))) + EAGER.replace("VALUES", "values"))
    monkeypatch.setenv("CUTLASS_PATH", str(tmp_path / "cutlass"))
    done = naive(tmp_path, str(file), "--samples", "3", "--warmups", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    monkeypatch.setenv("CUTLASS_PATH", str(tmp_path))
    done = naive(tmp_path, str(file))
    assert done.returncode == 2 and "holds no CUTLASS" in done.stderr and done.stderr.count("\n") == 1


def test_a_wrong_submission_is_told_with_its_case_and_exit_1(tmp_path: Path) -> None:
    file = tmp_path / "wrong.py"
    file.write_text(EAGER.replace("VALUES", "values + 1"))
    done = naive(tmp_path, str(file), "--samples", "3")
    assert done.returncode == 1 and "05_topk_bitonic" in done.stdout
    assert "wrong" in done.stdout and "differ from the oracle's" in done.stdout


def test_a_submission_that_cannot_be_read_is_exit_2_without_a_traceback(tmp_path: Path) -> None:
    done = naive(tmp_path, str(tmp_path / "none.py"))
    assert done.returncode == 2 and done.stderr.startswith("naive: ") and done.stderr.count("\n") == 1
