"""OpenAI responses: POST /v1/responses, with a stream of events that name the place in the output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.proxy.dialects.common import Answer, ApiError, Asked, as_dict, as_json, as_list, as_text, count, other
from harness.record.exchange import Dialect, Item
from harness.record.usage import Usage

__all__ = ["Responses", "openai_error"]

_CALLS = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "local_shell_call": "action",
    "shell_call": "action",
}
_ERRORS = {401: "invalid_api_key", 404: "not_found", 413: "request_too_large", 429: "rate_limit_exceeded"}


def openai_error(status: int, message: str) -> dict[str, Any]:
    """The body of an error as OpenAI words it."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": _ERRORS.get(status)}}


class Responses:
    """The dialect; see `harness.proxy.dialects.common.Language`."""

    name: Dialect = "openai-responses"
    version = "v1"
    key_header = "authorization"
    conversation = "input"
    apart: tuple[str, ...] = ("instructions", "tools")

    def asked(self, path: str) -> Asked | None:
        return Asked("answer") if path in ("/v1/responses", "/responses") else None

    def target(self, asked: Asked, model: str, stream: bool) -> str:
        return "/responses"

    def message(self, message: object) -> tuple[Item, ...]:
        if isinstance(message, str):
            return (Item("text", "user", message),)
        found = as_dict(message)
        kind = as_text(found.get("type")) or ("message" if "role" in found else "")
        if kind == "message":
            return _message(found)
        if kind in _CALLS:
            name = as_text(found.get("name")) or kind.removesuffix("_call")
            call_id = as_text(found.get("call_id")) or as_text(found.get("id"))
            return (Item("tool_call", "assistant", "", call_id, name, as_json(found.get(_CALLS[kind], ""))),)
        if kind.endswith("_call_output"):
            output = found.get("output")
            text = output if isinstance(output, str) else _parts(output)
            is_error = as_dict(output).get("success") is False
            return (Item("tool_result", "tool", text, as_text(found.get("call_id")), is_error=is_error),)
        if kind == "reasoning":
            parts = as_list(found.get("content")) + as_list(found.get("summary"))
            text = "\n".join(filter(None, (as_text(as_dict(part).get("text")) for part in parts)))
            return (Item("thinking", "assistant", text),) if text else ()
        return (other(message, "user"),)

    def system(self, body: Mapping[str, Any]) -> str:
        return as_text(body.get("instructions"))

    def tools(self, body: Mapping[str, Any]) -> tuple[str, ...]:
        tools = (as_dict(tool) for tool in as_list(body.get("tools")))
        return tuple((as_text(tool.get("name")) or as_text(tool.get("type")))[:200] for tool in tools)

    def answer(self) -> Answer:
        return _Answer(self)

    def error(self, status: int, message: str) -> dict[str, Any]:
        return openai_error(status, message)


def _message(found: Mapping[str, Any]) -> tuple[Item, ...]:
    role = found.get("role")
    content = found.get("content")
    parts = [{"type": "input_text", "text": content}] if isinstance(content, str) else as_list(content)
    items = []
    for part in parts:
        text = as_dict(part).get("text", as_dict(part).get("refusal"))
        if role == "assistant":
            items.append(Item("text", "assistant", text) if isinstance(text, str) else other(part, "assistant"))
        elif role in ("system", "developer"):
            items.append(Item("text", "system", text) if isinstance(text, str) else other(part, "system"))
        else:
            items.append(Item("text", "user", text) if isinstance(text, str) else other(part, "user"))
    return tuple(items)


def _parts(output: object) -> str:
    if isinstance(output, list):
        texts = (as_dict(part).get("text") for part in output)
        return "\n".join(
            text if isinstance(text, str) else f"[{other(part, 'tool').text}]"
            for text, part in zip(texts, output, strict=True)
        )
    content = as_dict(output).get("content")
    return content if isinstance(content, str) else as_json(output)


class _Answer(Answer):
    def __init__(self, language: Responses) -> None:
        super().__init__()
        self._language = language

    def event(self, name: str, data: object) -> None:
        found = as_dict(data)
        kind = as_text(found.get("type")) or name
        place = found.get("output_index")
        index = place if type(place) is int else -1
        if kind == "response.output_item.done":
            self._settle(index, self._language.message(found.get("item")))
        elif kind == "response.output_item.added":
            item = as_dict(found.get("item"))
            if item.get("type") in _CALLS:
                self._call(index, call_id=item.get("call_id"), name=item.get("name"))
        elif kind == "response.output_text.delta":
            self._write(index, "text", found.get("delta"))
        elif kind in ("response.reasoning_summary_text.delta", "response.reasoning_text.delta"):
            self._write(index, "thinking", found.get("delta"))
        elif kind in ("response.function_call_arguments.delta", "response.custom_tool_call_input.delta"):
            self._call(index, arguments=as_text(found.get("delta")))
        elif kind in ("response.created", "response.in_progress"):
            self._names(as_dict(found.get("response")))
        elif kind in ("response.completed", "response.incomplete", "response.failed"):
            self.whole(found.get("response"))
        elif kind == "error":
            self.error = ApiError.read(found) or ApiError(as_text(found.get("code")), as_text(found.get("message")))

    def whole(self, data: object) -> None:
        found = as_dict(data)
        self._names(found)
        self._used(as_dict(found.get("usage")))
        self.error = ApiError.read(found)
        status = as_text(found.get("status"))
        reason = as_text(as_dict(found.get("incomplete_details")).get("reason"))
        self.stop = (reason or status)[:100]
        if not self.said:
            for index, item in enumerate(as_list(found.get("output"))):
                self._settle(index, self._language.message(item))
        self.complete = status in ("completed", "incomplete") or (status == "" and "output" in found)

    def _used(self, found: Mapping[str, Any]) -> None:
        if not found:
            return
        self._costs(found)
        details = as_dict(found.get("input_tokens_details"))
        sent, cached = count(found.get("input_tokens")), count(details.get("cached_tokens"))
        written = count(details.get("cache_write_tokens"))
        reasoning = count(as_dict(found.get("output_tokens_details")).get("reasoning_tokens"))
        output = count(found.get("output_tokens"))
        self.usage = Usage(max(0, sent - cached - written), output, cached, written, min(reasoning, output))
