"""The proxy of one run: it answers on the listener of the run's room, and asks the run's model and nothing else.

Runs in an event loop, one Gateway a run. Every call is counted, pinned, sent, recorded and told: first how it ended is
decided, then its bodies are kept without secrets (in a thread), then `on_call` is called in the loop, in the order in
which calls ended.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable

from aiohttp import web

from harness.proxy.base import Caps, Route
from harness.proxy.bodies import Bodies, Sent
from harness.proxy.caps import Meter, StopKind, priced
from harness.proxy.dialects import asked_for
from harness.proxy.dialects.common import Asked, JsonError, Language, as_text, parse_json
from harness.proxy.keys import read_key, shown
from harness.proxy.pins import pin
from harness.proxy.redaction import Redactor
from harness.proxy.relay import Call, Gone, Upstream, local_error
from harness.proxy.routes import price_of
from harness.proxy.status import Verdict
from harness.record.archive import RunFolder
from harness.record.events import EventData, Finding, Note
from harness.record.exchange import CallStatus, Exchange, ModelCall
from harness.record.usage import Usage

__all__ = ["Gateway"]

MAX_CONNECTIONS = 128  # that a room may hold open
MAX_LIMITED = 50  # calls after the end of a run that are recorded
MAX_TOLD = 200
_QUIET = logging.getLogger("kbh.proxy")
_QUIET.addHandler(logging.NullHandler())
_QUIET.propagate = False


class Gateway:
    """The way from one room to one model. Raises KeyFault where the route's key cannot be had.

    `key` is the stand-in that the room shows; the real one is read here and never leaves. `elapsed` gives seconds since
    the agent started. `on_stop` is called once, with one sentence, when a cap or a swapped answer ends the run;
    `on_event` for findings and notes that belong to no call. `add_routes` may put handlers of the judge beside.
    """

    def __init__(
        self,
        route: Route,
        *,
        model: str,
        caps: Caps,
        folder: RunFolder,
        key: str,
        elapsed: Callable[[], float],
        on_call: Callable[[ModelCall, Exchange], None],
        on_stop: Callable[[str], None],
        on_event: Callable[[EventData], None] = lambda _: None,
        add_routes: Callable[[web.Application], None] = lambda _: None,
    ) -> None:
        self._route, self._model, self._caps, self._folder, self._key = route, model, caps, folder, key
        self._elapsed, self._on_call, self._on_stop, self._on_event = elapsed, on_call, on_stop, on_event
        self._add_routes = add_routes
        self._real = read_key(route)
        self._redactor = Redactor([self._real, key])
        self._bodies = Bodies(folder, self._redactor)
        self._meter = Meter(caps)
        self._slots = asyncio.Semaphore(caps.at_once)
        self._writing = asyncio.Lock()
        self._records: set[asyncio.Task[None]] = set()
        self._told: set[EventData] = set()
        self._limited = 0
        self._stop_told = False
        self._upstream: Upstream | None = None
        self._runner: web.AppRunner | None = None
        self._server: asyncio.Server | None = None
        self.calls: list[ModelCall] = []

    @property
    def usage(self) -> Usage:
        """The sum over all calls that ended."""
        return self._meter.usage

    @property
    def stopped(self) -> str:
        """The reason why no further call is made, in one sentence; "" while calls are made."""
        return self._redactor.text(self._meter.stopped) if self._meter.stopped else ""

    @property
    def stop_kind(self) -> StopKind:
        """What stopped the run: one of its caps, the provider, or an error of the proxy itself."""
        return self._meter.kind

    async def start(self, sock: socket.socket) -> None:
        """Answers on a listening socket, which stays the caller's, until `close`."""
        app = web.Application(middlewares=[self._front], client_max_size=self._caps.request_bytes, logger=_QUIET)
        self._add_routes(app)
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._upstream = Upstream(self._route, self._real, model=self._model, caps=self._caps, redactor=self._redactor)
        self._runner = web.AppRunner(
            app, access_log=None, logger=_QUIET, handler_cancellation=True, shutdown_timeout=0.5, lingering_time=1.0
        )
        await self._runner.setup()
        server = self._runner.server
        assert server is not None

        def door() -> asyncio.Protocol:
            return _Closed() if len(server.connections) >= MAX_CONNECTIONS else server()

        self._server = await asyncio.get_running_loop().create_server(door, sock=sock.dup())

    async def close(self) -> None:
        """Ends all calls; returns when everything is recorded and told."""
        if self._server is not None:
            self._server.close()
        if self._runner is not None:
            await self._runner.cleanup()
        while self._records:
            await asyncio.wait(set(self._records))
        if self._upstream is not None:
            await self._upstream.close()
        self._server = self._runner = self._upstream = None

    # --- requests ----------------------------------------------------------------------------------------

    @web.middleware
    async def _front(self, request: web.Request, handler: Callable[..., object]) -> web.StreamResponse:
        """Turns away whoever takes this for a proxy to anywhere."""
        if not request.raw_path.startswith("/") or request.raw_path.startswith("//"):
            where = self._redactor.text(f"{request.method} {request.raw_path[:200]}")
            self._tell(
                Finding("breach", "other-address", "something in the room asked the proxy for another host", where)
            )
            response = web.Response(status=403, text="this leads to the run's model and nowhere else\n")
            response.force_close()
            return response
        found = await handler(request)  # type: ignore[misc]
        assert isinstance(found, web.StreamResponse)
        return found

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        path, _, query = request.raw_path.partition("?")
        found = asked_for(request.method, path, query)
        if found is None:
            return self._aside(request, path)
        language, asked = found
        call = Call(self._meter.begin(), language, asked, path, time.time(), self._elapsed())
        call.asked_model = asked.model
        if self._meter.stopped:
            return self._refused(call, "limited", 400, f"this run has ended: {self.stopped}")
        if not shown(request.headers, query, self._key):
            return self._refused(call, "refused", 401, "the request does not show the run's key")
        try:
            await self._slots.acquire()
        except asyncio.CancelledError:
            call.ends(Verdict("gone", "the agent hung up before its turn"))
            self._ended(call, release=False)
            raise
        try:
            return await self._asked(request, call, language, asked)
        except Gone:
            call.ends(Verdict("gone", "the agent hung up"))
            return web.Response(status=499)
        except asyncio.CancelledError:
            call.ends(Verdict("gone", "the agent hung up or the run ended"))
            raise
        except Exception as error:  # whatever it is, the call is in the record and the run goes on or ends by a cap
            sentence = f"the proxy failed at a call ({type(error).__name__})"
            self._tell(Finding("room", "proxy-failed", sentence))
            call.ends(Verdict("refused", sentence))
            return local_error(language, 500, sentence)
        finally:
            self._ended(call, release=True)  # its slot is free when it is recorded, which bounds memory too

    async def _asked(self, request: web.Request, call: Call, language: Language, asked: Asked) -> web.StreamResponse:
        data = bytearray()
        async for chunk in request.content.iter_any():
            data += chunk
            if len(data) > self._caps.request_bytes:
                return self._no(call, 413, f"the request has over {self._caps.request_bytes} bytes")
        call.request_bytes = len(data)
        try:
            body = await asyncio.to_thread(parse_json, bytes(data)) if len(data) > 1 << 18 else parse_json(bytes(data))
        except JsonError as error:
            call.raw = bytes(data[: 1 << 20])
            return self._no(call, 400, str(error))
        if not isinstance(body, dict):
            call.raw = bytes(data[: 1 << 20])
            return self._no(call, 400, "the request is not a JSON object")
        del data
        call.asked_model = asked.model or as_text(body.get("model"))[:300]
        call.stream = asked.stream if asked.stream is not None else body.get("stream") is True
        pinned = pin(language, asked, body, model=self._model, route=self._route)
        call.body = pinned.body
        for told in pinned.told:
            self._tell(told)
        if pinned.refusal:
            return self._no(call, 400, pinned.refusal)
        await self._meter.turn()
        if self._meter.stopped:
            call.ends(Verdict("limited", f"this run has ended: {self.stopped}"))
            call.http_status = 400
            return local_error(language, 400, call.detail)
        assert self._upstream is not None
        return await self._upstream.ask(call, request)

    def _no(self, call: Call, status: int, sentence: str) -> web.Response:
        call.http_status = status
        call.ends(Verdict("refused", sentence))
        return local_error(call.language, status, sentence, close=status == 413)

    def _refused(self, call: Call, status: CallStatus, http_status: int, sentence: str) -> web.Response:
        """Answers at once, without a word of the request being read."""
        call.http_status = http_status
        call.ends(Verdict(status, sentence))
        self._limited += status == "limited"
        if self._limited <= MAX_LIMITED:
            self._ended(call, release=False)
        self._announce()
        return local_error(call.language, http_status, sentence, close=True)

    def _aside(self, request: web.Request, path: str) -> web.Response:
        """What CLIs ask besides: the list of models is answered here, anything else leads nowhere."""
        if request.method == "GET" and path in ("/v1/models", "/models"):
            model = {"id": self._model, "object": "model", "type": "model", "display_name": self._model, "created": 0}
            return web.json_response({"object": "list", "data": [model], "has_more": False})
        if request.method == "GET" and path == "/v1beta/models":
            return web.json_response({"models": [{"name": f"models/{self._model}", "displayName": self._model}]})
        where = self._redactor.text(f"{request.method} {path[:200]}")
        self._tell(Note(f"something in the room asked the proxy for {where}, which leads nowhere"))
        return web.json_response({"error": {"message": "there is nothing here", "type": "not_found"}}, status=404)

    # --- what ended --------------------------------------------------------------------------------------

    def _ended(self, call: Call, *, release: bool) -> None:
        """Counts a call that ended and has it recorded."""
        status = call.status or "gone"
        used = call.answer.usage if call.answer is not None and call.asked.what == "answer" else Usage()
        stated = call.answer.cost if call.answer is not None else None
        reached = call.reached and call.asked.what == "answer"
        used = priced(used, price_of(self._route, self._model), stated, reached=reached)
        self._meter.end(status, used, counts=call.asked.what == "answer")
        if status == "swapped":
            self._meter.stop(call.detail, "provider")
        self._announce()
        task = asyncio.get_running_loop().create_task(self._record(call, used, time.monotonic(), release))
        self._records.add(task)
        task.add_done_callback(self._records.discard)

    async def _record(self, call: Call, used: Usage, ended: float, release: bool) -> None:
        try:
            async with self._writing:
                made, exchange = await asyncio.to_thread(self._kept, call, used, ended)
                self.calls.append(made)
                self._on_call(made, exchange)
        except Exception as error:  # a run whose record has a hole must not go on
            said = getattr(error, "strerror", None) or type(error).__name__
            self._tell(Finding("room", "record-failed", f"a call could not be recorded ({said})"))
            self._meter.stop(f"a call could not be recorded ({said})", "trouble")
            self._announce()
        finally:
            call.kept.close()
            if release:
                self._slots.release()

    def _kept(self, call: Call, used: Usage, ended: float) -> tuple[ModelCall, Exchange]:
        """Keeps the bodies and the line of a call. Raises OSError."""
        sent = Sent("", "", (), ())
        if call.body is not None:
            sent = self._bodies.request(call.language, call.body)
        elif call.raw:
            sent = Sent(self._bodies.raw(call.raw), "", (), ())
        call.kept.seek(0)
        name, output = self._bodies.answer(call.kept.read(), call.answer)
        answer = call.answer or call.language.answer()
        asked, model, provider, stop, detail = self._redactor.texts(
            [call.asked_model, answer.model, answer.provider, answer.stop, call.detail]
        )
        made = ModelCall(
            call.number, call.began, call.elapsed, ended - call.started, call.language.name, call.path, call.stream,
            call.status or "gone", call.http_status, asked, model, provider, used, stop, sent.name, name,
            call.request_bytes, call.answer_bytes, call.first_byte_s, detail,
        )  # fmt: skip
        self._folder.append_call(made)
        return made, Exchange(
            call.language.name, asked, model, provider, sent.system, sent.tools, sent.items, output, used, stop,
            answer.complete,
        )  # fmt: skip

    def _announce(self) -> None:
        if self._meter.stopped and not self._stop_told:
            self._stop_told = True
            self._on_stop(self.stopped)

    def _tell(self, told: EventData) -> None:
        """Says something once, and not too much in all."""
        if told not in self._told and len(self._told) < MAX_TOLD:
            self._told.add(told)
            self._on_event(told)


class _Closed(asyncio.Protocol):
    """A connection too many."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            transport.abort()
