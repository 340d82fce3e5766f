"""Gemini CLI. Its last event has the sums of all of its calls."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from harness.agents.base import AgentText, AgentTool, AgentUsage, Ends, Finished, Job, Launch, Package, Said
from harness.agents.parts import count, environment, mapping, read_event, text
from harness.record.exchange import Dialect
from harness.record.usage import Usage

__all__ = ["ADAPTER"]

_SETTINGS: dict[str, Any] = {
    "general": {
        "disableAutoUpdate": True, "enableAutoUpdate": False, "disableUpdateNag": True,
        "enableAutoUpdateNotification": False, "maxAttempts": 4, "retryFetchErrors": True,
        "checkpointing": {"enabled": False},
    },
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
    "ide": {"enabled": False},
    "tools": {"exclude": ["web_fetch", "google_web_search", "ask_user", "save_memory"]},
    "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
    "model": {"disableLoopDetection": True, "skipNextSpeakerCheck": True},
    "mcp": {"allowed": []},
}  # fmt: skip


class _Gemini:
    name = "gemini"
    package: Package | None = Package(
        "@google/gemini-cli", "0.61.0", 20, "node_modules/@google/gemini-cli/bundle/gemini.js"
    )
    dialects: Sequence[Dialect] = ("gemini",)
    efforts: Sequence[str] = ()
    ends: Ends = "event"

    def launch(self, job: Job) -> Launch:
        """Headless; the prompt is standard input."""
        command = f"{job.prefix}/{self.package.command}" if self.package else ""
        argv = (
            f"{job.node}/bin/node", command, "--skip-trust", "--approval-mode", "yolo", "-o", "stream-json",
            "-m", job.model,
        )  # fmt: skip
        more = {
            "GEMINI_API_KEY": job.key,
            "GOOGLE_GEMINI_BASE_URL": job.base_url,
            "GEMINI_CLI_HOME": str(job.home),
            "GEMINI_CLI_NO_RELAUNCH": "true",
            "GEMINI_TELEMETRY_ENABLED": "false",
            "GEMINI_SANDBOX": "false",
        }
        return Launch(
            argv, environment(job, more), {".gemini/settings.json": json.dumps(_SETTINGS).encode()}, job.prompt.encode()
        )

    def read(self, line: str) -> Iterator[Said]:
        """An event a line; texts come in pieces."""
        event = read_event(line)
        kind = event.get("type")
        if kind == "message" and event.get("role") == "assistant":
            yield AgentText(text(event.get("content")))
        elif kind == "tool_use":
            yield AgentTool(text(event.get("tool_name")), text(event.get("parameters")))
        elif kind == "result":
            stats = mapping(event.get("stats"))
            cached = count(stats, "cached")
            # Its output_tokens leave out what the model thought, which the total has.
            output = max(count(stats, "total_tokens") - count(stats, "input_tokens"), count(stats, "output_tokens"))
            fresh = max(count(stats, "input_tokens") - cached, 0)
            yield AgentUsage(Usage(fresh, output, cached), so_far=True)
            yield Finished(event.get("status") == "success", text(mapping(event.get("error")).get("message"))[:2000])

    def usage(self, said: Sequence[Said], files: Callable[[str], Iterable[tuple[str, bytes]]]) -> Usage | None:
        """The usage in the last event."""
        return next((item.usage for item in reversed(said) if isinstance(item, AgentUsage)), None)


ADAPTER = _Gemini()
