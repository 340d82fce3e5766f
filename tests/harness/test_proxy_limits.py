"""What bounds a run at its gateway: failures in a row, calls, rate, money, tokens, sizes, memory, and many at once."""

from __future__ import annotations

import asyncio
import json
import time
import tracemalloc
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from proxy_kit import (
    KEY,
    MODEL,
    STAND_IN,
    VARIABLE,
    Room,
    anthropic_stream,
    chat_stream,
    cut,
    in_time,
    plain,
    request,
    room,
    streamed,
    upstream,
)

from harness.proxy import gateway as gateway_module
from harness.proxy.base import Caps, Price
from harness.proxy.caps import Meter, priced
from harness.record.usage import Usage


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, KEY)


async def tried(r: Room, **given: Any) -> int:
    """Asks whatever comes of it; the HTTP status, 0 where the connection broke."""
    try:
        return (await r.ask(**given))[0]
    except aiohttp.ClientError:
        return 0


def test_a_loop_of_broken_streams_ends_after_the_cap(tmp_path: Path) -> None:
    """An opencode loop made 855 calls in 100 s."""

    async def go() -> None:
        caps = Caps(failures_in_row=5, calls_per_minute=100_000)
        async with upstream(cut(chat_stream()[:100])) as up, room(tmp_path, up.url, caps=caps) as r:
            statuses = [await tried(r, dialect="openai-chat") for _ in range(40)]
            assert statuses == [0] * 5 + [400] * 35 and len(up.seen) == 5
            await r.recorded(40)
            assert [call.status for call, _ in r.calls][4:6] == ["cut", "limited"]
            assert r.stops == [r.gateway.stopped] and "5 calls in a row failed, the last one as cut" in r.stops[0]
            assert r.gateway.stop_kind == "provider"

    in_time(go())


def test_one_good_answer_begins_the_row_again(tmp_path: Path) -> None:
    async def go() -> None:
        count = 0

        async def sometimes(asked: web.Request) -> web.StreamResponse:
            nonlocal count
            count += 1
            return await (plain({}, 500) if count % 3 else streamed(anthropic_stream()))(asked)

        async with upstream(sometimes) as up, room(tmp_path, up.url, caps=Caps(failures_in_row=3)) as r:
            assert [await tried(r) for _ in range(9)] == [500, 500, 200] * 3
            assert not r.stops

    in_time(go())


def test_refused_calls_count_as_failures_and_records_after_the_end_are_bounded(tmp_path: Path) -> None:
    async def go() -> None:
        async with upstream(plain({}, 500)) as up, room(tmp_path, up.url, caps=Caps(failures_in_row=4)) as r:
            for _ in range(4):
                assert (await r.ask(x_api_key="wrong"))[0] == 401
            for _ in range(120):
                assert (await r.ask())[0] == 400
            calls = await r.recorded(4 + gateway_module.MAX_LIMITED)
            assert not up.seen and r.gateway.stop_kind == "limit"
            assert [call.status for call in calls] == ["refused"] * 4 + ["limited"] * gateway_module.MAX_LIMITED

    in_time(go())


@pytest.mark.parametrize(
    ("caps", "said"),
    [
        (Caps(calls=2), "made its 2 calls"),
        (Caps(output_tokens=14), "used its 14 output tokens"),
        (Caps(cost_usd=0.001), "spent its 0.001 US dollars"),
    ],
)
def test_a_further_call_ends_the_run_when_a_cap_is_reached(tmp_path: Path, caps: Caps, said: str) -> None:
    async def go() -> None:
        prices = {MODEL: Price(50.0, 0.0, 1.0, 1.0)}
        async with upstream(streamed(anthropic_stream())) as up, room(tmp_path, up.url, caps=caps, prices=prices) as r:
            assert [await tried(r) for _ in range(2)] == [200, 200]
            assert not r.stops
            status, data = await r.ask()
            assert status == 400 and said in json.loads(data)["error"]["message"] and said in r.stops[0]
            assert len(up.seen) == 2 and r.gateway.stop_kind == "limit"
            assert r.gateway.usage == Usage(20, 14, 10, 4, 0, pytest.approx(2 * 507e-6))

    in_time(go())


def test_a_cap_on_cost_where_no_cost_is_known_ends_the_run(tmp_path: Path) -> None:
    async def go() -> None:
        caps = Caps(cost_usd=5.0)
        async with upstream(streamed(anthropic_stream())) as up, room(tmp_path, up.url, caps=caps) as r:
            assert [await tried(r) for _ in range(2)] == [200, 400]
            assert "is not known" in r.stops[0]

    in_time(go())


def test_a_cost_is_what_the_provider_states_else_by_price_else_unknown() -> None:
    used = Usage(1_000_000, 500_000, 2_000_000, 0)
    price = Price(1.0, 2.0, 0.1)
    assert priced(used, price, None, reached=True).cost_usd == pytest.approx(2.2)
    assert priced(used, price, 0.5, reached=True).cost_usd == 0.5
    assert priced(used, None, None, reached=True).cost_usd is None
    assert priced(Usage(), None, None, reached=False).cost_usd == 0.0


def test_calls_that_come_too_fast_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    now, slept = [0.0], []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    monkeypatch.setattr(asyncio, "sleep", sleep)

    async def go() -> None:
        meter = Meter(Caps(calls_per_minute=60), clock=lambda: now[0])
        for _ in range(70):
            await meter.turn()

    in_time(go())
    assert now[0] == pytest.approx(60, abs=0.5) and len(slept) >= 60


def test_no_more_calls_than_allowed_run_at_once(tmp_path: Path) -> None:
    async def go() -> None:
        running = most = 0

        async def slow(asked: web.Request) -> web.StreamResponse:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.02)
            running -= 1
            return await streamed(anthropic_stream())(asked)

        caps = Caps(at_once=3, calls_per_minute=10_000)
        async with upstream(slow) as up, room(tmp_path, up.url, caps=caps) as r:
            assert await asyncio.gather(*(tried(r) for _ in range(12))) == [200] * 12
            assert most == 3
            assert sorted(call.number for call in await r.recorded(12)) == list(range(1, 13))

    in_time(go())


def big_stream(size: int) -> Any:
    """An answer of so many bytes, made as it goes."""

    async def handler(asked: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(asked)
        head, rest = anthropic_stream(end=False), 0
        await response.write(head)
        event = json.dumps(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x" * 60_000}}
        )
        while rest < size:
            await response.write(f"event: content_block_delta\ndata: {event}\n\n".encode())
            rest += 60_000
        await response.write_eof()
        return response

    return handler


async def read_all(r: Room) -> int:
    """Reads an answer without keeping it; how much came."""
    got = 0
    headers = {"x-api-key": STAND_IN}
    async with r.session.post(r.url + "/v1/messages", json=request("anthropic-messages"), headers=headers) as answer:
        try:
            async for chunk in answer.content.iter_any():
                got += len(chunk)
        except aiohttp.ClientError:
            pass
    return got


def test_an_answer_of_50_mb_is_cut_at_the_cap_in_bounded_memory(tmp_path: Path) -> None:
    async def go() -> None:
        async with upstream(big_stream(50 << 20)) as up, room(tmp_path, up.url) as r:
            tracemalloc.start()
            got = await read_all(r)
            (call,) = await r.recorded(1)
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            cap = Caps().answer_bytes
            assert call.status == "too-large" and cap - (2 << 20) < got <= cap
            assert peak < 200 << 20
            assert sum(len(item.text) for item in r.calls[0][1].output) < 10 << 20

    in_time(go(), 120)


def test_a_plain_answer_over_the_cap_is_an_error(tmp_path: Path) -> None:
    async def go() -> None:
        caps = Caps(answer_bytes=1 << 20)
        async with upstream(plain(b"[" + b" " * (2 << 20) + b"]")) as up, room(tmp_path, up.url, caps=caps) as r:
            status, data = await r.ask()
            assert status == 502 and len(data) < 1000
            assert (await r.recorded(1))[0].status == "too-large"

    in_time(go())


def test_a_request_over_the_cap_is_refused(tmp_path: Path) -> None:
    async def go() -> None:
        caps = Caps(request_bytes=1 << 20)
        async with upstream(plain({})) as up, room(tmp_path, up.url, caps=caps) as r:
            status, _ = await r.ask(body=b'{"messages": "' + b"x" * (3 << 20) + b'"}')
            assert status == 413 and not up.seen
            assert (await r.recorded(1))[0].status == "refused"

    in_time(go())


def test_a_client_that_does_not_read_slows_its_own_answer_only(tmp_path: Path) -> None:
    async def go() -> None:
        async with upstream(big_stream(12 << 20)) as up, room(tmp_path, up.url, caps=Caps(call_s=1.0)) as r:
            reader, writer = await asyncio.open_connection(*r.sock.getsockname(), limit=1 << 12)
            body = json.dumps(request("anthropic-messages")).encode()
            head = (
                f"POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: {STAND_IN}\r\ncontent-length: {len(body)}\r\n\r\n"
            )
            writer.write(head.encode() + body)
            await reader.readline()  # and nothing more
            (call,) = await r.recorded(1)
            assert call.status == "gone" and call.answer_bytes < 12 << 20
            writer.close()

    in_time(go())


def test_connections_beyond_the_bound_are_closed_and_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway_module, "MAX_CONNECTIONS", 8)

    async def go() -> None:
        async with upstream(streamed(anthropic_stream())) as up, room(tmp_path, up.url) as r:
            held = [await asyncio.open_connection(*r.sock.getsockname()) for _ in range(30)]
            ended = [asyncio.create_task(reader.read(1)) for reader, _ in held]
            async with asyncio.timeout(10):
                while sum(task.done() for task in ended) < 22:
                    await asyncio.wait([t for t in ended if not t.done()], return_when=asyncio.FIRST_COMPLETED)
            for _, writer in held:
                writer.close()
            for task in ended:
                task.cancel()
            async with asyncio.timeout(10):
                while await tried(r) != 200:
                    await asyncio.sleep(0.01)

    in_time(go())


def test_twenty_gateways_with_five_calls_each_mix_nothing_up(tmp_path: Path) -> None:
    async def echo(asked: web.Request) -> web.StreamResponse:
        said = (await asked.json())["messages"][0]["content"]
        return await streamed(anthropic_stream(f"You said {said}."))(asked)

    async def one(number: int, url: str) -> None:
        async with room(tmp_path / str(number), url) as r:
            texts = [f"room {number} call {call}" for call in range(5)]
            answers = await asyncio.gather(*(r.ask(body=request("anthropic-messages", text)) for text in texts))
            for text, (status, data) in zip(texts, answers, strict=True):
                assert status == 200 and f"You said {text}." in data.decode()
            await r.recorded(5)
            for _, exchange in r.calls:
                assert exchange.output[0].text == f"You said {exchange.input[0].text}."
            assert {exchange.input[0].text for _, exchange in r.calls} == set(texts)
            assert r.gateway.usage == Usage(50, 35, 25, 10) and len(list(r.folder.calls())) == 5

    async def go() -> None:
        async with upstream(echo) as up:
            await asyncio.gather(*(one(number, up.url) for number in range(20)))

    in_time(go())


def test_closing_records_the_calls_that_were_under_way(tmp_path: Path) -> None:
    async def go() -> None:
        begun = asyncio.Event()

        async def never(asked: web.Request) -> web.StreamResponse:
            begun.set()
            await asyncio.Event().wait()
            return web.Response()

        async with upstream(never) as up, room(tmp_path, up.url) as r:
            asking = asyncio.create_task(tried(r))
            await begun.wait()
            began = time.monotonic()
            await r.gateway.close()
            assert time.monotonic() - began < 5
            assert [call.status for call in r.gateway.calls] == ["gone"] == [c.status for c in r.folder.calls()]
            await asking

    in_time(go())
