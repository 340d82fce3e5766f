"""The roofline of a cell: each shape's operations a second by its operations a byte, under the roof of the target."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from grader.record.cell import Cell, ShapeScore
from grader.record.words import fraction, seconds
from kbh_lint.base.formulas import FormulaError
from kbh_lint.problems import Problem, Shape

__all__ = ["WIDTHS", "Roofline", "Spot", "Tick", "roofline"]

WIDTHS = (("wide", 720), ("narrow", 340))
LEFT, RIGHT, TOP, FOOT, HEIGHT = 78, 14, 12, 40, 250
MOST_SHAPES = 24
ROOM = 18.0  # that a number takes
TICKS = {"wide": 9, "narrow": 5}


@dataclass(frozen=True, slots=True)
class Tick:
    """A place on an axis."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Spot:
    """A shape: its place, that of the roof above it, and a number that the table beneath has too, at `label`."""

    number: int
    x: float
    y: float
    roof: float
    title: str
    label: float = 0.0


@dataclass(frozen=True, slots=True)
class Roofline:
    """Geometry of one picture in its own units. `roof` are the points of a polyline, `told` says it in words."""

    name: str
    width: int
    height: int
    left: float
    right: float
    base: float
    top: float
    roof: str
    ridge: Tick
    spots: tuple[Spot, ...]
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]
    told: str


def roofline(cell: Cell, problem: Problem | None, name: str, width: int) -> Roofline | None:
    """The picture; None without times, or where the problem's work at these shapes is not known."""
    target = cell.target
    known = [found for score in cell.shapes[:MOST_SHAPES] if (found := _work(problem, cell, score)) is not None]
    if not known or not (target.peak_tflops > 0 and target.dram_gbps > 0):
        return None
    peak, rate = target.peak_tflops * 1e12, target.dram_gbps * 1e9
    ridge = peak / rate
    least, most = min(ridge, *(x for _, x, _ in known)) / 4, max(ridge, *(x for _, x, _ in known)) * 4
    bottom = min(min(y for _, _, y in known), min(least * rate, peak)) / 2
    right, base = width - RIGHT, TOP + HEIGHT

    def x(value: float) -> float:
        return round(LEFT + (right - LEFT) * (math.log(value / least) / math.log(most / least)), 1)

    def y(value: float) -> float:
        share = math.log(value / bottom) / math.log(2 * peak / bottom)
        return round(base - HEIGHT * min(max(share, 0.0), 1.0), 1)

    spots = _apart(right, [
        Spot(number, x(at), y(made), y(min(peak, at * rate)),
             f"{score.shape}: {_rate(made)} at {at:.3g} operations a byte, {fraction(score.roofline_fraction)} "
             f"of the roofline, {seconds(score.t_scored)}")
        for number, (score, at, made) in enumerate(known, 1)
    ])  # fmt: skip
    roof = " ".join(f"{x(at)},{y(min(peak, at * rate))}" for at in (least, ridge, most))
    told = (
        f"{target.product}: {_rate(peak)} and {target.dram_gbps:,.0f} GB/s, {target.peaks}; they meet at "
        f"{ridge:.3g} operations a byte"
    )
    return Roofline(
        name, width, TOP + HEIGHT + FOOT, LEFT, right, base, TOP, roof, Tick(x(ridge), f"{ridge:.3g}"), spots,
        tuple(Tick(x(v), f"{v:.4g}") for v in _decades(least, most, TICKS[name])),
        tuple(Tick(y(v), _rate(v)) for v in _decades(bottom, 2 * peak, TICKS[name])), told,
    )  # fmt: skip


def _apart(right: float, spots: Sequence[Spot]) -> tuple[Spot, ...]:
    """The spots with a place for each number, beside its own where another number stands there already."""
    placed: list[Spot] = []
    for spot in spots:
        free = spot.x
        near = [one.label for one in placed if abs(spot.y - one.y) < ROOM]
        while any(abs(free - label) < ROOM for label in near) and free < right - ROOM:
            free += ROOM
        placed.append(replace(spot, label=free))
    return tuple(placed)


def _work(problem: Problem | None, cell: Cell, score: ShapeScore) -> tuple[ShapeScore, float, float] | None:
    """A shape's operations a byte, and its operations a second."""
    if problem is None or not (math.isfinite(score.t_scored) and score.t_scored > 0):
        return None
    shapes: Sequence[Shape] = problem.reduced if cell.target.scale == "reduced" else problem.shapes
    shape = next((one for one in shapes if one.label == score.shape), None)
    if shape is None:
        return None
    try:
        flops, moved = problem.work(shape)
    except FormulaError:
        return None
    return (score, flops / moved, flops / score.t_scored) if flops > 0 and moved > 0 else None


def _rate(flops: float) -> str:
    for unit, size in (("PFLOP/s", 1e15), ("TFLOP/s", 1e12), ("GFLOP/s", 1e9), ("MFLOP/s", 1e6), ("kFLOP/s", 1e3)):
        if flops >= size:
            return f"{flops / size:.3g} {unit}"
    return f"{flops:.3g} FLOP/s"


def _decades(low: float, high: float, most: int) -> list[float]:
    """Powers of ten within, thinned to at most so many; of two where there is no room for two of ten."""
    if high / low < 100:
        first, last = math.ceil(math.log2(low)), math.floor(math.log2(high))
        found = [2.0**power for power in range(first, last + 1)]
    else:
        first, last = math.ceil(math.log10(low)), math.floor(math.log10(high))
        found = [10.0**power for power in range(first, last + 1)]
    return found[:: max(math.ceil(len(found) / most), 1)]
