"""What scores of a grading stand on: a target with its peaks. Needs no torch; `targets` finds the one here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from grader.record.cell import TargetRecord
from kbh_lint.authors.floors import peak_name
from kbh_lint.base import paths
from kbh_lint.problems import Problem, Target, load_targets

__all__ = ["CPU", "Chosen", "TargetError", "hardware_file", "peak_of", "recorded"]

CPU = "cpu"


class TargetError(Exception):
    """The target cannot be graded on here; the text is one sentence."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """A target: `target` has the peaks that scores stand on, `record` is what the cell says of it."""

    target: Target
    record: TargetRecord


def hardware_file(problem: Problem) -> Path:
    """The hardware.yaml beside a problem's folder, or the project's own."""
    return paths.hardware_file(Path(problem.path).resolve().parent.parent if problem.path else paths.problems_dir())


def peak_of(problem: Problem, target: Target) -> float:
    """The peak of a target that a problem's precision runs at, in TFLOPS. Raises TargetError where it has none."""
    name = peak_name(problem.precision, target)
    if name is None:
        raise TargetError(f"{target.id} has no peak for the precision {problem.precision} of {problem.id}")
    return target.peaks[name]


def recorded(problem: Problem, record: TargetRecord) -> Chosen:
    """The target that a cell says it was graded on: its peaks are the datasheet's, or were measured and are in the
    record. Raises TargetError where the record says other peaks than the datasheet has, and ProblemError.
    """
    if record.peaks == "measured":
        name = problem.precision.split("_")[-1]
        return Chosen(
            Target(record.id, record.id, record.product, record.dram_gbps, {name: record.peak_tflops}), record
        )
    target = load_targets(hardware_file(problem)).get(record.id)
    if target is None:
        raise TargetError(f"there is no target {record.id[:60]!r} in hardware.yaml")
    if (record.peak_tflops, record.dram_gbps) != (peak_of(problem, target), target.dram_gbps):
        raise TargetError(f"its peaks are not those that hardware.yaml has for {target.id}")
    return Chosen(target, record)
