"""Trials and boards as plain values, for files and programs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from harness.board.trials import Trial, Trials
from harness.statistics.board import MARGIN, Board, summarise
from harness.statistics.intervals import Over

__all__ = ["board_json", "boards_of", "trial_json"]


def trial_json(trial: Trial) -> dict[str, Any]:
    """A trial as one flat mapping of plain values: its entry's facts, then what the board says of it.

    `board_model` and `board_trial` are the row's; `value` is what it adds to a mean, None where it is counted nowhere.
    """
    row = trial.row
    return {
        **asdict(trial.facts), "board_model": row.model, "board_trial": row.trial, "mark": trial.mark,
        "leak": row.leak, "seconds": row.seconds, "value": row.value if row.counted else None,
    }  # fmt: skip


def board_json(board: Board) -> dict[str, Any]:
    """A board as plain values: an interval is `{"low", "high"}`, with None for no end; a pair has its `sentence`."""
    made = asdict(board)
    for plain, pair in zip(made["pairs"], board.pairs, strict=True):
        plain["sentence"] = pair.sentence
    finite: dict[str, Any] = _finite(made)
    return finite


def _finite(value: object) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def boards_of(
    trials: Trials, targets: Sequence[str] = (), *, over: Over = "problems", margin: float = MARGIN, level: float = 0.95
) -> list[Board]:
    """The board of each target that is named, or of all. Raises StatisticsError where there is no such board."""
    wanted = targets or trials.targets
    return [summarise(trials.rows, target=target, margin=margin, level=level, over=over) for target in wanted]
