"""opencode. It prints the usage of each step, and keeps that of a title call to itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from harness.agents.base import AgentText, AgentTool, AgentUsage, Ends, Finished, Job, Launch, Package, Said
from harness.agents.parts import count, environment, mapping, read_event, text
from harness.record.exchange import Dialect
from harness.record.usage import Usage, total

__all__ = ["ADAPTER"]

_QUIET = (
    "OPENCODE_DISABLE_AUTOUPDATE", "OPENCODE_DISABLE_MODELS_FETCH", "OPENCODE_DISABLE_LSP_DOWNLOAD",
    "OPENCODE_DISABLE_DEFAULT_PLUGINS", "OPENCODE_DISABLE_CLAUDE_CODE", "OPENCODE_DISABLE_EXTERNAL_SKILLS",
    "OPENCODE_DISABLE_SHARE", "OPENCODE_DISABLE_PROJECT_CONFIG", "OPENCODE_DISABLE_TERMINAL_TITLE", "OPENCODE_PURE",
    "OPENCODE_DISABLE_EMBEDDED_WEB_UI",
)  # fmt: skip


class _Opencode:
    name = "opencode"
    package: Package | None = Package("opencode-ai", "1.18.33", 0, "node_modules/opencode-linux-x64/bin/opencode")
    dialects: Sequence[Dialect] = ("openai-chat",)
    efforts: Sequence[str] = ("low", "medium", "high")
    ends: Ends = "event"

    def launch(self, job: Job) -> Launch:
        """Once, with the proxy as its only provider and everything permitted but the web and questions."""
        command = f"{job.prefix}/{self.package.command}" if self.package else ""
        argv = (command, "run", "--pure", "--format", "json", "--title", "kernel", "-m", f"kbh/{job.model}")
        more = {**dict.fromkeys(_QUIET, "1"), "OPENCODE_CONFIG": f"{job.home}/opencode.json"}
        return Launch(
            argv, environment(job, more), {"opencode.json": json.dumps(_config(job)).encode()}, job.prompt.encode()
        )

    def read(self, line: str) -> Iterator[Said]:
        """An event a line; a step that ends with another reason than tools is the last."""
        event = read_event(line)
        kind, part = event.get("type"), mapping(event.get("part"))
        if kind == "text":
            yield AgentText(text(part.get("text")))
        elif kind == "tool_use":
            yield AgentTool(text(part.get("tool")), text(mapping(part.get("state")).get("input")))
        elif kind == "step_finish":
            yield AgentUsage(_usage(part), so_far=False)
            if part.get("reason") == "stop":
                yield Finished(True)
        elif kind == "error":
            yield Finished(False, text(event.get("error"))[:2000])

    def usage(self, said: Sequence[Said], files: Callable[[str], Iterable[tuple[str, bytes]]]) -> Usage | None:
        """The sum over its steps."""
        parts = [item.usage for item in said if isinstance(item, AgentUsage)]
        return total(parts) if parts else None


def _config(job: Job) -> dict[str, Any]:
    model: dict[str, Any] = {"name": job.model, "tool_call": True, "limit": {"context": 200_000, "output": 32_000}}
    if job.effort:
        model |= {"reasoning": True, "options": {"reasoningEffort": job.effort}}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "kbh",
        "options": {"baseURL": f"{job.base_url}/v1", "apiKey": job.key, "timeout": 1_800_000},
        "models": {job.model: model},
    }
    return {
        "provider": {"kbh": provider},
        "enabled_providers": ["kbh"],
        "model": f"kbh/{job.model}",
        "small_model": f"kbh/{job.model}",
        "share": "disabled",
        "autoupdate": False,
        "snapshot": False,
        "lsp": False,
        "formatter": False,
        "permission": {"*": "allow", "webfetch": "deny", "websearch": "deny", "codesearch": "deny", "question": "deny"},
    }


def _usage(part: dict[str, Any]) -> Usage:
    """Of a step; what it reasoned is beside its output."""
    tokens = mapping(part.get("tokens"))
    cache, thought = mapping(tokens.get("cache")), count(tokens, "reasoning")
    return Usage(
        count(tokens, "input"), count(tokens, "output") + thought, count(cache, "read"), count(cache, "write"), thought
    )


ADAPTER = _Opencode()
