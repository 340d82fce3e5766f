"""Anthropic messages: POST /v1/messages, with a stream of named events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.proxy.dialects.common import Answer, ApiError, Asked, as_dict, as_json, as_list, as_text, count, other
from harness.record.exchange import Dialect, Item
from harness.record.usage import Usage

__all__ = ["Anthropic"]

_ERRORS = {
    400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
    413: "request_too_large", 429: "rate_limit_error", 529: "overloaded_error",
}  # fmt: skip


class Anthropic:
    """The dialect; see `harness.proxy.dialects.common.Language`."""

    name: Dialect = "anthropic-messages"
    version = "v1"
    key_header = "x-api-key"
    conversation = "messages"
    apart: tuple[str, ...] = ("system", "tools")

    def asked(self, path: str) -> Asked | None:
        if path == "/v1/messages":
            return Asked("answer")
        return Asked("count", stream=False) if path == "/v1/messages/count_tokens" else None

    def target(self, asked: Asked, model: str, stream: bool) -> str:
        return ("/messages" if asked.what == "answer" else "/messages/count_tokens") + "?beta=true" * asked.beta

    def message(self, message: object) -> tuple[Item, ...]:
        found = as_dict(message)
        content = found.get("content")
        blocks = as_list(content) if not isinstance(content, str) else [{"type": "text", "text": content}]
        assistant = found.get("role") == "assistant"
        return tuple(_block(block, assistant) for block in blocks)

    def system(self, body: Mapping[str, Any]) -> str:
        return _texts(body.get("system"))

    def tools(self, body: Mapping[str, Any]) -> tuple[str, ...]:
        return tuple(as_text(as_dict(tool).get("name"))[:200] for tool in as_list(body.get("tools")))

    def answer(self) -> Answer:
        return _Answer()

    def error(self, status: int, message: str) -> dict[str, Any]:
        return {"type": "error", "error": {"type": _ERRORS.get(status, "api_error"), "message": message}}


def _texts(value: object) -> str:
    """Text that is given as such or as a list of text blocks."""
    if isinstance(value, str):
        return value
    return "\n".join(as_text(as_dict(block).get("text")) for block in as_list(value))


def _block(block: object, assistant: bool) -> Item:
    found, role = as_dict(block), "assistant" if assistant else "user"
    kind = found.get("type")
    if kind == "text" and isinstance(found.get("text"), str):
        return Item("text", "assistant" if assistant else "user", found["text"])
    if kind == "thinking" and isinstance(found.get("thinking"), str):
        return Item("thinking", "assistant", found["thinking"])
    if kind == "tool_use":
        name, call_id = as_text(found.get("name")), as_text(found.get("id"))
        return Item("tool_call", "assistant", "", call_id, name, as_json(found.get("input", {})))
    if kind == "tool_result":
        content = found.get("content")
        text = content if isinstance(content, str) else "\n".join(map(_part, as_list(content)))
        is_error = found.get("is_error") is True
        return Item("tool_result", "tool", text, as_text(found.get("tool_use_id")), is_error=is_error)
    return other(block, "assistant" if role == "assistant" else "user")


def _part(part: object) -> str:
    text = as_dict(part).get("text")
    return text if isinstance(text, str) else f"[{other(part, 'tool').text}]"


class _Answer(Answer):
    def event(self, name: str, data: object) -> None:
        found = as_dict(data)
        kind = as_text(found.get("type")) or name
        if kind == "message_start":
            message = as_dict(found.get("message"))
            self._names(message)
            self._used(message.get("usage"))
        elif kind == "content_block_start":
            self._started(_index(found), found.get("content_block"))
        elif kind == "content_block_delta":
            self._grew(_index(found), as_dict(found.get("delta")))
        elif kind == "message_delta":
            self._used(found.get("usage"))
            self.stop = as_text(as_dict(found.get("delta")).get("stop_reason"))[:100] or self.stop
        elif kind == "message_stop":
            self.complete = True
        elif kind == "error":
            self.error = ApiError.read(found) or ApiError("", as_json(data)[:2000])

    def whole(self, data: object) -> None:
        found = as_dict(data)
        self.error = ApiError.read(found)
        if found.get("type") != "message":
            self.complete = "input_tokens" in found  # the answer to count_tokens
            return
        self._names(found)
        self._used(found.get("usage"))
        self.stop = as_text(found.get("stop_reason"))[:100]
        self._settle(0, [_block(block, True) for block in as_list(found.get("content"))])
        self.complete = True

    def _started(self, index: object, block: object) -> None:
        found = as_dict(block)
        kind = found.get("type")
        if kind == "text":
            self._write(index, "text", found.get("text"))
        elif kind == "thinking":
            self._write(index, "thinking", found.get("thinking"))
        elif kind == "tool_use":
            self._call(index, call_id=found.get("id"), name=found.get("name"), arguments=found.get("input"))
        elif found:
            self._settle(index, [other(found, "assistant")])

    def _grew(self, index: object, delta: Mapping[str, Any]) -> None:
        kind = delta.get("type")
        if kind == "text_delta":
            self._write(index, "text", delta.get("text"))
        elif kind == "thinking_delta":
            self._write(index, "thinking", delta.get("thinking"))
        elif kind == "input_json_delta":
            self._call(index, arguments=as_text(delta.get("partial_json")))

    def _used(self, value: object) -> None:
        """Counts are sums so far; one that is missing stays as it was."""
        found, old = as_dict(value), self.usage
        self._costs(found)
        self.usage = Usage(
            count(found.get("input_tokens")) or old.input_tokens,
            count(found.get("output_tokens")) or old.output_tokens,
            count(found.get("cache_read_input_tokens")) or old.cache_read_tokens,
            count(found.get("cache_creation_input_tokens")) or old.cache_write_tokens,
        )


def _index(found: Mapping[str, Any]) -> object:
    index = found.get("index")
    return index if type(index) is int else -1
