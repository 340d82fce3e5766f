"""Any program as the agent, and `mini`, the tiny agent of ours (harness.agents.mini).

A program is told where the model is by KBH_BASE_URL, KBH_KEY, KBH_MODEL and KBH_EFFORT, and reads the prompt from
standard input. What it prints is free; lines of the form that mini prints are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from harness.agents.base import AgentText, AgentTool, AgentUsage, Ends, Finished, Job, Launch, Package, Said
from harness.agents.parts import count, environment, read_event, text
from harness.record.exchange import Dialect
from harness.record.usage import Usage, total

__all__ = ["ADAPTER", "MINI"]

_SOURCE = Path(__file__).with_name("mini.py")


class _Command:
    name = "command"
    package: Package | None = None
    dialects: Sequence[Dialect] = ("openai-chat", "openai-responses", "anthropic-messages", "gemini")
    efforts: Sequence[str] = ()
    ends: Ends = "exit"

    def launch(self, job: Job) -> Launch:
        """Starts the given arguments as they are. Raises ValueError where there are none."""
        if not job.arguments:
            raise ValueError("the agent `command` needs a program to run; give it after --")
        more = {
            "KBH_BASE_URL": job.base_url, "KBH_KEY": job.key, "KBH_MODEL": job.model, "KBH_EFFORT": job.effort,
        }  # fmt: skip
        return Launch(job.arguments, environment(job, more), stdin=job.prompt.encode())

    def read(self, line: str) -> Iterator[Said]:
        """Lines of the form that mini prints."""
        event = read_event(line)
        kind = event.get("type")
        if kind == "text":
            yield AgentText(text(event.get("text")))
        elif kind == "tool":
            yield AgentTool(text(event.get("name")), text(event.get("arguments")))
        elif kind == "usage":
            names = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
            yield AgentUsage(Usage(*(count(event, name) for name in names)), so_far=False)
        elif kind == "end":
            yield Finished(event.get("ok") is True, text(event.get("text"))[:2000])

    def usage(self, said: Sequence[Said], files: Callable[[str], Iterable[tuple[str, bytes]]]) -> Usage | None:
        """The sum of the usages that it printed, if it printed any."""
        parts = [item.usage for item in said if isinstance(item, AgentUsage)]
        return total(parts) if parts else None


class _Mini(_Command):
    name = "mini"
    dialects: Sequence[Dialect] = ("openai-chat",)
    efforts: Sequence[str] = ("low", "medium", "high")
    ends: Ends = "event"

    def launch(self, job: Job) -> Launch:
        """Puts the agent's one file into the home; an argument names the Python to run it with (default: python3)."""
        python = job.arguments[0] if job.arguments else "python3"
        made = super().launch(
            Job(
                job.model, job.prompt, job.base_url, job.key, job.effort, job.workspace, job.home, job.prefix,
                job.node, (python, "-I", f"{job.home}/.mini.py"),
            )
        )  # fmt: skip
        return Launch(made.argv, made.env, {".mini.py": _SOURCE.read_bytes()}, made.stdin)


ADAPTER, MINI = _Command(), _Mini()
