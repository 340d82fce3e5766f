"""All trials of a request: first the runs that were cut are seen to, then new ones start, so many at a time."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from grader.sandbox import harden_judge
from harness.judging.pool import JudgePool
from harness.record.run import RunRecord
from harness.running.display import Display
from harness.running.lease import leased
from harness.running.one_run import Shared, grade_ended, run_once
from harness.running.prepare import Prepared, prepare
from harness.running.recover import cut_runs, said_lost, same_request
from harness.running.request import RunRequest

__all__ = ["run_trials"]

THREADS_A_RUN = 6  # two wait for its process and its files, the others read what it prints


def run_trials(request: RunRequest, trials: int, jobs: int, display: Display) -> list[RunRecord]:
    """Makes so many runs, `jobs` at a time, and returns their records in the order of the trials.

    Raises what `prepare` raises, and KeyboardInterrupt; the agents are ended then, and their runs lost.
    """
    prepared = prepare(request)
    request.out.mkdir(parents=True, exist_ok=True)
    harden_judge()
    return asyncio.run(_all(prepared, trials, jobs, display))


async def _all(prepared: Prepared, trials: int, jobs: int, display: Display) -> list[RunRecord]:
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        with contextlib.suppress(NotImplementedError, RuntimeError):  # not on every platform, nor on every thread
            loop.add_signal_handler(number, task.cancel)
    pool = JudgePool()
    try:
        with ThreadPoolExecutor(max_workers=THREADS_A_RUN * jobs + 4, thread_name_prefix="kbh-run") as executor:
            shared = Shared(executor, pool, display)
            done = await _recovered(prepared, shared, trials)
            return [*done, *await _fresh(prepared, shared, range(len(done) + 1, trials + 1), jobs)]
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:
        await pool.close()


async def _fresh(prepared: Prepared, shared: Shared, numbers: Sequence[int], jobs: int) -> list[RunRecord]:
    places = asyncio.Semaphore(jobs)

    async def one(trial: int) -> RunRecord:
        async with places:
            return await run_once(prepared, trial, shared)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(trial)) for trial in numbers]
    return [task.result() for task in tasks]


async def _recovered(prepared: Prepared, shared: Shared, most: int) -> list[RunRecord]:
    """The cut runs of this very request that could be gone on with; what cannot be is said to be lost."""
    done: list[RunRecord] = []
    for folder, record in cut_runs(prepared.request.out):
        if record.state not in ("ended", "grading"):
            said_lost(folder, record)
            shared.display.stage("earlier", f"{record.run_id} was cut while its agent worked, and is lost")
        elif same_request(record, prepared.request) and len(done) < most:
            shared.display.stage("earlier", f"{record.run_id} was cut before it was graded, and is gone on with")

            def wait(text: str) -> None:
                shared.display.stage("earlier", text)

            try:
                gpus = (record.gpu,) if record.gpu in prepared.here.gpus else prepared.here.gpus
                async with leased(gpus, wait, alone=prepared.gpu_in_room) as gpu:
                    done.append(await grade_ended(prepared, shared, folder, replace(record, gpu=gpu)))
            finally:
                folder.release()
        else:
            folder.release()  # another request goes on with it
    return done
