"""The protocol that the benchmark was first published with, read from problems/published_2026_04.yaml.

It is here so that a cell can be held beside the published ones; its numbers never share a page with ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kbh_lint.base.formulas import Formula, evaluate
from kbh_lint.marked import DataError, Fields, Map, load
from kbh_lint.problems import Shape, Target
from kbh_lint.problems.hardware import read_published

__all__ = ["Published", "PublishedProblem", "read"]

FILE = "published_2026_04.yaml"
MAX_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class PublishedProblem:
    """How one problem was scored: regime, the peak's name, timed calls a shape, and its formulas."""

    regime: str
    peak: str
    trials: int
    flops: Formula
    bytes: Formula

    def achieved(self, shape: Shape, seconds: float, target: Target) -> float:
        """The share of the peak of its regime that a time means. Raises FormulaError."""
        formula, peak = self.flops, target.peaks[self.peak] * 1e12
        if self.regime == "memory":
            formula, peak = self.bytes, target.dram_gbps * 1e9
        work = evaluate(formula, shape.symbols)
        assert isinstance(work, (int, float))
        return work / seconds / peak


@dataclass(frozen=True, slots=True)
class Published:
    """The whole protocol. `target` has the published peaks; before each timed call `flush_bytes` are set to zero."""

    target: Target
    warmups: int
    flush_bytes: int
    problems: Mapping[str, PublishedProblem]


def read(folder: Path) -> Published:
    """The protocol of a folder of problems. Raises DataError naming file and line."""
    path = folder / FILE
    try:
        with path.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
        text = raw.decode("utf-8")
    except (OSError, UnicodeDecodeError):
        raise DataError(str(path), 1, "the file cannot be read") from None
    if len(raw) > MAX_BYTES:
        raise DataError(str(path), 1, f"the file is larger than {MAX_BYTES // 1024} KB")
    fields = Fields(load(text, str(path)), str(path), "the published protocol")
    name, targets = fields.text("target"), read_published(folder / "hardware.yaml")
    if name not in targets:
        raise fields.fail("target", f"hardware.yaml has no published peaks for `{name}`")
    target, problems = targets[name], fields.mapping("problems")
    found = {}
    for key, entry in problems.items():
        if not isinstance(entry, Map):
            raise DataError(str(path), problems.lines[key], f"the problem `{key}` must be a mapping")
        found[key] = _problem(Fields(entry, str(path), f"the problem `{key}`"), target)
    published = Published(target, _count(fields, "warmups"), _count(fields, "flush_bytes"), found)
    fields.done()
    return published


def _problem(fields: Fields, target: Target) -> PublishedProblem:
    problem = PublishedProblem(
        regime=fields.choice("regime", ("compute", "memory")),
        peak=fields.choice("peak", tuple(target.peaks)),
        trials=_count(fields, "trials"),
        flops=fields.text("flops"),
        bytes=fields.text("bytes"),
    )
    fields.done()
    return problem


def _count(fields: Fields, key: str) -> int:
    value = fields.take(key)
    if type(value) is not int or value < 1:
        raise fields.fail(key, f"`{key}` of {fields.what} must be a whole number above zero")
    return value
