"""The first processes of a grading on a GPU, started before the judge has imported torch, which takes each seconds.

They are those of the build and of a second build beside it: they import torch, wait, and leave the device alone; no
code of the submission runs in them before the linter has read that. Whether there will be a build is not known yet, so
whatever keeps a process from being started is told later, where it counts, and one that nobody wants is ended.
"""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

from grader.grading.request import GradeError, Request, copied, problem_of
from grader.judge.cores import building, enough, kept_away
from grader.judge.native import cannot_run
from grader.sandbox import Sandbox, SandboxError, choose, harden_judge, second
from grader.sandbox.base import CheckError
from grader.sandbox.candidate import candidate
from grader.sandbox.places import gpu_nodes
from grader.sandbox.snapshot import Snapshot
from grader.sandbox.supervise import Child
from kbh_lint.marked import DataError

__all__ = ["AGAIN", "FOLDER", "First", "at_once"]

DEVICE = "cuda"
FOLDER = "run"  # of a grading's scratch folder, where builds are made
AGAIN, PLACE = "second", 2  # that of the second build, and the place of its user; 1 is that of a trial's second process
FAULTS = (CheckError, DataError, GradeError, OSError, SandboxError)


def at_once(snapshot: Snapshot) -> bool:
    """Whether a second build goes on beside the first: not where both would only wait for each other's calls, which
    they do where what is compiled quickly is tuned.
    """
    return snapshot.calls_nvcc or not snapshot.tunes


class First:
    """A context manager: another thread copies the submission and starts the processes, and what nobody took is ended.

    `child` and `again` give each once.
    """

    def __init__(self, request: Request, scratch: Path) -> None:
        self._request, self._scratch = request, scratch
        self._snapshot: Snapshot | None = None
        self._child: Child | None = None
        self._again: Child | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> First:
        if self._request.target != "cpu" and gpu_nodes(False) and enough():
            self._thread = threading.Thread(target=self._start, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for child in (self.child(), self.again()):
            if child is not None:
                with contextlib.suppress(OSError, SandboxError):
                    child.close()

    def snapshot(self) -> Snapshot | None:
        """The copy that the processes were started for; None where there is none, and the submission is still to be
        copied.
        """
        self._wait()
        return self._snapshot if self._child is not None else None

    def child(self) -> Child | None:
        """The process of the build."""
        self._wait()
        found, self._child = self._child, None
        return found

    def again(self) -> Child | None:
        """The process of the second build."""
        self._wait()
        found, self._again = self._again, None
        return found

    def _wait(self) -> None:
        if self._thread is not None:
            self._thread.join()

    def _start(self) -> None:
        request = self._request
        with contextlib.suppress(*FAULTS):
            self._snapshot = copied(request, problem_of(request), self._scratch)
            if cannot_run(self._snapshot, DEVICE):
                return
            harden_judge()  # before, because a probe looks whether it can read the judge
            sandbox = choose(device=DEVICE, wanted=request.sandbox)
            with building(self._snapshot.calls_nvcc):
                self._child = self._started(self._snapshot, sandbox, FOLDER)
            other = second(sandbox, PLACE) if request.evidence and at_once(self._snapshot) else None
            if other is not None:
                with kept_away():
                    self._again = self._started(self._snapshot, other, AGAIN)

    def _started(self, taken: Snapshot, sandbox: Sandbox, folder: str) -> Child:
        return candidate(
            taken, device=DEVICE, sandbox=sandbox, scratch=self._scratch / folder, timing=False,
            published=self._request.protocol == "2026-04", ahead=True,
        )  # fmt: skip
