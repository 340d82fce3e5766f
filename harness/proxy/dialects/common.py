"""What dialects share: reading JSON of any shape without failing, server-sent events, and answers as they grow."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from harness.record.exchange import Dialect, Item, ItemKind
from harness.record.usage import Usage

__all__ = [
    "Answer", "ApiError", "Asked", "Events", "JsonError", "Language", "as_dict", "as_json", "as_list", "as_text",
    "count", "other", "parse_json", "unescaped",
]  # fmt: skip

MAX_PARTS = 2_000_000  # brackets and commas of a body: a value takes up to 64 times the bytes of its text
MAX_DEPTH = 150
MAX_EVENT_BYTES = 16 << 20
MAX_OUTPUT = 8 << 20  # characters of an answer that are kept decoded
MAX_PIECES = 20_000
_LIMIT = 1 << 53


class JsonError(Exception):
    """Bytes are no JSON that is taken; the text is one sentence."""


Role = Literal["system", "user", "assistant", "tool"]


def parse_json(data: bytes) -> Any:
    """The value of a JSON text. Raises JsonError, also for one that would take far more memory than its bytes."""
    if data.count(b"[") + data.count(b"{") + data.count(b",") > MAX_PARTS:
        raise JsonError(f"the body has over {MAX_PARTS} parts")
    try:
        value = json.loads(data, parse_float=_number, parse_constant=_number)
    except (ValueError, RecursionError):
        raise JsonError("the body is not JSON") from None
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for outer in level
            if isinstance(outer, list | dict)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return value
    raise JsonError(f"the body has over {MAX_DEPTH} levels")


def _number(text: str) -> float:
    """A number that can be written again. Raises ValueError for infinity and what is none."""
    found = float(text)
    if not math.isfinite(found):
        raise ValueError(text)
    return found


def as_dict(value: object) -> dict[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def as_text(value: object) -> str:
    """The value if it is text, else ""."""
    return value if isinstance(value, str) else ""


def count(value: object) -> int:
    """The value if it is a number of tokens, else 0."""
    return value if type(value) is int and 0 <= value < _LIMIT else 0


def as_json(value: object) -> str:
    """JSON text of a value that came from JSON; text is taken as it is."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (ValueError, TypeError, RecursionError):
        return ""


def unescaped(value: object) -> bytes:
    """A value as compact JSON in UTF-8. Raises JsonError for what JSON has no form of (infinity)."""
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        try:
            return text.encode("utf-8")
        except UnicodeEncodeError:  # half a surrogate pair, which only an escape can hold
            return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")
    except (ValueError, RecursionError):
        raise JsonError("the body holds a number that JSON has no form of, or is too deep") from None


def other(value: object, role: Role) -> Item:
    """What this version does not know, as a short description: its type, and how long it is."""
    kind = as_text(as_dict(value).get("type")) or ", ".join(list(as_dict(value))[:4]) or type(value).__name__
    return Item("other", role, f"{kind[:200]} ({len(as_json(value))} characters)")


@dataclass(frozen=True, slots=True)
class Asked:
    """What a path asks for. `model` is "" and `stream` None where the body says it. `action` is Gemini's,
    `beta` a flag in Anthropic's query.
    """

    what: Literal["answer", "count"]
    model: str = ""
    stream: bool | None = None
    action: str = ""
    beta: bool = False


@dataclass(frozen=True, slots=True)
class ApiError:
    """An error as an answer states it, in its own words; `code` is a word or a number as text."""

    code: str
    message: str

    @classmethod
    def read(cls, value: object) -> ApiError | None:
        """The error in a body such as {"error": {...}}, or None."""
        found = as_dict(value).get("error")
        if isinstance(found, str):
            return cls("", found[:2000])
        if not isinstance(found, dict):
            return None
        words = (found.get(name) for name in ("type", "code", "status"))
        code = " ".join(str(word)[:200] for word in words if isinstance(word, str | int))
        return cls(code, as_text(found.get("message"))[:2000])


class Language(Protocol):
    """One dialect. Nothing here raises, whatever it is given."""

    name: Dialect
    version: str  # the path segment between an upstream's base URL and what is asked
    key_header: str
    conversation: str  # the key of a request that holds the list of its messages
    apart: tuple[str, ...]  # other keys whose values are large and come back in each request

    def asked(self, path: str) -> Asked | None:
        """What a request to `path` (without its query) asks for, or None."""

    def target(self, asked: Asked, model: str, stream: bool) -> str:
        """Path and query below the version segment of an upstream."""

    def message(self, message: object) -> tuple[Item, ...]:
        """One element of the conversation."""

    def system(self, body: Mapping[str, Any]) -> str:
        """The system prompt of a request: what it says before the conversation."""

    def tools(self, body: Mapping[str, Any]) -> tuple[str, ...]:
        """Names of the tools that are offered."""

    def answer(self) -> Answer:
        """An answer of which nothing came yet."""

    def error(self, status: int, message: str) -> dict[str, Any]:
        """The body of an error as CLIs of this dialect read it."""


@dataclass(slots=True)
class _Piece:
    kind: ItemKind
    call_id: str = ""
    name: str = ""
    text: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    whole: tuple[Item, ...] | None = None


class Answer:
    """What an answer said so far. Dialects fill it from events (`event`) or from one whole body (`whole`).

    `complete`: its end was said. `error`: it is one, or became one. `blocked`: why the provider gave nothing. `cost`
    is what the provider says it costs, in US dollars.
    """

    def __init__(self) -> None:
        self.model = self.provider = self.stop = self.blocked = ""
        self.complete = False
        self.error: ApiError | None = None
        self.usage = Usage()
        self.cost: float | None = None
        self._pieces: dict[object, _Piece] = {}
        self._room = MAX_OUTPUT

    def event(self, name: str, data: object) -> None:
        """One event of a stream; `data` is its JSON, or the text where it is none."""
        raise NotImplementedError

    def whole(self, data: object) -> None:
        """A body that is not a stream."""
        raise NotImplementedError

    def output(self) -> tuple[Item, ...]:
        """What the model said, without pieces that are empty."""
        found: list[Item] = []
        for piece in self._pieces.values():
            if piece.whole is not None:
                found += piece.whole
            elif piece.kind == "tool_call":
                arguments = "".join(piece.arguments)
                found.append(Item("tool_call", "assistant", "", piece.call_id, piece.name, arguments))
            elif text := "".join(piece.text):
                found.append(Item(piece.kind, "assistant", text))
        return tuple(found)

    @property
    def said(self) -> bool:
        """Whether the answer holds anything at all."""
        return bool(self.output())

    # --- for dialects ------------------------------------------------------------------------------------

    def _piece(self, key: object, kind: ItemKind) -> _Piece:
        found = self._pieces.get(key)
        if found is None:
            found = _Piece(kind)
            if len(self._pieces) < MAX_PIECES:
                self._pieces[key] = found
        return found

    def _write(self, key: object, kind: ItemKind, text: object) -> None:
        if isinstance(text, str) and text:
            self._piece(key, kind).text.append(self._taken(text))

    def _call(self, key: object, *, call_id: object = None, name: object = None, arguments: object = None) -> None:
        piece = self._piece(key, "tool_call")
        piece.call_id = as_text(call_id) or piece.call_id
        piece.name = as_text(name) or piece.name
        if arguments:
            piece.arguments.append(self._taken(as_json(arguments)))

    def _settle(self, key: object, items: Iterable[Item]) -> None:
        """The whole of a piece, which replaces what came of it before."""
        piece = self._piece(key, "other")
        made = tuple(items)
        if sum(len(item.text) + len(item.arguments) for item in made) <= MAX_OUTPUT:
            piece.whole, piece.text, piece.arguments = made, [], []

    def _names(self, found: Mapping[str, Any], key: str = "model") -> None:
        """The model and the provider that a body names; another than before wins, for it must be seen."""
        self.model = as_text(found.get(key))[:300] or self.model
        self.provider = as_text(found.get("provider"))[:300] or self.provider

    def _costs(self, usage: Mapping[str, Any]) -> None:
        cost = usage.get("cost")
        if isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < 1e6:
            self.cost = float(cost)

    def _taken(self, text: str) -> str:
        text = text[: self._room]
        self._room -= len(text)
        return text


class Events:
    """Bytes of a stream of server-sent events, cut where they may be, as (name, data) of those that are whole."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._seen = 0
        self._name = ""
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[tuple[str, Any]]:
        """The events that are whole now. An event of over MAX_EVENT_BYTES is left out."""
        found: list[tuple[str, Any]] = []
        self._rest += chunk
        start = 0
        while (end := self._rest.find(b"\n", max(start, self._seen))) >= 0:
            line = bytes(self._rest[start:end]).rstrip(b"\r")
            start = end + 1
            self._seen = start
            if line:
                self._line(line)
            elif (event := self._done()) is not None:
                found.append(event)
        del self._rest[:start]
        self._seen = len(self._rest)
        if len(self._rest) > MAX_EVENT_BYTES:
            self._rest.clear()
            self._seen = 0
        return found

    def close(self) -> list[tuple[str, Any]]:
        """The last event, if it lacks only the empty line after it."""
        found = self.feed(b"\n") if self._rest else []
        event = self._done()
        return found if event is None else [*found, event]

    def _line(self, line: bytes) -> None:
        key, _, value = line.partition(b":")
        value = value[1:] if value.startswith(b" ") else value
        if key == b"event":
            self._name = value.decode("utf-8", "replace")[:100]
        elif key == b"data" and self._size + len(value) <= MAX_EVENT_BYTES:
            self._data.append(value)
            self._size += len(value)

    def _done(self) -> tuple[str, Any] | None:
        name, data = self._name, b"\n".join(self._data)
        self._name, self._data, self._size = "", [], 0
        if not data:
            return None
        try:
            return name, parse_json(data)
        except JsonError:
            return name, data.decode("utf-8", "replace")
