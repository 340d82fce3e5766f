"""A board: what the rows of one target say of its models, with how sure it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from harness.statistics.intervals import Interval, Over, of_mean, of_rate, wilson
from harness.statistics.layout import Layout, lay_out
from harness.statistics.pairs import Pair, Relation, compare
from harness.statistics.rows import Row, StatisticsError
from harness.statistics.variance import Split, split

__all__ = ["MARGIN", "Board", "CellSummary", "Rate", "Standing", "summarise", "turned"]

MARGIN = 0.02


@dataclass(frozen=True, slots=True)
class Rate:
    """`count` of `trials`; `value` is the mean over problems of their rates, and the interval is of that."""

    count: int
    trials: int
    value: float | None
    interval: Interval | None


@dataclass(frozen=True, slots=True)
class CellSummary:
    """A model on a problem. `score` is the mean over its trials with 0 for failures and leaks; `passes` has Wilson's
    interval of independent trials. Errors are counted nowhere else."""

    model: str
    problem: str
    trials: int
    score: float | None
    best: float | None
    passes: int
    leaks: int
    failures: int
    errors: int
    interval: Interval | None


@dataclass(frozen=True, slots=True)
class Standing:
    """A model on the board. `rank` is 1 and as many as are surely better; the true rank is between `low` and `high`.

    `score` is the arithmetic mean over problems of its cells' means. `graded` of the board's problems have a trial.
    `seconds` and `cost` are sums over its trials, errors included; None where no row tells them.
    """

    model: str
    rank: int
    low: int
    high: int
    score: float | None
    interval: Interval | None
    passes: Rate
    leaks: Rate
    failures: int
    errors: int
    graded: int
    split: Split
    seconds: float | None
    cost: float | None

    @property
    def ranked(self) -> bool:
        """Whether the model has trials enough to be compared; without them a rank of 1 would say nothing."""
        return self.interval is not None


@dataclass(frozen=True, slots=True)
class Board:
    """All that is said of one target's rows; standings by rank and then by score, those without a rank last."""

    target: str
    problems: tuple[str, ...]
    level: float
    margin: float
    over: Over
    standings: tuple[Standing, ...]
    cells: tuple[CellSummary, ...]
    pairs: tuple[Pair, ...]
    split: Split

    def pair(self, first: str, second: str) -> Pair:
        """What is known of two models, with `first` as the first one. Raises KeyError for unknown models."""
        for pair in self.pairs:
            if (pair.first, pair.second) == (first, second):
                return pair
            if (pair.second, pair.first) == (first, second):
                return turned(pair)
        raise KeyError(f"{first} and {second}")


def turned(pair: Pair) -> Pair:
    """The same pair of models seen from the second one's side."""
    other: dict[Relation, Relation] = {"ahead": "behind", "behind": "ahead"}
    interval = None if pair.interval is None else Interval(-pair.interval.high, -pair.interval.low)
    return replace(
        pair, first=pair.second, second=pair.first, relation=other.get(pair.relation, pair.relation), interval=interval,
        difference=None if pair.difference is None else -pair.difference,
    )  # fmt: skip


def summarise(
    rows: Sequence[Row], *, target: str | None = None, margin: float = MARGIN, level: float = 0.95,
    over: Over = "problems",
) -> Board:  # fmt: skip
    """The board of one target's rows; nothing in it is drawn at random, and the rows' order does not matter.

    `margin`: scores that differ by no more are the same. `over`: whether intervals and order speak of problems like
    these, of which the deck is a sample, or of the deck's own problems, where only trials vary. Raises StatisticsError
    for rows that make no board.
    """
    if not 0 < margin < 1 or not 0.5 <= level <= 0.999:
        raise StatisticsError("margin is between 0 and 1, and level from 0.5 to 0.999")
    layout = lay_out(rows, target)
    mine = [row for row in rows if row.target == layout.target]
    compared = compare(layout, margin, level, over)
    by_model: dict[str, list[Row]] = {model: [] for model in layout.models}
    for row in mine:
        by_model[row.model].append(row)
    whole, each = split(layout, level)
    standings = [
        _standing(layout, place, by_model[model], compared.better, each[place], level, over)
        for place, model in enumerate(layout.models)
    ]
    standings.sort(
        key=lambda one: (not one.ranked, one.rank, -(one.score if one.score is not None else -1.0), one.model)
    )
    return Board(
        layout.target, layout.problems, level, margin, over, tuple(standings), _cells(layout, mine, level),
        compared.pairs, whole,
    )  # fmt: skip


def _standing(
    layout: Layout, place: int, rows: Sequence[Row], better: NDArray[np.bool_], parts: Split, level: float, over: Over
) -> Standing:  # fmt: skip
    means, counts = layout.means[place], layout.counts[place]
    graded = int((counts > 0).sum())
    errors, free = layout.errors
    counted = [row for row in rows if row.counted]
    passes, leaks = sum(row.passed for row in counted), sum(row.leak for row in counted)
    rates = (
        Rate(count, len(counted), float(np.nanmean(each)) if graded else None, of_rate(each, counts, level, over))
        for count, each in ((passes, layout.pass_rates[place]), (leaks, layout.leak_rates[place]))
    )
    seconds = [row.seconds for row in rows if row.seconds is not None]
    cost = [row.cost for row in rows if row.cost is not None]
    return Standing(
        model=layout.models[place],
        rank=1 + int(better[:, place].sum()),
        low=1 + int(better[:, place].sum()),
        high=len(layout.models) - int(better[place].sum()),
        score=float(np.nanmean(means)) if graded else None,
        interval=of_mean(means, level, None if over == "problems" else (errors[place], free[place])),
        passes=next(rates),
        leaks=next(rates),
        failures=len(counted) - passes - leaks,
        errors=len(rows) - len(counted),
        graded=graded,
        split=parts,
        seconds=sum(sorted(seconds)) if seconds else None,
        cost=sum(sorted(cost)) if cost else None,
    )


def _cells(layout: Layout, rows: Sequence[Row], level: float) -> tuple[CellSummary, ...]:
    cells: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        cells.setdefault((row.model, row.problem), []).append(row)
    made = []
    for (model, problem), here in sorted(cells.items()):
        counted = sorted(row.value for row in here if row.counted)
        trials, passes = len(counted), sum(row.passed for row in here)
        leaks = sum(row.leak and row.counted for row in here)
        made.append(CellSummary(
            model, problem, trials, sum(counted) / trials if trials else None,
            max((row.value for row in here if row.passed), default=None), passes, leaks, trials - passes - leaks,
            len(here) - trials, wilson(passes / trials, trials, level) if trials else None,
        ))  # fmt: skip
    return tuple(made)
