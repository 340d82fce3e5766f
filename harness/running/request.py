"""What a run was asked for, checked before anything starts."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from harness.proxy.base import Caps

__all__ = ["RunError", "RunRequest", "duration"]

MOST_SECONDS = 7 * 86_400.0
LEAST_SECONDS = 1.0
MOST_TRIALS = 100
MOST_CURVE = 200
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)([smh]?)")
_MODEL = re.compile(r"[A-Za-z0-9][\w.:@/+-]{0,199}", re.ASCII)
_WORD = re.compile(r"[A-Za-z0-9][\w.-]{0,99}", re.ASCII)


class RunError(Exception):
    """A run cannot be made; the text is one sentence."""


def duration(text: str) -> float:
    """Seconds of a text such as `45m`, `1h30m`, `90s` or `90`. Raises ValueError in one sentence."""
    parts = _PART.findall(text.strip())
    if not parts or "".join(number + unit for number, unit in parts) != text.strip():
        raise ValueError(f"{text[:40]!r} is no length of time; write 45m, 1h30m or 90s")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if not LEAST_SECONDS <= seconds <= MOST_SECONDS:
        raise ValueError(f"{text[:40]!r} is not between a second and a week")
    return seconds


@dataclass(frozen=True, slots=True)
class RunRequest:
    """One agent, one model, one problem; the same request makes every trial of it.

    `model` is ROUTE/MODEL (see `routes`), or a name for what a `script` says. `budget_s` is wall clock of the agent's
    whole process tree, in seconds. `arguments` are those of the `command` agent. `gpu` says whether the room has the
    GPU's device nodes ("room") or only the judge has it ("judge"). `known` are folders of earlier solutions that this
    one is held against, `curve` how many earlier versions are timed afterwards, `mounts` what the room shows besides,
    read-only under its own path. `sweep_key` names the cell of a sweep that it is for. Raises RunError for values that
    cannot be.
    """

    agent: str
    model: str
    problem: str
    budget_s: float = 2700.0
    effort: str = ""
    target: str = "auto"
    out: Path = Path("kbh-runs")
    problems_dir: Path | None = None
    routes: Path | None = None
    script: Path | None = None
    prefix: Path | None = None
    mounts: tuple[Path, ...] = ()
    arguments: tuple[str, ...] = ()
    sealed: bool = True
    gpu: str = "room"
    strict: bool = True
    grade: bool = True
    samples: int | None = None
    evidence: bool = True
    known: tuple[Path, ...] = ()
    curve: int = 0
    caps: Caps = field(default_factory=Caps)
    sweep_key: str = ""

    def __post_init__(self) -> None:
        checks = (
            (_WORD.fullmatch(self.agent), f"{self.agent[:60]!r} is not the name of an agent; see kbh agents list"),
            (
                _MODEL.fullmatch(self.model) or self.script is not None,
                f"{self.model[:60]!r} is not the name of a model; write ROUTE/MODEL, such as anthropic/NAME",
            ),
            (_WORD.fullmatch(self.problem), f"{self.problem[:60]!r} is not the id of a problem; see kbh problems list"),
            (LEAST_SECONDS <= self.budget_s <= MOST_SECONDS, "the budget must be between a second and a week"),
            (self.gpu in ("room", "judge"), f"the GPU is for the room or the judge, not {self.gpu[:40]!r}"),
            (0 <= self.curve <= MOST_CURVE, f"at most {MOST_CURVE} earlier versions are timed, not {self.curve}"),
            (bool(self.arguments) == (self.agent == "command"), _ARGUMENTS),
        )
        for fine, sentence in checks:
            if not fine:
                raise RunError(sentence)


_ARGUMENTS = "the agent `command`, and no other, takes a program with its arguments after --"
