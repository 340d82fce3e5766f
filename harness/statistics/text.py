"""A board as text: a table of models, one of pairs, and the split of the variance."""

from __future__ import annotations

from collections.abc import Sequence

from harness.statistics.board import Board, Rate, Standing, turned
from harness.statistics.intervals import Interval
from harness.statistics.variance import Deviation, Split
from harness.statistics.words import score, signed

__all__ = ["pair_table", "render", "standing_table"]


def render(board: Board, *, pairs: bool = True) -> str:
    """The whole board for a terminal; without `pairs` only the standings and the split."""
    of = "problems like these" if board.over == "problems" else "these problems"
    head = (
        f"{board.target}: models {len(board.standings)}, problems {len(board.problems)}; "
        f"{board.level:.0%} intervals over {of}, the same within {board.margin:g}"
    )
    parts = [head, standing_table(board), _split_line(board.split)]
    if pairs and board.pairs:
        parts.append(pair_table(board))
    return "\n\n".join(parts) + "\n"


def standing_table(board: Board) -> str:
    """Models by rank, with what is known of each."""
    heads = ("rank", "model", "score", "passes", "leaks", "failed", "errors", "problems", "hours", "US$")
    rows = [_standing(one, len(board.problems)) for one in board.standings]
    return _table(heads, rows, left={1})


def _standing(one: Standing, problems: int) -> tuple[str, ...]:
    rank = "-" if not one.ranked else str(one.rank) if one.low == one.high else f"{one.rank} ({one.low}-{one.high})"
    graded = str(one.graded) if one.graded == problems else f"{one.graded} of {problems}"
    return (
        rank, one.model, _with(one.score, one.interval), _rate(one.passes), _rate(one.leaks), str(one.failures),
        str(one.errors), graded, "" if one.seconds is None else f"{one.seconds / 3600:.1f}",
        "" if one.cost is None else f"{one.cost:.2f}",
    )  # fmt: skip


def pair_table(board: Board) -> str:
    """What is known of every two models, in the order of the standings."""
    models = [one.model for one in board.standings]
    known = {(pair.first, pair.second): pair for pair in board.pairs}
    rows = []
    for place, first in enumerate(models):
        for second in models[place + 1 :]:
            pair = known[first, second] if (first, second) in known else turned(known[second, first])
            apart = "" if pair.difference is None else signed(pair.difference)
            between = "" if pair.interval is None else f"{signed(pair.interval.low)} to {signed(pair.interval.high)}"
            rows.append((first, second, apart, between, pair.sentence))
    return _table(("model", "against", "difference", "interval", ""), rows, left={0, 1, 4})


def _split_line(split: Split) -> str:
    agent, clock = _deviation(split.agent), _deviation(split.clock)
    cells = f"{split.cells} cell{'' if split.cells == 1 else 's'}"
    return f"Scores of a cell vary by {agent} between sessions and by {clock} between gradings ({cells})."


def _deviation(known: Deviation | None) -> str:
    if known is None:
        return "an unknown share"
    return f"{known.value:.1%} ({known.interval.low:.1%} to {known.interval.high:.1%})"


def _rate(rate: Rate) -> str:
    share = f"{rate.count}/{rate.trials}"
    return share if rate.interval is None else f"{share} ({rate.interval.low:.0%}-{rate.interval.high:.0%})"


def _with(value: float | None, interval: Interval | None) -> str:
    if value is None:
        return "-"
    return score(value) if interval is None else f"{score(value)} ({score(interval.low)}-{score(interval.high)})"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], left: set[int]) -> str:
    every = [heads, *rows]
    widths = [max(len(row[column]) for row in every) for column in range(len(heads))]
    lines = (
        "  ".join(
            text.ljust(width) if column in left else text.rjust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in every
    )
    return "\n".join(lines)
