"""Anthropic's messages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from harness.scripted.dialects.base import Answer, Event, pieces

__all__ = ["error", "events", "whole"]

_KINDS = {
    400: "invalid_request_error", 401: "authentication_error", 402: "billing_error", 404: "not_found_error",
    429: "rate_limit_error", 503: "overloaded_error",
}  # fmt: skip


def whole(answer: Answer) -> dict[str, Any]:
    """The answer as a message."""
    return {
        **_message(answer),
        "content": [_block(answer, number) for number in range(_count(answer))],
        "stop_reason": _stop(answer),
        "usage": _usage(answer),
    }


def events(answer: Answer) -> Iterator[Event]:
    """The events of a stream, from message_start to message_stop: thinking, then text, then a block for each call."""
    begun = {**_usage(answer), "output_tokens": 1}
    yield (
        "message_start",
        {
            "type": "message_start",
            "message": {**_message(answer), "content": [], "stop_reason": None, "usage": begun},
        },
    )
    yield "ping", {"type": "ping"}
    for index in range(_count(answer)):
        block = _block(answer, index)
        empty: dict[str, dict[str, Any]] = {
            "thinking": {"thinking": "", "signature": ""},
            "text": {"text": ""},
            "tool_use": {"input": {}},
        }
        start = {**block, **empty[block["type"]]}
        yield "content_block_start", {"type": "content_block_start", "index": index, "content_block": start}
        for delta in _deltas(block):
            yield "content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}
        yield "content_block_stop", {"type": "content_block_stop", "index": index}
    yield (
        "message_delta",
        {
            "type": "message_delta",
            "delta": {"stop_reason": _stop(answer), "stop_sequence": None},
            "usage": _usage(answer),
        },
    )
    yield "message_stop", {"type": "message_stop"}


def error(status: int, message: str) -> dict[str, Any]:
    """An error as the API words it."""
    return {"type": "error", "error": {"type": _KINDS.get(status, "api_error"), "message": message}}


def _message(answer: Answer) -> dict[str, Any]:
    return {
        "id": f"msg_{answer.number:08d}", "type": "message", "role": "assistant", "model": answer.model,
        "stop_sequence": None, **answer.named,
    }  # fmt: skip


def _stop(answer: Answer) -> str:
    return "tool_use" if answer.calls else "end_turn"


def _usage(answer: Answer) -> dict[str, int]:
    return {
        "input_tokens": answer.usage.input_tokens,
        "cache_creation_input_tokens": answer.usage.cache_write_tokens,
        "cache_read_input_tokens": answer.usage.cache_read_tokens,
        "output_tokens": answer.usage.output_tokens,
    }


def _count(answer: Answer) -> int:
    return bool(answer.thinking) + bool(answer.text) + len(answer.calls)


def _block(answer: Answer, number: int) -> dict[str, Any]:
    blocks: list[dict[str, Any]] = []
    if answer.thinking:
        blocks.append({"type": "thinking", "thinking": answer.thinking, "signature": "c2NyaXB0ZWQ="})
    if answer.text:
        blocks.append({"type": "text", "text": answer.text})
    for name, call in zip(answer.ids, answer.calls, strict=True):
        blocks.append({"type": "tool_use", "id": f"toolu_{name}", "name": call.name, "input": json.loads(call.text)})
    return blocks[number]


def _deltas(block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if block["type"] == "thinking":
        for piece in pieces(block["thinking"]):
            yield {"type": "thinking_delta", "thinking": piece}
        yield {"type": "signature_delta", "signature": block["signature"]}
    elif block["type"] == "text":
        for piece in pieces(block["text"]):
            yield {"type": "text_delta", "text": piece}
    else:
        yield {"type": "input_json_delta", "partial_json": ""}
        for piece in pieces(json.dumps(block["input"], ensure_ascii=False)):
            yield {"type": "input_json_delta", "partial_json": piece}
