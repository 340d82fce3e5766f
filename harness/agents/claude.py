"""Claude Code. Its last event sums up the usage of each model, its hidden calls included."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from harness.agents.base import AgentText, AgentTool, AgentUsage, Ends, Finished, Job, Launch, Package, Said
from harness.agents.parts import count, environment, mapping, mappings, read_event, text
from harness.record.exchange import Dialect
from harness.record.usage import Usage, total

__all__ = ["ADAPTER"]

_OFF = (
    "WebFetch", "WebSearch", "AskUserQuestion", "EnterPlanMode", "ExitPlanMode", "CronCreate", "RemoteTrigger",
    "PushNotification", "ScheduleWakeup", "ReportFindings",
)  # fmt: skip
_QUIET = (
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_AUTOUPDATER", "DISABLE_BUG_COMMAND", "DISABLE_ERROR_REPORTING",
    "DISABLE_FEEDBACK_COMMAND", "DISABLE_GROWTHBOOK", "DISABLE_TELEMETRY", "CLAUDE_CODE_DISABLE_AUTO_MEMORY",
    "CLAUDE_CODE_DISABLE_CRON", "CLAUDE_CODE_DISABLE_FEEDBACK_SURVEY", "CLAUDE_CODE_DISABLE_GIT_INSTRUCTIONS",
    "CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK", "CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL",
    "CLAUDE_CODE_DISABLE_VITALS_EMITTER", "CLAUDE_CODE_NO_MODEL_FALLBACK", "DISABLE_INSTALLATION_CHECKS",
)  # fmt: skip
_TIERS = ("HAIKU", "SONNET", "OPUS", "FABLE")


class _Claude:
    name = "claude"
    package: Package | None = Package(
        "@anthropic-ai/claude-code", "2.1.329", 0, "node_modules/@anthropic-ai/claude-code-linux-x64/claude"
    )
    dialects: Sequence[Dialect] = ("anthropic-messages",)
    efforts: Sequence[str] = ("low", "medium", "high", "xhigh", "max")
    ends: Ends = "event"

    def launch(self, job: Job) -> Launch:
        """Starts it in print mode, with the prompt on standard input; every tier of models is the one that is asked
        for.
        """
        command = f"{job.prefix}/{self.package.command}" if self.package else ""
        argv = [
            command, "--print", "--verbose", "--output-format", "stream-json", "--dangerously-skip-permissions",
            "--strict-mcp-config", "--disallowedTools", ",".join(_OFF), "--model", job.model,
        ]  # fmt: skip
        if job.effort:
            argv += ["--effort", job.effort]
        more = {
            "ANTHROPIC_BASE_URL": job.base_url,
            "ANTHROPIC_API_KEY": job.key,
            "ANTHROPIC_MODEL": job.model,
            "ANTHROPIC_SMALL_FAST_MODEL": job.model,
            **{f"ANTHROPIC_DEFAULT_{tier}_MODEL": job.model for tier in _TIERS},
            "API_TIMEOUT_MS": "1800000",
            "CLAUDE_CONFIG_DIR": f"{job.home}/.claude",
            "CLAUDE_CODE_MAX_RETRIES": "4",
            "IS_SANDBOX": "1",  # else it refuses to start as the user 0, which a room's user may be called
            **dict.fromkeys(_QUIET, "1"),
        }
        return Launch(tuple(argv), environment(job, more), stdin=job.prompt.encode())

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
            yield AgentUsage(_usage(event), so_far=True)
            yield Finished(event.get("is_error") is False, text(event.get("result"))[:2000])

    def usage(self, said: Sequence[Said], files: Callable[[str], Iterable[tuple[str, bytes]]]) -> Usage | None:
        """The usage in the last event."""
        return next((item.usage for item in reversed(said) if isinstance(item, AgentUsage)), None)


def _usage(event: dict[str, Any]) -> Usage:
    """By model where it says so, which includes calls beside the conversation."""
    by_model = [mapping(model) for model in mapping(event.get("modelUsage")).values()]
    if by_model:
        return total(
            Usage(
                count(model, "inputTokens"), count(model, "outputTokens"), count(model, "cacheReadInputTokens"),
                count(model, "cacheCreationInputTokens"),
            )
            for model in by_model
        )  # fmt: skip
    found = mapping(event.get("usage"))
    return Usage(
        count(found, "input_tokens"), count(found, "output_tokens"), count(found, "cache_read_input_tokens"),
        count(found, "cache_creation_input_tokens"),
    )  # fmt: skip


ADAPTER = _Claude()
