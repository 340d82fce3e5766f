"""The process of a build that starts before torch is imported: the one that builds, or ended and forgotten."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from grading import few_calls, measured_before, toy_request
from toy import HONEST

from grader import sandbox
from grader.grading import ahead, beside, course, first, stages
from grader.grading.first import First
from grader.grading.grade import grade
from grader.grading.request import Request
from grader.judge import judging
from grader.sandbox import SandboxError, choose


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A machine with a GPU, for all that is looked at before one is used; its processes run on the CPU."""
    try:
        choose(device="cpu", wanted="bubblewrap")
    except SandboxError as error:
        pytest.skip(str(error))
    monkeypatch.setattr(first, "DEVICE", "cpu")
    monkeypatch.setattr(first, "gpu_nodes", lambda profiler: [Path("/dev/nvidia0")])
    monkeypatch.setattr(first, "enough", lambda: True)
    tmp_path.chmod(0o755)
    yield tmp_path


def request(folder: Path, text: str = HONEST) -> Request:
    return replace(toy_request(folder, text, sandbox="bubblewrap"), target="auto")


COMMAND = """
import sys
from pathlib import Path
from grader.cli import grade as cli

def grade(request, progress):
    print("torch" in sys.modules)
    return None, Path("bundle")

cli.grade = grade
cli.graded(cli.parser().parse_args(["mine.py"]), Path("mine.py"), "toy", print)
"""


def test_nothing_that_the_command_does_before_a_grading_needs_torch() -> None:
    said = subprocess.run([sys.executable, "-c", COMMAND], capture_output=True, text=True, check=True).stdout
    assert said == "False\n"


def test_a_process_that_nobody_takes_is_ended(here: Path) -> None:
    with First(request(here), here / "scratch") as begun:
        taken = begun.snapshot()
        assert taken is not None and taken.text == HONEST
        child = begun.child()
        assert child is not None and begun.child() is None, "once"
        child.close()
    with First(request(here), here / "scratch") as begun:
        begun.snapshot()
        left = begun._child, begun._again, begun._tracer
        linter = begun._linter
        assert begun.linter(None) is None, "it waits in the folder of its own snapshot"
    assert all(child is not None and child._closed for child in left)
    assert linter is not None and linter.returncode == -9


def test_the_probe_goes_on_while_processes_start_and_ends_them_where_the_sandbox_does_not_hold(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "_CHOSEN", {})
    with First(request(here), here / "scratch") as begun:
        assert begun._child is not None and not sandbox._CHOSEN, "its probe is not waited for"
        assert begun.snapshot() is not None
        assert choose(device="cpu", wanted="bubblewrap") is begun._child._sandbox
    monkeypatch.setattr(sandbox, "_CHOSEN", {})
    monkeypatch.setattr(sandbox, "PROBE", "print('open to the world')")
    with First(request(here), here / "scratch") as begun:
        left = begun._child, begun._again, begun._tracer
        assert begun.snapshot() is None and begun.child() is None and begun.again() is None
        assert begun.tracer() is None
        assert all(child is not None and child._closed for child in left)
    with pytest.raises(SandboxError, match="open to the world"):
        choose(device="cpu", wanted="bubblewrap")
    assert sandbox._BEGUN == {}


def test_there_is_no_second_process_where_it_would_wait_for_the_first_or_nobody_wants_evidence(here: Path) -> None:
    for text, evidence in ((HONEST + "\nTUNED = False and triton.autotune\n", True), (HONEST, False)):
        with First(replace(request(here, text), evidence=evidence), here / "scratch") as begun:
            assert begun.snapshot() is not None and begun.again() is None
            tracer = begun.tracer()
            assert (tracer is not None) is evidence and begun.tracer() is None
            if tracer is not None:
                tracer.close()


def test_no_tracer_starts_where_others_are_timed_meanwhile(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first, "shared", lambda: True)
    with First(request(here), here / "scratch") as begun:
        assert begun.child() is not None and begun.tracer() is None


@pytest.mark.parametrize("fault", ["cpu", "no GPU", "missing package", "no file", "no problem"])
def test_what_keeps_it_from_starting_is_left_to_be_told_later(
    fault: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = request(here, "import no_such_package\n" + HONEST if fault == "missing package" else HONEST)
    if fault == "cpu":
        asked = replace(asked, target="cpu")
    elif fault == "no GPU":
        monkeypatch.setattr(first, "gpu_nodes", lambda profiler: [])
    elif fault == "no file":
        asked = replace(asked, submission=here / "none.py")
    elif fault == "no problem":
        asked = replace(asked, problem="none")
    with First(asked, here / "scratch") as begun:
        assert begun.snapshot() is None and begun.child() is None


def test_a_grading_builds_in_the_process_that_was_started_first(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for where in (ahead, stages, beside):
        monkeypatch.setattr(where, "compiles", lambda job: True)
    for where in (ahead, beside):
        monkeypatch.setattr(where, "enough", lambda: True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(here / "cache"))
    taken: list[Any] = []
    whole = judging.begin_build

    def begin_build(*arguments: Any) -> Any:
        taken.append(arguments[5])
        return whole(*arguments)

    monkeypatch.setattr(judging, "begin_build", begin_build)
    chosen = course.prepare

    def prepare(asked: Request, *more: Any) -> Any:
        return chosen(replace(asked, target="cpu"), *more)

    monkeypatch.setattr(course, "prepare", prepare)
    measured_before()
    few_calls(monkeypatch)
    cell, _ = grade(request(here))
    assert [trial.status for trial in cell.trials] == ["right"], cell.reason
    assert len(taken) == 2 and None not in taken and taken[0] is not taken[1]
