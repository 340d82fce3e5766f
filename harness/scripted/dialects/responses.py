"""OpenAI's responses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harness.scripted.dialects.base import Answer, Event, pieces
from harness.scripted.dialects.chat import error

__all__ = ["error", "events", "whole"]

_CREATED = 1_767_225_600


def whole(answer: Answer) -> dict[str, Any]:
    """The answer as a response that is completed."""
    return {**_head(answer, "completed"), "output": _items(answer), "usage": _usage(answer)}


def events(answer: Answer) -> Iterator[Event]:
    """The events of a stream, numbered, from response.created to response.completed."""
    for number, (kind, data) in enumerate(_unnumbered(answer)):
        yield kind, {"type": kind, "sequence_number": number, **data}


def _unnumbered(answer: Answer) -> Iterator[tuple[str, dict[str, Any]]]:
    begun = {**_head(answer, "in_progress"), "output": [], "usage": None}
    yield "response.created", {"response": begun}
    yield "response.in_progress", {"response": begun}
    for index, item in enumerate(_items(answer)):
        yield "response.output_item.added", {"output_index": index, "item": _begun(item)}
        at = {"item_id": item["id"], "output_index": index}
        if item["type"] == "reasoning":
            yield from _summary(at, item["summary"][0])
        elif item["type"] == "message":
            yield from _message(at, item["content"][0])
        else:
            name, field = (
                ("custom_tool_call_input", "input")
                if item["type"] == "custom_tool_call"
                else ("function_call_arguments", "arguments")
            )
            for piece in pieces(item[field]):
                yield f"response.{name}.delta", {**at, "delta": piece}
            yield f"response.{name}.done", {**at, field: item[field]}
        yield "response.output_item.done", {"output_index": index, "item": item}
    yield "response.completed", {"response": whole(answer)}


def _summary(at: dict[str, Any], part: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    at = {**at, "summary_index": 0}
    yield "response.reasoning_summary_part.added", {**at, "part": {**part, "text": ""}}
    for piece in pieces(part["text"]):
        yield "response.reasoning_summary_text.delta", {**at, "delta": piece}
    yield "response.reasoning_summary_text.done", {**at, "text": part["text"]}
    yield "response.reasoning_summary_part.done", {**at, "part": part}


def _message(at: dict[str, Any], part: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    at = {**at, "content_index": 0}
    yield "response.content_part.added", {**at, "part": {**part, "text": ""}}
    for piece in pieces(part["text"]):
        yield "response.output_text.delta", {**at, "delta": piece}
    yield "response.output_text.done", {**at, "text": part["text"]}
    yield "response.content_part.done", {**at, "part": part}


def _begun(item: dict[str, Any]) -> dict[str, Any]:
    empty = {"summary": [], "content": [], "arguments": "", "input": ""}
    state = {"status": "in_progress"} if "status" in item else {}
    return {**item, **{key: value for key, value in empty.items() if key in item}, **state}


def _items(answer: Answer) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if answer.thinking:
        part = {"type": "summary_text", "text": answer.thinking}
        items.append({"id": f"rs_{answer.number:08d}", "type": "reasoning", "summary": [part]})
    if answer.text:
        words = {"type": "output_text", "text": answer.text, "annotations": []}
        items.append({
            "id": f"msg_{answer.number:08d}", "type": "message", "status": "completed", "role": "assistant",
            "content": [words],
        })  # fmt: skip
    for number, (name, call) in enumerate(zip(answer.ids, answer.calls, strict=True)):
        kind, field = ("custom_tool_call", "input") if call.freeform else ("function_call", "arguments")
        items.append({
            "id": f"fc_{answer.number:08d}_{number}", "type": kind, "status": "completed", "call_id": name,
            "name": call.name, field: call.text,
        })  # fmt: skip
    return items


def _head(answer: Answer, status: str) -> dict[str, Any]:
    return {
        "id": f"resp_{answer.number:08d}", "object": "response", "created_at": _CREATED, "status": status,
        "model": answer.model, "error": None, "incomplete_details": None, "parallel_tool_calls": True, **answer.named,
    }  # fmt: skip


def _usage(answer: Answer) -> dict[str, Any]:
    usage = answer.usage
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cache_read_tokens},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.prompt_tokens + usage.output_tokens,
    }
