"""OpenAI chat completions: POST /v1/chat/completions, with a stream of nameless chunks that ends in [DONE]."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.proxy.dialects.common import (
    Answer,
    ApiError,
    Asked,
    Role,
    as_dict,
    as_json,
    as_list,
    as_text,
    count,
    other,
)
from harness.proxy.dialects.responses import openai_error
from harness.record.exchange import Dialect, Item
from harness.record.usage import Usage

__all__ = ["Chat"]


class Chat:
    """The dialect; see `harness.proxy.dialects.common.Language`."""

    name: Dialect = "openai-chat"
    version = "v1"
    key_header = "authorization"
    conversation = "messages"
    apart: tuple[str, ...] = ("tools",)

    def asked(self, path: str) -> Asked | None:
        return Asked("answer") if path in ("/v1/chat/completions", "/chat/completions") else None

    def target(self, asked: Asked, model: str, stream: bool) -> str:
        return "/chat/completions"

    def message(self, message: object) -> tuple[Item, ...]:
        found = as_dict(message)
        role = found.get("role")
        if role in ("tool", "function"):
            text = "\n".join(item.text for item in _content(found, "tool"))
            call_id, name = as_text(found.get("tool_call_id")), as_text(found.get("name"))
            return (Item("tool_result", "tool", text, call_id, name),)
        if role == "assistant":
            return _assistant(found)
        if role in ("system", "developer"):
            return _content(found, "system")
        return _content(found, "user") if role == "user" else (other(message, "user"),)

    def system(self, body: Mapping[str, Any]) -> str:
        """The messages of the system that stand first."""
        texts = []
        for message in as_list(body.get("messages")):
            if as_dict(message).get("role") not in ("system", "developer"):
                break
            texts += [item.text for item in self.message(message)]
        return "\n".join(texts)

    def tools(self, body: Mapping[str, Any]) -> tuple[str, ...]:
        tools = (as_dict(tool) for tool in as_list(body.get("tools")))
        return tuple(
            as_text(as_dict(tool.get(as_text(tool.get("type")) or "function")).get("name"))[:200] for tool in tools
        )

    def answer(self) -> Answer:
        return _Answer()

    def error(self, status: int, message: str) -> dict[str, Any]:
        return openai_error(status, message)


def _content(found: Mapping[str, Any], role: Role) -> tuple[Item, ...]:
    content = found.get("content")
    if isinstance(content, str):
        return (Item("text", role, content),) if content or role == "tool" else ()
    texts = ((part, as_dict(part).get("text", as_dict(part).get("refusal"))) for part in as_list(content))
    return tuple(Item("text", role, text) if isinstance(text, str) else other(part, role) for part, text in texts)


def _thinking(found: Mapping[str, Any]) -> str:
    """The model's thinking, for which providers have two names."""
    return as_text(found.get("reasoning_content")) or as_text(found.get("reasoning"))


def _assistant(found: Mapping[str, Any]) -> tuple[Item, ...]:
    thinking = _thinking(found)
    items = [Item("thinking", "assistant", thinking)] if thinking else []
    items += _content(found, "assistant")
    for call in as_list(found.get("tool_calls")):
        what = as_dict(as_dict(call).get("function")) or as_dict(as_dict(call).get("custom"))
        arguments = as_json(what.get("arguments", what.get("input", "")))
        call_id = as_text(as_dict(call).get("id"))
        items.append(Item("tool_call", "assistant", "", call_id, as_text(what.get("name")), arguments))
    return tuple(items)


class _Answer(Answer):
    def event(self, name: str, data: object) -> None:
        if data == "[DONE]":
            self.complete = True
            return
        found = as_dict(data)
        self._heads(found)
        for choice in map(as_dict, as_list(found.get("choices"))):
            index, delta = str(choice.get("index")), as_dict(choice.get("delta"))
            self._write((index, "thinking"), "thinking", _thinking(delta))
            self._write((index, "text"), "text", delta.get("content") or delta.get("refusal"))
            for place, call in enumerate(map(as_dict, as_list(delta.get("tool_calls")))):
                what = as_dict(call.get("function")) or as_dict(call.get("custom"))
                given = call.get("index")
                key = (index, "call", given if type(given) is int else place)
                arguments = as_text(what.get("arguments", what.get("input")))
                self._call(key, call_id=call.get("id"), name=what.get("name"), arguments=arguments)
            self._finish(choice)

    def whole(self, data: object) -> None:
        found = as_dict(data)
        self._heads(found)
        for choice in map(as_dict, as_list(found.get("choices"))):
            self._settle(str(choice.get("index")), _assistant(as_dict(choice.get("message"))))
            self._finish(choice)
        self.complete = self.complete or bool(found.get("choices"))

    def _finish(self, choice: Mapping[str, Any]) -> None:
        self._used(as_dict(choice.get("usage")))  # Moonshot's place for it
        if reason := as_text(choice.get("finish_reason"))[:100]:
            self.stop, self.complete = reason, True
        self.error = self.error or ApiError.read(choice)

    def _heads(self, found: Mapping[str, Any]) -> None:
        self._names(found)
        self._used(as_dict(found.get("usage")))
        self.error = self.error or ApiError.read(found)

    def _used(self, found: Mapping[str, Any]) -> None:
        if not found:
            return
        self._costs(found)
        details = as_dict(found.get("prompt_tokens_details"))
        sent, output = count(found.get("prompt_tokens")), count(found.get("completion_tokens"))
        cached = count(details.get("cached_tokens")) or count(found.get("cached_tokens"))
        cached = cached or count(found.get("prompt_cache_hit_tokens"))
        written = count(details.get("cache_write_tokens"))
        reasoning = count(as_dict(found.get("completion_tokens_details")).get("reasoning_tokens"))
        self.usage = Usage(max(0, sent - cached - written), output, cached, written, min(reasoning, output))
