"""The agent's part of a run: room, proxy, judge and watcher around one process, until nothing of it is left.

What comes of it is in the archive before anything is graded. The order of the end matters: first the agent and all that
it started is gone, then comes the last look at its files, then the room.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from grader.record.bundle import redact
from harness.agents.base import Adapter, Job, Launch, Said
from harness.contamination.rules import DECISIVE
from harness.contamination.watch import Watch as Contamination
from harness.proxy.gateway import Gateway
from harness.proxy.trajectory import Conversation
from harness.record.archive import RunFolder
from harness.record.events import (
    AgentEnded,
    AgentStarted,
    EventData,
    Finding,
    JudgeUsed,
    Seen,
)
from harness.record.exchange import Exchange, ModelCall
from harness.record.usage import Usage
from harness.room.base import Room, RoomError
from harness.room.output import Output
from harness.running.watch import Watch
from harness.running.workspace import Solution, Template, read_solution

__all__ = ["AgentRun", "Worked"]

LOOK_SECONDS = 1.0  # between two looks at the workspace
WAIT_SECONDS = 0.5  # a wait for the agent's end, after which other ends are looked at again
MOST_FINDINGS = 500
MOST_SAID = 200_000  # events of what a CLI prints
SIGNALLED = 128  # exit statuses above it may be signals; some CLIs use other such numbers of their own
FATAL = frozenset({
    signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGKILL, signal.SIGSEGV, signal.SIGSYS,
    signal.SIGTERM,
})  # fmt: skip
MOST_OUTPUT = 32 << 20  # kept of what an agent prints, for each stream
_STOPS = {"limit": "limit", "provider": "provider", "trouble": "stopped"}
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Worked:
    """What is known when the agent is gone; why it is gone stands in the trajectory."""

    exit_code: int | None
    seconds: float
    solution: Solution
    changed: tuple[str, ...]
    calls: tuple[ModelCall, ...]
    usage: Usage
    cli_usage: Usage | None
    judge_seconds: float
    findings: tuple[Finding, ...]


@dataclass
class AgentRun:
    """One agent at work. `work` is called once."""

    folder: RunFolder
    adapter: Adapter
    job: Job
    launch: Launch
    room: Room
    gateway: Gateway
    template: Template
    contamination: Contamination
    budget_s: float
    executor: Executor
    show: Callable[[str], None]
    began: float = 0.0
    step: int = 0
    findings: list[Finding] = field(default_factory=list)
    judge_seconds: float = 0.0
    said: deque[Said] = field(default_factory=lambda: deque(maxlen=MOST_SAID))
    stopped: str = ""
    _stop: asyncio.Event = field(default_factory=asyncio.Event)
    _conversation: Conversation = field(init=False)

    def __post_init__(self) -> None:
        self._conversation = Conversation(self.job.model)

    # --- what others tell --------------------------------------------------------------------------------

    def elapsed(self) -> float:
        """Seconds since the agent started; 0 before."""
        return time.monotonic() - self.began if self.began else 0.0

    def tell(self, seen: Seen, data: EventData, *, step: int | None = None) -> None:
        """Adds an event to the trajectory; a finding is also kept for the record."""
        if isinstance(data, Finding):
            data = replace(data, step=data.step or (self.step if step is None else step))
            if len(self.findings) >= MOST_FINDINGS:
                return
            self.findings.append(data)
        self.folder.append(data, step=self.step if step is None else step, seen=seen, elapsed=self.elapsed())

    def on_call(self, call: ModelCall, exchange: Exchange) -> None:
        """Adds a finished call of the model to the trajectory; the proxy calls it."""
        self.step = max(self.step, call.number)
        for step, data in self._conversation.add(call, exchange):
            self.tell("proxy", data, step=step)
        if call.status == "swapped":
            self.tell("proxy", Finding("provider", "swapped", call.detail), step=call.number)
        for found in self.contamination.look(exchange, call.number):
            self.tell("proxy", replace(found, decisive=found.rule in DECISIVE, step=call.number), step=call.number)
        self.show(f"{len(self.gateway.calls)} calls, {_tokens(self.gateway.usage)}")

    def on_stop(self, why: str) -> None:
        """Ends the run for the reason `why`; the proxy calls it."""
        self.stopped = self.stopped or why
        self._stop.set()

    def on_judge(self, used: JudgeUsed) -> None:
        """Adds a request of the agent to the judge to the trajectory; the judge's service calls it."""
        self.judge_seconds += used.waited_s + used.seconds
        self.tell("judge", used)

    def on_line(self, line: str) -> None:
        """Reads a line that the CLI printed into the events that its adapter makes of it."""
        self.said.extend(self.adapter.read(line))

    # --- the work ----------------------------------------------------------------------------------------

    async def work(self, logs: Path) -> Worked:
        """Starts the agent, lets it work until it ends or is ended, and takes what it left; `logs` gets what it prints.

        Raises RoomError where the room fails; the agent is gone then too.
        """
        out = Output(logs / "stdout.log", keep=MOST_OUTPUT, line=self.on_line)
        err = Output(logs / "stderr.log", keep=MOST_OUTPUT)
        launch = self.launch

        def start() -> None:
            self.room.start(launch.argv, env=launch.env, stdin=launch.stdin, stdout=out.end, stderr=err.end)

        watch = Watch(self.room.files, self.template, self.folder, lambda data: self.tell("room", data))
        self.tell("run", AgentStarted(tuple(redact(word)[:2000] for word in self.launch.argv), self.room.record.kind))
        self.began = time.monotonic()
        try:
            await self._there(start)
            looking = asyncio.create_task(self._look(watch))
            try:
                reason, exit_code = await self._until_over()
            finally:
                looking.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await looking
                left = await self._there(self.room.left_over)
                await self._there(self.room.end)
        except BaseException:
            with contextlib.suppress(RoomError):
                await asyncio.shield(self._there(self.room.end))
            raise
        finally:
            seconds = round(self.elapsed(), 3)
            for output in (out, err):
                await asyncio.shield(self._there(output.close))
        self._told_of_output(out, err)
        await self.gateway.close()
        await self._there(watch.look)
        self.tell("room", AgentEnded(exit_code, reason, left, seconds, self.stopped))  # type: ignore[arg-type]
        solution = await self._there(lambda: read_solution(self.room.files, self.template))
        return self._worked(exit_code, seconds, solution, tuple(watch.changed))

    def _told_of_output(self, *outputs: Output) -> None:
        """Says what of the agent's output is not kept."""
        for output in outputs:
            if output.unkept:
                told = f"the agent printed {output.bytes:,} bytes, of which {output.unkept:,} are not kept"
                self.tell("room", Finding("limit", "output-cut", told))

    async def _until_over(self) -> tuple[str, int | None]:
        """(why it is over, the exit status if it ended by itself)."""
        ended = asyncio.create_task(self._exit())
        stop = asyncio.create_task(self._stop.wait())
        left = self.began + self.budget_s - time.monotonic()
        try:
            await asyncio.wait({ended, stop}, timeout=max(left, 0.0), return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                return self._by_itself(ended.result())
            if stop.done():
                return _STOPS[self.gateway.stop_kind], None
            return "budget", None
        finally:
            for task in (ended, stop):
                task.cancel()

    def _by_itself(self, status: int) -> tuple[str, int]:
        """Of an agent that nobody here ended."""
        if status - SIGNALLED not in FATAL:
            return "exit", status
        name = signal.Signals(status - SIGNALLED).name
        self.stopped = f"the agent's process was killed by {name}, which the harness did not send"
        return "killed", status

    async def _exit(self) -> int:
        while True:
            found = await self._there(lambda: self.room.wait(WAIT_SECONDS))
            if found is not None:
                return found

    async def _look(self, watch: Watch) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self._there(watch.look)

    async def _there(self, function: Callable[[], T]) -> T:
        """Runs what blocks on a thread of the run's own pool."""
        return await asyncio.get_running_loop().run_in_executor(self.executor, function)

    def _worked(self, exit_code: int | None, seconds: float, solution: Solution, changed: tuple[str, ...]) -> Worked:
        for note in solution.notes:
            self.tell("room", Finding("room", "solution-not-taken", note))
        calls = tuple(self.gateway.calls)
        return Worked(
            exit_code=exit_code, seconds=seconds, solution=solution, changed=changed, calls=calls,
            usage=self.gateway.usage, cli_usage=self._cli_usage(), judge_seconds=round(self.judge_seconds, 3),
            findings=tuple(self.findings),
        )  # fmt: skip

    def _cli_usage(self) -> Usage | None:
        """What the CLI says of its own usage; what of its files cannot be read is as if it were not there."""

        def files(pattern: str) -> Iterable[tuple[str, bytes]]:
            return _matching(self.room, pattern)

        try:
            return self.adapter.usage(list(self.said), files)
        except (RoomError, ValueError):
            return None


def _matching(room: Room, pattern: str) -> Iterable[tuple[str, bytes]]:
    from fnmatch import fnmatchcase

    for path, size, _ in room.files.walk("home"):
        name = path.removeprefix("home/")
        if fnmatchcase(name, pattern) and size <= 64 << 20:
            yield name, room.files.read(path, 64 << 20)


def _tokens(usage: Usage) -> str:
    return f"{(usage.prompt_tokens + usage.output_tokens) / 1000:.1f}k tokens"
