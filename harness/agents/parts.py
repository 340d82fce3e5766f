"""What adapters share: the plain environment, and careful reading of what a CLI printed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from harness.agents.base import Job
from harness.record.usage import Usage

__all__ = [
    "base_env",
    "count",
    "environment",
    "mapping",
    "mappings",
    "openai_usage",
    "read_event",
    "read_lines",
    "text",
]

MAX_LINE = 4 << 20
MOST_TOKENS = 1 << 50


def base_env(job: Job) -> dict[str, str]:
    """The environment that every CLI is given: its home, a folder for temporary files, tools, and no colours."""
    temporary = job.home.parent / "tmp"  # as the room has it
    return {
        "HOME": str(job.home),
        "PATH": f"{job.node}/bin:/usr/local/bin:/usr/bin:/bin",
        "TMPDIR": str(temporary),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "NO_COLOR": "1",
        "CI": "1",
        "DO_NOT_TRACK": "1",
        "XDG_CONFIG_HOME": f"{job.home}/.config",
        "XDG_DATA_HOME": f"{job.home}/.local/share",
        "XDG_STATE_HOME": f"{job.home}/.local/state",
        "XDG_CACHE_HOME": f"{job.home}/.cache",
    }


def environment(job: Job, more: Mapping[str, str]) -> dict[str, str]:
    """The plain environment with what one CLI needs besides."""
    return {**base_env(job), **more}


def read_event(line: str) -> dict[str, Any]:
    """The JSON object that a line holds; an empty one for any other line."""
    if len(line) > MAX_LINE or not line.lstrip().startswith("{"):
        return {}
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def read_lines(data: bytes) -> Iterator[dict[str, Any]]:
    """The JSON objects of a file with one a line."""
    for line in data.splitlines():
        event = read_event(line.decode("utf-8", "replace"))
        if event:
            yield event


def mapping(value: object) -> dict[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def mappings(value: object) -> list[dict[str, Any]]:
    """The objects in the value, if it is a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def text(value: object) -> str:
    """The value if it is text, JSON of anything else, "" for nothing."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)


def count(found: Mapping[str, Any], name: str) -> int:
    """A number of tokens; 0 where there is none that makes sense."""
    value = found.get(name)
    return value if type(value) is int and 0 <= value < MOST_TOKENS else 0


def openai_usage(found: Mapping[str, Any]) -> Usage:
    """Usage as OpenAI's dialects and those who follow them count it: cached tokens are among the input."""
    cached, written = count(found, "cached_input_tokens"), count(found, "cache_write_input_tokens")
    return Usage(
        max(count(found, "input_tokens") - cached - written, 0),
        count(found, "output_tokens"),
        cached,
        written,
        reasoning_tokens=count(found, "reasoning_output_tokens"),
    )
