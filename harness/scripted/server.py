"""The scripted upstream: a server on loopback which plays a script in whichever dialect it is asked.

with Upstream(script) as upstream:
    ...  # upstream.url is the base URL of every dialect; upstream.served is what it answered
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, TypeVar

from aiohttp import web

from harness.record.exchange import Dialect
from harness.record.usage import Usage, total
from harness.scripted.asked import Asked, asked, call_id
from harness.scripted.dialects import VOICES, Answer
from harness.scripted.faults import MESSAGES, Fault
from harness.scripted.script import Case, Script
from harness.scripted.tools import Call, NoTool, calls

__all__ = ["Served", "Upstream", "serve"]

MAX_REQUEST_BYTES = 64 << 20
_WORD = "lorem ipsum dolor sit amet "
_SWAPPED = ("another/model-than-asked", "Elsewhere")
_OVER = Case(text="The script is over.", usage=Usage(input_tokens=5, output_tokens=5))
_PATHS: Mapping[str, Dialect] = {
    "/v1/messages": "anthropic-messages",
    "/v1/chat/completions": "openai-chat",
    "/chat/completions": "openai-chat",
    "/v1/responses": "openai-responses",
    "/responses": "openai-responses",
}

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Served:
    """One call that was answered. `usage` is what the answer named, None where it did not come to its end."""

    dialect: Dialect
    turn: int
    side: bool
    fault: str
    usage: Usage | None


@dataclass(slots=True)
class _State:
    script: Script
    workspace: str
    served: list[Served] = field(default_factory=list)
    tries: Counter[tuple[int, bool]] = field(default_factory=Counter)
    over: asyncio.Event = field(default_factory=asyncio.Event)


# --- what is answered ----------------------------------------------------------------------------------------


def _chosen(state: _State, request: Asked) -> tuple[Case, bool, Fault | None]:
    """The case to play, whether the call is beside the conversation, and the fault to show."""
    script = state.script
    side = script.uses_tools and not request.tools
    case, fault = script.side, script.fault
    if not side:
        turn = script.turns[request.turn] if request.turn < len(script.turns) else None
        case = turn.case(request.result) if turn else _OVER
        fault = fault or (turn.fault if turn else None)
    key = (request.turn, side)
    state.tries[key] += 1
    if fault is not None and fault.times and state.tries[key] > fault.times:
        fault = None
    return case, side, fault


def _answer(state: _State, request: Asked, case: Case, fault: str) -> Answer:
    script, text, thinking = state.script, case.text, case.thinking
    does: tuple[Call, ...] = () if fault in ("blank", "big") else calls(case.does, request.tools, state.workspace)
    model, provider = script.model or request.model, script.provider
    if fault == "swapped":
        model, provider = _SWAPPED
    if fault == "blank":
        text = thinking = ""
    return Answer(
        len(state.served), model, provider, text, thinking, does,
        tuple(call_id(request.turn, number) for number in range(len(does))),
        Usage() if fault == "blank" else case.usage, request.usage_in_stream,
    )  # fmt: skip


async def _converse(
    state: _State, request: web.Request, dialect: Dialect, model: str = "", stream: bool | None = None
) -> web.StreamResponse:
    try:
        body = json.loads(await request.read())
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        return _refusal(dialect, 400, "The body is no JSON object.")
    wanted = asked(dialect, body, model=model, stream=stream)
    case, side, fault = _chosen(state, wanted)
    kind = fault.kind if fault else ""
    try:
        answer = _answer(state, wanted, case, kind)
    except NoTool as error:
        return _refusal(dialect, 400, f"{state.script.name}: {error}")
    if fault is not None and kind == "big":
        text = (_WORD * (fault.bytes // len(_WORD) + 1))[: fault.bytes]
        answer = Answer(answer.number, answer.model, answer.provider, text, "", (), (), case.usage, True)
    ends = kind in ("", "blank", "big", "swapped")
    state.served.append(Served(dialect, wanted.turn, side, kind, answer.usage if ends else None))
    if fault is not None and fault.status != 200:
        return _refusal(dialect, fault.status, MESSAGES[fault.status], retry_after=fault.retry_after)
    if not wanted.stream and kind not in ("cut", "empty", "hang"):
        return web.json_response(VOICES[dialect].whole(answer))
    return await _stream(state, request, dialect, answer, kind, wanted.stream)


def _refusal(dialect: Dialect, status: int, message: str, *, retry_after: int = 0) -> web.Response:
    headers = {"retry-after": str(retry_after)} if retry_after else {}
    return web.json_response(VOICES[dialect].error(status, message), status=status, headers=headers)


async def _stream(
    state: _State, request: web.Request, dialect: Dialect, answer: Answer, kind: str, streamed: bool
) -> web.StreamResponse:
    response = web.StreamResponse(headers={"content-type": "text/event-stream" if streamed else "application/json"})
    response.enable_chunked_encoding()
    await response.prepare(request)
    if kind == "hang":
        await state.over.wait()
        return response
    if kind == "empty":
        await response.write_eof()
        return response
    with contextlib.suppress(ConnectionResetError):  # who asked has hung up
        if not streamed:  # cut
            await response.write(json.dumps(VOICES[dialect].whole(answer)).encode()[:-20])
            return _torn(request, response)
        events = VOICES[dialect].events(answer)
        if kind == "cut":
            said = list(events)
            events = iter(said[: max(1, len(said) // 2)])
        for name, data in events:
            await response.write(_event(name, data))
        if kind == "cut":
            return _torn(request, response)
        await response.write_eof()
    return response


def _event(name: str, data: dict[str, Any] | str) -> bytes:
    """A server-sent event."""
    said = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return (f"event: {name}\n" if name else "").encode() + f"data: {said}\n\n".encode()


def _torn(request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
    """Ends the connection as a failing network does: in the middle of a chunked body."""
    if request.transport is not None:
        request.transport.close()
    return response


# --- the server ----------------------------------------------------------------------------------------------


def _application(state: _State) -> web.Application:
    async def known(request: web.Request) -> web.StreamResponse:
        return await _converse(state, request, _PATHS[request.path])

    async def gemini(request: web.Request) -> web.StreamResponse:
        model, _, action = request.match_info["call"].partition(":")
        if action == "countTokens":
            return web.json_response({"totalTokens": 1000})
        if action not in ("generateContent", "streamGenerateContent"):
            return _refusal("gemini", 404, MESSAGES[404])
        return await _converse(state, request, "gemini", model=model, stream=action.startswith("stream"))

    async def count(request: web.Request) -> web.Response:
        return web.json_response({"input_tokens": 1000})

    async def models(request: web.Request) -> web.Response:
        named = {"id": state.script.model or "scripted", "object": "model", "created": 0, "owned_by": "script"}
        return web.json_response({"object": "list", "data": [named]})

    async def nothing(request: web.Request) -> web.Response:
        return _refusal("openai-chat", 404, MESSAGES[404])

    app = web.Application(client_max_size=MAX_REQUEST_BYTES)
    for path in _PATHS:
        app.router.add_post(path, known)
    app.router.add_post("/v1/messages/count_tokens", count)
    app.router.add_get("/v1/models", models)
    app.router.add_post("/{version:v1|v1beta}/models/{call:.+}", gemini)
    app.router.add_route("*", "/{rest:.*}", nothing)
    return app


class Upstream:
    """A scripted upstream, in a thread of its own. `url` is http://127.0.0.1:PORT; `served` grows with every call.

    `workspace` is the folder of the agent that paths of a script are relative to. Raises OSError for a port in use.
    """

    def __init__(self, script: Script, *, workspace: str = "/agent/workspace", port: int = 0) -> None:
        self._state = _State(script, workspace)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="scripted upstream", daemon=True)
        self._thread.start()
        try:
            self._runner, self.port = self._run(_start(self._state, port))
        except BaseException:
            self._stop()
            raise
        self.url = f"http://127.0.0.1:{self.port}"

    @property
    def served(self) -> tuple[Served, ...]:
        """The calls that were answered so far."""
        return tuple(self._state.served)

    @property
    def usage(self) -> Usage:
        """The sum of what whole answers named, side calls included."""
        return total(call.usage for call in self.served if call.usage is not None)

    def close(self) -> None:
        """Ends every connection; what hangs is let go."""
        if self._loop.is_running():
            self._run(_end(self._state, self._runner))
            self._stop()

    def _run(self, work: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=30)

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=10)
        with contextlib.suppress(RuntimeError):
            self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


async def _start(state: _State, port: int) -> tuple[web.AppRunner, int]:
    runner = web.AppRunner(_application(state), access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    return runner, int(runner.addresses[0][1])


async def _end(state: _State, runner: web.AppRunner) -> None:
    state.over.set()
    await runner.cleanup()


def serve(script: Script, *, workspace: str = "/agent/workspace") -> tuple[str, Callable[[], None]]:
    """Serves a script on loopback; returns its base URL, and what ends it."""
    upstream = Upstream(script, workspace=workspace)
    return upstream.url, upstream.close
