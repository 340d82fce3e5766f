"""One call on its way: to the route's upstream and nowhere else, and its answer back as it comes."""

from __future__ import annotations

import asyncio
import io
import os
import ssl
import tempfile
import time
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import IO, Any

import aiohttp
from aiohttp import web
from yarl import URL

from harness.proxy.base import Caps, Route
from harness.proxy.dialects.common import (
    Answer,
    ApiError,
    Asked,
    Events,
    JsonError,
    Language,
    as_dict,
    parse_json,
    unescaped,
)
from harness.proxy.pins import other_than_pinned, unnamed
from harness.proxy.redaction import Redactor, Scrubber
from harness.proxy.routes import address
from harness.proxy.status import Verdict, of_answer, of_error
from harness.record.exchange import CallStatus

__all__ = ["Call", "Gone", "Upstream", "local_error"]

KEPT_BYTES = 16 << 20  # of a stream that goes into the record
IN_MEMORY = 1 << 20  # bytes of an answer; more of it lies in a file until it is recorded
MAX_ERROR_BYTES = 1 << 20
_TO_UPSTREAM = ("accept", "user-agent", "anthropic-version", "anthropic-beta", "openai-beta")
_TO_ROOM = ("content-type", "retry-after", "retry-after-ms", "x-should-retry", "request-id", "x-request-id")
_LIMITS = ("anthropic-ratelimit-", "x-ratelimit-")
_LONGEST_HEADER = 2000


class Gone(Exception):
    """The agent hung up."""


@dataclass(slots=True)
class Call:
    """A call while it lasts. `body` is what is sent, `answer` what came of it; `status` is set once."""

    number: int
    language: Language
    asked: Asked
    path: str
    began: float
    elapsed: float
    started: float = field(default_factory=time.monotonic)
    asked_model: str = ""
    stream: bool = False
    body: dict[str, Any] | None = None
    raw: bytes = b""  # a body that could not be taken as a request
    request_bytes: int = 0
    status: CallStatus | None = None
    detail: str = ""
    http_status: int = 0
    reached: bool = False  # a model was or may have been at work
    answer: Answer | None = None
    answer_bytes: int = 0
    first_byte_s: float | None = None
    kept: IO[bytes] = field(default_factory=lambda: tempfile.SpooledTemporaryFile(max_size=IN_MEMORY))  # noqa: SIM115

    def ends(self, verdict: Verdict) -> None:
        """Notes how the call ended; the first verdict stays."""
        if self.status is None:
            self.status, self.detail = verdict.status, verdict.detail

    def came(self, chunk: bytes, most: int = KEPT_BYTES) -> None:
        """Notes bytes of the answer, of which the first `most` are kept for the record."""
        if self.first_byte_s is None:
            self.first_byte_s = time.monotonic() - self.started
        room = most - self.answer_bytes
        self.answer_bytes += len(chunk)
        if room > 0:
            self.kept.write(chunk[:room])


def local_error(language: Language, status: int, message: str, *, close: bool = False) -> web.Response:
    """An error of the proxy's own, in the dialect's words."""
    response = web.json_response(language.error(status, message), status=status)
    if close:
        response.force_close()
    return response


class Upstream:
    """The upstream of one route, with its key. `close` it in the end."""

    def __init__(self, route: Route, key: str, *, model: str, caps: Caps, redactor: Redactor) -> None:
        self._route, self._key, self._model, self._caps, self._redactor = route, key, model, caps, redactor
        timeout = aiohttp.ClientTimeout(total=None, connect=caps.connect_s, sock_read=caps.silent_s)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=5.0, ssl=ssl.create_default_context()),
            timeout=timeout,
            trust_env=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=("User-Agent",),
        )

    async def close(self) -> None:
        """Ends its connections."""
        await self._session.close()

    async def ask(self, call: Call, request: web.Request) -> web.StreamResponse:
        """Sends a call's body and passes the answer on; the call says how it ended. Raises Gone."""
        if call.language.name not in self._route.urls or call.body is None:
            sentence = f"the route {self._route.name} has no address for {call.language.name}"
            call.ends(Verdict("refused", sentence))
            return local_error(call.language, 400, sentence)
        back = _Back(call, request, Scrubber(self._key))
        try:
            async with asyncio.timeout(self._caps.call_s), self._sent(call, request, call.body) as upstream:
                call.http_status, call.reached = upstream.status, upstream.status == 200
                if upstream.status != 200:
                    return await self._failed(call, upstream)
                if _is_stream(upstream.content_type, call.stream):
                    return await self._streamed(call, upstream, back)
                return await self._whole(call, upstream, back)
        except TimeoutError as error:
            connecting = isinstance(error, aiohttp.ConnectionTimeoutError)
            if back.writing:
                call.ends(Verdict("gone", "the agent did not read the answer in time"))
            elif connecting:
                call.ends(Verdict("unavailable", "the upstream could not be reached in time"))
            else:
                call.ends(Verdict("timeout", f"the upstream was silent, or took over {self._caps.call_s:g} s"))
            return back.given_up(502 if connecting else 504)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            call.ends(Verdict("unavailable", f"the upstream could not be reached ({_why(error)})"))
            return back.given_up(502)

    def _sent(self, call: Call, request: web.Request, body: dict[str, Any]) -> Any:
        language = call.language
        target = language.target(call.asked, self._model, call.stream)
        url = URL(address(self._route.urls[language.name], language.version, target), encoded=True)
        payload = io.BytesIO(unescaped(body))
        return self._session.post(url, data=payload, headers=self._headers(language, request), allow_redirects=False)

    def _headers(self, language: Language, request: web.Request) -> dict[str, str]:
        found = {}
        for name in _TO_UPSTREAM:
            value = ", ".join(request.headers.getall(name, ()))
            if value and len(value) <= _LONGEST_HEADER and value.isprintable():
                found[name] = value
        if language.name == "anthropic-messages":
            found.setdefault("anthropic-version", "2023-06-01")
        found |= {"content-type": "application/json", "accept-encoding": "identity"}
        given = {name: value.replace("{key}", self._key) for name, value in self._route.headers.items()}
        if self._key and not any("{key}" in value for value in self._route.headers.values()):
            bearer = "Bearer " if language.key_header == "authorization" else ""
            found[language.key_header] = bearer + self._key
        return found | given

    # --- answers -----------------------------------------------------------------------------------------

    async def _streamed(self, call: Call, upstream: aiohttp.ClientResponse, back: _Back) -> web.StreamResponse:
        """Passes a stream on, piece by piece, and reads it on the way."""
        answer, events, broke = call.language.answer(), Events(), ""
        call.answer = answer
        await back.begin(200, self._to_room(upstream))
        try:
            async for chunk in upstream.content.iter_any():
                call.came(chunk)
                if call.answer_bytes > self._caps.answer_bytes:
                    call.ends(Verdict("too-large", f"the answer has over {self._caps.answer_bytes} bytes"))
                    return back.cut_off()
                for name, data in events.feed(chunk):
                    answer.event(name, data)
                    if swapped := other_than_pinned(answer, model=self._model, route=self._route):
                        call.ends(Verdict("swapped", swapped))
                        return back.cut_off()
                await back.write(chunk)
        except TimeoutError:
            if not answer.complete:
                raise
            broke = "the upstream did not end it"
        except aiohttp.ClientError as error:
            broke = _why(error)
        for name, data in events.close():
            answer.event(name, data)
        self._judge(call, answer, broke)
        return back.cut_off() if broke else await back.end()

    async def _whole(self, call: Call, upstream: aiohttp.ClientResponse, back: _Back) -> web.StreamResponse:
        """Reads an answer that is not a stream, and passes it on when it is known to come from what was pinned."""
        broke = ""
        try:
            async for chunk in upstream.content.iter_any():
                call.came(chunk, self._caps.answer_bytes)
                if call.answer_bytes > self._caps.answer_bytes:
                    call.ends(Verdict("too-large", f"the answer has over {self._caps.answer_bytes} bytes"))
                    return back.given_up(502)
        except TimeoutError:
            raise
        except aiohttp.ClientError as error:
            broke = _why(error)
        answer = call.answer = call.language.answer()
        call.kept.seek(0)
        try:
            answer.whole(await asyncio.to_thread(parse_json, call.kept.read()))
        except JsonError:
            broke = broke or "it is not JSON"
        self._judge(call, answer, broke)
        if call.status == "swapped":
            return back.given_up(502)
        await back.begin(200, self._to_room(upstream))
        call.kept.seek(0)
        while chunk := call.kept.read(1 << 16):
            await back.write(chunk)
        return back.cut_off() if broke and call.status == "cut" else await back.end()

    def _judge(self, call: Call, answer: Answer, broke: str) -> None:
        verdict = of_answer(
            answer, call.language.name, size=call.answer_bytes, counting=call.asked.what == "count", broke=broke
        )
        swapped = other_than_pinned(answer, model=self._model, route=self._route)
        if not swapped and verdict.status == "ok" and call.asked.what == "answer":
            swapped = unnamed(answer, self._route)
        call.ends(Verdict("swapped", swapped) if swapped else verdict)

    async def _failed(self, call: Call, upstream: aiohttp.ClientResponse) -> web.StreamResponse:
        """Passes an error on as it is, less secrets."""
        status = upstream.status
        if status < 400:
            what = "a redirect, which is not followed" if 300 <= status < 400 else "a status that no answer has"
            call.ends(Verdict("unavailable", f"the upstream answered {status}, {what}"))
            return local_error(call.language, 502, f"the upstream answered {status}")
        found = bytearray()
        try:
            async for chunk in upstream.content.iter_any():
                found += chunk[: MAX_ERROR_BYTES - len(found)]
                if len(found) >= MAX_ERROR_BYTES:
                    break
        except (aiohttp.ClientError, TimeoutError):
            pass  # what came of it is passed on
        call.came(bytes(found))
        call.ends(of_error(status, await asyncio.to_thread(_stated, bytes(found)), call.language.name))
        clean = await asyncio.to_thread(self._redactor.body, bytes(found))
        return web.Response(status=status, body=clean, headers=self._to_room(upstream))

    def _to_room(self, upstream: aiohttp.ClientResponse) -> dict[str, str]:
        return {
            name: value
            for name, value in upstream.headers.items()
            if (name.lower() in _TO_ROOM or name.lower().startswith(_LIMITS))
            and len(value) <= _LONGEST_HEADER
            and self._redactor.text(value) == value
        }


class _Back:
    """The way back to the agent."""

    def __init__(self, call: Call, request: web.Request, scrubber: Scrubber) -> None:
        self._call, self._request, self._scrubber = call, request, scrubber
        self._response: web.StreamResponse | None = None
        self.writing = False

    async def begin(self, status: int, headers: dict[str, str]) -> None:
        """Sends the head. Raises Gone."""
        self._response = web.StreamResponse(status=status, headers=headers)
        await self._sending(self._response.prepare(self._request))

    async def write(self, chunk: bytes) -> None:
        """Sends bytes, when the agent takes them. Raises Gone."""
        if self._response is not None and (clean := self._scrubber.feed(chunk)):
            await self._sending(self._response.write(clean))

    async def end(self) -> web.StreamResponse:
        """Ends the answer well. Raises Gone."""
        assert self._response is not None
        await self._sending(self._response.write_eof(self._scrubber.close()))
        return self._response

    def cut_off(self) -> web.StreamResponse:
        """Ends the connection, so that the agent sees that the answer is not whole."""
        if self._request.transport is not None:
            self._request.transport.abort()
        return self._response or web.Response(status=502)

    def given_up(self, status: int) -> web.StreamResponse:
        """Sends an error in place of the answer, or ends an answer that was begun."""
        if self._response is not None:
            return self.cut_off()
        return local_error(self._call.language, status, self._call.detail)

    async def _sending(self, done: Awaitable[object]) -> None:
        self.writing = True
        try:
            await done
        except (ConnectionError, aiohttp.ClientError):
            raise Gone from None
        self.writing = False


def _is_stream(content_type: str, wanted: bool) -> bool:
    return content_type == "text/event-stream" or (wanted and content_type != "application/json")


def _stated(data: bytes) -> ApiError | None:
    """The error in a body, which Gemini puts into a list."""
    try:
        value = parse_json(data)
    except JsonError:
        return None
    return ApiError.read(as_dict(value[0] if isinstance(value, list) and value else value))


def _why(error: BaseException) -> str:
    """What broke, in words without an address."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientSSLError):
        return "its certificate or its TLS is not right"
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if isinstance(cause, OSError) and cause.errno is not None:
        return (os.strerror(cause.errno) if cause.errno > 0 else "its name cannot be resolved").lower()
    return {
        "ServerDisconnectedError": "it closed the connection",
        "ClientPayloadError": "it ended the connection in the middle",
    }.get(type(error).__name__, type(error).__name__)
