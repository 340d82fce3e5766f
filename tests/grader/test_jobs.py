"""Several gradings at a time: in processes of their own, in one table, and none of them ends the others."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from grading import measured_before, toy_request

from grader.cli import jobs
from grader.cli.board import Board, Step
from grader.report.view import load_view
from kbh_lint.cli import kbh_main

HONEST = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        {first}
        return (x @ self.w) * (torch.arange(len(x)) < used)[:, None]
"""
ROOT = Path(__file__).resolve().parents[2]
GRADE = "import sys; from kbh_lint.cli import kbh_main; sys.exit(kbh_main(sys.argv[1:]))"
# Stands in the place of a worker: ends as the name of its file says.
ENDS = """
import json, os, sys, time
order = json.loads(sys.stdin.readline())
say = lambda message: print(json.dumps(message), flush=True)
say({"step": ["lint", "begin", "", ""]})
if "killed" in order["path"]: os.kill(os.getpid(), 9)
if "left" in order["path"]: sys.exit("a last word")
if "ours" in order["path"]: say({"error": "boo", "plain": False, "type": "TypeError"})
if "plain" in order["path"]: say({"error": "there is no target", "plain": True, "type": "TargetError"})
if "sleeps" in order["path"]: time.sleep(600)
if "device" in order["path"]: say({"bundle": os.environ.get("CUDA_VISIBLE_DEVICES", "none")})
"""


@pytest.fixture
def three(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A right submission, a wrong one, and one that ends its own process; none of them may run for long."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for name, value in (("TMPDIR", tmp_path), ("KBH_LOCK_DIR", tmp_path), ("XDG_CACHE_HOME", tmp_path / "cache")):
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    measured_before()
    toy_request(tmp_path, promises="[]")
    for name, first in (
        ("right", "pass"),
        ("wrong", "return x.new_zeros(len(x), 4)"),
        ("dies", "import os; os._exit(3)"),
    ):
        (tmp_path / f"{name}.py").write_text(HONEST.format(first=first))
    monkeypatch.chdir(tmp_path)
    options = ["--problem", "toy", "--problems-dir", "deck", "--target", "cpu", "--no-evidence", "--sandbox", "plain"]
    return ["grade", "wrong.py", "missing.py", "right.py", "dies.py", *options, "--samples", "3", "--out", "out"]


def outcomes(text: str) -> list[str]:
    """The first line of each cell, and the table, without numbers."""
    lines = [line for line in text.splitlines() if re.match(r"\w+\.py: |  \w+\.py |  \d+ submissions", line)]
    return [re.sub(r"\d\S*( [a-zµ]+)?", "N", " ".join(line.split())) for line in lines]


@pytest.mark.slow
@pytest.mark.usefixtures("warm")
def test_gradings_at_a_time_say_what_gradings_in_turn_say_in_the_same_order(
    three: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert kbh_main([*three, "--jobs", "3", "--verbose"]) == 2
    out, err = capsys.readouterr()
    table = out[out.rindex("  submission  ") :].splitlines()
    assert [line.split()[0] for line in table[1:4]] == ["wrong.py", "right.py", "dies.py"]
    assert [line.split()[3].rstrip(",") for line in table[1:4]] == ["wrong", "flagged", "wrong"]
    assert table[4] == "  4 submissions: 2 wrong, 1 flagged, 1 could not be graded"
    assert "exit status 3" in out and "off by more than" in out
    for name in ("wrong.py", "right.py", "dies.py"):
        assert re.search(rf"^{name}: . trial 1 of 1", err, re.MULTILINE), err
    assert "missing.py" in err.splitlines()[-1]
    assert kbh_main([*three, "--fresh"]) == 2
    again, _ = capsys.readouterr()
    assert outcomes(again) == outcomes(out) and len(outcomes(out)) == 7
    assert kbh_main([*three[:2], *three[4:], "--jobs", "2", "--format", "json"]) == 1
    cells = json.loads(capsys.readouterr().out)["cells"]
    assert [(cell["cell"]["file"], cell["cell"]["outcome"]) for cell in cells] == [
        ("wrong.py", "wrong"), ("dies.py", "wrong"),
    ]  # fmt: skip


def ends(names: Sequence[str], at_once: int, devices: Sequence[str] = ()) -> dict[str, jobs.Done]:
    tasks = [(Path(name), "toy") for name in names]
    found = jobs.graded(tasks, [], at_once, Board(stream=io.StringIO()), devices=devices)
    return {names[index]: done for index, done in found}


def test_a_process_that_crashes_ends_no_other_and_is_told_with_its_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "WORK", ENDS)
    found = ends(["killed.py", "left.py", "ours.py", "plain.py", "device.py"], 2)
    assert found["killed.py"].error == "the process of its grading was killed by SIGKILL; grade it alone to see where"
    assert found["left.py"].error.startswith("the process of its grading ended with 1 (a last word); grade it alone")
    assert found["ours.py"].error == "a fault of kbh itself (TypeError); grade it alone to see where"
    assert (found["plain.py"].error, found["plain.py"].plain) == ("there is no target", True)
    assert found["device.py"].bundle is not None


def test_gpus_are_shared_out_evenly_and_only_those_of_the_target(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(jobs, "WORK", ENDS)
    found = ends(["device1", "sleeps", "device2", "device3"][:1] + ["device2", "device3"], 3, ["GPU-a", "GPU-b"])
    assert sorted(str(done.bundle) for done in found.values()) == ["GPU-a", "GPU-a", "GPU-b"]
    said = "0, GPU-a, NVIDIA H200\n1, GPU-b, NVIDIA H100 80GB HBM3\n2, GPU-c, NVIDIA H200\n"
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\nprintf '{said}'\n".replace("\n\n", "\n"))
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    hardware = ROOT / "problems" / "hardware.yaml"
    assert jobs.gpus("auto", hardware) == ["GPU-a", "GPU-b", "GPU-c"]
    assert jobs.gpus("h200", hardware) == ["GPU-a", "GPU-c"]
    assert jobs.gpus("h100", hardware) == jobs.gpus("cpu", hardware) == [], "where there is one, there is no choice"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,1")
    assert jobs.gpus("auto", hardware) == ["GPU-b", "GPU-c"]


def test_no_more_begin_beside_others_than_there_is_memory_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "WORK", ENDS)
    monkeypatch.setattr(jobs, "_free_bytes", lambda: 0)
    stream = io.StringIO()
    found = jobs.graded([(Path(name), "") for name in ("plain1", "plain2", "plain3")], [], 3, Board(stream=stream))
    assert [index for index, _ in found] == [0, 1, 2] and stream.getvalue().count("too little") == 1


def test_who_stops_looking_ends_what_was_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "WORK", ENDS)
    started: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def noted(*rest: object, **more: object) -> subprocess.Popen[bytes]:
        started.append(popen(*rest, **more))  # type: ignore[call-overload]
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", noted)
    found = jobs.graded([(Path("sleeps"), ""), (Path("plain"), "")], [], 2, Board(stream=io.StringIO()))
    assert next(found)[0] == 1
    found.close()
    assert [process.poll() is not None for process in started] == [True, True]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["interrupted", "killed"])
def test_an_end_of_the_command_is_the_end_of_all_and_the_same_command_goes_on(
    three: list[str], tmp_path: Path, how: str
) -> None:
    mark = tmp_path / "mark"
    mark.mkdir(mode=0o777)
    mark.chmod(0o777)
    tmp_path.chmod(0o755)
    for name in ("slow", "slower"):
        text = f"import os, time; open({str(mark)!r} + '/' + str(os.getpid()), 'w').close(); time.sleep(60)"
        (tmp_path / f"{name}.py").write_text(HONEST.format(first=text) + f"# {name}\n")
    command = [sys.executable, "-c", GRADE, "grade", "slow.py", "slower.py", *three[5:], "--jobs", "2"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # who runs tests by `nohup ... &` ignores it
    )  # fmt: skip
    until = time.monotonic() + 120
    while not list(mark.iterdir()):
        assert process.poll() is None and time.monotonic() < until
        time.sleep(0.1)
    process.send_signal(signal.SIGINT if how == "interrupted" else signal.SIGKILL)
    _, err = process.communicate(timeout=300)  # a worker that does not end by itself is killed after a minute
    if how == "interrupted":
        assert process.returncode == 130
        assert err.splitlines()[-1] == "kbh grade: interrupted; the same command goes on with what is done"
    until = time.monotonic() + 60
    while left := [pid for pid in os.listdir("/proc") if pid.isdigit() and str(tmp_path) in environment(pid)]:
        assert time.monotonic() < until, left
        time.sleep(0.2)
    bundles = sorted((tmp_path / "out").iterdir())
    assert bundles and all((bundle / "entries").is_dir() for bundle in bundles)
    for name in ("slow", "slower"):
        (tmp_path / f"{name}.py").write_text((tmp_path / f"{name}.py").read_text().replace("sleep(60)", "sleep(0)"))
    assert kbh_main(["grade", "slow.py", *three[5:], "--jobs", "2"]) == 1, "nothing is locked or left over"
    done = [bundle for bundle in (tmp_path / "out").iterdir() if bundle not in bundles]
    assert load_view(done[0]).cell.outcome == "flagged"


def environment(pid: str) -> str:
    """The variables of another process that lives, by which ours are told."""
    if int(pid) == os.getpid():
        return ""
    try:
        return Path(f"/proc/{pid}/environ").read_text(errors="replace")
    except OSError:
        return ""


def test_a_board_names_the_file_and_what_it_waits_for() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    now = [0.0]
    plain, live = io.StringIO(), Terminal()
    boards = [Board(stream=plain, clock=lambda: now[0]), Board(stream=live, clock=lambda: now[0])]
    now[0] = 5.0
    for board in boards:
        board.begin("a.py")
        board.begin("b.py")
        board("a.py", Step("build", "done", "", ""))
        board("b.py", Step("trial", "wait", "waiting for another grading that is being timed on this GPU", "1 of 1"))
        board.end("b.py")
        board.clear()
    waits = "trial 1 of 1: waiting for another grading that is being timed on this GPU"
    assert plain.getvalue() == f"b.py: {waits}\n"
    shown = live.getvalue()
    assert "a.py: + build\n" in shown or "a.py: ✓ build\n" in shown
    assert "    b.py  trial 1 of 1 waiting for another grading" in shown and shown.endswith("\x1b[1A\x1b[J")


@pytest.mark.parametrize("number", ["0", "65", "x"])
def test_a_number_of_jobs_that_cannot_be_is_one_sentence(number: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert kbh_main(["grade", "a.py", "--jobs", number]) == 2
    assert f"{number} is not a number from 1 to 64" in capsys.readouterr().err


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
def test_on_a_gpu_two_at_a_time_are_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    files = [f"problems/{name}/honest/triton.py" for name in ("05_topk_bitonic", "07_w4a16_gemm")]
    assert kbh_main(["grade", *files, "--jobs", "2", "--strict", "--out", str(tmp_path / "out")]) == 0
    assert "2 submissions: 2 accepted" in capsys.readouterr().out
