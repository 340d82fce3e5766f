"""Gradings that end early: a parent that has everything imported forks judges, which end themselves or their candidate.

`python kill_driver.py judge|candidate FOLDER` prints one JSON object a grading. The judges are real; their candidates
are forks that run the real candidate's main, because a fresh one takes seconds to import torch.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "grader")]

import torch  # noqa: E402
from toy import HONEST, solution, toy_problem  # noqa: E402

from grader.candidate import serve as candidate  # noqa: E402
from grader.deck.code import load_code  # noqa: E402
from grader.deck.keys import new_master  # noqa: E402
from grader.grading import course as grading  # noqa: E402
from grader.grading.grade import Progress, Request, grade  # noqa: E402
from grader.judge.plan import default_options, plan_shape  # noqa: E402
from grader.record.bundle import Bundle, BundleError, verify  # noqa: E402
from grader.record.bundle.files import DISK  # noqa: E402
from grader.record.cell import SandboxRecord  # noqa: E402
from grader.sandbox import Jail  # noqa: E402
from grader.sandbox.base import CheckError  # noqa: E402
from grader.score import peaks  # noqa: E402
from kbh_lint.problems import Problem  # noqa: E402

MOST_GRADINGS = 150
SECONDS = 20  # for one grading
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
_prctl = ctypes.CDLL(None).prctl


class Forks:
    """A sandbox whose processes are forks of the judge."""

    record = SandboxRecord("plain", os.getuid(), True)
    pid = 0

    def spawn(
        self, argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, fds: Sequence[int], jail: Jail,
        output: BinaryIO, report: int | None = None,
    ) -> subprocess.Popen[bytes]:  # fmt: skip
        self.pid = os.fork()
        if self.pid == 0:
            _candidate(argv, cwd, fds[0], output)
        process = subprocess.Popen.__new__(subprocess.Popen)
        process.pid, process.returncode, process._child_created = self.pid, None, False
        return process

    def end(self, process: subprocess.Popen[bytes]) -> None:
        os.kill(process.pid, signal.SIGKILL)
        os.waitpid(process.pid, 0)


def _candidate(argv: Sequence[str], cwd: Path, link: int, output: BinaryIO) -> None:
    """What `python -c BOOT` does, but for the imports."""
    try:
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
        os.dup2(link, 3)
        os.closerange(4, 4096)  # the judge's lock on the bundle among them
        os.chdir(cwd)
        sys.argv = ["-c", str(ROOT), "3", *argv[argv.index("-c") + 4 :]]
        candidate.main()
    finally:
        os._exit(1)


# --- where to end ------------------------------------------------------------------------------------------

Reached = Callable[[str], None]


def steps(reached: Reached) -> Callable[[Progress], None]:
    """Has `reached` called at each step of a grading, with a name for it; gives what is to be told of the progress.

    For an entry these are when it has no name yet and when it just got one. Nothing is synced, which counts for a crash
    of the machine only.
    """
    doing = "put"
    append = Bundle.append

    def appending(bundle: Bundle, kind: str, *args: Any) -> str:
        nonlocal doing
        doing = f"append {kind}"
        try:
            return append(bundle, kind, *args)
        finally:
            doing = "put"

    def watched(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(disk: object, *args: Any) -> Any:
            reached(f"{name} in {doing}")
            return method(disk, *args)

        return call

    disk = type(DISK)
    for name in ("rename", "link", "unlink"):
        setattr(disk, name, watched(name, getattr(disk, name)))
    disk.sync = lambda disk, path: None  # type: ignore[method-assign]
    Bundle.append = appending  # type: ignore[method-assign]

    def progress(at: Progress) -> None:
        # What is done is followed by what begins. Of the many calls of a shape the first and the sixth stand for all.
        text = re.sub(r"\d+ calls", "calls", at.text)
        call = re.search(r"call (\d+) of", text)
        if at.state != "done" and (call is None or call[1] in ("1", "6")):
            reached(" ".join([at.stage, at.state, text if at.state == "at" else ""]).strip())

    return progress


def kill_judge(visited: set[str], report: BinaryIO, sandbox: Forks) -> Reached:
    """Ends the judge at the first step that no judge was ended at before."""

    def reached(step: str) -> None:
        if step not in visited:
            report.write(step.encode())
            report.flush()
            os.kill(os.getpid(), signal.SIGKILL)

    return reached


def kill_candidate(visited: set[str], report: BinaryIO, sandbox: Forks) -> Reached:
    """Ends the candidate at the first step at which none was ended before."""
    done = False

    def reached(step: str) -> None:
        nonlocal done
        if not done and sandbox.pid and " at " in step and step not in visited:
            done = True
            report.write(step.encode())
            report.flush()
            os.kill(sandbox.pid, signal.SIGKILL)

    return reached


# --- gradings ----------------------------------------------------------------------------------------------


def judge(request: Request, who: str, visited: set[str], sandbox: Forks) -> tuple[str, int, dict[str, Any]]:
    """One grading in a process of its own: the step at which something was ended, how it ended, and the cell."""
    reader, writer = os.pipe()
    results, result = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 3
        try:
            os.close(reader)
            os.close(results)
            ending = kill_judge if who == "judge" else kill_candidate
            cell, folder = grade(request, steps(ending(visited, os.fdopen(writer, "wb"), sandbox)))
            said = {"outcome": cell.outcome, "reason": cell.reason, "scored": cell.scores is not None}
            evidence = [entry.data for entry in Bundle.open(folder).entries() if entry.kind == "evidence"]
            os.write(result, json.dumps({**said, "evidence": evidence}).encode())
            code = 0
        except CheckError as error:  # what `kbh grade` prints as one sentence
            os.write(result, json.dumps({"error": str(error)}).encode())
            code = 2
        finally:
            os._exit(code)
    os.close(writer)
    os.close(result)
    signal.alarm(SECONDS)
    with os.fdopen(reader, "rb") as steps_, os.fdopen(results, "rb") as said:
        step, cell = steps_.read().decode(), said.read()
    _, status = os.waitpid(pid, 0)
    left = 0
    while True:  # what the judge left behind became ours, and ends by itself or by the alarm
        try:
            os.wait()
            left += 1
        except ChildProcessError:
            break
    signal.alarm(0)
    return step, os.waitstatus_to_exitcode(status), {**(json.loads(cell) if cell else {}), "orphans": left}


def bundles(out: Path) -> list[list[tuple[str, str]]]:
    """Kind and hash of the entries of each bundle."""
    found = []
    for folder in sorted(out.glob("*")):
        try:
            found.append([(entry.kind, entry.hash) for entry in Bundle.open(folder).entries()])
        except BundleError:
            found.append([])
    return found


def faults(out: Path) -> list[str]:
    """What is wrong with any bundle that has an entry."""
    return [fault for folder in out.glob("*") if any(folder.glob("entries/*")) for fault in verify(folder)]


def warmed(folder: Path) -> Problem:
    """Does once what every judge would do: imports, the measurement of this machine, and the linter's work."""
    os.environ |= {"XDG_CACHE_HOME": str(folder / "cache"), "TMPDIR": str(folder / "tmp")}
    (folder / "tmp").mkdir()
    (folder / "deck").mkdir()
    torch.set_num_threads(1)
    problem = toy_problem(folder / "deck")
    machine = peaks.machine("cpu")
    peaks.store(peaks.Measured(machine, 10.0, dict.fromkeys(peaks.PRECISIONS, 0.1)))
    plan_shape(problem, problem.reduced[0], new_master(), default_options("cpu"), load_code(problem))
    return problem


def main(who: str, folder: Path) -> None:
    """Grades again and again, until a grading comes to its end without anything that could still be ended in it."""
    warmed(folder)
    sandbox = Forks()
    grading.choose = lambda **_: sandbox  # type: ignore[assignment]
    lint, known = grading.lint_snapshot, []

    def linted(*args: Any) -> Any:
        if not known:
            known.append(lint(*args))
        return known[0]

    grading.lint_snapshot = linted
    out = folder / "out"
    request = Request(
        solution(folder, HONEST), "toy", target="cpu", samples=3, trials=2 if who == "judge" else 1, out=out,
        problems_dir=folder / "deck", fresh=who == "candidate",
    )  # fmt: skip
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    visited: set[str] = set()
    for _ in range(MOST_GRADINGS):
        step, status, cell = judge(request, who, visited, sandbox)
        visited.add(step)
        scratch = [path.name for base in (folder / "tmp").glob("kbh-*") for path in base.iterdir() if path.is_dir()]
        row = {"step": step, "status": status, "cell": cell, "bundles": bundles(out), "faults": faults(out)}
        print(json.dumps({**row, "scratch": scratch}), flush=True)
        if not step:
            return


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
