"""Gemini generateContent: POST /v1beta/models/M:generateContent, and its stream of whole responses that add up."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from harness.proxy.dialects.common import Answer, ApiError, Asked, as_dict, as_json, as_list, as_text, count, other
from harness.record.exchange import Dialect, Item
from harness.record.usage import Usage

__all__ = ["Gemini"]

_PATH = re.compile(
    r"/v1(?:beta|alpha)?/models/([A-Za-z0-9][\w.-]{0,150}):(generateContent|streamGenerateContent|countTokens)",
    re.ASCII,
)
_ERRORS = {
    400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND",
    413: "INVALID_ARGUMENT", 429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED",
}  # fmt: skip


class Gemini:
    """The dialect; see `harness.proxy.dialects.common.Language`."""

    name: Dialect = "gemini"
    version = "v1beta"
    key_header = "x-goog-api-key"
    conversation = "contents"
    apart: tuple[str, ...] = ("systemInstruction", "system_instruction", "tools")

    def asked(self, path: str) -> Asked | None:
        found = _PATH.fullmatch(path)
        if found is None:
            return None
        model, action = found.groups()
        what: Any = "count" if action == "countTokens" else "answer"
        return Asked(what, model, action == "streamGenerateContent", action)

    def target(self, asked: Asked, model: str, stream: bool) -> str:
        return f"/models/{model}:{asked.action}" + ("?alt=sse" if stream else "")

    def message(self, message: object) -> tuple[Item, ...]:
        found = as_dict(message)
        assistant = found.get("role") == "model"
        return tuple(_part(part, assistant) for part in as_list(found.get("parts")))

    def system(self, body: Mapping[str, Any]) -> str:
        found = body.get("systemInstruction", body.get("system_instruction"))
        if isinstance(found, str):
            return found
        return "\n".join(as_text(as_dict(part).get("text")) for part in as_list(as_dict(found).get("parts")))

    def tools(self, body: Mapping[str, Any]) -> tuple[str, ...]:
        names = []
        for tool in map(as_dict, as_list(body.get("tools"))):
            offered = as_list(tool.get("functionDeclarations", tool.get("function_declarations")))
            names += [as_text(as_dict(one).get("name"))[:200] for one in offered]
        return tuple(names)

    def answer(self) -> Answer:
        return _Answer()

    def error(self, status: int, message: str) -> dict[str, Any]:
        return {"error": {"code": status, "message": message, "status": _ERRORS.get(status, "INTERNAL")}}


def _part(part: object, assistant: bool) -> Item:
    found = as_dict(part)
    if isinstance(found.get("text"), str):
        if assistant and found.get("thought") is True:
            return Item("thinking", "assistant", found["text"])
        return Item("text", "assistant" if assistant else "user", found["text"])
    call = as_dict(found.get("functionCall", found.get("function_call")))
    if call:
        name, call_id = as_text(call.get("name")), as_text(call.get("id"))
        return Item("tool_call", "assistant", "", call_id, name, as_json(call.get("args", {})))
    given = as_dict(found.get("functionResponse", found.get("function_response")))
    if given:
        response = as_dict(given.get("response"))
        failed = isinstance(response.get("error"), str) and "output" not in response
        said = response.get("error") if failed else response.get("output", response)
        call_id, name = as_text(given.get("id")), as_text(given.get("name"))
        return Item("tool_result", "tool", as_json(said), call_id, name, is_error=failed)
    return other(part, "assistant" if assistant else "user")


class _Answer(Answer):
    def __init__(self) -> None:
        super().__init__()
        self._place = 0
        self._last = ""

    def event(self, name: str, data: object) -> None:
        found = as_dict(data)
        self._names(found, "modelVersion")
        self.model = self.model.removeprefix("models/")
        self.error = self.error or ApiError.read(found)
        self._used(as_dict(found.get("usageMetadata")))
        for candidate in map(as_dict, as_list(found.get("candidates"))):
            for part in as_list(as_dict(candidate.get("content")).get("parts")):
                self._add(part)
            if reason := as_text(candidate.get("finishReason"))[:100]:
                self.stop, self.complete = reason, True
        if reason := as_text(as_dict(found.get("promptFeedback")).get("blockReason"))[:100]:
            self.stop, self.complete, self.blocked = reason, True, reason

    def whole(self, data: object) -> None:
        for chunk in data if isinstance(data, list) else [data]:
            self.event("", chunk)
        self.complete = self.complete or "totalTokens" in as_dict(data)  # the answer to countTokens

    def _add(self, part: object) -> None:
        """Text goes on with the text before it; a call of a function comes whole."""
        item = _part(part, True)
        if item.kind in ("text", "thinking"):
            if item.text:
                self._place += self._last != item.kind
                self._write(self._place, item.kind, item.text)
                self._last = item.kind
            return
        self._place += 1
        self._last = ""
        self._settle(self._place, [item])

    def _used(self, found: Mapping[str, Any]) -> None:
        if not found:
            return
        sent = count(found.get("promptTokenCount")) + count(found.get("toolUsePromptTokenCount"))
        cached, thoughts = count(found.get("cachedContentTokenCount")), count(found.get("thoughtsTokenCount"))
        output = count(found.get("candidatesTokenCount")) + thoughts
        self.usage = Usage(max(0, sent - cached), output, cached, 0, thoughts)
