"""Attainable ceilings: the least time of each shape on each target, which peak decides it, and what was measured.

A kernel also pays for being launched. `t_null` is the device time of an empty kernel, measured with the evidence; the
ceiling of `t_floor / t` is then `t_floor / (t_floor + t_null)`, and `attainable` is the share of that ceiling which the
best honest solution reaches. Needs neither torch nor a GPU.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kbh_lint.authors.floors import Floor, floors
from kbh_lint.problems import Problem, Target

MAX_EVIDENCE = 4 << 20


@dataclass(frozen=True, slots=True)
class Ceiling:
    """One shape on one target; times in seconds. What nobody measured on that target is None."""

    problem: str
    shape: str
    target: str
    flops: float
    bytes: float
    compute_s: float
    memory_s: float
    t_floor: float
    binding: str
    declared: str
    t_null: float | None = None
    best: float | None = None
    solution: str = ""

    @property
    def ceiling(self) -> float | None:
        """The largest share of the roofline that a call can reach which also pays an empty launch."""
        return None if self.t_null is None else self.t_floor / (self.t_floor + self.t_null)

    @property
    def attainable(self) -> float | None:
        """The share of `ceiling` that the best honest solution reaches: (t_floor + t_null) / its time."""
        return None if self.t_null is None or self.best is None else (self.t_floor + self.t_null) / self.best

    def as_dict(self) -> dict[str, Any]:
        """All numbers, for JSON."""
        return {**asdict(self), "ceiling": self.ceiling, "attainable": self.attainable}


def ceilings(problem: Problem, targets: Mapping[str, Target], only: Sequence[str] = ()) -> Iterator[Ceiling]:
    """The ceilings of a problem's graded shapes, target by target; `only` chooses targets."""
    measured = {name: _evidence(problem, name) for name in problem.targets}
    declared = {shape.label: shape.regime for shape in problem.shapes}
    for item in sorted(floors(problem, targets), key=lambda item: problem.targets.index(item.target)):
        if not only or item.target in only:
            yield _ceiling(item, declared[item.shape], measured[item.target])


def _ceiling(item: Floor, declared: str, evidence: Mapping[str, Any]) -> Ceiling:
    best, solution = _best(evidence, item.shape)
    launch = evidence.get("launch_s")
    return Ceiling(
        item.problem, item.shape, item.target, item.flops, item.bytes, item.compute_s, item.memory_s, item.t_floor,
        item.binding, declared, float(launch) if isinstance(launch, (int, float)) else None, best, solution,
    )  # fmt: skip


def _best(evidence: Mapping[str, Any], shape: str) -> tuple[float | None, str]:
    """The shortest time of an honest solution that passed."""
    found = [
        (float(entry["shapes"][shape]["seconds"]), file)
        for file, entry in evidence.get("solutions", {}).items()
        if entry.get("kind") == "honest" and entry.get("outcome") == "passed"
        if "seconds" in entry.get("shapes", {}).get(shape, {})
    ]
    return min(found, default=(None, ""))


def _evidence(problem: Problem, target: str) -> Mapping[str, Any]:
    """The stored evidence of one target; empty when there is none that can be read."""
    path = Path(problem.path).parent / "evidence" / f"{target}.json"
    try:
        if path.stat().st_size > MAX_EVIDENCE:
            return {}
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def table(found: Iterable[Ceiling]) -> str:
    """The ceilings for people; times in microseconds, and a mark where the declared regime does not bind."""
    head = ("problem", "shape", "target", "GFLOP", "MB", "compute", "memory", "t_floor", "binds", "t_null", "best",
            "roofline", "ceiling", "attainable")  # fmt: skip
    lines: list[tuple[str, ...]] = [head]
    for item in found:
        mark = "" if item.declared in (item.binding, "mixed") else "*"
        share = None if item.best is None else item.t_floor / item.best
        lines.append((
            item.problem, item.shape, item.target, f"{item.flops / 1e9:.4g}", f"{item.bytes / 1e6:.4g}",
            *(_micro(seconds) for seconds in (item.compute_s, item.memory_s, item.t_floor)), item.binding + mark,
            *(_micro(seconds) for seconds in (item.t_null, item.best)),
            *(_share(value) for value in (share, item.ceiling, item.attainable)),
        ))  # fmt: skip
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    aligned = (
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )
    return "\n".join(aligned) + "\n"


def _micro(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1e6:.2f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
