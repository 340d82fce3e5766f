"""The judge for the agent of one run, as handlers of an HTTP server that only that agent's room reaches.

POST /judge/check and /judge/benchmark take {"files": {"solution.py": BASE64, ...}} and answer with lines of JSON:
events `say` (where it stands), `alive` (every few seconds without another) and at the end `result`. A request that is
refused gets a status of 400 and more with {"error": SENTENCE}. All that was sent back is kept among the archive's
objects, and every use is told: what an agent learns is in the record.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from aiohttp import ClientError, web
from aiohttp.http_exceptions import HttpProcessingError

from grader.record.bundle.redact import redact
from harness.judging.base import SOLUTION, Answer, Ask, BadRequest, JudgeLimits, What, submission_of
from harness.judging.pool import JudgePool, Spent
from harness.record.archive import RunFolder
from harness.record.events import JudgeUsed
from kbh_lint.problems import Problem

__all__ = ["JudgeService", "OnUse"]

ALIVE_S = 5.0  # between lines while nothing is told
LOOK_S = 0.2  # between looks whether the agent is still there
PART_BYTES = 1 << 16
MOST_TEXT, MOST_MESSAGE = 100_000, 1000  # characters
OnUse = Callable[[JudgeUsed], None]


@dataclass(slots=True)
class _Use:
    """One request on its way: what has been sent back, and what it took."""

    what: What
    spent: Spent = field(default_factory=Spent)
    sent: bytearray = field(default_factory=bytearray)
    solution: str = ""
    told: asyncio.Queue[str] = field(default_factory=asyncio.Queue)


class JudgeService:
    """The judge of one run. `close` it before the run's archive is finished.

    `device` is "cpu", "cuda", or one of several GPUs ("cuda:1", a UUID); `target` as of `kbh grade`. `on_use` is told
    of each use when it has ended. Without a `pool` it has one of its own: runs of one harness should share one.
    """

    def __init__(
        self, problem: Problem, *, device: str, target: str, folder: RunFolder, on_use: OnUse,
        limits: JudgeLimits | None = None, pool: JudgePool | None = None,
    ) -> None:  # fmt: skip
        self._problem, self._device, self._target = problem, device, target
        self._folder, self._on_use, self._limits = folder, on_use, limits or JudgeLimits()
        self._own_pool = pool is None
        self._pool = pool or JudgePool()
        self._tasks: set[asyncio.Task[Answer]] = set()
        self._handling: set[asyncio.Task[object]] = set()
        self._busy = self._closed = self._said_enough = False
        self.requests = 0
        self.seconds = 0.0  # of the judge's work so far

    def routes(self) -> list[web.RouteDef]:
        """The routes to add to a server's router."""
        return [web.post("/judge/check", self._check), web.post("/judge/benchmark", self._benchmark)]

    async def close(self) -> None:
        """Ends what is being judged; its use is recorded before this returns. Later requests are refused."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
        handling = [task for task in self._handling if task is not asyncio.current_task()]
        if handling:
            await asyncio.gather(*handling, return_exceptions=True)
        if self._own_pool:
            await self._pool.close()

    async def _check(self, request: web.Request) -> web.StreamResponse:
        return await self._handled(request, "check")

    async def _benchmark(self, request: web.Request) -> web.StreamResponse:
        return await self._handled(request, "benchmark")

    async def _handled(self, request: web.Request, what: What) -> web.StreamResponse:
        task = asyncio.current_task()
        assert task is not None
        self._handling.add(task)
        try:
            return await self._judged(request, _Use(what))
        finally:
            self._handling.discard(task)

    async def _judged(self, request: web.Request, use: _Use) -> web.StreamResponse:
        refusal = self._refusal()
        if refusal is not None:
            return await self._refused(use, *refusal)
        self.requests += 1
        self._busy = True
        try:
            try:
                files = submission_of(await self._body(request))
            except BadRequest as error:
                return await self._refused(use, 400, str(error))
            kept = {name: await asyncio.to_thread(self._folder.put, data) for name, data in files.items()}
            use.solution = kept[SOLUTION]
            return await self._streamed(request, use, files)
        finally:
            self._busy = False

    def _refusal(self) -> tuple[int, str] | None:
        """Why a request is not even read, with a status."""
        limits = self._limits
        if self._closed:
            return 503, "the run has ended"
        if self.requests >= limits.requests:
            return 429, f"all {limits.requests} requests that a run may make of the judge are used up"
        if self.seconds >= limits.seconds:
            return 429, f"the {limits.seconds:g} s that the judge works for a run are used up"
        if self._busy:
            self.requests += 1
            return 409, "the judge is still at your last request; wait for its result, or end the program that asked"
        return None

    async def _refused(self, use: _Use, status: int, sentence: str) -> web.Response:
        """Refuses, and tells of it; what a limit refuses again and again is told once."""
        use.sent += json.dumps({"error": sentence}).encode() + b"\n"
        if status not in (429, 503) or not self._said_enough:
            self._said_enough |= status in (429, 503)
            await self._record(use, Answer("refused", 2, sentence, ""))
        return web.Response(status=status, body=bytes(use.sent), content_type="application/json")

    async def _body(self, request: web.Request) -> bytes:
        """The request's body, bounded in size and time. Raises BadRequest."""
        data, most = bytearray(), self._limits.body_bytes
        try:
            async with asyncio.timeout(self._limits.body_s):
                while part := await request.content.read(PART_BYTES):
                    data += part
                    if len(data) > most:
                        raise BadRequest(f"the request is longer than {most >> 20} MiB")
        except TimeoutError:
            raise BadRequest(f"the request did not come to its end within {self._limits.body_s:g} s") from None
        except (OSError, ClientError, HttpProcessingError, web.RequestPayloadError):
            raise BadRequest("the request was cut before its end") from None
        return bytes(data)

    async def _streamed(self, request: web.Request, use: _Use, files: dict[str, bytes]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson", "Cache-Control": "no-store"})
        task = asyncio.create_task(
            self._pool.ask(self._device, self._ask(use.what, files), use.told.put_nowait, use.spent)
        )
        self._tasks.add(task)
        answer = Answer("gone", 2, "the agent hung up before there was a result", "")
        try:
            await response.prepare(request)
            answer = await self._followed(request, response, use, task)
            result = {"code": answer.code, "outcome": answer.outcome, "message": answer.message, "text": answer.text}
            more = {"score": answer.score, "shapes": dict(answer.shapes)}
            await _send(response, use, {"event": "result", **result, **more})
            await response.write_eof()
        except (ConnectionError, asyncio.CancelledError):
            if self._closed and answer.outcome == "gone":
                answer = replace(answer, outcome="stopped", message="the run ended before there was a result")
            if (current := asyncio.current_task()) is not None and current.cancelling():
                raise
        finally:
            await self._ended(task, use, answer)
        return response

    async def _followed(
        self, request: web.Request, response: web.StreamResponse, use: _Use, task: asyncio.Task[Answer]
    ) -> Answer:  # fmt: skip
        """Sends what is told until there is an answer. Raises ConnectionError when nobody listens any longer."""
        last = time.monotonic()
        while True:
            told = asyncio.ensure_future(use.told.get())
            await asyncio.wait({task, told}, timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED)
            text = told.result() if told.done() else None
            told.cancel()
            await asyncio.wait({told})  # so that nothing is left of it when the loop ends
            if request.transport is None or request.transport.is_closing():
                raise ConnectionResetError
            if text is not None:
                await _send(response, use, {"event": "say", "text": redact(text)})
                last = time.monotonic()
            elif task.done():
                return _clean(task.result())
            elif time.monotonic() - last >= ALIVE_S:
                await _send(response, use, {"event": "alive", "waits": use.spent.waits})
                last = time.monotonic()

    def _ask(self, what: What, files: dict[str, bytes]) -> Ask:
        limits = self._limits
        return Ask(
            what, str(Path(self._problem.path).resolve()), "cpu" if self._device == "cpu" else "cuda", self._target,
            {name: base64.b64encode(data).decode() for name, data in files.items()}, time.monotonic(), limits.turn_s,
            min(limits.work_s, max(limits.seconds - self.seconds, 1.0)), limits.seeds, limits.lint, limits.sandbox,
        )  # fmt: skip

    async def _ended(self, task: asyncio.Task[Answer], use: _Use, answer: Answer) -> None:
        """Ends the work if it is not done, and records the use, also when this very task is cancelled."""
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await asyncio.wait({task})
        self._tasks.discard(task)
        use.spent.now(waits=False)
        self.seconds += use.spent.worked
        await self._record(use, answer)

    async def _record(self, use: _Use, answer: Answer) -> None:
        """Keeps what was sent back, and tells of the use."""
        sent = self._folder.put(bytes(use.sent))
        message = f"{answer.message} ({redact(answer.fault)})" if answer.fault else answer.message
        self._on_use(
            JudgeUsed(
                use.what,
                use.solution,
                answer.outcome,
                message,
                answer.score,
                round(use.spent.waited, 3),
                round(use.spent.worked, 3),
                answer.error,
                sent,
            )  # fmt: skip
        )


async def _send(response: web.StreamResponse, use: _Use, event: dict[str, object]) -> None:
    """Sends a line; what counts as sent is what was given to the connection."""
    line = json.dumps(event, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
    use.sent += line
    await response.write(line)


def _clean(answer: Answer) -> Answer:
    """Without secrets of this process, which the judge's process does not know."""
    message, text, fault = map(redact, (answer.message, answer.text, answer.fault))
    if len(text) > MOST_TEXT:
        text = f"{text[: MOST_TEXT // 2]}\n...\n{text[-MOST_TEXT // 2 :]}"
    return replace(answer, message=message[:MOST_MESSAGE], text=text, fault=fault)
