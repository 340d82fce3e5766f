"""Makes the trajectory out of the proxy's record: what each call adds to the conversation, whichever CLI makes it.

CLIs send the whole conversation each time, reword it, cut it down, and ask side questions (titles, summaries, helpers
of their own). So nothing rests on order: a piece is new when it has not been told as often as the request holds it.
Tool results belong to the step of their call. What side calls hold is told beside the conversation.
"""

from __future__ import annotations

import json
import re
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import takewhile
from typing import Literal

from harness.record.events import EventData, Message, ModelCalled, Note, ToolCall, ToolResult
from harness.record.exchange import Exchange, Item, ModelCall

__all__ = ["Conversation"]

MAX_TEXT = 256 << 10  # characters of a text or a tool's output
MAX_ARGUMENTS = 1 << 20
MAX_SAID = 32 << 20  # characters of the model's own texts that are remembered
_SYSTEM_CHANGE = 500  # characters of new lines that make a system prompt another one
_HELPER = re.compile(r"\b(?:title|topic|summar(?:y|ies|i[sz]e)|classif(?:y|ier)|compact)", re.IGNORECASE)
_SPACE = re.compile(r"\s+")
Told = tuple[int, EventData]


@dataclass(slots=True)
class _Thread:
    """What was told of one conversation. Keys are hashes. `calls` has the step and name of each tool call, in order."""

    told: Counter[bytes] = field(default_factory=Counter)
    calls: dict[bytes, list[tuple[int, str]]] = field(default_factory=dict)
    by_id: dict[str, tuple[int, str]] = field(default_factory=dict)
    answered: dict[tuple[int, str], bytes] = field(default_factory=dict)
    system: set[bytes] = field(default_factory=set)
    said: deque[str] = field(default_factory=deque)
    said_size: int = 0

    def says(self, text: str) -> None:
        """Remembers text that the model said, without its spaces."""
        plain = _plain(text)
        self.said.append(plain)
        self.said_size += len(plain)
        while self.said_size > MAX_SAID:
            self.said_size -= len(self.said.popleft())

    def has_said(self, text: str) -> bool:
        """Whether the model said this, alone or within something longer, or over several pieces."""
        plain = _plain(text)
        return not plain or any(plain in one for one in self.said) or plain in "".join(self.said)


class Conversation:
    """The conversation of one run. `model` is the run's: a call for another was for a helper."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._main, self._side = _Thread(), _Thread()
        self._tools: frozenset[str] | None = None
        self._roots: set[bytes] = set()
        self._length = 0

    def add(self, call: ModelCall, exchange: Exchange) -> list[Told]:
        """What a call adds, as (step, event); the last one is its ModelCalled. Give calls in the order they ended."""
        side = self._is_side(call, exchange)
        thread = self._side if side else self._main
        told: list[Told] = []
        if exchange.input or exchange.system:
            if not side:
                told += self._rewritten(call, exchange)
            told += _system(thread, call.number, exchange.system)
            told += _asked(thread, call.number, exchange.input)
        told += _answered(thread, call.number, exchange.output)
        ended = ModelCalled(
            call.status, call.model, call.provider, call.usage, call.seconds, call.stop, call.detail, side
        )
        return [*told, (call.number, ended)]

    # --- which conversation ------------------------------------------------------------------------------

    def _is_side(self, call: ModelCall, exchange: Exchange) -> bool:
        """Whether a call does not go on with the conversation.

        It does where it begins as the conversation does, holds one of its tool calls, or has its tools and its system
        prompt, as after a summary. The conversation is the first that offers tools; before, what does not look like a
        helper.
        """
        if call.path.endswith((":countTokens", "/count_tokens")):
            return True
        root = _root(exchange.input)
        tools = frozenset(exchange.tools)
        if not exchange.input and not exchange.system:
            return False  # it was refused unread
        if self._tools is None and not tools:
            helper = exchange.asked_model not in ("", self._model) or _HELPER.search(exchange.system[:400])
            if helper and root not in self._roots:
                return True
            self._roots.add(root)
            return False
        if self._tools is None:
            self._tools, self._roots = tools, {root}
        goes_on = root in self._roots or self._goes_on(exchange.input)
        if tools and (goes_on or (tools == self._tools and self._same_system(exchange.system))):
            self._roots.add(root)
            self._tools = tools
            return False
        return True

    def _goes_on(self, items: Iterable[Item]) -> bool:
        return any(item.kind == "tool_call" and _key(item) in self._main.calls for item in items)

    def _same_system(self, system: str) -> bool:
        """Whether most of a system prompt is the conversation's."""
        lines = [line.strip() for line in system.splitlines()]
        known = sum(len(line) for line in lines if _hash(line) in self._main.system)
        return 2 * known >= sum(map(len, lines))

    def _rewritten(self, call: ModelCall, exchange: Exchange) -> list[Told]:
        """A note where the conversation became shorter than it was."""
        length, before = len(exchange.input), self._length
        self._length = length
        if length >= before or call.status in ("refused", "limited"):
            return []
        return [(call.number, Note(f"the CLI sent {length} pieces of the conversation where it had sent {before}"))]


# --- what is new ---------------------------------------------------------------------------------------------


def _system(thread: _Thread, step: int, text: str) -> list[Told]:
    """The system prompt, where it is another than was told; CLIs put times and counters into theirs."""
    lines = [line.strip() for line in text.splitlines()]
    new = [line for line in lines if line and _hash(line) not in thread.system]
    first = not thread.system
    thread.system.update(_hash(line) for line in new)
    if not new or (not first and sum(map(len, new)) < _SYSTEM_CHANGE):
        return []
    return [(step, Message("system", _bounded(text, MAX_TEXT)))]


def _asked(thread: _Thread, step: int, items: Iterable[Item]) -> list[Told]:
    """What a request holds that was not told yet."""
    found: list[Told] = []
    seen: Counter[bytes] = Counter()
    places: Counter[bytes] = Counter()
    open_ids: dict[str, tuple[int, str]] = {}
    open_names: dict[str, deque[tuple[int, str]]] = {}
    replaced = forged = 0
    for item in items:
        key = _key(item)
        if item.kind == "tool_call":
            place = _place(thread, item, key, places)
            if place is None:
                forged += 1
                place = _remember(thread, step, item, key)
                found.append((step, _tool_call(item, place[1])))
            places[key] += 1
            if item.call_id:
                open_ids[item.call_id] = place
            open_names.setdefault(item.name, deque()).append(place)
        elif item.kind == "tool_result":
            place = _owner(thread, item, open_ids, open_names) or (step, item.call_id)
            if place not in thread.answered:
                thread.answered[place] = _hash(item.text)
                output = ToolResult(place[1], _bounded(item.text, MAX_TEXT), item.is_error)
                found.append((place[0], output))
            elif thread.answered[place] != _hash(item.text):
                thread.answered[place] = _hash(item.text)
                replaced += 1
        else:
            seen[key] += 1
            if seen[key] > thread.told[key]:
                thread.told[key] = seen[key]
                new, is_forged = _piece(thread, step, item)
                found += new
                forged += is_forged
    if replaced:
        found.append((step, Note(f"the CLI sent {replaced} tool results with another text than before")))
    if forged:
        found.append((step, Note(f"{forged} pieces of this request are in the model's name, and no answer had them")))
    return found


def _piece(thread: _Thread, step: int, item: Item) -> tuple[list[Told], bool]:
    """Text or something unknown of a request; also whether it is in the model's name and was never said."""
    if item.kind == "other":
        return [(step, Note(f"a piece of the conversation is of no kind that is read: {item.text[:300]}"))], False
    if item.role == "assistant":
        if item.kind == "thinking" or thread.has_said(item.text):
            return [], False
        thread.says(item.text)
        return [(step, Message("assistant", _bounded(item.text, MAX_TEXT)))], True
    role: Literal["system", "user"] = "system" if item.role == "system" else "user"
    return [(step, Message(role, _bounded(item.text, MAX_TEXT)))] if item.text.strip() else [], False


def _answered(thread: _Thread, step: int, items: Iterable[Item]) -> list[Told]:
    """What an answer says."""
    found: list[Told] = []
    for item in items:
        if item.kind == "tool_call":
            place = _remember(thread, step, item, _key(item))
            found.append((step, _tool_call(item, place[1])))
        elif item.kind in ("text", "thinking"):
            thread.says(item.text)
            found.append((step, Message("assistant", _bounded(item.text, MAX_TEXT), item.kind == "thinking")))
        else:
            thread.told[_key(item)] += 1
            found.append((step, Note(f"a piece of the answer is of no kind that is read: {item.text[:300]}")))
    return found


# --- tool calls ----------------------------------------------------------------------------------------------


def _remember(thread: _Thread, step: int, item: Item, key: bytes) -> tuple[int, str]:
    """The place of a new tool call: its step, and an identity, which is made up where the dialect has none."""
    listed = thread.calls.setdefault(key, [])
    place = (step, item.call_id or f"{step}.{sum(map(len, thread.calls.values())) + 1}")
    listed.append(place)
    if item.call_id:
        thread.by_id[item.call_id] = place
    return place


def _place(thread: _Thread, item: Item, key: bytes, places: Counter[bytes]) -> tuple[int, str] | None:
    """The place of a tool call that a request repeats; that of its identity where the CLI changed its arguments."""
    listed = thread.calls.get(key, ())
    if places[key] < len(listed):
        return listed[places[key]]
    return thread.by_id.get(item.call_id) if item.call_id else None


def _owner(
    thread: _Thread,
    item: Item,
    open_ids: dict[str, tuple[int, str]],
    open_names: dict[str, deque[tuple[int, str]]],
) -> tuple[int, str] | None:
    """The call that a result answers: by its identity, else the first of its name that waits for one."""
    if item.call_id:
        return open_ids.get(item.call_id) or thread.by_id.get(item.call_id)
    waiting = open_names.get(item.name)
    return waiting.popleft() if waiting else None


def _tool_call(item: Item, call_id: str) -> ToolCall:
    return ToolCall(call_id, item.name, _bounded(item.arguments, MAX_ARGUMENTS))


# --- keys ----------------------------------------------------------------------------------------------------


def _root(items: Iterable[Item]) -> bytes:
    """What a conversation begins with: the user's texts before the model's first word."""
    begin = takewhile(lambda item: item.role not in ("assistant", "tool"), items)
    return _hash("\0".join(_plain(item.text) for item in begin if item.kind == "text" and item.role == "user"))


def _key(item: Item) -> bytes:
    if item.kind == "tool_call":
        return _hash("\0".join((item.kind, item.call_id, item.name, _normal(item.arguments))))
    return _hash("\0".join((item.kind, item.role, _plain(item.text))))


def _normal(arguments: str) -> str:
    """Arguments as JSON in one spelling: CLIs write them anew."""
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments.strip() or "{}"


def _plain(text: str) -> str:
    return _SPACE.sub("", text)


def _hash(text: str) -> bytes:
    return sha256(text.encode("utf-8", "replace")).digest()[:16]


def _bounded(text: str, most: int) -> str:
    """The text, or its beginning and end with a line that says how much is left out."""
    if len(text) <= most:
        return text
    half = (most - 100) // 2
    return f"{text[:half]}\n... {len(text) - 2 * half:,} characters are left out ...\n{text[-half:]}"
