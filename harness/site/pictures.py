"""Small pictures that several pages have: intervals on a shared scale, and scores of trials along one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = ["Scale", "dots", "scale", "shade"]

STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
WIDTH, PAD = 200, 4
TICKS = 4
LEVELS = 6  # shades of the heatmap


@dataclass(frozen=True, slots=True)
class Scale:
    """From 0 to a round number `end`, WIDTH units wide with PAD on both sides; `ticks` are places with their texts."""

    end: float
    ticks: tuple[tuple[float, str], ...]

    def x(self, value: float) -> float:
        """The place of a value, within the picture whatever it is."""
        return round(PAD + (WIDTH - 2 * PAD) * min(max(value / self.end, 0.0), 1.0), 1)


def scale(values: Iterable[float]) -> Scale:
    """A scale that holds all values, with a few round ticks; it ends at 1 where no value is above 0."""
    most = max((value for value in values if math.isfinite(value)), default=0.0)
    most = most if most > 0 else 1.0
    power = 10.0 ** math.floor(math.log10(most / TICKS))
    step = next(step * power for step in STEPS if step * power * TICKS >= most * 0.999)
    count = math.ceil(most / step - 1e-6)
    made = Scale(step * count, ())
    return Scale(made.end, tuple((made.x(step * at), f"{step * at:.3g}") for at in range(count + 1)))


def shade(value: float, end: float) -> int:
    """The number of the shade for a score: 0 for none, then by equal parts of the scale up to `end`."""
    return 0 if value <= 0 else min(int(value / end * (LEVELS - 1)) + 1, LEVELS - 1)


def dots(scale: Scale, scores: Sequence[float], height: float) -> str:
    """Scores as one path of dots along the middle of a strip, those that lie close together above each other."""
    taken: dict[int, int] = {}
    parts = []
    for value in sorted(scores)[:400]:
        x = scale.x(value)
        place = round(x / 4)
        level = taken.get(place, 0)
        taken[place] = level + 1
        away = (level + 1) // 2 * (3 if level % 2 else -3)
        parts.append(f"M{x} {round(height / 2 + max(min(away, height / 2 - 3), 3 - height / 2), 1)}h0")
    return "".join(parts)
