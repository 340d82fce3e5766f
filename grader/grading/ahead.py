"""The processes of the evidence pass, started while the trial runs, so that importing torch is not waited for.

Each has a user, a sandbox and a folder of its own. It imports torch on other processors than what is timed and waits;
no code of the submission runs in it, and it does not use the device, before its turn comes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import torch

from grader.candidate.clock.profile import Instrument
from grader.grading.job import Job
from grader.judge import judging as judge
from grader.judge.cores import enough, kept_away
from grader.judge.session import Session
from grader.sandbox import Sandbox, SandboxError, second
from grader.sandbox.supervise import CheckError, remove
from grader.silicon.gather import metrics_of
from grader.silicon.ncu import ProfilerError
from grader.silicon.passes import Begun, begin

__all__ = ["Ahead"]

PLACES = {"replay": 3, "counters": 4, "trace": 5}  # of their users; those before are a trial's and the second build's
INSTRUMENTS: tuple[Instrument, ...] = ("counters", "trace")
T = TypeVar("T")


class Ahead:
    """A context manager: what was started and not taken is ended with it, and their folders go."""

    def __init__(self, job: Job, sandbox: Sandbox) -> None:
        self._job, self._sandbox, self._place = job, sandbox, job.scratch / "ahead"
        self._replay: Session | None = None
        self._profiled: dict[Instrument, Begun] = {}

    def __enter__(self) -> Ahead:
        return self

    def __exit__(self, *_: object) -> None:
        waiting = [self._replay, *(begun.session for begun in self._profiled.values())]
        for session in waiting:
            if session is not None:
                with contextlib.suppress(OSError, SandboxError):
                    session.close()
        remove(self._place)

    def start(self, caches: Path | None) -> None:
        """Starts them on what was built; nothing where too little of this machine is left for them, or where the
        sandbox does not keep processes apart. What cannot be started here is started, or told, in its turn.
        """
        if self._job.device == "cpu" or not enough():
            return
        job = self._job
        metrics = metrics_of(".".join(map(str, torch.cuda.get_device_capability(job.device))), job.problem)

        def replay(sandbox: Sandbox, scratch: Path) -> Session:
            return judge.begin(job.snapshot, job.device, job.options, sandbox, scratch, caches)

        def profiled(instrument: Instrument, sandbox: Sandbox, scratch: Path) -> Begun:
            return begin(
                instrument, job.snapshot, device=job.device, options=job.options, sandbox=sandbox, scratch=scratch,
                caches=caches, metrics=metrics, own=True,
            )  # fmt: skip

        with kept_away():
            self._replay = self._started("replay", replay)
            for instrument in INSTRUMENTS:
                begun = self._started(instrument, partial(profiled, instrument))
                if begun is not None:
                    self._profiled[instrument] = begun

    def replay(self) -> Session | None:
        """The process of the replay, once."""
        found, self._replay = self._replay, None
        return found

    def profiled(self, instrument: Instrument) -> Begun | None:
        """The process beside an instrument, once."""
        return self._profiled.pop(instrument, None)

    def _started(self, name: str, start: Callable[[Sandbox, Path], T]) -> T | None:
        with contextlib.suppress(CheckError, OSError, ProfilerError, SandboxError):
            sandbox = second(self._sandbox, PLACES[name])
            if sandbox is not None:
                return start(sandbox, self._place / name)
        return None
