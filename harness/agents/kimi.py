"""Kimi Code. It prints no usage: that stands in the files of its sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from harness.agents.base import AgentText, AgentTool, Ends, Finished, Job, Launch, Package, Said
from harness.agents.parts import count, environment, mapping, mappings, read_event, read_lines, text
from harness.record.exchange import Dialect
from harness.record.usage import Usage, total

__all__ = ["ADAPTER"]

_CONFIG = b"""\
[tools]
disabled = [
  "FetchURL", "WebSearch", "AskUserQuestion", "EnterPlanMode", "ExitPlanMode", "CronCreate", "CronDelete", "CronList",
]
"""
MOST_PROMPT = 120_000  # bytes of one argument
_WIRE = ".kimi-code/sessions/*/*/agents/*/wire.jsonl"


class _Kimi:
    name = "kimi"
    package: Package | None = Package(
        "@moonshot-ai/kimi-code", "2.1.0", 22, "node_modules/@moonshot-ai/kimi-code/dist/main.mjs"
    )
    dialects: Sequence[Dialect] = ("openai-chat",)
    efforts: Sequence[str] = ("low", "medium", "high")
    ends: Ends = "exit"

    def launch(self, job: Job) -> Launch:
        """Starts it with the model described by its environment; the prompt is an argument, as it reads no other.
        Raises ValueError for a prompt that is longer than an argument can be.
        """
        if len(job.prompt.encode()) > MOST_PROMPT:
            raise ValueError(f"the prompt is longer than {MOST_PROMPT} bytes, which kimi cannot be given")
        command = f"{job.prefix}/{self.package.command}" if self.package else ""
        argv = (f"{job.node}/bin/node", command, "--output-format", "stream-json", "-p", job.prompt)
        more = {
            "KIMI_CODE_HOME": f"{job.home}/.kimi-code",
            "KIMI_MODEL_NAME": job.model,
            "KIMI_MODEL_API_KEY": job.key,
            "KIMI_MODEL_BASE_URL": f"{job.base_url}/v1",
            "KIMI_MODEL_PROVIDER_TYPE": "openai",
            "KIMI_MODEL_MAX_CONTEXT_SIZE": "200000",
            "KIMI_LOOP_MAX_ATTEMPTS_PER_STEP": "4",
            "KIMI_DISABLE_TELEMETRY": "1",
            "KIMI_DISABLE_CRON": "1",
            "KIMI_CODE_NO_AUTO_UPDATE": "1",
            **({"KIMI_MODEL_THINKING_EFFORT": job.effort} if job.effort else {}),
        }
        return Launch(argv, environment(job, more), {".kimi-code/config.toml": _CONFIG})

    def read(self, line: str) -> Iterator[Said]:
        """Messages of the assistant, a line each."""
        event = read_event(line)
        if event.get("role") == "assistant":
            said = event.get("content")
            if said:
                yield AgentText(text(said))
            for call in mappings(event.get("tool_calls")):
                made = mapping(call.get("function"))
                yield AgentTool(text(made.get("name")), text(made.get("arguments")))
        elif event.get("type") == "session.resume_hint":
            yield Finished(True)

    def usage(self, said: Sequence[Said], files: Callable[[str], Iterable[tuple[str, bytes]]]) -> Usage | None:
        """The sum over the records of its sessions."""
        parts = [_usage(event) for _, data in files(_WIRE) for event in read_lines(data) if _is_usage(event)]
        return total(parts) if parts else None


def _is_usage(event: dict[str, Any]) -> bool:
    return event.get("type") == "usage.record"


def _usage(event: dict[str, Any]) -> Usage:
    found = mapping(event.get("usage"))
    return Usage(
        count(found, "inputOther"), count(found, "output"), count(found, "inputCacheRead"),
        count(found, "inputCacheCreation"),
    )  # fmt: skip


ADAPTER = _Kimi()
