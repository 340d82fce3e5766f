"""OpenAI's chat completions, with what routers add: reasoning, and the provider's name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harness.scripted.dialects.base import Answer, Event, pieces

__all__ = ["error", "events", "whole"]

_CREATED = 1_767_225_600
_KINDS = {401: "invalid_request_error", 402: "insufficient_quota", 429: "rate_limit_exceeded"}


def whole(answer: Answer) -> dict[str, Any]:
    """The answer as a chat completion."""
    message: dict[str, Any] = {"role": "assistant", "content": answer.text or None}
    if answer.thinking:
        message["reasoning_content"] = answer.thinking
    if answer.calls:
        message["tool_calls"] = [_call(answer, number) for number in range(len(answer.calls))]
    choice = {"index": 0, "message": message, "finish_reason": _stop(answer)}
    return {**_head(answer, "chat.completion"), "choices": [choice], "usage": _usage(answer)}


def events(answer: Answer) -> Iterator[Event]:
    """The chunks of a stream; the last but one has the usage where it was asked for, and "[DONE]" is the end."""
    yield _chunk(answer, {"role": "assistant", "content": ""})
    for piece in pieces(answer.thinking):
        yield _chunk(answer, {"reasoning_content": piece})
    for piece in pieces(answer.text):
        yield _chunk(answer, {"content": piece})
    for number, call in enumerate(answer.calls):
        made = _call(answer, number)
        start = {**made, "index": number, "function": {"name": call.name, "arguments": ""}}
        yield _chunk(answer, {"tool_calls": [start]})
        for piece in pieces(call.text):
            yield _chunk(answer, {"tool_calls": [{"index": number, "function": {"arguments": piece}}]})
    yield _chunk(answer, {}, _stop(answer))
    if answer.usage_in_stream:
        yield "", {**_head(answer, "chat.completion.chunk"), "choices": [], "usage": _usage(answer)}
    yield "", "[DONE]"


def error(status: int, message: str) -> dict[str, Any]:
    """An error as the API words it."""
    kind = _KINDS.get(status, "invalid_request_error" if status < 500 else "server_error")
    return {"error": {"message": message, "type": kind, "param": None, "code": kind}}


def _head(answer: Answer, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{answer.number:08d}", "object": kind, "created": _CREATED, "model": answer.model,
        **answer.named,
    }  # fmt: skip


def _chunk(answer: Answer, delta: dict[str, Any], stop: str | None = None) -> Event:
    choice = {"index": 0, "delta": delta, "finish_reason": stop}
    return "", {**_head(answer, "chat.completion.chunk"), "choices": [choice]}


def _stop(answer: Answer) -> str:
    return "tool_calls" if answer.calls else "stop"


def _call(answer: Answer, number: int) -> dict[str, Any]:
    call = answer.calls[number]
    return {
        "id": answer.ids[number],
        "type": "function",
        "function": {"name": call.name, "arguments": call.text},
    }


def _usage(answer: Answer) -> dict[str, Any]:
    usage = answer.usage
    details: dict[str, int] = {"cached_tokens": usage.cache_read_tokens}
    if usage.cache_write_tokens:
        details["cache_write_tokens"] = usage.cache_write_tokens
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.prompt_tokens + usage.output_tokens,
        "prompt_tokens_details": details,
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }
