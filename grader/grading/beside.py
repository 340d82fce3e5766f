"""A second build beside the first one or the trial: nvcc takes half a minute or more for a file with torch's headers.

Its process has a user, a sandbox and a folder of its own and finds nothing of the first, so what it compiles shows as
much as what it would compile later (`grader.silicon.rebuild` holds the two against each other). It is kept on other
processors than what is timed, holds the device for its calls as a build does, and is waited for only where what it
compiled is wanted. What it finds best where it tunes is not used, so others may use the device for calls that are not
timed meanwhile.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from pathlib import Path

import torch

from grader.deck.code import DeckError
from grader.grading.first import AGAIN, PLACES, at_once
from grader.grading.job import Job
from grader.grading.stages import compiles, shared_calls, yielding
from grader.judge import judging as judge
from grader.judge.cores import enough, kept_away
from grader.judge.session import Session
from grader.sandbox import Sandbox, SandboxError, second
from grader.sandbox.base import CheckError
from grader.sandbox.folders import remove
from grader.sandbox.supervise import Child
from grader.silicon.ncu import ProfilerError
from grader.silicon.rebuild import second_build
from grader.wire.driver import GpuError

__all__ = ["Beside"]

JOIN_SECONDS = 5.0  # one that waits for the device is left behind, and ends when it gets it
FAULTS = (CheckError, DeckError, GpuError, OSError, SandboxError, torch.OutOfMemoryError)


class Beside:
    """A context manager: the second build goes on within, and what is left of it at the end is ended. `first` gives its
    process where that was started before the job was known.
    """

    def __init__(self, job: Job, sandbox: Sandbox, first: Callable[[], Child | None] = lambda: None) -> None:
        self._job, self._sandbox, self._first = job, sandbox, first
        self._place, self._caches = job.scratch / AGAIN, job.scratch / "again"
        self._thread: threading.Thread | None = None
        self._guard = threading.Lock()
        self._session: Session | None = None
        self._over = self._done = False

    def __enter__(self) -> Beside:
        return self

    def __exit__(self, *_: object) -> None:
        with self._guard:
            self._over = True
            session = self._session
        if session is not None and self._thread is not None and self._thread.is_alive():
            with contextlib.suppress(OSError, SandboxError):
                session.end()
        if self._thread is not None:
            self._thread.join(JOIN_SECONDS)
        remove(self._place)
        remove(self._caches)

    def start(self) -> None:
        """Starts the second build beside the first one, where `at_once` allows that."""
        if at_once(self._job.snapshot):
            self._start()

    def start_late(self) -> None:
        """Starts the second build after the first one has ended, unless `start` did so before."""
        if not at_once(self._job.snapshot):
            self._start()

    def _start(self) -> None:
        """Nothing is done for a submission that compiles nothing, on a machine with few processors, and where the
        sandbox does not keep two processes apart.
        """
        if not (compiles(self._job) and enough()):
            return
        with contextlib.suppress(SandboxError):
            other = second(self._sandbox, PLACES[AGAIN])
            if other is not None:
                child = self._first()
                for folder in (self._caches, *([self._place] if child is None else [])):
                    remove(folder)
                self._thread = threading.Thread(target=self._build, args=(other, child), daemon=True)
                self._thread.start()

    def finish(self) -> Path | None:
        """Waits for the second build; returns the folder with what it compiled, or None where it failed."""
        if self._thread is not None:
            self._thread.join()
        return self._caches if self._done else None

    def _build(self, sandbox: Sandbox, child: Child | None) -> None:
        """Whatever ends it early leaves nothing: the evidence pass then makes one."""
        job = self._job
        with contextlib.suppress(*FAULTS, ProfilerError), kept_away():
            begun = None if child is None else judge.begin_build(
                job.snapshot, job.device, job.options, sandbox, self._place, child
            )  # fmt: skip
            second_build(
                job.problem, job.snapshot, device=job.device, scale=job.chosen.record.scale, options=job.options,
                sandbox=sandbox, scratch=self._place, caches=self._caches, progress=lambda text: None,
                held=shared_calls(job, "build", "again"), yielding=yielding(job, "build", "again"), opened=self._opened,
                begun=begun,
            )  # fmt: skip
            self._done = True

    def _opened(self, session: Session) -> None:
        with self._guard:
            self._session = session
            over = self._over
        if over:
            raise CheckError("the second build is not wanted any more")
