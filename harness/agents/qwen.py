"""Qwen Code. Its last event has the sums of all of its calls."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from harness.agents.base import AgentText, AgentTool, AgentUsage, Ends, Finished, Job, Launch, Package, Said
from harness.agents.parts import count, environment, mapping, mappings, read_event, text
from harness.record.exchange import Dialect
from harness.record.usage import Usage

__all__ = ["ADAPTER"]

_SETTINGS: dict[str, Any] = {
    "general": {"disableAutoUpdate": True, "enableAutoUpdate": False, "disableUpdateNag": True},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
    "ide": {"enabled": False},
    "tools": {"exclude": ["web_fetch", "web_search", "ask_user_question", "save_memory"]},
    "security": {"auth": {"selectedType": "openai"}, "folderTrust": {"enabled": False}},
    "model": {"skipNextSpeakerCheck": True, "skipLoopDetection": True, "generationConfig": {"maxRetries": 3}},
    "mcp": {"allowed": []},
}


class _Qwen:
    name = "qwen"
    package: Package | None = Package(
        "@qwen-code/qwen-code", "0.24.4", 22, "node_modules/@qwen-code/qwen-code/cli-entry.js"
    )
    dialects: Sequence[Dialect] = ("openai-chat",)
    efforts: Sequence[str] = ()
    ends: Ends = "event"

    def launch(self, job: Job) -> Launch:
        """Headless; the prompt is standard input."""
        command = f"{job.prefix}/{self.package.command}" if self.package else ""
        argv = (
            f"{job.node}/bin/node", command, "--approval-mode", "yolo", "-o", "stream-json", "--safe-mode",
            "-m", job.model,
        )  # fmt: skip
        more = {
            "OPENAI_API_KEY": job.key,
            "OPENAI_BASE_URL": f"{job.base_url}/v1",
            "OPENAI_MODEL": job.model,
            "QWEN_HOME": f"{job.home}/.qwen",
            "QWEN_TELEMETRY_ENABLED": "false",
            "QWEN_SANDBOX": "false",
            "QWEN_CODE_SUPPRESS_YOLO_WARNING": "1",
        }
        return Launch(
            argv, environment(job, more), {".qwen/settings.json": json.dumps(_SETTINGS).encode()}, job.prompt.encode()
        )

    def read(self, line: str) -> Iterator[Said]:
        """Reads a line that holds an event."""
        event = read_event(line)
        if event.get("type") == "assistant":
            for block in mappings(mapping(event.get("message")).get("content")):
                if block.get("type") == "text":
                    yield AgentText(text(block.get("text")))
                elif block.get("type") == "tool_use":
                    yield AgentTool(text(block.get("name")), text(block.get("input")))
        elif event.get("type") == "result":
            found = mapping(event.get("usage"))
            cached = count(found, "cache_read_input_tokens")
            fresh = max(count(found, "input_tokens") - cached, 0)
            yield AgentUsage(Usage(fresh, count(found, "output_tokens"), cached), so_far=True)
            said = event.get("result") or mapping(event.get("error")).get("message")
            yield Finished(event.get("is_error") is False, text(said)[:2000])

    def usage(self, said: Sequence[Said], files: Callable[[str], Iterable[tuple[str, bytes]]]) -> Usage | None:
        """The usage in the last event."""
        return next((item.usage for item in reversed(said) if isinstance(item, AgentUsage)), None)


ADAPTER = _Qwen()
