"""What a request may ask and an answer may come from: the run's model, the route's providers, and tools of the room.

A request for one of the small models that CLIs ask for titles and the like goes to the run's model instead. Tools that
the provider would run (web search, code execution), state that it would keep (earlier responses, caches, containers)
and a router's own choices (other models, plugins) are taken out. A request that has the provider fetch an address is
refused, for that would be a way out of the room.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from harness.proxy.base import Route
from harness.proxy.dialects.common import Answer, Asked, Language, as_dict, as_text
from harness.record.events import EventData, Finding, Note
from harness.record.exchange import Dialect

__all__ = ["SIDE_MODELS", "Pinned", "other_than_pinned", "pin", "unnamed"]

# Small models that CLIs ask for by themselves, beside the one that they were given.
SIDE_MODELS: Mapping[Dialect, re.Pattern[str]] = {
    "anthropic-messages": re.compile(r"claude-[\w.-]*haiku[\w.@:-]*", re.ASCII),
    "openai-responses": re.compile(r"gpt-[\w.-]*(?:mini|nano)[\w.-]*", re.ASCII),
    "openai-chat": re.compile(r"gpt-[\w.-]*(?:mini|nano)[\w.-]*", re.ASCII),
    "gemini": re.compile(r"gemini-[\w.-]*flash[\w.-]*", re.ASCII),
}
_STATE = (
    "previous_response_id", "conversation", "prompt", "container", "cachedContent", "cached_content", "background",
    "mcp_servers", "web_search_options", "plugins", "models", "route", "fallbacks", "provider",
)  # fmt: skip
_LOCAL_TOOLS: Mapping[Dialect, re.Pattern[str]] = {
    "anthropic-messages": re.compile(r"(?:custom|(?:bash|text_editor|computer|memory)_\d{8}|tool_search_tool_\w+)?"),
    "openai-responses": re.compile(r"function|custom|local_shell|apply_patch|namespace|tool_search"),
    "openai-chat": re.compile(r"function|custom"),
}
_DECLARED = ("functionDeclarations", "function_declarations")
_DATED = re.compile(r"-20\d{2}(?:-\d{2}-\d{2}|\d{4})")
_ADDRESS = re.compile(r"\s*(?!data:)[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_ADDRESS_KEYS = frozenset({"url", "image_url", "file_url", "fileUri", "file_uri"})
# What a tool was called with or gave back, and where text came from, is quoted and not fetched.
_QUOTED = frozenset({"arguments", "args", "response", "annotations", "citations", "text", "thinking"})


@dataclass(frozen=True, slots=True)
class Pinned:
    """The body to send, and what is to be told of it. `refusal` is why it must not be sent, "" where it may."""

    body: dict[str, Any]
    told: tuple[EventData, ...] = ()
    refusal: str = ""


def pin(language: Language, asked: Asked, body: Mapping[str, Any], *, model: str, route: Route) -> Pinned:
    """The request changed so that it may be sent (the run's model, the route's providers, tools of the room), or why it
    may not be.
    """
    made, told = dict(body), list[EventData]()
    wanted = asked.model or as_text(body.get("model"))
    if wanted != model:
        if SIDE_MODELS[language.name].fullmatch(wanted) is None:
            return Pinned(made, (), f"this run's model is {model}, and the request asks for {wanted[:100] or 'none'}")
        told.append(Note(f"a call for the side model {wanted[:100]} went to the run's model {model}"))
    if not asked.model:
        made["model"] = model
    if any(_addresses(body.get(language.conversation))):
        sentence = "a request asks the provider to fetch an address, which would be a way out of the room"
        return Pinned(made, (Finding("breach", "provider-fetch", sentence),), sentence)
    for key in _STATE:
        if made.pop(key, None) is not None:
            told.append(
                Finding("limit", "request-pinned", f"`{key}` was taken out of a request: only the room may hold it")
            )
    made, names = _without_server_tools(language, made)
    told += [
        Finding("limit", "server-tool", f"the provider's own tool {name} was taken out of a request") for name in names
    ]
    if route.providers:
        made["provider"] = {"order": list(route.providers), "allow_fallbacks": False}
    if language.name == "openai-chat" and made.get("stream") is True:
        made["stream_options"] = {**as_dict(made.get("stream_options")), "include_usage": True}
    return Pinned(made, tuple(told))


def _without_server_tools(language: Language, body: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    tools = body.get("tools")
    if not isinstance(tools, list):
        return body, []
    kept: list[Any] = []
    gone: list[str] = []
    for tool in tools:
        here, names = _local_part(language.name, as_dict(tool))
        kept += [here] if here else []
        gone += names
    if not gone:
        return body, []
    made = {**body, "tools": kept}
    if not kept:
        for key in ("tools", "tool_choice", "toolConfig", "tool_config"):
            made.pop(key, None)
    return made, gone


def _local_part(dialect: Dialect, tool: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """What of a tool the room runs itself, and the names of what the provider would run."""
    if dialect == "gemini":
        return {k: v for k, v in tool.items() if k in _DECLARED}, [k[:80] for k in tool if k not in _DECLARED]
    kind = as_text(tool.get("type"))
    local = _LOCAL_TOOLS[dialect].fullmatch(kind) is not None
    if kind == "shell" and as_dict(tool.get("environment")).get("type") == "local":
        local = True
    return (tool, []) if local else ({}, [kind[:80] or "without a type"])


def _addresses(value: object) -> Iterator[str]:
    """Addresses of media that a provider would fetch."""
    pending = [value]
    while pending:
        found = pending.pop()
        if isinstance(found, list):
            pending += found
            continue
        role = as_dict(found).get("type")
        for key, inner in as_dict(found).items():
            if key in _QUOTED or (key == "input" and role in ("tool_use", "custom_tool_call", "server_tool_use")):
                continue
            if key in _ADDRESS_KEYS and isinstance(inner, str) and _ADDRESS.match(inner):
                yield inner
            if isinstance(inner, dict | list) and not (key == "output" and isinstance(inner, dict)):
                pending.append(inner)


def other_than_pinned(answer: Answer, *, model: str, route: Route) -> str:
    """How an answer shows that it comes from another model or provider than was pinned, in one sentence; "" where it
    does not.
    """
    named = answer.model
    if named and named != model and named not in route.models.get(model, ()):
        dated = named.startswith(model) and _DATED.fullmatch(named[len(model) :])
        if not dated:
            return f"the answer comes from the model {named}, not from {model}"
    if route.providers and answer.provider and _plain(answer.provider) not in map(_plain, route.providers):
        return f"the answer comes from the provider {answer.provider}, not from {' or '.join(route.providers)}"
    return ""


def unnamed(answer: Answer, route: Route) -> str:
    """Why a complete answer does not show that a pinned provider gave it, in one sentence; "" where it does."""
    return "the answer does not say which provider it comes from" if route.providers and not answer.provider else ""


def _plain(provider: str) -> str:
    """A provider's name as routers write it in requests and in answers alike: DeepInfra, deepinfra/fp8."""
    return re.sub(r"[^a-z0-9]", "", provider.partition("/")[0].casefold())
