"""The judge's processes of one harness: few, warm, shared by all its runs, and ended when one takes too long.

A device has so many processes as there are processors for; who asks while all are busy waits in a line, in the order in
which they came. As an agent has one request at a time, each gets its turn before another gets a second one. Between
harnesses the turn on the device (grader.judge.turns) decides.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.judging.base import Answer, Ask, answer_from_line, to_line

__all__ = ["JudgePool", "Spent"]

COMMAND = (sys.executable, "-m", "harness.judging.worker")
CPUS_EACH = 4
MOST_WORKERS = 4
LINE_BYTES = 8 << 20
GRACE_S = 15.0  # beyond what the submission may take, for what is ours
IDLE_S = 180.0
ROOT = Path(__file__).resolve().parents[2]
KEPT = frozenset(
    "CC CXX CUDAHOSTCXX HOME LANG LD_LIBRARY_PATH MAX_JOBS NVIDIA_DRIVER_CAPABILITIES NVIDIA_VISIBLE_DEVICES "
    "OMP_NUM_THREADS PATH TMPDIR TZ VIRTUAL_ENV XDG_CACHE_HOME".split()
)
KEPT_BEGINNINGS = ("CUDA_", "KBH_", "LC_", "PYTHON", "TORCH", "TRITON_")
SECRET = ("KEY", "TOKEN", "SECRET", "PASS", "AUTH", "CREDENTIAL")
Say = Callable[[str], None]


@dataclass(slots=True)
class Spent:
    """Seconds of one request: `waited` for a turn, `worked` otherwise; they go on while it goes on."""

    waited: float = 0.0
    worked: float = 0.0
    _since: float = field(default_factory=time.monotonic)
    _waits: bool = True

    def now(self, waits: bool) -> None:
        """Notes that the request waits (True) or is being worked on (False) from now on."""
        now = time.monotonic()
        if self._waits:
            self.waited += now - self._since
        else:
            self.worked += now - self._since
        self._since, self._waits = now, waits

    @property
    def waits(self) -> bool:
        """Whether the request waits for its turn."""
        return self._waits


class _Worker:
    """One process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.timer: asyncio.TimerHandle | None = None

    @classmethod
    async def start(cls, command: Sequence[str], device: str) -> _Worker:
        """Starts a judge process for `device`. Raises OSError."""
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL, env=_environment(device), cwd=ROOT, limit=LINE_BYTES,
            start_new_session=True,
        )  # fmt: skip
        return cls(process)

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self.process.returncode is None

    async def event(self, until: float | None) -> Mapping[str, Any] | None:
        """The next event that the process writes; None when it has ended. Raises TimeoutError."""
        assert self.process.stdout is not None
        async with asyncio.timeout_at(until):
            try:
                line = await self.process.stdout.readline()
                found = json.loads(line) if line.endswith(b"\n") else None
            except ValueError:  # longer than any of ours, or not JSON
                return None
        return found if isinstance(found, dict) else None

    async def end(self) -> None:
        """Kills the process, and waits until the system has taken back what it held."""
        if self.timer is not None:
            self.timer.cancel()
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        if self.process.stdin is not None:
            self.process.stdin.close()
        await self.process.wait()


@dataclass(slots=True)
class _Device:
    """The processes of one device: those that are free, how many there are, and who waits for one."""

    free: list[_Worker] = field(default_factory=list)
    count: int = 0
    line: deque[asyncio.Future[_Worker | None]] = field(default_factory=deque)


class JudgePool:
    """The processes that judge for the agents of this harness; of one event loop. `close` ends them.

    `workers` bounds those of one device (None: one for every four processors, four at most); one that had nothing to do
    for `idle_s` seconds ends.
    """

    def __init__(
        self, *, workers: int | None = None, idle_s: float = IDLE_S, command: Sequence[str] = COMMAND
    ) -> None:  # fmt: skip
        cpus = len(os.sched_getaffinity(0))
        self._most = workers or max(1, min(MOST_WORKERS, cpus // CPUS_EACH))
        self._idle_s, self._command = idle_s, tuple(command)
        self._devices: dict[str, _Device] = {}
        self._ending: set[asyncio.Task[None]] = set()

    async def ask(self, device: str, ask: Ask, say: Say, spent: Spent) -> Answer:
        """Has something judged. Cancelling it ends the process that is at it.

        `device` is "cpu", "cuda", or one of several GPUs: "cuda:1", or a UUID. `spent` is kept as it goes.
        """
        place = self._devices.setdefault(device, _Device())
        worker = await self._taken(place, say)
        done = False
        try:
            if worker is None:
                worker = await _Worker.start(self._command, device)
            spent.now(waits=False)
            answer, done = await _asked(worker, ask, say, spent)
            return answer
        except OSError as error:
            return _trouble(f"the judge's process could not be started ({(error.strerror or 'unknown').lower()})")
        finally:
            spent.now(waits=False)
            if worker is not None and not done:
                self._end(worker)
                worker = None
            self._give(place, worker)

    async def close(self) -> None:
        """Ends all processes; who asks then is cancelled before."""
        for place in self._devices.values():
            for worker in place.free:
                self._end(worker)
            place.free.clear()
        if self._ending:
            await asyncio.gather(*self._ending)

    async def _taken(self, place: _Device, say: Say) -> _Worker | None:
        """A free process, or None for the right to start one; in the order in which it was asked for."""
        while place.free:
            worker = place.free.pop()
            if worker.timer is not None:
                worker.timer.cancel()
            if worker.alive:
                return worker
            place.count -= 1
        if place.count < self._most:
            place.count += 1
            return None
        ahead = len(place.line)
        more = f"; {ahead} {'waits' if ahead == 1 else 'wait'} before you" if ahead else ""
        say(f"waiting for the judge, which is busy with another agent{more}")
        mine: asyncio.Future[_Worker | None] = asyncio.get_running_loop().create_future()
        place.line.append(mine)
        try:
            return await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():
                self._give(place, mine.result())
            else:
                place.line.remove(mine)
            raise

    def _give(self, place: _Device, worker: _Worker | None) -> None:
        """Hands a process, or the right to start one, to who waits longest; else it waits itself."""
        if worker is not None and not worker.alive:
            worker = None
        while place.line:
            first = place.line.popleft()
            if not first.done():
                first.set_result(worker)
                return
        if worker is None:
            place.count -= 1
            return
        place.free.append(worker)
        worker.timer = asyncio.get_running_loop().call_later(self._idle_s, self._retire, place, worker)

    def _retire(self, place: _Device, worker: _Worker) -> None:
        if worker in place.free:
            place.free.remove(worker)
            place.count -= 1
            self._end(worker)

    def _end(self, worker: _Worker) -> None:
        """Kills a process now; that it is gone is awaited elsewhere, so that a cancelled task is not kept."""
        with contextlib.suppress(ProcessLookupError):
            worker.process.kill()
        task = asyncio.get_running_loop().create_task(worker.end())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


async def _asked(worker: _Worker, ask: Ask, say: Say, spent: Spent) -> tuple[Answer, bool]:
    """The answer, and whether the process can be asked again."""
    assert worker.process.stdin is not None
    held_until: float | None = None
    loop, bound = asyncio.get_running_loop(), ""
    try:
        worker.process.stdin.write(to_line(ask))
        await worker.process.stdin.drain()
        while True:
            until = None if spent.waits else loop.time() + ask.work_s + GRACE_S - spent.worked
            bound = f"it took more than {ask.work_s:g} s"
            if held_until is not None and (until is None or held_until < until):
                until, bound = held_until, f"it held the device for more than {ask.turn_s:g} s"
            event = await worker.event(until)
            spent.now(spent.waits)
            if event is None:
                return _trouble("the judge's process ended"), False
            if event.get("event") == "answer":
                return answer_from_line(event), True
            if event.get("event") == "say":
                say(str(event.get("text")))
            elif event.get("event") == "turn":
                spent.now(waits=event.get("standing") == "asked")
                held_until = loop.time() + ask.turn_s + GRACE_S if event.get("standing") == "held" else None
    except TimeoutError:
        return Answer("late", 2, bound, f"it could not be judged: {bound}\n"), False
    except (ConnectionError, ValueError):
        return _trouble("the judge's process ended"), False


def _trouble(sentence: str) -> Answer:
    return Answer("trouble", 2, sentence, f"it could not be judged: {sentence}; ask again\n")


def _environment(device: str) -> dict[str, str]:
    """Variables of the judge's process: no secret is among them. One of several GPUs is the only one that it sees."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if (name in KEPT or name.startswith(KEPT_BEGINNINGS)) and not any(word in name.upper() for word in SECRET)
    }
    kept["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [kept.get("PYTHONPATH")])])
    kind, _, number = device.partition(":")
    seen = [name for name in kept.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    if kind == "cuda" and number.isdigit():
        kept["CUDA_VISIBLE_DEVICES"] = seen[int(number)] if int(number) < len(seen) else number
    elif kind not in ("cpu", "cuda"):
        kept["CUDA_VISIBLE_DEVICES"] = device
    return kept
