"""A real upstream on loopback and a room's side of a gateway, for the tests of the proxy."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from harness.proxy.base import Caps, Route
from harness.proxy.gateway import Gateway
from harness.record.archive import RunFolder, new_run_id
from harness.record.events import EventData
from harness.record.exchange import Dialect, Exchange, ModelCall
from harness.record.run import RunRecord

KEY = "sk-upstream-SECRET/0123456789abcdefXYZ"
STAND_IN = "kbh-room-stand-in-1"
VARIABLE = "KBH_TEST_UPSTREAM_KEY"
MODEL = "big-model-1"
PATHS: dict[Dialect, str] = {
    "anthropic-messages": "/v1/messages",
    "openai-responses": "/v1/responses",
    "openai-chat": "/v1/chat/completions",
    "gemini": f"/v1beta/models/{MODEL}:generateContent",
}
GEMINI_STREAM = f"/v1beta/models/{MODEL}:streamGenerateContent"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def sse(*events: Any, named: bool = False, done: bool = False) -> bytes:
    """A stream of events, with names (Anthropic, responses) or without."""
    found = b""
    for event in events:
        head = f"event: {event['type']}\n" if named else ""
        found += f"{head}data: {json.dumps(event)}\n\n".encode()
    return found + (b"data: [DONE]\n\n" if done else b"")


def anthropic_stream(
    text: str = "Hello.", *, model: str = MODEL, tool: tuple[str, str, dict[str, Any]] | None = None, end: bool = True
) -> bytes:
    used = {"input_tokens": 10, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 2, "output_tokens": 1}
    events: list[Any] = [
        {"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "model": model,
                                              "content": [], "usage": used}},
        {"type": "ping"},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}},
        {"type": "content_block_stop", "index": 0},
    ]  # fmt: skip
    if tool is not None:
        call_id, name, arguments = tool
        whole = json.dumps(arguments)
        half = len(whole) // 2
        events += [
            {"type": "content_block_start", "index": 1,
             "content_block": {"type": "tool_use", "id": call_id, "name": name, "input": {}}},
            {"type": "content_block_delta", "index": 1,
             "delta": {"type": "input_json_delta", "partial_json": whole[:half]}},
            {"type": "content_block_delta", "index": 1,
             "delta": {"type": "input_json_delta", "partial_json": whole[half:]}},
            {"type": "content_block_stop", "index": 1},
        ]  # fmt: skip
    stop = "tool_use" if tool else "end_turn"
    if end:
        events.append({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 7}})
        events.append({"type": "message_stop"})
    return sse(*events, named=True)


def chat_stream(text: str = "Hello.", *, model: str = MODEL, provider: str = "", end: bool = True) -> bytes:
    base: dict[str, Any] = {"id": "c", "object": "chat.completion.chunk", "model": model}
    if provider:
        base["provider"] = provider
    chunks: list[Any] = [
        {**base, "choices": [{"index": 0, "delta": {"role": "assistant", "content": text[:3]}}]},
        {**base, "choices": [{"index": 0, "delta": {"content": text[3:]}}]},
    ]
    if not end:
        return sse(*chunks)
    chunks += [
        {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        {**base, "choices": [], "usage": {
            "prompt_tokens": 17, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 5},
            "completion_tokens_details": {"reasoning_tokens": 3}}},
    ]  # fmt: skip
    return sse(*chunks, done=True)


@dataclass
class Seen:
    """A request as the upstream got it."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Fake:
    """An upstream; `answer` decides each answer. `seen` has what came."""

    url: str = ""
    seen: list[Seen] = field(default_factory=list)


def streamed(data: bytes, *, pieces: int = 3, content_type: str = "text/event-stream", **headers: str) -> Handler:
    """Answers with a stream that comes in some pieces."""

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": content_type, **headers})
        await response.prepare(request)
        size = max(1, -(-len(data) // pieces))
        for start in range(0, len(data), size):
            await response.write(data[start : start + size])
            await asyncio.sleep(0)
        await response.write_eof()
        return response

    return handler


def plain(body: Any, status: int = 200, **headers: str) -> Handler:
    """Answers with JSON, or with bytes as they are."""

    async def handler(request: web.Request) -> web.StreamResponse:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return web.Response(status=status, body=data, headers={"content-type": "application/json", **headers})

    return handler


def cut(data: bytes) -> Handler:
    """Begins a stream and drops the connection."""

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        await response.write(data)
        assert request.transport is not None
        request.transport.close()
        return response

    return handler


@contextlib.asynccontextmanager
async def upstream(handler: Handler) -> AsyncIterator[Fake]:
    fake = Fake()

    async def serve(request: web.Request) -> web.StreamResponse:
        body = await request.read()
        headers = {name.lower(): value for name, value in request.headers.items()}
        fake.seen.append(Seen(request.method, request.raw_path, headers, body))
        return await handler(request)

    app = web.Application(client_max_size=1 << 30)
    app.router.add_route("*", "/{path:.*}", serve)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    sock = listener()
    await web.SockSite(runner, sock).start()
    fake.url = f"http://127.0.0.1:{sock.getsockname()[1]}"
    try:
        yield fake
    finally:
        await runner.cleanup()


def listener() -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.bind(("127.0.0.1", 0))
    sock.listen(128)
    return sock


@dataclass
class Room:
    """A gateway with what it told, and the room's side of it."""

    gateway: Gateway
    folder: RunFolder
    sock: socket.socket
    session: aiohttp.ClientSession
    calls: list[tuple[ModelCall, Exchange]] = field(default_factory=list)
    stops: list[str] = field(default_factory=list)
    events: list[EventData] = field(default_factory=list)
    told: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.sock.getsockname()[1]}"

    async def ask(
        self, dialect: Dialect = "anthropic-messages", body: Any = None, *, path: str = "", **headers: str
    ) -> tuple[int, bytes]:
        """Asks, with the stand-in; the status and the body."""
        given = {"x-api-key": STAND_IN, **{name.replace("_", "-"): value for name, value in headers.items()}}
        data = body if isinstance(body, bytes) else json.dumps(request(dialect) if body is None else body).encode()
        async with self.session.post(self.url + (path or PATHS[dialect]), data=data, headers=given) as answer:
            return answer.status, await answer.read()

    async def recorded(self, count: int) -> list[ModelCall]:
        """The calls, when so many are recorded."""
        async with asyncio.timeout(20):
            while len(self.calls) < count:
                self.told.clear()
                await self.told.wait()
        return [call for call, _ in self.calls]


def request(dialect: Dialect, text: str = "Write a kernel.", *, stream: bool = True, model: str = MODEL) -> Any:
    """A small request."""
    if dialect == "gemini":
        return {"contents": [{"role": "user", "parts": [{"text": text}]}]}
    body: dict[str, Any] = {"model": model, "stream": stream}
    if dialect == "openai-responses":
        return {**body, "input": text, "instructions": "You are an agent."}
    return {**body, "messages": [{"role": "user", "content": text}]}


def run_folder(tmp_path: Path) -> RunFolder:
    record = RunRecord(
        new_run_id("agent", "route/model", "05_topk_bitonic"), "agent", "agent 1", f"route/{MODEL}", "05_topk_bitonic",
        "cpu", "", 60.0, 1, "running",
    )  # fmt: skip
    return RunFolder.create(tmp_path, record)


@contextlib.asynccontextmanager
async def room(
    tmp_path: Path, base: str, *, caps: Caps | None = None, model: str = MODEL, add_routes: Any = None, **route: Any
) -> AsyncIterator[Room]:
    urls: dict[Dialect, str] = dict.fromkeys(PATHS, base)
    made = Route("fake", **{"urls": urls, "key_variable": VARIABLE, **route})
    found: Room
    folder = run_folder(tmp_path)

    def on_call(call: ModelCall, exchange: Exchange) -> None:
        found.calls.append((call, exchange))
        found.told.set()

    gateway = Gateway(
        made, model=model, caps=caps or Caps(), folder=folder, key=STAND_IN, elapsed=lambda: 1.5, on_call=on_call,
        on_stop=lambda reason: found.stops.append(reason), on_event=lambda event: found.events.append(event),
        **({"add_routes": add_routes} if add_routes else {}),
    )  # fmt: skip
    sock = listener()
    async with aiohttp.ClientSession(trust_env=False) as session:
        found = Room(gateway, folder, sock, session)
        await gateway.start(sock)
        try:
            yield found
        finally:
            await gateway.close()
            sock.close()
            folder.release()


def in_time(work: Coroutine[Any, Any, None], seconds: float = 60) -> None:
    """Runs a test's coroutine."""
    asyncio.run(asyncio.wait_for(work, seconds))
