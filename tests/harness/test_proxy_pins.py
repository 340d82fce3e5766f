"""What was pinned stays pinned: the model, the provider, and what only the room may hold or run."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from proxy_kit import (
    KEY,
    MODEL,
    VARIABLE,
    Room,
    anthropic_stream,
    chat_stream,
    in_time,
    plain,
    request,
    room,
    streamed,
    upstream,
)

from harness.proxy.bodies import load_answer
from harness.record.events import Finding, Note
from harness.record.exchange import Dialect


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, KEY)


def rules(r: Room) -> set[str]:
    return {event.rule for event in r.events if isinstance(event, Finding)}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("kind", ["model", "provider", "no provider"])
def test_an_answer_of_another_model_or_provider_ends_the_run_loudly(tmp_path: Path, kind: str, stream: bool) -> None:
    model = "small-model-1" if kind == "model" else MODEL
    provider = {"provider": "Cheap Host", "model": "DeepInfra"}.get(kind, "")
    text = "What the wrong model said."
    body = {
        "model": model, "choices": [{"index": 0, "message": {"role": "assistant", "content": text},
                                     "finish_reason": "stop"}],
    }  # fmt: skip
    if provider:
        body["provider"] = provider
    handler = streamed(chat_stream(text, model=model, provider=provider), pieces=1) if stream else plain(body)

    async def go() -> None:
        async with upstream(handler) as up, room(tmp_path, up.url, providers=("deepinfra/fp8",)) as r:
            said = b""
            with contextlib.suppress(aiohttp.ClientError):
                _, said = await r.ask("openai-chat", request("openai-chat", stream=stream))
            (call,) = await r.recorded(1)
            assert (call.status, call.model, call.provider) == ("swapped", model, provider)
            assert r.stops == [call.detail] and r.gateway.stop_kind == "provider" and load_answer(r.folder, call)
            assert kind == "no provider" or text.encode() not in said
            assert (await r.ask("openai-chat"))[0] == 400 and len(up.seen) == 1

    in_time(go())


def test_a_dated_release_and_a_listed_name_are_the_model(tmp_path: Path) -> None:
    async def go() -> None:
        names = iter([f"{MODEL}-20260301", f"{MODEL}-2026-03-01", "listed-name", f"{MODEL}-mini"])

        async def answers(asked: web.Request) -> web.StreamResponse:
            return await streamed(anthropic_stream(model=next(names)))(asked)

        async with upstream(answers) as up, room(tmp_path, up.url, models={MODEL: ("listed-name",)}) as r:
            for _ in range(3):
                assert (await r.ask())[0] == 200
            assert [call.status for call in await r.recorded(3)] == ["ok"] * 3 and not r.stops
            with pytest.raises(aiohttp.ClientError):
                await r.ask()
            assert "big-model-1-mini" in r.stops[0]

    in_time(go())


def test_the_provider_of_a_router_is_pinned_whatever_the_room_asks(tmp_path: Path) -> None:
    async def go() -> None:
        handler = streamed(chat_stream(provider="DeepInfra"))
        async with upstream(handler) as up, room(tmp_path, up.url, providers=("deepinfra/fp8", "together")) as r:
            wish = {
                "provider": {"order": ["cheap"]}, "models": ["a"], "route": "fallback", "plugins": [{"id": "web"}],
                "web_search_options": {},
            }  # fmt: skip
            assert (await r.ask("openai-chat", {**request("openai-chat"), **wish}))[0] == 200
            sent = up.seen[0].json
            assert sent["provider"] == {"order": ["deepinfra/fp8", "together"], "allow_fallbacks": False}
            assert not {"models", "route", "plugins", "web_search_options"} & set(sent)
            assert sent["stream_options"] == {"include_usage": True} and sent["model"] == MODEL
            assert "request-pinned" in rules(r)

    in_time(go())


SIDES: list[tuple[Dialect, str]] = [
    ("anthropic-messages", "claude-haiku-4-5-20251001"),
    ("openai-chat", "gpt-5-nano"),
    ("gemini", "gemini-2.5-flash-lite"),
]


@pytest.mark.parametrize(("dialect", "side"), SIDES)
def test_a_side_model_goes_to_the_runs_model(tmp_path: Path, dialect: Dialect, side: str) -> None:
    async def go() -> None:
        async with upstream(plain({}, 500)) as up, room(tmp_path, up.url) as r:
            path = f"/v1beta/models/{side}:generateContent" if dialect == "gemini" else ""
            await r.ask(dialect, request(dialect, model=side), path=path)
            (call,) = await r.recorded(1)
            seen = up.seen[0]
            assert MODEL in (seen.path if dialect == "gemini" else seen.json["model"])
            assert call.asked_model == side
            assert [event for event in r.events if isinstance(event, Note) and side in event.text]

    in_time(go())


@pytest.mark.parametrize("model", ["other-model", "", None, 7, "claude-opus-9"])
def test_any_other_model_is_refused(tmp_path: Path, model: Any) -> None:
    async def go() -> None:
        async with upstream(plain({})) as up, room(tmp_path, up.url) as r:
            status, data = await r.ask(body={**request("anthropic-messages"), "model": model})
            assert status == 400 and MODEL in json.loads(data)["error"]["message"] and not up.seen

    in_time(go())


TOOLS: list[tuple[Dialect, list[Any], list[Any]]] = [
    ("anthropic-messages",
     [{"name": "Write", "input_schema": {}}, {"type": "web_search_20250305", "name": "web_search"},
      {"type": "code_execution_20250825", "name": "code"}, {"type": "bash_20250124", "name": "bash"}],
     [{"name": "Write", "input_schema": {}}, {"type": "bash_20250124", "name": "bash"}]),
    ("openai-responses",
     [{"type": "function", "name": "shell"}, {"type": "web_search"}, {"type": "code_interpreter", "container": {}},
      {"type": "mcp", "server_url": "https://x"}, {"type": "custom", "name": "apply_patch"}],
     [{"type": "function", "name": "shell"}, {"type": "custom", "name": "apply_patch"}]),
    ("openai-chat",
     [{"type": "function", "function": {"name": "bash"}}, {"type": "openrouter:web_search"}],
     [{"type": "function", "function": {"name": "bash"}}]),
    ("gemini",
     [{"functionDeclarations": [{"name": "write_file"}], "googleSearch": {}}, {"urlContext": {}},
      {"codeExecution": {}}],
     [{"functionDeclarations": [{"name": "write_file"}]}]),
]  # fmt: skip


@pytest.mark.parametrize(("dialect", "tools", "kept"), TOOLS, ids=[row[0] for row in TOOLS])
def test_tools_that_the_provider_would_run_are_taken_out(
    tmp_path: Path, dialect: Dialect, tools: list[Any], kept: list[Any]
) -> None:
    async def go() -> None:
        async with upstream(plain({}, 500)) as up, room(tmp_path, up.url) as r:
            await r.ask(dialect, {**request(dialect), "tools": tools, "tool_choice": "auto"})
            await r.ask(
                dialect, {**request(dialect), "tools": [t for t in tools if t not in kept][-1:], "tool_choice": 1}
            )
            assert up.seen[0].json["tools"] == kept and up.seen[0].json["tool_choice"] == "auto"
            assert not {"tools", "tool_choice"} & set(up.seen[1].json)
            assert "server-tool" in rules(r)

    in_time(go())


FETCHES: list[tuple[Dialect, Any]] = [
    ("anthropic-messages",
     [{"role": "user", "content": [{"type": "document", "source": {"type": "url", "url": "https://x/kernel.pdf"}}]}]),
    ("openai-chat", [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x/a.png"}}]}]),
    ("openai-responses", [{"role": "user", "content": [{"type": "input_file", "file_url": "HTTPS://x/a.pdf"}]}]),
    ("gemini", [{"role": "user", "parts": [{"fileData": {"fileUri": "gs://x/y"}}]}]),
]  # fmt: skip


@pytest.mark.parametrize(("dialect", "messages"), FETCHES, ids=[row[0] for row in FETCHES])
def test_a_request_that_has_the_provider_fetch_an_address_is_refused(
    tmp_path: Path, dialect: Dialect, messages: Any
) -> None:
    name = {"openai-responses": "input", "gemini": "contents"}.get(dialect, "messages")

    async def go() -> None:
        async with upstream(plain({})) as up, room(tmp_path, up.url) as r:
            assert (await r.ask(dialect, {**request(dialect), name: messages}))[0] == 400
            assert not up.seen and "provider-fetch" in rules(r)

    in_time(go())


def test_an_address_that_is_only_spoken_of_is_not_fetched(tmp_path: Path) -> None:
    messages = [
        {"role": "user", "content": "see https://x/y"},
        {"role": "user", "content": [{"type": "image", "source": {"type": "base64", "data": "eA=="}}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {"url": "https://x"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "https://x"}]},
    ]

    async def go() -> None:
        async with upstream(streamed(anthropic_stream())) as up, room(tmp_path, up.url) as r:
            assert (await r.ask(body={**request("anthropic-messages"), "messages": messages}))[0] == 200
            assert up.seen[0].json["messages"] == messages

    in_time(go())
