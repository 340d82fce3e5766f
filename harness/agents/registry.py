"""The agents there are, by name. A further one is a file beside this one and a line below."""

from __future__ import annotations

from collections.abc import Mapping

from harness.agents import claude, codex, command, gemini, kimi, opencode, qwen
from harness.agents.base import Adapter

__all__ = ["ADAPTERS", "adapter_named"]

_ALL: tuple[Adapter, ...] = (
    claude.ADAPTER,
    codex.ADAPTER,
    opencode.ADAPTER,
    kimi.ADAPTER,
    gemini.ADAPTER,
    qwen.ADAPTER,
    command.ADAPTER,
    command.MINI,
)
ADAPTERS: Mapping[str, Adapter] = {adapter.name: adapter for adapter in _ALL}


def adapter_named(name: str) -> Adapter:
    """The adapter of a name. Raises ValueError, in one sentence that names all."""
    if name not in ADAPTERS:
        raise ValueError(f"there is no agent {name[:40]!r}; there are {', '.join(ADAPTERS)}")
    return ADAPTERS[name]
