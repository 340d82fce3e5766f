"""The roofline arithmetic: the least time a shape can take on a target, and which peak decides it."""

from __future__ import annotations

from collections.abc import Mapping

from kbh_lint.base.records import dataclass
from kbh_lint.problems import Problem, Shape, Target

COMPUTE, MEMORY, MIXED = "compute", "memory", "mixed"


@dataclass(frozen=True, slots=True)
class Floor:
    """One shape on one target: operations, compulsory bytes, and the time in seconds that each takes at its peak."""

    problem: str
    shape: str
    target: str
    flops: float
    bytes: float
    compute_s: float
    memory_s: float

    @property
    def t_floor(self) -> float:
        """The seconds that any kernel takes at least: the larger of compute time and memory time."""
        return max(self.compute_s, self.memory_s)

    @property
    def binding(self) -> str:
        """Which of the two decides t_floor: `compute` or `memory`."""
        return COMPUTE if self.compute_s >= self.memory_s else MEMORY


def peak_name(precision: str, target: Target) -> str | None:
    """The key of `target.peaks` for a problem's precision; None when the target has no such peak.

    `fp8_e4m3` runs at the fp8 peak; `int4_bf16` names storage first and arithmetic last, so it runs at the bf16 peak.
    """
    return next((part for part in reversed(precision.split("_")) if part in target.peaks), None)


def floor(problem: Problem, shape: Shape, target: Target) -> Floor | None:
    """The floor of one shape; None when the target has no peak for the problem's precision. Raises FormulaError."""
    name = peak_name(problem.precision, target)
    if name is None:
        return None
    flops, moved = problem.work(shape)
    compute, memory = flops / (target.peaks[name] * 1e12), moved / (target.dram_gbps * 1e9)
    return Floor(problem.id, shape.label, target.id, flops, moved, compute, memory)


def floors(problem: Problem, targets: Mapping[str, Target]) -> list[Floor]:
    """The floors of every graded shape on each of the problem's targets that is known."""
    known = [targets[name] for name in problem.targets if name in targets]
    found = (floor(problem, shape, target) for shape in problem.shapes for target in known)
    return [item for item in found if item is not None]


def regime_of(floors_of_a_shape: list[Floor]) -> str:
    """The regime of a shape over all targets: `compute`, `memory`, or `mixed` when they differ."""
    kinds = {item.binding for item in floors_of_a_shape}
    return kinds.pop() if len(kinds) == 1 else MIXED
