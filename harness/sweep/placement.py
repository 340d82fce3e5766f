"""Where a cell is run. The pool of this machine is one way; a cluster is another implementation of `Placement`.

What travels to a placement is an order (a key, a request, a trial, paths), and what comes back is where the run lies
that answers it, a folder that this machine can read. A placement makes no second attempt and keeps no list: the sweep
decides by key what is done again, so an order that a dying node took with it is found missing and given anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from harness.judging.pool import JudgePool
from harness.record.archive import RunFolder
from harness.record.run import RunRecord
from harness.running.display import Display
from harness.running.lease import leased
from harness.running.one_run import Shared, grade_ended, run_once
from harness.running.prepare import Prepared, prepare
from harness.running.request import RunRequest
from harness.running.trials import THREADS_A_RUN

__all__ = ["Gone", "LocalPool", "Order", "Placed", "Placement", "Say"]

Say = Callable[[str], None]


class Gone(Exception):
    """An order's process or node is gone, or another process has its run; the text is one sentence."""


@dataclass(frozen=True, slots=True)
class Order:
    """One attempt at a cell. `resume` is the id of a run below `request.out` whose agent has ended and which is only to
    be graded, "" for a new run. `deck` is the digest of its problem's files, which another machine must have too.
    """

    request: RunRequest
    trial: int
    resume: str = ""
    deck: str = ""


@dataclass(frozen=True, slots=True)
class Placed:
    """What an order came to: the run's record, and its folder."""

    record: RunRecord
    folder: Path


class Placement(Protocol):
    """Runs orders. `jobs` is how many it takes at a time."""

    @property
    def jobs(self) -> int:
        """How many orders the placement works on at a time."""

    async def place(self, order: Order, say: Say) -> Placed:
        """Carries out one order. What agent, provider or room do wrong is in the record; raises Gone, what `prepare`
        raises, ArchiveError and OSError. When it is cancelled it ends what it started.
        """

    async def close(self) -> None:
        """Releases what the placement holds."""


class LocalPool:
    """The processes, GPUs and judges of this machine, shared by so many runs at a time."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._executor = ThreadPoolExecutor(max_workers=THREADS_A_RUN * jobs + 4, thread_name_prefix="kbh-sweep")
        self._judges = JudgePool()
        self._prepared: dict[RunRequest, Prepared] = {}

    @property
    def jobs(self) -> int:
        """How many runs there are at a time."""
        return self._jobs

    async def place(self, order: Order, say: Say) -> Placed:
        """See `Placement`."""
        prepared = await asyncio.get_running_loop().run_in_executor(self._executor, self.prepared, order.request)
        shared = Shared(self._executor, self._judges, _Heard(say))
        if not order.resume:
            record = await run_once(prepared, order.trial, shared)
            return Placed(record, order.request.out / record.run_id)
        folder = RunFolder(order.request.out / order.resume)
        if not folder.take():
            raise Gone(f"{folder.path} is held by another process")
        try:
            record = folder.load()
            gpus = (record.gpu,) if record.gpu in prepared.here.gpus else prepared.here.gpus
            async with leased(gpus, say, alone=prepared.gpu_in_room) as gpu:
                return Placed(await grade_ended(prepared, shared, folder, replace(record, gpu=gpu)), folder.path)
        finally:
            folder.release()

    def prepared(self, request: RunRequest) -> Prepared:
        """What all trials of a request share, prepared once and kept. Raises what `prepare` raises."""
        kind = replace(request, sweep_key="")
        if kind not in self._prepared:
            self._prepared[kind] = prepare(kind)
        return replace(self._prepared[kind], request=request)

    async def close(self) -> None:
        """See `Placement`."""
        await self._judges.close()
        self._executor.shutdown(wait=True)


class _Heard(Display):
    """Hands on what a run tells."""

    def __init__(self, say: Say) -> None:
        super().__init__()
        self._say = say

    def stage(self, run: str, text: str) -> None:
        """Passes on that a run enters a stage."""
        self._say(text)

    def at(self, run: str, text: str) -> None:
        """Passes on how far a run is within its stage."""
        self._say(text)

    def over(self, run: str) -> None:
        """Does nothing: who placed the run knows that it is over."""
