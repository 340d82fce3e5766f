"""The first process of a grading on a GPU, started before the judge has imported torch, which takes either seconds.

It is that of the build: it imports torch, waits, and leaves the device alone; no code of the submission runs in it
before the linter has read that. Whether there will be a build is not known yet, so whatever keeps the process from
being started is told later, where it counts, and a process that nobody wants is ended.
"""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

from grader.grading.request import GradeError, Request, copied, problem_of
from grader.judge.cores import enough, kept_away, shared
from grader.judge.native import cannot_run
from grader.sandbox import SandboxError, choose, harden_judge
from grader.sandbox.candidate import candidate
from grader.sandbox.places import gpu_nodes
from grader.sandbox.supervise import CheckError, Child, Snapshot
from kbh_lint.marked import DataError

__all__ = ["First"]

DEVICE = "cuda"
FOLDER = "run"  # of a grading's scratch folder, where builds are made
FAULTS = (CheckError, DataError, GradeError, OSError, SandboxError)


class First:
    """A context manager: another thread copies the submission and starts the process, and what nobody took is ended."""

    def __init__(self, request: Request, scratch: Path) -> None:
        self._request, self._scratch = request, scratch
        self._snapshot: Snapshot | None = None
        self._child: Child | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> First:
        if self._request.target != "cpu" and gpu_nodes(False) and enough():
            self._thread = threading.Thread(target=self._start, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        child = self.child()
        if child is not None:
            with contextlib.suppress(OSError, SandboxError):
                child.close()

    def snapshot(self) -> Snapshot | None:
        """The copy that the process was started for; None where there is none, and the submission is still to be
        copied.
        """
        self._wait()
        return self._snapshot if self._child is not None else None

    def child(self) -> Child | None:
        """The process, once."""
        self._wait()
        found, self._child = self._child, None
        return found

    def _wait(self) -> None:
        if self._thread is not None:
            self._thread.join()

    def _start(self) -> None:
        request = self._request
        with contextlib.suppress(*FAULTS), kept_away() if shared() else contextlib.nullcontext():
            self._snapshot = copied(request, problem_of(request), self._scratch)
            if cannot_run(self._snapshot, DEVICE):
                return
            harden_judge()  # before, because a probe looks whether it can read the judge
            self._child = candidate(
                self._snapshot, device=DEVICE, sandbox=choose(device=DEVICE, wanted=request.sandbox),
                scratch=self._scratch / FOLDER, timing=False, published=request.protocol == "2026-04", ahead=True,
            )  # fmt: skip
