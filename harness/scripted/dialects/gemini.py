"""Gemini's generateContent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from harness.scripted.dialects.base import Answer, Event, pieces

__all__ = ["error", "events", "whole"]

_STATES = {
    400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 402: "FAILED_PRECONDITION", 404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE",
}  # fmt: skip


def whole(answer: Answer) -> dict[str, Any]:
    """The answer as one response with all of its parts."""
    return _answer(answer, [*_said(answer), *_calls(answer)], stop=True)


def events(answer: Answer) -> Iterator[Event]:
    """The responses of a stream, each with one part; the last says why it stopped, and the usage."""
    for thought, text in ((True, answer.thinking), (False, answer.text)):
        for piece in pieces(text):
            yield "", _answer(answer, [_text(piece, thought)])
    for part in _calls(answer):
        yield "", _answer(answer, [part])
    yield "", _answer(answer, [], stop=True)


def error(status: int, message: str) -> dict[str, Any]:
    """An error as the API words it."""
    return {"error": {"code": status, "message": message, "status": _STATES.get(status, "UNKNOWN")}}


def _text(text: str, thought: bool) -> dict[str, Any]:
    return {"text": text, "thought": True} if thought else {"text": text}


def _said(answer: Answer) -> Iterator[dict[str, Any]]:
    if answer.thinking:
        yield _text(answer.thinking, True)
    if answer.text:
        yield _text(answer.text, False)


def _calls(answer: Answer) -> Iterator[dict[str, Any]]:
    for name, call in zip(answer.ids, answer.calls, strict=True):
        made = {"id": name, "name": call.name, "args": json.loads(call.text)}
        yield {"functionCall": made, "thoughtSignature": "c2NyaXB0ZWQ="}


def _answer(answer: Answer, parts: list[dict[str, Any]], *, stop: bool = False) -> dict[str, Any]:
    """`parts` may be empty: so ends a stream whose last words have gone before."""
    usage = answer.usage
    candidate: dict[str, Any] = {"content": {"parts": parts or [{"text": ""}], "role": "model"}, "index": 0}
    counts: dict[str, Any] = {"promptTokenCount": usage.prompt_tokens, "totalTokenCount": usage.prompt_tokens}
    if stop:
        candidate["finishReason"] = "STOP"
        counts["candidatesTokenCount"] = usage.output_tokens - usage.reasoning_tokens
        counts["totalTokenCount"] += usage.output_tokens
        if usage.reasoning_tokens:
            counts["thoughtsTokenCount"] = usage.reasoning_tokens
    if usage.cache_read_tokens:
        counts["cachedContentTokenCount"] = usage.cache_read_tokens
    return {
        "candidates": [candidate], "usageMetadata": counts, "modelVersion": answer.model,
        "responseId": f"r{answer.number:08d}", **answer.named,
    }  # fmt: skip
