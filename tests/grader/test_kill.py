"""kill -9 of judge or candidate at every step: finished trials are kept, nothing half done counts, nothing is left."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from toy import HONEST, solution, toy_problem

from grader.record.bundle import Bundle, verify
from grader.score import peaks

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 240
Row = dict[str, Any]


def driven(who: str, folder: Path) -> list[Row]:
    """The gradings of kill_driver.py, the last of which was not disturbed."""
    driver = [sys.executable, str(ROOT / "tests" / "grader" / "kill_driver.py"), who, str(folder)]
    done = subprocess.run(driver, capture_output=True, text=True, timeout=SECONDS, env=variables(folder))
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def variables(folder: Path) -> dict[str, str]:
    """The environment, with caches and temporary files below a folder."""
    own = {"XDG_CACHE_HOME": str(folder / "cache"), "TMPDIR": str(folder / "tmp"), "OMP_NUM_THREADS": "1"}
    return {**os.environ, **own, "PYTHONPATH": str(ROOT)}


@pytest.mark.slow
def test_a_judge_killed_at_any_step_goes_on_with_what_was_finished(tmp_path: Path) -> None:
    """One chain: each judge goes on where the last one was killed, until one comes to the end undisturbed."""
    *killed, last = driven("judge", tmp_path)
    assert {row["status"] for row in killed} == {-signal.SIGKILL} and last["status"] == 0
    steps = {row["step"] for row in killed}
    entries = ("open", "lint", "commitment", "abandoned", "trial", "evidence", "cell")
    assert steps >= {f"{name} in append {kind}" for name in ("link", "unlink") for kind in entries}
    assert steps >= {"rename in put", "lint begin", "trial begin", "evidence begin", "score begin"}
    assert sum(step.startswith("trial at ") for step in steps) >= 5
    before: list[list[Any]] = []
    for row in (*killed, last):
        assert row["faults"] == [], row["step"]
        assert len(row["bundles"]) >= len(before)
        for old, new in zip(before, row["bundles"], strict=False):
            assert new[: len(old)] == old, f"after {row['step']} a finished entry is gone or another"
        assert len(row["scratch"]) == (row is not last), "only the last killed judge's folder waits for the next one"
        before = row["bundles"]
    assert last["cell"]["outcome"] == "flagged" and last["cell"]["scored"]
    for bundle in before:
        kinds = [kind for kind, _ in bundle]
        assert kinds[-1] == "cell" and kinds.count("cell") == 1 and kinds.count("trial") == 2
        assert kinds.count("commitment") == 2 + kinds.count("abandoned")
    assert [kind for kind, _ in before[0]].count("abandoned") >= 8, "each trial that was cut is accounted for"


@pytest.mark.slow
def test_a_candidate_killed_at_any_step_gives_one_sentence_and_no_acceptance(tmp_path: Path) -> None:
    """Until the import only our code runs in it, so its end is no fault of the submission then: there is no cell."""
    *killed, last = driven("candidate", tmp_path)
    steps = [row["step"] for row in killed]
    assert sum(step.startswith("trial at ") for step in steps) >= 5
    assert sum(step.startswith("evidence at ") for step in steps) >= 2
    for row in killed:
        cell, stage = row["cell"], row["step"].partition(" at ")[0]
        ours = re.search("starting|measuring", row["step"]) is not None
        lost = stage == "evidence" and not ours
        sentence = cell["error"] if ours else cell["evidence"][0]["lost"] if lost else cell["reason"]
        assert "was killed by SIGKILL while it was to " in sentence and "\n" not in sentence
        assert cell["orphans"] == 0 and row["scratch"] == [] and row["faults"] == []
        assert row["status"] == (2 if ours else 0)
        if lost:
            assert cell["outcome"] == "flagged" and cell["evidence"][0]["differences"] == []
        elif not ours:
            assert (cell["outcome"], cell["scored"]) == ("wrong", False)
    assert last["status"] == 0
    assert last["cell"]["outcome"] == "flagged" and "SIGKILL" not in last["cell"]["reason"]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A toy problem and its solution, and a measurement of this machine that takes no time."""
    (tmp_path / "deck").mkdir()
    (tmp_path / "tmp").mkdir(mode=0o755)
    toy_problem(tmp_path / "deck")
    solution(tmp_path, HONEST)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    measured = json.loads(
        subprocess.run(
            [sys.executable, "-c", "import dataclasses, json, grader.score.peaks as p;"
             "print(json.dumps(dataclasses.asdict(p.machine('cpu'))))"],
            capture_output=True, text=True, check=True, env=variables(tmp_path),
        ).stdout
    )  # fmt: skip
    peaks.store(peaks.Measured(peaks.Machine(**measured), 10.0, dict.fromkeys(peaks.PRECISIONS, 0.1)))
    yield tmp_path


def kbh_grade(place: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", "import sys; from kbh_lint.cli import kbh_main; sys.exit(kbh_main())", "grade"]
    options = [
        "--problem",
        "toy",
        "--problems-dir",
        "deck",
        "--target",
        "cpu",
        "--samples",
        "3",
        "--trials",
        "2",
        *more,
    ]
    return subprocess.Popen(
        [*command, "solution.py", *options], cwd=place, env=variables(place), text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip


def descendants(pid: int) -> set[int]:
    """All processes below one, by /proc."""
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                status = Path("/proc", name, "stat").read_text()
            except OSError:
                continue
            parents[int(name)] = int(status.rpartition(")")[2].split()[1])
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid}


def speaking_of(place: Path) -> list[int]:
    """Processes whose arguments name a folder."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path("/proc", name, "cmdline").read_bytes()
        except OSError:
            continue
        if str(place).encode() in words and int(name) != os.getpid():
            found.append(int(name))
    return found


def handles(pids: Iterable[int]) -> list[int]:
    """Descriptors that tell the end of processes; one that has ended needs none."""
    found = []
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            found.append(os.pidfd_open(pid))
    return found


@pytest.mark.slow
def test_the_command_itself_leaves_no_process_when_it_is_killed_and_goes_on_when_it_is_run_again(place: Path) -> None:
    first = kbh_grade(place, "--verbose")
    assert first.stderr is not None
    said = next((line for line in first.stderr if "trial 1 of 2" in line), "")
    assert "right" in said
    below: set[int] = set()
    while first.poll() is None and len(below) < 2:  # the second trial's process and what holds it
        below = descendants(first.pid)
    watched = handles(below)
    first.kill()
    first.communicate()
    assert first.returncode == -signal.SIGKILL
    (folder,) = (place / "kbh-results").iterdir()
    kept = [entry.hash for entry in Bundle.open(folder).entries()]
    assert "trial" in {entry.kind for entry in Bundle.open(folder).entries()}
    watched += handles(speaking_of(place))
    for pidfd in watched:
        assert select.select([pidfd], [], [], 20)[0] == [pidfd], "a process outlives the judge"
        os.close(pidfd)
    assert speaking_of(place) == []

    second = kbh_grade(place, "--format", "json")
    out, err = second.communicate(timeout=SECONDS)
    assert second.returncode == 1, err
    (row,) = json.loads(out)["cells"]
    assert row["cell"]["outcome"] == "flagged" and len(row["cell"]["trials"]) == 2
    entries = Bundle.open(folder).entries()
    assert [entry.hash for entry in entries][: len(kept)] == kept and entries[-1].kind == "cell"
    assert len(list((place / "kbh-results").iterdir())) == 1 and verify(folder) == []
    assert [path for base in (place / "tmp").iterdir() for path in base.iterdir() if path.is_dir()] == []
