"""The linter on the very copy of a submission that will run, in a process of its own, which a hostile file may end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import kbh_lint
from grader.request import GradeError
from grader.supervise import Snapshot
from kbh_lint.findings import FileReport, Unread
from kbh_lint.report.data import file_from_dict

__all__ = ["LINTER", "Linted", "lint_snapshot"]

LINTER = f"kbh-lint {kbh_lint.__version__}"
SECONDS = 60
GRACE_SECONDS = 30
MOST_BYTES = 32 << 20
_BOOT = (  # it dies with the judge (PR_SET_PDEATHSIG, SIGKILL), also with one that is gone already
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); os.getppid() == int(sys.argv[1]) or os._exit(2); "
    "sys.path[:] = sys.argv[2].split(os.pathsep); from kbh_lint.cli import main; sys.exit(main(sys.argv[3:]))"
)


@dataclass(frozen=True, slots=True)
class Linted:
    """What the linter says: the report, and its bytes as JSON v1. Paths are relative to the submission's folder."""

    report: FileReport
    data: bytes


def lint_snapshot(snapshot: Snapshot, problem: str, target: str | None, problems_dir: Path | None = None) -> Linted:
    """Lints a snapshot. What ends the linter makes the file unproven. Raises GradeError when it cannot work."""
    places = os.pathsep.join(os.path.abspath(path) for path in sys.path if path)
    options = ["--output-format", "json", "--no-cache", "--exit-zero", "--jobs", "1", "--timeout", str(SECONDS)]
    options += ["--problem", problem, *(["--target", target] if target else [])]
    if problems_dir is not None:
        options += ["--problems-dir", str(problems_dir.absolute())]
    # Isolated, with a search path of ours: the folder it runs in belongs to the submission.
    command = [sys.executable, "-I", "-c", _BOOT, str(os.getpid()), places, *options, snapshot.file.name]
    try:
        done = subprocess.run(
            command, cwd=snapshot.file.parent, stdin=subprocess.DEVNULL, capture_output=True,
            timeout=SECONDS + GRACE_SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return _unread(problem, f"the linter did not come to an end within {SECONDS + GRACE_SECONDS} s")
    if done.returncode not in (0, 2) or len(done.stdout) > MOST_BYTES:
        return _unread(problem, "the linter did not come to an end on this file")
    try:
        files = json.loads(done.stdout)["files"]
        return Linted(file_from_dict(files[0]), done.stdout)
    except (ValueError, LookupError, TypeError):
        said = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["it says nothing"]
        raise GradeError(f"the linter cannot work: {said[-1][:300]}") from None


def _unread(problem: str, reason: str) -> Linted:
    report = FileReport("solution.py", problem, None, None, "unproven", unread=(Unread(reason),))
    return Linted(report, json.dumps({"version": 1, "files": [], "errors": [reason]}).encode())
