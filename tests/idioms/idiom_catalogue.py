"""The idioms of this folder: honest submissions of ours, and the one-edit twins that `twins.yaml` describes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Twin:
    """One edit that breaks an honest file, and the classes of which a report must name one."""

    find: str
    replace: str
    classes: tuple[str, ...]

    def text(self, honest: str) -> str:
        """The broken file; raises ValueError unless `find` occurs exactly once."""
        if honest.count(self.find) != 1:
            raise ValueError(f"{self.find!r} occurs {honest.count(self.find)} times, not once")
        return honest.replace(self.find, self.replace)


@dataclass(frozen=True)
class Idiom:
    """An honest submission with its twins and what compiles from it (see the head of `twins.yaml`)."""

    name: str
    problem: str
    twins: tuple[Twin, ...]
    triton: tuple[dict[str, Any], ...] = ()
    cuda: dict[str, Any] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        return HERE / f"{self.name}.py"


def load() -> list[Idiom]:
    """All idioms, in the order of `twins.yaml`."""
    entries = yaml.safe_load((HERE / "twins.yaml").read_text(encoding="utf-8"))
    return [
        Idiom(
            name,
            entry["problem"],
            tuple(Twin(t["find"], t["replace"], tuple(t["classes"])) for t in entry["twins"]),
            tuple(entry.get("triton", ())),
            entry.get("cuda", {}),
        )
        for name, entry in entries.items()
    ]
