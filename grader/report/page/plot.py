"""Strip plots of the times of one shape: claimed samples as dots, sealed batches as bars, the floor as a line."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from grader.record.cell import ShapeScore, ShapeTiming
from grader.record.words import seconds

__all__ = ["Plot", "Point", "plot"]

WIDTH, LEFT, RIGHT = 640, 12, 16
TOP, ROW, FOOT = 14, 22, 22
MOST_ROWS = 8
MOST_DOTS = 200
STEPS = (1.0, 2.0, 5.0, 10.0)
TICKS = 5


@dataclass(frozen=True, slots=True)
class Point:
    """A place in the picture, with what it stands for."""

    x: float
    y: float
    title: str


@dataclass(frozen=True, slots=True)
class Plot:
    """Geometry of one picture in its own units; a row is a trial. `outside` counts samples beyond the scale."""

    width: int
    height: int
    base: float
    dots: tuple[Point, ...]
    bars: tuple[Point, ...]
    median: Point
    floor: Point | None
    ticks: tuple[Point, ...]
    outside: int
    title: str


def plot(timings: Sequence[ShapeTiming], score: ShapeScore | None) -> Plot | None:
    """The picture of a shape's times over all trials; None without a time.

    The scale begins at zero. It ends above the slowest sealed batch and the claimed samples but for single slow ones.
    """
    claimed = [[s for s in timing.claimed if math.isfinite(s) and s >= 0] for timing in timings[:MOST_ROWS]]
    every = [s for samples in claimed for s in samples]
    if not every:
        return None
    sealed = [[batch.per_call for batch in timing.sealed] for timing in timings[:MOST_ROWS]]
    middle = median(every)
    usual = [s for s in every if s <= 3 * middle] or every
    proved = [s for batches in sealed for s in batches if math.isfinite(s)]
    end = 1.06 * max([*usual, *proved, score.t_floor if score else 0.0, 1e-9])
    height = TOP + ROW * len(claimed) + FOOT
    base = TOP + ROW * len(claimed)

    def x(value: float) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * min(value / end, 1.0), 1)

    dots = tuple(
        Point(x(s), round(TOP + ROW * row + ROW * (0.3 + 0.4 * ((i * 7) % 10) / 9), 1), f"claimed {seconds(s)}")
        for row, samples in enumerate(claimed)
        for i, s in enumerate(samples[:MOST_DOTS])
        if s <= end
    )
    bars = tuple(
        Point(x(s), TOP + ROW * row, f"sealed {seconds(s)} a call")
        for row, batches in enumerate(sealed)
        for s in batches
        if s <= end
    )
    floor = Point(x(score.t_floor), 0, f"floor {seconds(score.t_floor)}") if score is not None else None
    title = f"{len(every)} claimed samples, median {seconds(middle)}; {len(proved)} sealed batches"
    return Plot(
        WIDTH, height, base, dots, bars, Point(x(middle), 0, f"median of the claims {seconds(middle)}"), floor,
        _ticks(end, x), sum(s > end for s in every), title,
    )  # fmt: skip


def _ticks(end: float, x: Callable[[float], float]) -> tuple[Point, ...]:
    """Round times along the scale."""
    rough = end / TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(s * power for s in STEPS if s * power >= rough * 0.999)
    return tuple(Point(x(i * step), 0, seconds(i * step) if i else "0") for i in range(int(end / step) + 1))
