"""Works a ledger off on this machine or on a cluster; what needs aiohttp and torch is imported here."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from pathlib import Path

from grader.sandbox import harden_judge
from harness.archive import Archive
from harness.sweep.cluster import RayCluster
from harness.sweep.drive import Drive
from harness.sweep.ledger import Ledger
from harness.sweep.matrix import Matrix
from harness.sweep.placement import LocalPool, Placement
from harness.sweep.plan import plan_of, plan_text
from harness.sweep.progress import Progress

__all__ = ["work"]


def work(
    matrix: Matrix, ledger: Ledger, archive: Archive, out: Path, *, jobs: int | None, cluster: str | None
) -> tuple[int, bool]:
    """Works off what is open; gives how many cells were given up, and whether the cap on the cost ended it.

    Prints the plan first, and progress, on standard error. Raises what `prepare` does, RunError, OSError, and
    KeyboardInterrupt.
    """
    left = ledger.open()
    placement: Placement
    if cluster:
        placement = RayCluster(cluster, [known.cell.request.target for known in left], out, jobs)
    else:
        harden_judge()
        placement = pool = LocalPool(jobs or 1)
        for known in left:
            pool.prepared(known.cell.request)  # what is missing is said before anything starts
    print(plan_text(matrix, ledger, plan_of(matrix, ledger, placement.jobs)), end="", file=sys.stderr)
    progress = Progress(ledger, placement.jobs)
    drive = Drive(matrix, ledger, archive, out, placement, progress)
    asyncio.run(_driven(drive, placement, progress))
    return len(drive.given_up), drive.capped


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
