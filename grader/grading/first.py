"""The first processes of a grading on a GPU, started before the judge has imported torch, which takes each seconds.

They are those of the build, of a second build beside it, and of the tracer, which takes seconds to begin: they import
torch, wait, and leave the device alone; no code of the submission runs in them before the linter has read that. The
linter is loaded meanwhile too, and the sandbox is probed: where it does not hold, they are ended. Whether
there will be a build is not known yet, so whatever keeps a process from being started is told later, where it counts,
and one that nobody wants is ended.
"""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path

from grader.grading.linting import begin_linter, end_linter
from grader.grading.request import GradeError, Request, copied, problem_of
from grader.judge.cores import building, enough, kept_away, shared
from grader.judge.native import cannot_run
from grader.sandbox import Sandbox, SandboxError, choose, harden_judge, hoped, second
from grader.sandbox.base import CheckError
from grader.sandbox.candidate import candidate
from grader.sandbox.places import gpu_nodes
from grader.sandbox.snapshot import Snapshot
from grader.sandbox.supervise import Child
from grader.silicon.ncu import Profiled
from kbh_lint.marked import DataError

__all__ = ["AGAIN", "AHEAD", "FOLDER", "PLACES", "First", "at_once"]

DEVICE = "cuda"
FOLDER = "run"  # of a grading's scratch folder, where builds are made
AGAIN, AHEAD = "second", "ahead"  # that of the second build, and that with one of each process after it
PLACES = {
    "later": 1,
    "second": 2,
    "replay": 3,
    "counters": 4,
    "trace": 5,
    "trial": 6,
}  # of their users; "later" is a trial's second process
FAULTS = (CheckError, DataError, GradeError, OSError, SandboxError)


def at_once(snapshot: Snapshot) -> bool:
    """Whether a second build goes on beside the first: not where both would only wait for each other's calls, which
    they do where what is compiled quickly is tuned.
    """
    return snapshot.calls_nvcc or not snapshot.tunes


class First:
    """A context manager: copies the submission and starts the processes, and what nobody took is ended. In a thread
    beside the import of torch, starting them takes as long as that.

    `child`, `again`, `tracer` and `linter` give each once.
    """

    def __init__(self, request: Request, scratch: Path) -> None:
        self._request, self._scratch = request, scratch
        self._snapshot: Snapshot | None = None
        self._child: Child | None = None
        self._again: Child | None = None
        self._tracer: Child | None = None
        self._linter: subprocess.Popen[bytes] | None = None
        self._hoped: Sandbox | None = None  # while its probe goes on

    def __enter__(self) -> First:
        if self._request.target != "cpu" and gpu_nodes(False) and enough():
            self._start()
        return self

    def __exit__(self, *_: object) -> None:
        for child in (self.child(), self.again(), self.tracer()):
            if child is not None:
                with contextlib.suppress(OSError, SandboxError):
                    child.close()
        linter = self.linter(self._snapshot)
        if linter is not None:
            end_linter(linter)

    def snapshot(self) -> Snapshot | None:
        """The copy that the processes were started for; None where there is none, and the submission is still to be
        copied.
        """
        self._settle()
        return self._snapshot if self._child is not None else None

    def child(self) -> Child | None:
        """The process of the build."""
        self._settle()
        found, self._child = self._child, None
        return found

    def again(self) -> Child | None:
        """The process of the second build."""
        self._settle()
        found, self._again = self._again, None
        return found

    def tracer(self) -> Child | None:
        """The process beside a tracer."""
        self._settle()
        found, self._tracer = self._tracer, None
        return found

    def linter(self, snapshot: Snapshot | None) -> subprocess.Popen[bytes] | None:
        """The linter's process, which is loaded and waits in the folder of its snapshot; None for another one."""
        if snapshot is not self._snapshot:
            return None
        found, self._linter = self._linter, None
        return found

    def _start(self) -> None:
        request = self._request
        with contextlib.suppress(*FAULTS):
            self._snapshot = copied(request, problem_of(request), self._scratch)
            if cannot_run(self._snapshot, DEVICE):
                return
            self._linter = begin_linter(self._snapshot)
            harden_judge()  # before, because a probe looks whether it can read the judge
            self._hoped = sandbox = hoped(device=DEVICE, wanted=request.sandbox)
            with building(self._snapshot.calls_nvcc):
                self._child = self._started(self._snapshot, sandbox, FOLDER)
            if not request.evidence:
                return
            with kept_away():
                own = None if shared() else second(sandbox, PLACES["trace"])
                if own is not None:
                    self._tracer = candidate(
                        self._snapshot, device=DEVICE, sandbox=Profiled(own, "trace"),
                        scratch=self._scratch / AHEAD / "trace", timing=False, ahead=True,
                    )  # fmt: skip
                other = second(sandbox, PLACES[AGAIN]) if at_once(self._snapshot) else None
                if other is not None:
                    self._again = self._started(self._snapshot, other, AGAIN)

    def _settle(self) -> None:
        """Waits for the probe; ends all processes where that says that the sandbox does not hold."""
        sandbox, self._hoped = self._hoped, None
        if sandbox is None:
            return
        with contextlib.suppress(SandboxError):
            if choose(device=DEVICE, wanted=self._request.sandbox) is sandbox:
                return
        for child in (self._child, self._again, self._tracer):
            if child is not None:
                with contextlib.suppress(OSError, SandboxError):
                    child.close()
        self._child = self._again = self._tracer = None

    def _started(self, taken: Snapshot, sandbox: Sandbox, folder: str) -> Child:
        return candidate(
            taken, device=DEVICE, sandbox=sandbox, scratch=self._scratch / folder, timing=False,
            published=self._request.protocol == "2026-04", ahead=True, collect=taken.collects,
        )  # fmt: skip
