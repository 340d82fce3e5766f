"""One call through a gateway: bytes pass as they are, usage is counted, and its end is decided from what happened."""

from __future__ import annotations

import asyncio
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from proxy_kit import (
    GEMINI_STREAM,
    KEY,
    MODEL,
    PATHS,
    STAND_IN,
    VARIABLE,
    Handler,
    anthropic_stream,
    chat_stream,
    cut,
    in_time,
    plain,
    request,
    room,
    sse,
    streamed,
    upstream,
)  # fmt: skip

from harness.proxy.base import Caps
from harness.proxy.bodies import load_answer, load_exchange, load_request
from harness.record.exchange import CallStatus, Dialect
from harness.record.usage import Usage

USAGE = Usage(10, 7, 5, 2, 0)
RESPONSE = {
    "id": "r", "model": MODEL, "status": "completed", "error": None, "incomplete_details": None,
    "output": [
        {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "Thinking."}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hello."}]},
        {"type": "function_call", "call_id": "t1", "name": "shell", "arguments": '{"command": "ls"}'},
    ],
    "usage": {"input_tokens": 17, "input_tokens_details": {"cached_tokens": 5}, "output_tokens": 7,
              "output_tokens_details": {"reasoning_tokens": 3}},
}  # fmt: skip
RESPONSES_STREAM = sse(
    {"type": "response.created", "response": {**RESPONSE, "status": "in_progress", "output": [], "usage": None}},
    {"type": "response.output_item.added", "output_index": 0, "item": {"type": "reasoning", "id": "rs", "summary": []}},
    {"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "Thin"},
    {"type": "response.output_item.done", "output_index": 0, "item": RESPONSE["output"][0]},  # type: ignore[index]
    {"type": "response.output_item.added", "output_index": 1, "item": {"type": "message", "content": []}},
    {"type": "response.output_text.delta", "output_index": 1, "delta": "Hello."},
    {"type": "response.output_item.done", "output_index": 1, "item": RESPONSE["output"][1]},  # type: ignore[index]
    {"type": "response.output_item.added", "output_index": 2, "item": {"type": "function_call", "call_id": "t1"}},
    {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": '{"comm'},
    {"type": "response.output_item.done", "output_index": 2, "item": RESPONSE["output"][2]},  # type: ignore[index]
    {"type": "response.completed", "response": RESPONSE},
    named=True,
)
GEMINI_ANSWER: dict[str, Any] = {
    "candidates": [
        {"content": {"role": "model", "parts": [
            {"text": "Thinking.", "thought": True}, {"text": "Hello."},
            {"functionCall": {"name": "write_file", "args": {"path": "a"}}}]},
         "finishReason": "STOP"}],
    "usageMetadata": {"promptTokenCount": 17, "cachedContentTokenCount": 5, "candidatesTokenCount": 4,
                      "thoughtsTokenCount": 3},
    "modelVersion": MODEL,
}  # fmt: skip
GEMINI_EVENTS = sse(
    {"candidates": [{"content": {"parts": [{"text": "Think", "thought": True}]}}], "modelVersion": MODEL,
     "usageMetadata": {"promptTokenCount": 17}},
    {"candidates": [{"content": {"parts": [{"text": "ing.", "thought": True}, {"text": "Hel"}]}}]},
    {"candidates": [{"content": {"parts": [{"text": "lo."}]}}]},
    {**GEMINI_ANSWER, "candidates": [
        {"content": {"parts": [{"functionCall": {"name": "write_file", "args": {"path": "a"}}}]},
         "finishReason": "STOP"}]},
)  # fmt: skip
MESSAGE = {
    "id": "m", "type": "message", "role": "assistant", "model": MODEL, "stop_reason": "end_turn",
    "content": [{"type": "thinking", "thinking": "Thinking.", "signature": "x"}, {"type": "text", "text": "Hello."}],
    "usage": {"input_tokens": 10, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 2, "output_tokens": 7},
}  # fmt: skip
COMPLETION = {
    "id": "c", "model": MODEL,
    "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
        "role": "assistant", "content": "Hello.", "reasoning_content": "Thinking.",
        "tool_calls": [{"id": "t1", "type": "function", "function": {"name": "bash", "arguments": "{}"}}]}}],
    "usage": {"prompt_tokens": 17, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 5},
              "completion_tokens_details": {"reasoning_tokens": 3}},
}  # fmt: skip


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, KEY)


STREAMS: list[tuple[Dialect, str, bytes, Usage]] = [
    ("anthropic-messages", "", anthropic_stream(tool=("t1", "Write", {"path": "a"})), USAGE),
    ("openai-responses", "", RESPONSES_STREAM, Usage(12, 7, 5, 0, 3)),
    ("openai-chat", "", chat_stream(), Usage(12, 7, 5, 0, 3)),
    ("gemini", GEMINI_STREAM + "?alt=sse", GEMINI_EVENTS, Usage(12, 7, 5, 0, 3)),
]


@pytest.mark.parametrize(("dialect", "path", "data", "usage"), STREAMS, ids=[one[0] for one in STREAMS])
@pytest.mark.parametrize("pieces", [1, 7, 400])
def test_a_stream_passes_byte_for_byte_and_is_counted(
    tmp_path: Path, dialect: Dialect, path: str, data: bytes, usage: Usage, pieces: int
) -> None:
    async def go() -> None:
        async with upstream(streamed(data, pieces=pieces)) as up, room(tmp_path, up.url) as r:
            assert await r.ask(dialect, path=path) == (200, data)
            (call,) = await r.recorded(1)
            assert (call.status, call.usage, call.model, call.stream) == ("ok", usage, MODEL, True)
            exchange = r.calls[0][1]
            assert exchange.complete and exchange.input[0].text == "Write a kernel."
            assert any(item.kind == "text" and item.text == "Hello." for item in exchange.output)
            assert load_answer(r.folder, call) == data and load_exchange(r.folder, call) == exchange
            assert json.loads(load_request(r.folder, call)) == up.seen[0].json
            assert r.gateway.usage == usage and list(r.folder.calls()) == [call]
            assert KEY in "".join(up.seen[0].headers.values()) and STAND_IN not in str(up.seen)

    in_time(go())


PLAIN: list[tuple[Dialect, Any, Usage]] = [
    ("anthropic-messages", MESSAGE, USAGE),
    ("openai-responses", RESPONSE, Usage(12, 7, 5, 0, 3)),
    ("openai-chat", COMPLETION, Usage(12, 7, 5, 0, 3)),
    ("gemini", GEMINI_ANSWER, Usage(12, 7, 5, 0, 3)),
]


@pytest.mark.parametrize(("dialect", "body", "usage"), PLAIN, ids=[one[0] for one in PLAIN])
def test_an_answer_that_is_no_stream_passes_too(tmp_path: Path, dialect: Dialect, body: Any, usage: Usage) -> None:
    async def go() -> None:
        async with upstream(plain(body)) as up, room(tmp_path, up.url) as r:
            status, data = await r.ask(dialect, request(dialect, stream=False))
            assert (status, data) == (200, json.dumps(body).encode())
            (call,) = await r.recorded(1)
            assert (call.status, call.usage, call.stream) == ("ok", usage, False)
            texts = [(item.kind, item.text) for item in r.calls[0][1].output if item.kind != "tool_call"]
            assert texts == [("thinking", "Thinking."), ("text", "Hello.")]
            assert load_exchange(r.folder, call) == r.calls[0][1]

    in_time(go())


def error(status: int, kind: str, message: str = "No.") -> Handler:
    return plain({"type": "error", "error": {"type": kind, "code": kind, "message": message}}, status)


HANG = "hang"
ENDS: list[tuple[str, Handler | str, CallStatus]] = [
    ("401", error(401, "authentication_error"), "auth"),
    ("403", error(403, "permission_error"), "auth"),
    ("402", plain(b"pay", 402), "credit"),
    ("429", error(429, "rate_limit_error"), "rate"),
    ("429 of a quota", error(429, "insufficient_quota"), "credit"),
    ("400 of credit", error(400, "invalid_request_error", "Your credit balance is too low to go on."), "credit"),
    ("400", error(400, "invalid_request_error"), "rejected"),
    ("404", error(404, "not_found_error"), "rejected"),
    ("422", plain(b"what", 422), "rejected"),
    ("500", error(500, "api_error"), "unavailable"),
    ("529", error(529, "overloaded_error"), "unavailable"),
    ("503 as a page", plain(b"<html>busy</html>", 503), "unavailable"),
    ("a redirect", plain(b"", 302, location="http://127.0.0.1:1/"), "unavailable"),
    ("nothing", streamed(b""), "empty"),
    ("a whole answer that says nothing", streamed(anthropic_stream("")), "empty"),
    ("a stream without its end", streamed(anthropic_stream(end=False)), "cut"),
    ("a connection that breaks", cut(anthropic_stream()[:700]), "cut"),
    ("an error within a stream",
     streamed(anthropic_stream(end=False) + sse({"type": "error", "error": {"type": "overloaded_error"}}, named=True)),
     "unavailable"),
    ("a rate within a stream",
     streamed(sse({"type": "error", "error": {"type": "rate_limit_error", "message": "slow"}}, named=True)), "rate"),
    ("a page", streamed(b"<html>welcome to the hotel</html>", content_type="text/html"), "cut"),
    ("silence", HANG, "timeout"),
]  # fmt: skip


@pytest.mark.parametrize(("handler", "status"), [end[1:] for end in ENDS], ids=[end[0] for end in ENDS])
def test_how_a_call_ended_is_decided_from_what_the_upstream_did(
    tmp_path: Path, handler: Handler | str, status: CallStatus
) -> None:
    async def go() -> None:
        never = asyncio.Event()

        async def silent(asked: web.Request) -> web.StreamResponse:
            await never.wait()
            return web.Response()

        answers = silent if isinstance(handler, str) else handler
        async with upstream(answers) as up, room(tmp_path, up.url, caps=Caps(silent_s=0.5)) as r:
            try:
                answered, data = await r.ask()
            except Exception as broke:  # a connection that was cut is what the CLI is to see
                assert status == "cut", broke
                answered, data = 200, b""
            (call,) = await r.recorded(1)
            assert (call.status, bool(call.detail)) == (status, True)
            if status in ("timeout",):
                assert answered == 504 and b"silent" in data
            elif call.http_status >= 400:
                assert answered == call.http_status and load_answer(r.folder, call) == data
            assert r.gateway.usage.cost_usd in (0.0, None)

    in_time(go())


def test_a_hang_within_a_stream_ends_as_a_timeout_and_breaks_the_connection(tmp_path: Path) -> None:
    async def hangs(asked: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(asked)
        await response.write(anthropic_stream()[:400])
        await asyncio.Event().wait()
        return response

    async def go() -> None:
        async with upstream(hangs) as up, room(tmp_path, up.url, caps=Caps(silent_s=0.4)) as r:
            with pytest.raises(Exception, match="(?i)payload|disconnect|closed|reset|complete"):
                await r.ask()
            (call,) = await r.recorded(1)
            assert call.status == "timeout" and call.answer_bytes == 400

    in_time(go())


def test_an_upstream_that_is_not_there_is_unavailable(tmp_path: Path) -> None:
    async def go() -> None:
        async with room(tmp_path, "http://127.0.0.1:9") as r:
            status, data = await r.ask("openai-chat")
            assert status == 502 and "could not be reached" in json.loads(data)["error"]["message"]
            (call,) = await r.recorded(1)
            assert call.status == "unavailable" and "refused" in call.detail and call.usage == Usage(cost_usd=0.0)

    in_time(go())


def test_a_packed_answer_is_read_and_passed_on_unpacked(tmp_path: Path) -> None:
    data = chat_stream("Hello there.")

    async def go() -> None:
        handler = streamed(gzip.compress(data), **{"content-encoding": "gzip"})
        async with upstream(handler) as up, room(tmp_path, up.url) as r:
            assert await r.ask("openai-chat") == (200, data)
            (call,) = await r.recorded(1)
            assert call.status == "ok" and up.seen[0].headers["accept-encoding"] == "identity"

    in_time(go())


def test_an_agent_that_hangs_up_ends_the_call_upstream(tmp_path: Path) -> None:
    async def go() -> None:
        ended, begun = asyncio.Event(), asyncio.Event()

        async def slow(asked: web.Request) -> web.StreamResponse:
            response = web.StreamResponse(headers={"content-type": "text/event-stream"})
            await response.prepare(asked)
            await response.write(anthropic_stream()[:400])
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
            return response

        async with upstream(slow) as up, room(tmp_path, up.url) as r:
            asking = asyncio.create_task(r.ask())
            await begun.wait()
            asking.cancel()
            (call,) = await r.recorded(1)
            assert call.status == "gone"
            async with asyncio.timeout(10):
                await ended.wait()

    in_time(go())


def test_counting_tokens_is_a_call_without_usage(tmp_path: Path) -> None:
    async def go() -> None:
        async with upstream(plain({"input_tokens": 12})) as up, room(tmp_path, up.url) as r:
            path = "/v1/messages/count_tokens?beta=true"
            assert await r.ask(path=path) == (200, b'{"input_tokens": 12}')
            (call,) = await r.recorded(1)
            assert (call.status, call.usage.input_tokens, up.seen[0].path) == ("ok", 0, path)

    in_time(go())


def test_headers_and_queries_of_the_room_stop_at_the_gateway(tmp_path: Path) -> None:
    async def go() -> None:
        handler = streamed(anthropic_stream(), **{"set-cookie": "a=b", "x-request-id": "7", "server": "s"})
        async with upstream(handler) as up, room(tmp_path, up.url, headers={"x-title": "kbh"}) as r:
            url = f"{r.url}/v1/messages?beta=true&key={STAND_IN}&evil=1"
            headers = {
                "cookie": "a=b", "x-forwarded-for": "1.2.3.4", "openai-organization": "org",
                "anthropic-beta": "tools-1", "authorization": "Bearer other",
            }  # fmt: skip
            async with r.session.post(url, json=request("anthropic-messages"), headers=headers) as answer:
                assert answer.status == 200 and answer.headers["x-request-id"] == "7"
                assert "set-cookie" not in answer.headers and answer.headers["server"] != "s"
            seen = up.seen[0]
            assert seen.path == "/v1/messages?beta=true" and seen.headers["anthropic-beta"] == "tools-1"
            assert seen.headers["x-title"] == "kbh" and seen.headers["x-api-key"] == KEY
            assert not {"cookie", "x-forwarded-for", "openai-organization", "authorization"} & set(seen.headers)

    in_time(go())


@pytest.mark.parametrize("dialect", list(PATHS))
def test_the_key_goes_where_the_dialect_has_it(tmp_path: Path, dialect: Dialect) -> None:
    header = {"anthropic-messages": "x-api-key", "gemini": "x-goog-api-key"}.get(dialect, "authorization")

    async def go() -> None:
        async with upstream(plain({}, 500)) as up, room(tmp_path, up.url) as r:
            await r.ask(dialect)
            assert up.seen[0].headers[header] == ("Bearer " if header == "authorization" else "") + KEY

    in_time(go())


def test_a_route_may_say_where_its_key_goes(tmp_path: Path) -> None:
    async def go() -> None:
        headers = {"authorization": "Bearer {key}"}
        async with upstream(plain({}, 500)) as up, room(tmp_path, up.url + "/api/v4", headers=headers) as r:
            await r.ask()
            assert up.seen[0].headers["authorization"] == f"Bearer {KEY}"
            assert "x-api-key" not in up.seen[0].headers and up.seen[0].path == "/api/v4/messages"

    in_time(go())
