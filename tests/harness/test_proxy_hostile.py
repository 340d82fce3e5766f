"""Rooms and upstreams that mean harm: nothing leads anywhere else, no key gets out, and no shape breaks anything."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest
from aiohttp import web
from proxy_kit import (
    KEY,
    MODEL,
    PATHS,
    STAND_IN,
    VARIABLE,
    Fake,
    Room,
    anthropic_stream,
    chat_stream,
    in_time,
    plain,
    request,
    room,
    sse,
    streamed,
    upstream,
)

from harness.proxy.bodies import load_request
from harness.record.archive import RunFolder


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, KEY)


async def raw(r: Room, text: str) -> bytes:
    """Sends bytes as they are; all that comes back."""
    reader, writer = await asyncio.open_connection(*r.sock.getsockname())
    writer.write(text.replace("\n", "\r\n").encode())
    try:
        async with asyncio.timeout(10):
            return await reader.read(1 << 16)
    finally:
        writer.close()


# --- elsewhere -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "GET http://other.example/ HTTP/1.1",
        "POST http://other.example/v1/messages HTTP/1.1",
        "GET //other.example/x HTTP/1.1",
        "CONNECT other.example:443 HTTP/1.1",
        "OPTIONS * HTTP/1.1",
        "POST /v1/../../etc/passwd HTTP/1.1",
        "POST /v1/messages/../files HTTP/1.1",
        "POST /v1/messages%2f..%2ffiles HTTP/1.1",
        "POST /V1/MESSAGES HTTP/1.1",
        "POST /v1beta/models/../x:generateContent HTTP/1.1",
        "POST /v1beta/models/a%2fb:generateContent HTTP/1.1",
        "POST /v1/files HTTP/1.1",
        "PUT /v1/messages HTTP/1.1",
        "GET /v1/responses HTTP/1.1",
    ],
)
def test_a_path_that_is_no_models_never_reaches_the_upstream(tmp_path: Path, line: str) -> None:
    async def go() -> None:
        async with upstream(plain({})) as up, room(tmp_path, up.url) as r:
            answer = await raw(
                r, f"{line}\nhost: x\nx-api-key: {STAND_IN}\ncontent-length: 2\nconnection: close\n\n{{}}"
            )
            assert answer.split()[1][:1] == b"4", answer
            assert not up.seen and r.events and not r.calls

    in_time(go())


@pytest.mark.parametrize(
    "head",
    [
        "content-length: 5\ntransfer-encoding: chunked",
        "content-length: 5\ncontent-length: 6",
        "content-length: +5",
        "transfer-encoding: chunked, identity",
        "x-api-key : no\ncontent-length: 5",
        "anthropic-beta: a\r\r\nevil: 1\ncontent-length: 5",
    ],
)
def test_heads_that_two_readers_read_differently_are_refused_or_read_one_way(tmp_path: Path, head: str) -> None:
    async def go() -> None:
        async with upstream(streamed(anthropic_stream())) as up, room(tmp_path, up.url) as r:
            body = json.dumps(request("anthropic-messages"))
            second = f"POST /v1/messages HTTP/1.1\nhost: x\nx-evil: 1\ncontent-length: {len(body)}\n\n{body}"
            await raw(r, f"POST /v1/messages HTTP/1.1\nhost: x\nx-api-key: {STAND_IN}\n{head}\n\n0\n\n{second}")
            assert not up.seen

    in_time(go())


def test_a_redirect_is_not_followed(tmp_path: Path) -> None:
    async def go() -> None:
        async with upstream(plain({})) as other:
            handler = plain(b"", 307, location=f"{other.url}/v1/messages")
            async with upstream(handler) as up, room(tmp_path, up.url) as r:
                assert (await r.ask())[0] == 502
                assert len(up.seen) == 1 and not other.seen

    in_time(go())


def test_proxies_of_the_environment_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def go() -> None:
        async with upstream(plain({})) as other, upstream(streamed(anthropic_stream())) as up:
            for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
                monkeypatch.setenv(name, other.url)
            monkeypatch.setenv("NO_PROXY", "")
            async with room(tmp_path, up.url) as r:
                assert (await r.ask())[0] == 200 and not other.seen

    in_time(go())


@pytest.mark.parametrize("wrong", ["", "wrong", STAND_IN + "x", STAND_IN[:-1], KEY])
def test_a_room_without_its_stand_in_gets_nothing(tmp_path: Path, wrong: str) -> None:
    async def go() -> None:
        async with upstream(plain({})) as up, room(tmp_path, up.url) as r:
            for dialect in PATHS:
                status, data = await r.ask(dialect, x_api_key=wrong, authorization=f"Bearer {wrong}")
                assert status == 401 and json.loads(data)["error"]
            assert not up.seen and {call.status for call in await r.recorded(4)} == {"refused"}

    in_time(go())


@pytest.mark.parametrize("name", ["x-api-key", "authorization", "x-goog-api-key", "?key="])
def test_the_stand_in_is_taken_wherever_clis_put_a_key(tmp_path: Path, name: str) -> None:
    async def go() -> None:
        async with upstream(streamed(anthropic_stream())) as up, room(tmp_path, up.url) as r:
            query = f"?key={STAND_IN}" if name == "?key=" else ""
            headers = {} if query else {name: f"Bearer {STAND_IN}" if name == "authorization" else STAND_IN}
            url = r.url + "/v1/messages" + query
            async with r.session.post(url, json=request("anthropic-messages"), headers=headers) as answer:
                assert answer.status == 200
            assert STAND_IN not in str(up.seen)

    in_time(go())


# --- keys ----------------------------------------------------------------------------------------------------


def everything(folder: Path) -> bytes:
    """All bytes of an archive, unpacked."""
    found = b""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            found += path.name.encode() + data + (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else b"")
    return found


def assert_no_key(data: bytes) -> None:
    coded = base64.b64encode(KEY.encode()).rstrip(b"=")[:-1]
    forms = [KEY.encode(), quote(KEY, safe="").encode(), coded, KEY.encode().hex().encode()]
    forms += [base64.b64encode(b"x" * n + KEY.encode())[4:-4] for n in (1, 2)]
    assert not [form for form in forms if form in data]


def telling(kind: str) -> Any:
    """An upstream that tells the key back, in some way."""
    bearer = base64.b64encode(f"Bearer {KEY}".encode()).decode()
    said = f"key {KEY} or {quote(KEY, safe='')} or {bearer} or {KEY.encode().hex()}"
    half = len(KEY) // 2
    split = [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": part}}
        for part in (KEY[:half], KEY[half:])
    ]
    handlers = {
        "error": plain({"type": "error", "error": {"type": "authentication_error", "message": said}}, 401),
        "error as text": plain(said.encode(), 500),
        "stream": streamed(anthropic_stream(KEY), pieces=300),
        "stream in two events": streamed(anthropic_stream("a", end=False) + sse(*split, named=True)),
        "plain": plain({"type": "message", "model": MODEL, "content": [{"type": "text", "text": f"it is {KEY}"}]}),
        "header": streamed(anthropic_stream(), **{"x-request-id": KEY, "x-ratelimit-note": KEY}),
        "model": streamed(anthropic_stream(model=KEY)),
        "error within": streamed(sse({"type": "error", "error": {"type": "x", "message": said}}, named=True)),
        "tool": streamed(anthropic_stream(tool=("t", "Write", {"content": f"x-api-key: {KEY}", "path": "a"}))),
    }
    return handlers[kind]


@pytest.mark.parametrize(
    "kind",
    ["error", "error as text", "stream", "stream in two events", "plain", "header", "model", "error within", "tool"],
)
def test_a_key_that_an_upstream_tells_back_gets_into_no_file_and_no_answer(tmp_path: Path, kind: str) -> None:
    async def go() -> None:
        async with upstream(telling(kind)) as up, room(tmp_path, up.url) as r:
            try:
                headers = {"x-api-key": STAND_IN}
                url = r.url + "/v1/messages"
                async with r.session.post(url, json=request("anthropic-messages"), headers=headers) as answer:
                    said = str(answer.headers).encode() + await answer.read()
            except aiohttp.ClientError:
                said = b""
            await r.recorded(1)
            if kind not in ("stream in two events", "error within"):
                assert_no_key(said)
            assert KEY.encode() not in said
            assert_no_key(everything(r.folder.path) + repr((r.calls, r.stops, r.events)).encode())

    in_time(go())


def test_keys_that_a_room_sends_get_into_no_file_and_its_request_stays_json(tmp_path: Path) -> None:
    token = "ghp_" + "a1B2" * 9
    arguments = json.dumps({"command": f"curl -H 'x-api-key: {token}' there", "then": "ls"})

    async def go() -> None:
        async with upstream(streamed(chat_stream())) as up, room(tmp_path, up.url) as r:
            body = {
                "model": MODEL, "stream": True, f"odd {token}": 1,
                "messages": [
                    {"role": "user", "content": f"my token is {token}, {STAND_IN}\nx-api-key: hunter22"},
                    {"role": "assistant", "content": None, "tool_calls": [
                        {"id": "t", "type": "function", "function": {"name": "bash", "arguments": arguments}}]},
                ],
            }  # fmt: skip
            assert (await r.ask("openai-chat", body))[0] == 200
            (call,) = await r.recorded(1)
            kept = load_request(r.folder, call)
            found = json.loads(kept)
            inner = json.loads(found["messages"][1]["tool_calls"][0]["function"]["arguments"])
            assert inner["then"] == "ls" and set(inner) == {"command", "then"}
            assert "hunter22" not in kept.decode() and found["messages"][0]["role"] == "user"
            data = everything(r.folder.path)
            assert token.encode() not in data and STAND_IN.encode() not in data
            assert token in up.seen[0].body.decode()  # the model sees what the agent says

    in_time(go())


# --- shapes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        b"", b"null", b"[]", b'"x"', b"{", b"\xff\xfe{}", b'{"model":"big-model-1","x":1e999}', b"[" * 100_000,
        b'{"model":"big-model-1","messages":' + b"[" * 500 + b"]" * 500 + b"}",
        b'{"model":"big-model-1","x":' + b"9" * 5000 + b"}", b"[" + b"[]," * 3_000_000 + b"[]]",
    ],
    ids=range(11),
)  # fmt: skip
def test_a_body_that_is_no_request_is_refused_and_recorded(tmp_path: Path, body: bytes) -> None:
    async def go() -> None:
        async with upstream(streamed(anthropic_stream())) as up, room(tmp_path, up.url) as r:
            status, data = await r.ask(body=body)
            assert status in (400, 500) and json.loads(data)["error"]["message"]
            assert not up.seen and (await r.recorded(1))[0].status == "refused"
            load_request(r.folder, r.calls[0][0])

    in_time(go())


def test_a_body_that_says_the_model_twice_is_sent_as_it_was_checked(tmp_path: Path) -> None:
    async def go() -> None:
        async with upstream(plain({}, 500)) as up, room(tmp_path, up.url) as r:
            await r.ask(body=b'{"model":"evil","messages":[],"model":"big-model-1"}')
            assert up.seen[0].body == b'{"model":"big-model-1","messages":[]}'

    in_time(go())


def test_odd_characters_come_through_and_are_recorded(tmp_path: Path) -> None:
    async def go() -> None:
        async with upstream(streamed(anthropic_stream("\ud83d\ude00 \x00 \u2028"))) as up, room(tmp_path, up.url) as r:
            body = b'{"model":"big-model-1","messages":[{"role":"user","content":"\\ud800 \\u0000 \xc3\xa9"}]}'
            assert (await r.ask(body=body))[0] == 200
            assert up.seen[0].json["messages"][0]["content"] == "\ud800 \x00 é"
            (call,) = await r.recorded(1)
            assert call.status == "ok" and r.calls[0][1].output[0].text == "\U0001f600 \x00 \u2028"
            json.loads(load_request(r.folder, call))

    in_time(go())


def test_a_list_of_models_is_answered_here(tmp_path: Path) -> None:
    async def go() -> None:
        fake: Fake
        async with upstream(plain({})) as fake, room(tmp_path, fake.url) as r:
            async with r.session.get(r.url + "/v1/models?limit=1000") as answer:
                assert (await answer.json())["data"][0]["id"] == MODEL
            async with r.session.get(r.url + "/v1beta/models") as answer:
                assert (await answer.json())["models"][0]["name"] == f"models/{MODEL}"
            for _ in range(3):
                async with r.session.post(r.url + "/api/event_logging/batch", data=b"x") as answer:
                    assert answer.status == 404
            assert not fake.seen and not r.calls and len(r.events) == 1

    in_time(go())


def test_the_judges_handlers_stand_beside(tmp_path: Path) -> None:
    async def check(asked: web.Request) -> web.Response:
        return web.json_response({"got": len(await asked.read())})

    async def go() -> None:
        def add(app: web.Application) -> None:
            app.router.add_post("/judge/check", check)

        async with upstream(plain({})) as up, room(tmp_path, up.url, add_routes=add) as r:
            async with r.session.post(r.url + "/judge/check", data=b"x" * 3_000_000) as answer:
                assert (answer.status, await answer.json()) == (200, {"got": 3_000_000})
            assert not r.calls

    in_time(go())


def test_a_record_that_cannot_be_written_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: RunFolder, data: bytes) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(RunFolder, "put", full)

    async def go() -> None:
        async with upstream(streamed(anthropic_stream())) as up, room(tmp_path, up.url) as r:
            assert (await r.ask())[0] == 200
            async with asyncio.timeout(10):
                while not r.stops:
                    await asyncio.sleep(0.01)
            assert "No space left" in r.stops[0] and r.gateway.stop_kind == "trouble"

    in_time(go())
