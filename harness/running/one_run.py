"""One run from the request to the graded archive. Every step is in the archive before the next one begins."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
import traceback
from collections.abc import AsyncIterator
from concurrent.futures import Executor
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial

from aiohttp import web

from grader.record.bundle import redact
from harness.agents.base import NODE, PREFIX, Job
from harness.contamination.canaries import plant
from harness.contamination.places import Places
from harness.contamination.watch import Watch as Contamination
from harness.judging.base import JudgeLimits
from harness.judging.pool import JudgePool
from harness.judging.service import JudgeService
from harness.proxy.gateway import Gateway
from harness.proxy.keys import KeyFault
from harness.record.archive import RECORD, ArchiveError, RunFolder, new_run_id
from harness.record.events import EventData, Graded, RunEnded, RunStarted, Seen
from harness.record.run import RunRecord
from harness.room import open_room
from harness.room.base import Room, RoomError, RoomSpec
from harness.running.agent_run import AgentRun, Worked
from harness.running.curve import resembles, timed
from harness.running.display import Display, clock
from harness.running.ending import Evidence, How, decide
from harness.running.evidence import evidence_of
from harness.running.grading import Grading, grade_run
from harness.running.lease import leased
from harness.running.prepare import Prepared, path_inside, scripted_route
from harness.running.target import CPU
from harness.scripted.server import serve

__all__ = ["Shared", "grade_ended", "run_once"]


PLAIN = (RoomError, ArchiveError, KeyFault, OSError, ValueError)  # whose texts are for people


@dataclass(frozen=True, slots=True)
class Shared:
    """What the runs of one command share."""

    executor: Executor
    pool: JudgePool
    display: Display


async def run_once(prepared: Prepared, trial: int, shared: Shared) -> RunRecord:
    """One trial. Never raises for what the agent, the provider or the machine does; cancelling it ends the agent, and
    the run is lost then.
    """
    request = prepared.request
    record = RunRecord(
        run_id=new_run_id(request.agent, request.model, request.problem),
        agent=request.agent,
        harness=f"{request.agent} {prepared.version}",
        model=request.model,
        problem=request.problem,
        target=prepared.here.target,
        effort=request.effort,
        budget_s=request.budget_s,
        trial=trial,
        state="preparing",
        started=time.time(),
        template=prepared.template.hashes,
        strict=request.strict,
        versions=dict(prepared.versions),
        sweep_key=request.sweep_key,
    )
    folder = RunFolder.create(request.out, record)
    try:
        return await _Run(prepared, shared, folder, record).run()
    finally:
        folder.release()
        shared.display.over(f"run {trial}")


class _Run:
    def __init__(self, prepared: Prepared, shared: Shared, folder: RunFolder, record: RunRecord) -> None:
        self.prepared, self.shared, self.folder, self.record = prepared, shared, folder, record
        self.name = f"run {record.trial}"
        self.agent: AgentRun | None = None

    async def run(self) -> RunRecord:
        """Runs the agent while a GPU is leased for it, then has its solution graded; returns the record."""
        record, prepared = self.record, self.prepared
        self._tell("run", RunStarted(record.run_id, record.agent, prepared.version, record.model, record.problem,
                                     record.target, record.effort, record.budget_s))  # fmt: skip
        self.folder.write("prompt.md", prepared.prompt.encode())
        self.shared.display.stage(self.name, f"{record.agent} {record.model} on {record.problem}: {self.folder.path}")
        async with leased(prepared.here.gpus, self._wait, alone=prepared.gpu_in_room) as gpu:
            self._save(gpu=gpu)
            try:
                worked = await self._worked(gpu, time.monotonic())
            except asyncio.CancelledError:
                self._over(decide(Evidence(lost=True)))
                raise
            except Exception as error:  # one run that fails must not take the others with it
                return self._over(decide(Evidence(trouble=self._fault(error))))
            self._keep(worked)
            return await grade_ended(prepared, self.shared, self.folder, self.record)

    def _fault(self, error: Exception) -> str:
        """One sentence on what went wrong; what is no plain error is kept with the place in our code."""
        if isinstance(error, PLAIN):
            return redact(str(error))[:500]
        told = redact("".join(traceback.format_exception(error)))
        self.folder.write(f"{RECORD}/fault.txt", told.encode())
        return f"a fault of kbh itself ({type(error).__name__}); {RECORD}/fault.txt says where"

    def _wait(self, text: str) -> None:
        self.shared.display.stage(self.name, text)

    async def _worked(self, gpu: str, began: float) -> Worked:
        """The agent's part, from the room to its end."""
        request = self.prepared.request
        in_room = gpu if self.prepared.gpu_in_room else ""
        memory = None if in_room else RoomSpec().memory_bytes
        spec = RoomSpec(mounts=self.prepared.mounts, gpu=in_room, memory_bytes=memory)
        async with AsyncExitStack() as stack:
            room = await stack.enter_async_context(self._room(spec, request.sealed))
            self._save(room=room.record)
            agent = await self._agent(stack, room, gpu)
            self._save(state="running", spent=replace(self.record.spent, prepare=round(time.monotonic() - began, 3)))
            self.shared.display.stage(self.name, f"the agent works, for {clock(request.budget_s)} at most")
            return await agent.work(self.folder.path / RECORD / "agent")

    @contextlib.asynccontextmanager
    async def _room(self, spec: RoomSpec, sealed: bool) -> AsyncIterator[Room]:
        loop = asyncio.get_running_loop()
        room = await loop.run_in_executor(self.shared.executor, lambda: open_room(spec, sealed=sealed))
        try:
            yield room
        finally:
            await asyncio.shield(loop.run_in_executor(self.shared.executor, room.close))

    async def _agent(self, stack: AsyncExitStack, room: Room, gpu: str) -> AgentRun:
        """The agent with its room furnished, proxy and judge listening, and nothing started yet."""
        prepared, request = self.prepared, self.prepared.request
        for name, data in prepared.template.files.items():
            room.files.write(f"workspace/{name}", data)
        key = f"kbh-key-{secrets.token_hex(16)}"
        job = Job(
            prepared.model, prepared.prompt, room.base_url, key, request.effort, room.workspace, room.home,
            room.seen(PREFIX), room.seen(NODE), request.arguments,
        )  # fmt: skip
        launch = prepared.adapter.launch(job)
        launch = replace(launch, env=path_inside({**launch.env, "KBH_JUDGE": room.base_url}))
        for name, data in launch.files.items():
            room.files.write(f"home/{name}", data)
        route = prepared.route or scripted_route(self._scripted(stack, room))
        contamination = Contamination(
            prepared.problem.id, prepared.template.files, request.out, request.known, own_token=plant(self.folder.path),
            places=Places(str(room.workspace), str(room.home), str(room.temporary)),
        )  # fmt: skip
        agent: AgentRun

        def mount(app: web.Application) -> None:
            app.router.add_routes(judge.routes())

        judge = JudgeService(
            prepared.problem, device=prepared.device(gpu), target=prepared.here.target, folder=self.folder,
            on_use=lambda used: agent.on_judge(used), pool=self.shared.pool, limits=judge_limits(prepared.here.target),
        )  # fmt: skip
        gateway = Gateway(
            route, model=prepared.model, caps=request.caps, folder=self.folder, key=key,
            elapsed=lambda: agent.elapsed(), on_call=lambda call, said: agent.on_call(call, said),
            on_stop=lambda why: agent.on_stop(why), on_event=lambda data: agent.tell("proxy", data),
            add_routes=mount,
        )  # fmt: skip
        agent = AgentRun(
            self.folder, prepared.adapter, job, launch, room, gateway, prepared.template, contamination,
            request.budget_s, self.shared.executor, self._at,
        )  # fmt: skip
        stack.push_async_callback(gateway.close)
        stack.push_async_callback(judge.close)
        await gateway.start(room.listener)
        self.agent = agent
        return agent

    def _scripted(self, stack: AsyncExitStack, room: Room) -> str:
        assert self.prepared.script is not None
        url, close = serve(self.prepared.script, workspace=str(room.workspace))
        stack.callback(close)
        return url

    def _at(self, text: str) -> None:
        elapsed = self.agent.elapsed() if self.agent else 0.0
        self.shared.display.at(self.name, f"{clock(elapsed)} of {clock(self.record.budget_s)}, {text}")

    def _keep(self, worked: Worked) -> None:
        """Writes down what the agent left. From here on a cut run is graded when it is found."""
        for name, data in worked.solution.files.items():
            place = self.folder.path / name
            place.parent.mkdir(parents=True, exist_ok=True)
            self.folder.write(name, data)
        self._save(
            state="ended",
            calls=len(worked.calls),
            failed_calls=sum(call.status != "ok" for call in worked.calls),
            usage=worked.usage,
            cli_usage=worked.cli_usage,
            exit_code=worked.exit_code,
            solution=worked.solution.sha256,
            changed_template=worked.changed,
            findings=worked.findings,
            spent=replace(self.record.spent, agent=worked.seconds, judge=worked.judge_seconds),
        )

    def _save(self, **changes: object) -> None:
        self.record = replace(self.record, **changes)  # type: ignore[arg-type]
        self.folder.save(self.record)

    def _tell(self, seen: Seen, data: EventData) -> None:
        elapsed = self.agent.elapsed() if self.agent else 0.0
        self.folder.append(data, step=0, seen=seen, elapsed=elapsed)

    def _over(self, how: How) -> RunRecord:
        findings = tuple(self.agent.findings) if self.agent is not None else ()
        self.record = _finished(self.folder, replace(self.record, findings=findings), how)
        return self.record


def judge_limits(target: str) -> JudgeLimits:
    """How much a run may ask of the judge: on a CPU, where kernels are interpreted, one seed takes long enough."""
    limits = JudgeLimits()
    return replace(limits, seeds=limits.seeds[:1]) if target == CPU else limits


async def grade_ended(prepared: Prepared, shared: Shared, folder: RunFolder, record: RunRecord) -> RunRecord:
    """Grades what the agent left, where it is to be, and decides how the run ended."""
    request, name = prepared.request, f"run {record.trial}"
    if record.state == "ended" and record.solution:
        record = await _looked_back(prepared, shared, folder, record)
    evidence = evidence_of(record, folder.events())
    if not request.grade or not evidence.solution:
        return _finished(folder, record, decide(replace(evidence, wants_grade=request.grade)))
    shared.display.stage(name, "grading")
    record = replace(record, state="grading")
    folder.save(record)
    found = await grade_run(
        folder.path, request, record.target, lambda text: shared.display.at(name, text), gpu=record.gpu
    )  # fmt: skip
    record = _graded(folder, record, found)
    if request.curve:
        shared.display.stage(name, "timing earlier versions")
        await timed(prepared, shared.pool, folder, record, request.curve)
    return _finished(folder, record, decide(_with_grade(evidence, found)))


async def _looked_back(prepared: Prepared, shared: Shared, folder: RunFolder, record: RunRecord) -> RunRecord:
    """The record with what the solution resembles among its findings."""
    look = partial(resembles, prepared, folder, record)
    found = await asyncio.get_running_loop().run_in_executor(shared.executor, look)
    for finding in found:
        folder.append(finding, step=finding.step, seen="run", elapsed=record.spent.agent)
    record = replace(record, findings=(*record.findings, *found))
    folder.save(record)
    return record


def _with_grade(evidence: Evidence, found: Grading) -> Evidence:
    ours = "" if found.cell is not None else f"the grader failed: {found.trouble}"
    return replace(evidence, graded=found.outcome, said=found.reason, trouble=evidence.trouble or ours)


def _graded(folder: RunFolder, record: RunRecord, found: Grading) -> RunRecord:
    build, check, rest = found.spent()
    spent = replace(
        record.spent, lint=found.stages.get("lint", 0.0), build=build, check=check, grade=round(rest, 3)
    )  # fmt: skip
    score = found.score("roofline_fraction")
    told = Graded(record.solution, found.outcome or "not graded", found.verdict, score, found.bundle)
    folder.append(told, step=0, seen="run", elapsed=record.spent.agent)
    return replace(
        record, spent=spent, grade_outcome=found.outcome, verdict=found.verdict,
        peak_fraction=found.score("peak_fraction"), roofline_fraction=score, cell=found.bundle,
    )  # fmt: skip


def _finished(folder: RunFolder, record: RunRecord, how: How) -> RunRecord:
    ended = RunEnded(how.outcome, how.ending, how.retryable, how.detail)
    folder.append(ended, step=0, seen="run", elapsed=record.spent.agent)
    done = replace(
        record, state="done", outcome=how.outcome, ending=how.ending, retryable=how.retryable, detail=how.detail,
        ended=time.time(),
    )  # fmt: skip
    folder.save(done)
    return done
