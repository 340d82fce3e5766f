"""The search for inputs that break a reader: a short one over every reader, and that it sees what breaks one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import fuzz  # noqa: E402


def search(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools/fuzz.py"), "--engine", "random", "--out", str(folder), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize("target", fuzz.TARGETS)
def test_damaged_input_raises_nothing_but_the_documented_errors(target: str, tmp_path: Path) -> None:
    done = search(tmp_path, target, "--seconds", "0.7")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "inputs, the slowest" in done.stdout


def test_an_unknown_target_is_one_sentence(tmp_path: Path) -> None:
    done = search(tmp_path, "fortran")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "there is no target fortran" in done.stderr


def test_each_place_that_fails_is_kept_once_with_its_input(tmp_path: Path) -> None:
    def read(text: str) -> None:
        raise KeyError(text)

    found = fuzz.Found(tmp_path, tmp_path / "count")
    target = fuzz.Target(read, lambda: ["x"])
    fuzz.attempt("toy", target, "first", found)
    fuzz.attempt("toy", target, "second", found)
    assert found.tried == 2
    [kept] = found.failures.values()
    assert kept.read_text() == "first"
    assert "KeyError" in kept.with_suffix(".txt").read_text()


def test_an_input_that_takes_too_long_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "GRACE_S", 0.05)

    def read(text: str) -> None:
        while True:
            pass

    found = fuzz.Found(tmp_path, tmp_path / "count")
    fuzz.attempt("toy", fuzz.Target(read, lambda: ["x"], seconds=0.05), "loop", found)
    assert list(found.failures) == ["TooSlow in toy"]
