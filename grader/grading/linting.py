"""The linter on the very copy of a submission that will run, in a process of its own, which a hostile file may end."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import kbh_lint
from grader.grading.request import GradeError
from grader.sandbox.builds import cache_folder
from grader.sandbox.snapshot import Snapshot
from kbh_lint.findings import FileReport
from kbh_lint.report.data import file_from_dict
from kbh_lint.service.jobs import death

__all__ = ["LINTER", "Linted", "begin_linter", "end_linter", "lint_snapshot"]

LINTER = f"kbh-lint {kbh_lint.__version__}"
SECONDS = 900  # a bound on what hangs; steps end an analysis, so that seconds decide nothing
LIMIT = SECONDS + 30
MOST_BYTES = 32 << 20
_BOOT = (  # it dies with the judge (PR_SET_PDEATHSIG, SIGKILL), also with one that is gone already
    "import ctypes, json, os, sys; ctypes.CDLL(None).prctl(1, 9); os.getppid() == int(sys.argv[1]) or os._exit(2); "
    "sys.path[:] = sys.argv[2].split(os.pathsep); import kbh_lint.engine, kbh_lint.service.jobs; "
    "from kbh_lint.cli import main; said = sys.stdin.readline(); sys.exit(main(json.loads(said)) if said else 2)"
)


@dataclass(frozen=True, slots=True)
class Linted:
    """What the linter says: the report, and its bytes as JSON v1. Paths are relative to the submission's folder."""

    report: FileReport
    data: bytes


def begin_linter(snapshot: Snapshot) -> subprocess.Popen[bytes]:
    """Starts a linter process in the submission's folder; it has loaded its modules and waits for a request."""
    ours = str(Path(kbh_lint.__file__).absolute().parents[1])  # where this linter is, also if it is the current folder
    places = os.pathsep.join([*(os.path.abspath(path) for path in sys.path if path), ours])
    # Isolated, with a search path of ours: the folder it runs in belongs to the submission.
    command = [sys.executable, "-I", "-c", _BOOT, str(os.getpid()), places]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=snapshot.file.parent, stdin=pipe, stdout=pipe, stderr=pipe)


def end_linter(linter: subprocess.Popen[bytes]) -> None:
    """Ends a linter process that will not be asked anything."""
    linter.kill()
    linter.communicate()


def lint_snapshot(
    snapshot: Snapshot, problem: str, target: str | None, problems_dir: Path | None = None,
    linter: subprocess.Popen[bytes] | None = None,
) -> Linted:  # fmt: skip
    """Lints a snapshot, with a `linter` that was started for it before if there is one. Raises GradeError when the
    linter cannot work, or gives out on this file.

    Giving out says nothing of the submission: the files are then kept, and the sentence names where.
    """
    options = ["--output-format", "json", "--no-cache", "--exit-zero", "--jobs", "1", "--timeout", str(SECONDS)]
    options += ["--problem", problem, *(["--target", target] if target else [])]
    if problems_dir is not None:
        options += ["--problems-dir", str(problems_dir.absolute())]
    done = linter or begin_linter(snapshot)
    try:
        said, told = done.communicate(json.dumps([*options, snapshot.file.name]).encode() + b"\n", LIMIT)
    except subprocess.TimeoutExpired:
        end_linter(done)
        raise _gave_out(snapshot, f"did not come to an end within {LIMIT} s") from None
    if done.returncode not in (0, 2):
        raise _gave_out(snapshot, f"crashed ({': '.join([death(done.returncode), *_last(told)])})")
    if len(said) > MOST_BYTES:
        raise _gave_out(snapshot, f"said more than {MOST_BYTES >> 20} MB")
    try:
        report = json.loads(said)
        if report["errors"]:
            raise _gave_out(snapshot, "gave out: " + str(report["errors"][0])[:300])
        return Linted(file_from_dict(report["files"][0]), said)
    except (ValueError, LookupError, TypeError):
        raise GradeError(f"the linter cannot work: {' '.join(_last(told)) or 'it says nothing'}") from None


def _last(told: bytes) -> list[str]:
    """The last line of what it told, if there is one."""
    return [line[:300] for line in told.decode("utf-8", "replace").strip().splitlines()[-1:]]


def _gave_out(snapshot: Snapshot, how: str) -> GradeError:
    """The error for a linter that gave out on a submission, of which a copy is kept."""
    place = cache_folder() / "crashes" / snapshot.sha256[:16]
    kept = f"a copy is kept in {place}"
    try:
        shutil.copytree(snapshot.file.parent, place, dirs_exist_ok=True, copy_function=shutil.copyfile)
    except OSError as error:
        kept = f"no copy could be kept ({error.strerror or error})"
    return GradeError(f"the linter {how}, which says nothing of the submission and is a fault of kbh; {kept}")
