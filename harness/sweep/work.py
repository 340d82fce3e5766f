"""Works a ledger off on this machine or on a cluster; what needs aiohttp and torch is imported here."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from grader.sandbox import harden_judge
from harness.archive import Archive
from harness.sweep.cluster import RayCluster
from harness.sweep.drive import Drive
from harness.sweep.ledger import Ledger
from harness.sweep.matrix import Matrix
from harness.sweep.meter import Measured, Meter, measured_text
from harness.sweep.placement import LocalPool, Placement
from harness.sweep.plan import plan_of, plan_text
from harness.sweep.progress import Progress

__all__ = ["Done", "work"]


@dataclass(frozen=True, slots=True)
class Done:
    """How many cells were given up, whether the cap on the cost ended it, and what was measured."""

    given_up: int
    capped: bool
    measured: Measured


def work(matrix: Matrix, ledger: Ledger, archive: Archive, out: Path, *, jobs: int | None, cluster: str | None) -> Done:
    """Runs the cells of the matrix that are not settled in the archive yet.

    Prints the plan first, and progress, on standard error, and what was measured where it is interrupted. Raises what
    `prepare` does, RunError, OSError, and KeyboardInterrupt.
    """
    left = ledger.open()
    placement: Placement
    devices: list[str] = []
    if cluster:
        placement = RayCluster(cluster, [known.cell.request.target for known in left], out, jobs)
    else:
        harden_judge()
        placement = pool = LocalPool(jobs or 1)
        for known in left:
            found = pool.prepared(known.cell.request).here  # what is missing is said before anything starts
            devices += found.gpus or (found.target,)
    print(plan_text(matrix, ledger, plan_of(matrix, ledger, placement.jobs)), end="", file=sys.stderr)
    progress = Progress(ledger, placement.jobs)
    drive = Drive(matrix, ledger, archive, out, placement, progress)
    meter = Meter(devices)
    try:
        with meter:
            asyncio.run(_driven(drive, placement, progress))
    except KeyboardInterrupt:  # what was measured until then is worth as much
        print(f"\n{measured_text(meter.measured(drive.settled, placement.jobs))}", end="", file=sys.stderr)
        raise
    return Done(len(drive.given_up), drive.capped, meter.measured(drive.settled, placement.jobs))


async def _driven(drive: Drive, placement: Placement, progress: Progress) -> None:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        with contextlib.suppress(NotImplementedError, RuntimeError):  # not on every thread
            loop.add_signal_handler(number, task.cancel)
    try:
        await drive.run()
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:
        progress.clear()
        await placement.close()
