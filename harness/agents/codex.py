"""OpenAI's codex. It is told of the proxy as a provider of its own; usage is in the event that ends a turn."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence

from harness.agents.base import AgentText, AgentTool, AgentUsage, Ends, Finished, Job, Launch, Package, Said
from harness.agents.parts import environment, mapping, openai_usage, read_event, text
from harness.record.exchange import Dialect
from harness.record.usage import Usage

__all__ = ["ADAPTER"]

_CONFIG = """\
model = {model}
model_provider = "kbh"
approval_policy = "never"
sandbox_mode = "danger-full-access"
web_search = "disabled"
check_for_update_on_startup = false
hide_agent_reasoning = false
{effort}
[model_providers.kbh]
name = "kbh"
base_url = {url}
env_key = "KBH_KEY"
wire_api = "responses"
request_max_retries = 3
stream_max_retries = 3
stream_idle_timeout_ms = 1800000
supports_websockets = false

[analytics]
enabled = false

[feedback]
enabled = false

[history]
persistence = "none"

[shell_environment_policy]
inherit = "all"
"""
_TOOLS = {"command_execution": "command", "file_change": "changes", "mcp_tool_call": "arguments", "web_search": "query"}


class _Codex:
    name = "codex"
    package: Package | None = Package(
        "@openai/codex", "0.169.0", 0, "node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex"
    )
    dialects: Sequence[Dialect] = ("openai-responses",)
    efforts: Sequence[str] = ("minimal", "low", "medium", "high", "xhigh")
    ends: Ends = "event"

    def launch(self, job: Job) -> Launch:
        """Starts it without its own sandbox and approvals, with the prompt on standard input."""
        command = f"{job.prefix}/{self.package.command}" if self.package else ""
        argv = (
            command, "exec", "--json", "--dangerously-bypass-approvals-and-sandbox", "--skip-git-repo-check",
            "-C", str(job.workspace), "-",
        )  # fmt: skip
        effort = f"model_reasoning_effort = {json.dumps(job.effort)}\n" if job.effort else ""
        config = _CONFIG.format(
            model=json.dumps(job.model), url=json.dumps(f"{job.base_url}/v1"), effort=effort
        )  # the strings of TOML are those of JSON
        more = {"CODEX_HOME": f"{job.home}/.codex", "KBH_KEY": job.key}
        return Launch(argv, environment(job, more), {".codex/config.toml": config.encode()}, job.prompt.encode())

    def read(self, line: str) -> Iterator[Said]:
        """An event a line; items count when they are complete."""
        event = read_event(line)
        kind, item = event.get("type"), mapping(event.get("item"))
        if kind == "item.completed" and item.get("type") == "agent_message":
            yield AgentText(text(item.get("text")))
        elif kind == "item.completed" and item.get("type") in _TOOLS:
            yield AgentTool(str(item["type"]), text(item.get(_TOOLS[str(item["type"])])))
        elif kind == "turn.completed":
            yield AgentUsage(openai_usage(mapping(event.get("usage"))), so_far=True)
            yield Finished(True)
        elif kind == "turn.failed":
            yield Finished(False, text(mapping(event.get("error")).get("message"))[:2000])

    def usage(self, said: Sequence[Said], files: Callable[[str], Iterable[tuple[str, bytes]]]) -> Usage | None:
        """The usage in the last completed turn, which sums up all turns."""
        return next((item.usage for item in reversed(said) if isinstance(item, AgentUsage)), None)


ADAPTER = _Codex()
