"""What a request asks for, in the form that a script needs, for each dialect.

A scripted model keeps no state: the turn is read off the conversation that the CLI sends. Calls of tools that we asked
for carry their turn in their id; where a CLI drops ids, answers with calls are counted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.record.exchange import Dialect

__all__ = ["Asked", "Tool", "asked", "call_id"]

_ID = re.compile(r"call_t(\d{1,4})n\d{1,4}")


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that the CLI offers. `schema` is its arguments' JSON schema; a `freeform` tool takes plain text."""

    name: str
    schema: Mapping[str, Any] = field(default_factory=dict)
    freeform: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """One request. `turn` counts from 0; `result` is the text of the last tool's result, "" before any.
    `usage_in_stream` says that a chat stream is to end with its usage.
    """

    dialect: Dialect
    model: str
    stream: bool
    tools: tuple[Tool, ...]
    turn: int
    result: str
    usage_in_stream: bool = False


@dataclass(frozen=True, slots=True)
class _Piece:
    """A piece of the conversation: who, and what of it matters."""

    calls: bool = False
    id: str = ""
    result: str | None = None


def call_id(turn: int, number: int) -> str:
    """The id of a turn's tool call."""
    return f"call_t{turn}n{number}"


def asked(dialect: Dialect, body: Mapping[str, Any], *, model: str = "", stream: bool | None = None) -> Asked:
    """Reads a request. `model` and `stream` are what the path says, for Gemini."""
    tools, pieces = _READERS[dialect]
    found = list(pieces(body))
    results = [piece.result for piece in found if piece.result is not None]
    return Asked(
        dialect,
        model or str(body.get("model", "")),
        body.get("stream") is True if stream is None else stream,
        tuple(tools(body)),
        _turn(found),
        results[-1] if results else "",
        _map(body.get("stream_options")).get("include_usage") is True,
    )


def _turn(pieces: Sequence[_Piece]) -> int:
    known = [int(match[1]) + 1 for piece in pieces if (match := _ID.search(piece.id))]
    if known:
        return max(known)
    starts = zip([_Piece(), *pieces], pieces, strict=False)
    return sum(1 for before, piece in starts if piece.calls and not before.calls)


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _maps(value: object) -> list[dict[str, Any]]:
    return [item for item in _list(value) if isinstance(item, dict)]


def _map(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _plain(value: object) -> str:
    """The text in a tool's result, whatever its form."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(_plain(item) for item in value)
    if isinstance(value, dict):
        return _plain(value["text"]) if "text" in value else json.dumps(value, ensure_ascii=False)
    return ""


# --- Anthropic messages --------------------------------------------------------------------------------------


def _anthropic_tools(body: Mapping[str, Any]) -> Iterator[Tool]:
    for tool in _maps(body.get("tools")):
        if "input_schema" in tool:  # what has none runs at the provider
            yield Tool(str(tool.get("name")), _map(tool["input_schema"]))


def _anthropic(body: Mapping[str, Any]) -> Iterator[_Piece]:
    for message in _maps(body.get("messages")):
        for block in _maps(message.get("content")):
            if block.get("type") == "tool_use":
                yield _Piece(calls=True, id=str(block.get("id")))
            elif block.get("type") == "tool_result":
                yield _Piece(result=_plain(block.get("content")))


# --- OpenAI chat completions ---------------------------------------------------------------------------------


def _chat_tools(body: Mapping[str, Any]) -> Iterator[Tool]:
    for tool in _maps(body.get("tools")):
        function = _map(tool.get("function"))
        if function:
            yield Tool(str(function.get("name")), _map(function.get("parameters")))


def _chat(body: Mapping[str, Any]) -> Iterator[_Piece]:
    for message in _maps(body.get("messages")):
        if message.get("role") == "tool":
            yield _Piece(result=_plain(message.get("content")))
        for call in _maps(message.get("tool_calls")):
            yield _Piece(calls=True, id=str(call.get("id")))


# --- OpenAI responses ----------------------------------------------------------------------------------------


def _responses_tools(body: Mapping[str, Any]) -> Iterator[Tool]:
    for tool in _maps(body.get("tools")):
        name, kind = str(tool.get("name") or tool.get("type")), tool.get("type")
        if kind == "function":
            yield Tool(name, _map(tool.get("parameters")))
        elif kind == "custom":
            yield Tool(name, freeform=True)


def _responses(body: Mapping[str, Any]) -> Iterator[_Piece]:
    for item in _maps(body.get("input")):
        kind = str(item.get("type"))
        if kind in ("function_call", "custom_tool_call", "local_shell_call"):
            yield _Piece(calls=True, id=str(item.get("call_id")))
        elif kind.endswith("_call_output"):
            yield _Piece(result=_plain(item.get("output")))


# --- Gemini --------------------------------------------------------------------------------------------------


def _gemini_tools(body: Mapping[str, Any]) -> Iterator[Tool]:
    for tool in _maps(body.get("tools")):
        for made in _maps(tool.get("functionDeclarations")):
            yield Tool(str(made.get("name")), _map(made.get("parametersJsonSchema") or made.get("parameters")))


def _gemini(body: Mapping[str, Any]) -> Iterator[_Piece]:
    for content in _maps(body.get("contents")):
        for part in _maps(content.get("parts")):
            if "functionCall" in part:
                yield _Piece(calls=True, id=str(_map(part["functionCall"]).get("id", "")))
            elif "functionResponse" in part:
                response = _map(_map(part["functionResponse"]).get("response"))
                yield _Piece(result=_plain(response.get("output", response)))


_READERS = {
    "anthropic-messages": (_anthropic_tools, _anthropic),
    "openai-chat": (_chat_tools, _chat),
    "openai-responses": (_responses_tools, _responses),
    "gemini": (_gemini_tools, _gemini),
}
