"""Bodies of calls in the archive, without secrets: requests piece by piece, since each repeats what went before.

A request is kept as an index, an object {"parts": [...]} whose parts are text or {"sha256": HASH} of another object;
joined they are the request's JSON. Each message of the conversation is an object of its own, as are the system prompt
and the tools. An index may begin as an earlier one does: {"after": HASH, "keep": N, "parts": [...]}. An answer is one
object: the bytes as they came, less secrets; or {"items": [...]}, what the model said, where there was a secret in it.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any

from grader.record.bundle.codec import CodecError, from_json, to_json
from harness.proxy.dialects import LANGUAGES
from harness.proxy.dialects.common import Answer, Events, JsonError, Language, as_dict, as_list, parse_json, unescaped
from harness.proxy.redaction import Redactor
from harness.record.archive import ArchiveError, RunFolder
from harness.record.exchange import Exchange, Item, ModelCall

__all__ = ["Bodies", "Sent", "decode_answer", "load_answer", "load_exchange", "load_request"]

MAX_KNOWN = 5000  # messages whose redacted form is remembered
MAX_REQUEST_BYTES = 128 << 20
MAX_AFTER = 32  # indexes that one index may rest on, one after another
LEAST_KEPT = 8  # parts that are worth it


class Sent:
    """A request as it is kept: the name of its object, and what it says."""

    __slots__ = ("items", "name", "system", "tools")

    def __init__(self, name: str, system: str, tools: tuple[str, ...], items: tuple[Item, ...]) -> None:
        self.name, self.system, self.tools, self.items = name, system, tools, items


class Bodies:
    """Keeps the bodies of one run's calls. For one thread at a time."""

    def __init__(self, folder: RunFolder, redactor: Redactor) -> None:
        self._folder, self._redactor = folder, redactor
        self._known: dict[bytes, tuple[str, Any]] = {}
        self._earlier: deque[tuple[str, list[Any], int]] = deque(maxlen=4)  # side calls come between

    def request(self, language: Language, body: Mapping[str, Any]) -> Sent:
        """Keeps a request. Raises OSError."""
        parts: list[Any] = []
        clean: dict[str, Any] = {}
        small = [[key, value] for key, value in body.items() if not self._is_apart(language, key, value)]
        rest = iter(self._redactor.json(small))
        for place, (key, value) in enumerate(body.items()):
            apart = self._is_apart(language, key, value)
            name, inner = (key, value) if apart else next(rest)
            _write(parts, ("," if place else "{") + json.dumps(name, ensure_ascii=False) + ":")
            if not apart:
                clean[name] = inner
                _write(parts, unescaped(inner).decode("utf-8", "replace"))
            elif key == language.conversation:
                clean[key] = self._messages(parts, value)
            else:
                clean[key] = self._apart(parts, value)
        _write(parts, "}" if body else "{}")
        return Sent(self._indexed(parts), language.system(clean), language.tools(clean), _conversation(language, clean))

    def raw(self, data: bytes) -> str:
        """Keeps a request that is no JSON object. Raises OSError."""
        return self._folder.put(_index([self._redactor.text(data.decode("utf-8", "replace"))]))

    def answer(self, data: bytes, answer: Answer | None) -> tuple[str, tuple[Item, ...]]:
        """Keeps an answer; returns its name ("" for one without a byte) and what it says. Raises OSError."""
        said = answer.output() if answer is not None else ()
        clean = self._items(said)
        if not data:
            return "", clean
        if clean != said:
            kept = {"items": [to_json(item, Item) for item in clean]}
            return self._folder.put(json.dumps(kept, ensure_ascii=False).encode("utf-8", "replace")), clean
        return self._folder.put(self._redactor.body(data)), clean

    # --- parts -------------------------------------------------------------------------------------------

    def _indexed(self, parts: list[Any]) -> str:
        """Keeps an index, resting on the earlier one that begins most like it."""
        keep, after, depth = 0, "", 0
        for name, earlier, its_depth in self._earlier:
            same = next((n for n, pair in enumerate(zip(parts, earlier, strict=False)) if pair[0] != pair[1]), None)
            same = min(len(parts), len(earlier)) if same is None else same
            if same > keep and its_depth < MAX_AFTER:
                keep, after, depth = same, name, its_depth + 1
        if keep < LEAST_KEPT:
            keep, after, depth = 0, "", 0
        made = self._folder.put(_index(parts[keep:], after, keep))
        self._earlier.append((made, parts, depth))
        return made

    @staticmethod
    def _is_apart(language: Language, key: str, value: object) -> bool:
        return (key == language.conversation and isinstance(value, list)) or (key in language.apart and bool(value))

    def _messages(self, parts: list[Any], messages: list[Any]) -> list[Any]:
        found = []
        _write(parts, "[")
        for place, message in enumerate(messages):
            if place:
                _write(parts, ",")
            found.append(self._apart(parts, message))
        _write(parts, "]")
        return found

    def _apart(self, parts: list[Any], value: object) -> Any:
        """Keeps a value as an object of its own; returns it without secrets."""
        data = unescaped(value)
        key = sha256(data).digest()
        known = self._known.get(key)
        if known is None:
            clean = self._redactor.json(value)
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            known = self._known[key] = (self._folder.put(unescaped(clean)), clean)
        parts.append({"sha256": known[0]})
        return known[1]

    def _items(self, items: tuple[Item, ...]) -> tuple[Item, ...]:
        leaves = [text for item in items for text in (item.text, item.name, item.call_id)]
        clean = iter(self._redactor.texts(leaves))
        return tuple(
            replace(
                item, text=next(clean), name=next(clean), call_id=next(clean), arguments=self._arguments(item.arguments)
            )
            for item in items
        )

    def _arguments(self, arguments: str) -> str:
        return str(self._redactor.json(arguments))


def _write(parts: list[Any], text: str) -> None:
    if parts and isinstance(parts[-1], str):
        parts[-1] += text
    else:
        parts.append(text)


def _index(parts: list[Any], after: str = "", keep: int = 0) -> bytes:
    found = {"after": after, "keep": keep, "parts": parts} if after else {"parts": parts}
    return json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _conversation(language: Language, body: Mapping[str, Any]) -> tuple[Item, ...]:
    """All items of a request; those of the system that stand first are its system prompt."""
    given = body.get(language.conversation)
    messages = [given] if isinstance(given, str) else as_list(given)
    items = [item for message in messages for item in language.message(message)]
    leading = 0
    if language.name == "openai-chat":
        while leading < len(items) and items[leading].role == "system":
            leading += 1
    return tuple(items[leading:])


# --- reading -------------------------------------------------------------------------------------------------


def load_request(folder: RunFolder, call: ModelCall) -> bytes:
    """The body of a request as the upstream got it, less secrets; b"" where there is none. Raises ArchiveError."""
    if not call.request:
        return b""
    found, size = [], 0
    for part in _parts(folder, call.request):
        name = as_dict(part).get("sha256")
        text = isinstance(part, str)
        data = part.encode("utf-8", "replace") if text else folder.get(name if isinstance(name, str) else "")
        size += len(data)
        if size > MAX_REQUEST_BYTES:
            raise ArchiveError(f"{folder.path}: the request of call {call.number} is longer than any that was taken")
        found.append(data)
    if not found:
        raise ArchiveError(f"{folder.path}: the request of call {call.number} has no index of its parts")
    return b"".join(found)


def _parts(folder: RunFolder, name: str) -> list[Any]:
    """All parts of an index; none where it is not one. Raises ArchiveError."""
    chain: list[dict[str, Any]] = []
    while name and len(chain) <= MAX_AFTER:
        try:
            chain.append(as_dict(parse_json(folder.get(name))))
        except JsonError:
            return []
        after = chain[-1].get("after")
        name = after if isinstance(after, str) else ""
    if name:
        return []
    found: list[Any] = []
    for index in reversed(chain):
        keep = index.get("keep", 0)
        if type(keep) is not int or not 0 <= keep <= len(found):
            return []
        found = found[:keep] + as_list(index.get("parts"))
    return found


def load_answer(folder: RunFolder, call: ModelCall) -> bytes:
    """The body of an answer, less secrets; b"" where there is none. Raises ArchiveError."""
    return folder.get(call.answer) if call.answer else b""


def load_exchange(folder: RunFolder, call: ModelCall) -> Exchange:
    """Reads a call's request and answer from its bodies. Raises ArchiveError."""
    language = LANGUAGES[call.dialect]
    exchange = Exchange(call.dialect, call.asked_model, call.model, call.provider, usage=call.usage, stop=call.stop)
    exchange = replace(exchange, complete=call.status == "ok")
    try:
        body = as_dict(parse_json(load_request(folder, call) or b"null"))
    except JsonError:
        body = {}
    if body:
        items = _conversation(language, body)
        exchange = replace(exchange, system=language.system(body), tools=language.tools(body), input=items)
    data = load_answer(folder, call)
    if not data or call.http_status != 200:
        return exchange
    return replace(exchange, output=_kept_items(data) or decode_answer(language, data).output())


def _kept_items(data: bytes) -> tuple[Item, ...]:
    if not data.startswith(b'{"items": ['):
        return ()
    try:
        return tuple(from_json(item, Item) for item in as_list(as_dict(parse_json(data)).get("items")))
    except (JsonError, CodecError):
        return ()


def decode_answer(language: Language, data: bytes) -> Answer:
    """The parsed answer from its whole body, a stream of events or not."""
    answer = language.answer()
    try:
        answer.whole(parse_json(data))
    except JsonError:
        events = Events()
        for name, event in (*events.feed(data), *events.close()):
            answer.event(name, event)
    return answer
