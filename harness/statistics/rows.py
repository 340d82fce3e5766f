"""The plain data that statistics start from: one row a trial."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Literal, get_args

__all__ = ["MAX_ROWS", "MAX_TEXT", "Outcome", "Row", "StatisticsError", "read_rows"]

Outcome = Literal["PASS", "FAIL", "ERR"]
MAX_ROWS = 1_000_000
MAX_TEXT = 200  # characters of a name
MAX_AMOUNT = 1e12  # seconds, dollars
MAX_SPREAD = 10.0


class StatisticsError(ValueError):
    """What was given cannot be used; the text is one sentence for people."""


@dataclass(frozen=True, slots=True)
class Row:
    """One trial of a model on a problem. Raises StatisticsError for what no trial can be.

    `score` is a share of what the target can do, from 0 to 1; a PASS has one. `leak`: the number measures something
    else than the problem promises, so that it counts as no score. `spread` is the grader's standard error of the score
    as a share of it. An ERR is nobody's failure: it is counted, and averaged nowhere. `cost` is in US dollars.
    """

    model: str
    problem: str
    trial: int
    outcome: Outcome
    score: float | None
    leak: bool
    target: str
    seconds: float | None = None
    cost: float | None = None
    spread: float | None = None

    def __post_init__(self) -> None:
        for name in ("model", "problem", "target"):
            text = getattr(self, name)
            if not isinstance(text, str) or not text.strip() or len(text) > MAX_TEXT or not text.isprintable():
                raise StatisticsError(f"{name} is a printable name of 1 to {MAX_TEXT} characters, not {_shown(text)}")
        if type(self.trial) is not int or not 0 <= self.trial < 10**9:
            raise StatisticsError(f"trial is a number from 0 to {10**9 - 1}, not {_shown(self.trial)}")
        if self.outcome not in get_args(Outcome):
            raise StatisticsError(f"outcome is PASS, FAIL or ERR, not {_shown(self.outcome)}")
        if type(self.leak) is not bool:
            raise StatisticsError(f"leak is true or false, not {_shown(self.leak)}")
        bounds = (("score", 1.0), ("seconds", MAX_AMOUNT), ("cost", MAX_AMOUNT), ("spread", MAX_SPREAD))
        for name, most in bounds:
            number = getattr(self, name)
            if number is not None and (isinstance(number, bool) or not _within(number, most)):
                raise StatisticsError(f"{name} is nothing or a number from 0 to {most:g}, not {_shown(number)}")
        if self.outcome == "PASS" and self.score is None:
            raise StatisticsError("a PASS has a score")
        if self.outcome == "ERR" and self.score is not None:
            raise StatisticsError("an ERR has no score")

    @property
    def counted(self) -> bool:
        """Whether the trial says something about its model: an ERR does not."""
        return self.outcome != "ERR"

    @property
    def passed(self) -> bool:
        """Whether the trial passed without a leak, so that its score counts."""
        return self.outcome == "PASS" and not self.leak

    @property
    def value(self) -> float:
        """What the trial adds to a mean: its score, or 0 for a failure or a leak."""
        return float(self.score) if self.passed and self.score is not None else 0.0


def read_rows(items: Iterable[object]) -> tuple[Row, ...]:
    """Rows from mappings with the names of Row's fields; what a mapping holds besides is not looked at.

    Raises StatisticsError, naming the row, for one that is none, for two of the same trial, and for too many.
    """
    rows: list[Row] = []
    seen: set[tuple[str, str, str, int]] = set()
    for number, item in enumerate(islice(items, MAX_ROWS + 1), 1):
        if number > MAX_ROWS:
            raise StatisticsError(f"there are more than {MAX_ROWS:,} rows")
        try:
            row = _row(item)
        except StatisticsError as error:
            raise StatisticsError(f"row {number}: {error}") from None
        key = (row.target, row.model, row.problem, row.trial)
        if key in seen:
            raise StatisticsError(f"row {number}: trial {row.trial} of {row.model} on {row.problem} is there twice")
        seen.add(key)
        rows.append(row)
    return tuple(rows)


def _row(item: object) -> Row:
    if not isinstance(item, Mapping):
        raise StatisticsError(f"a row is a mapping, not {_shown(item)}")
    lacking = [name for name in ("model", "problem", "trial", "outcome", "target") if name not in item]
    if lacking:
        raise StatisticsError(f"{', '.join(lacking)} is missing")
    return Row(
        model=item["model"], problem=item["problem"], trial=item["trial"], outcome=item["outcome"],
        score=_number(item.get("score")), leak=item.get("leak", False), target=item["target"],
        seconds=_number(item.get("seconds")), cost=_number(item.get("cost")), spread=_number(item.get("spread")),
    )  # fmt: skip


def _within(number: object, most: float) -> bool:
    return isinstance(number, (int, float)) and 0 <= number <= most


def _number(value: object) -> float | None:
    """As it is, so that Row says what is wrong with it; an int that no float holds becomes infinite."""
    if type(value) is int:
        try:
            return float(value)
        except OverflowError:
            return math.inf
    return value  # type: ignore[return-value]


def _shown(value: object) -> str:
    """A value in a sentence: never long, whatever it is."""
    if isinstance(value, str):
        return repr(value[:40]) + ("..." if len(value) > 40 else "")
    if isinstance(value, (bool, float)) or value is None or (isinstance(value, int) and abs(value) < 10**18):
        return repr(value)
    return f"a {type(value).__name__}"
