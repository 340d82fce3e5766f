"""The trials of an archive: the entries that count, each with the row that statistics read.

What a trial is worth does not depend on whether it was graded with --strict: its score counts where the grader took it
(`accepted`), and only there. A number that stands beside another verdict is a leak where the verdict says so, and
else a failure whose number was not shown to measure what the problem promises.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from harness.archive.facts import Facts
from harness.archive.select import counted
from harness.statistics.rows import MAX_TEXT, Outcome, Row, StatisticsError
from kbh_lint.verdict import FLAGGED

__all__ = ["MARKS", "Mark", "Trial", "Trials", "mark_of", "trials_of"]

Mark = Literal[
    "score", "leak", "unproven", "suspect", "wrong", "refused", "nothing", "breach", "tampered", "error",
]  # fmt: skip
MARKS: dict[Mark, str] = {
    "score": "every result is right and every promise is shown kept: the score counts",
    "leak": "it measures something else than the problem promises: no score",
    "unproven": "not shown to measure what the problem promises: no score",
    "suspect": "its times cannot be true: no score",
    "wrong": "a result is wrong, or a shape crashed or took too long: no score",
    "refused": "the grader could not grade it: no score",
    "nothing": "the agent left no solution: no score",
    "breach": "the agent saw what only the judge or another run holds: no score",
    "tampered": "the agent changed files that were given: no score",
    "error": "something else than the agent failed: counted nowhere",
}
assert set(MARKS) == set(get_args(Mark))
ENDINGS: dict[str, Mark] = {"breach-attempt": "breach", "template-tampering": "tampered"}


@dataclass(frozen=True, slots=True)
class Trial:
    """One trial. `row` is what statistics read: `row.model` is the name on the board, and `row.trial` counts the trials
    of a model on a problem from 1, in the order in which they were asked for and began. `facts` is the archive's entry,
    whose score is as the grader gave it; the row's is at most 1.
    """

    facts: Facts
    mark: Mark
    row: Row


@dataclass(frozen=True, slots=True)
class Trials:
    """All trials by target, model, problem and number; why entries that are runs and count are none, by their ids; and
    how many entries do not count (`superseded`: made again, or a grading made again) or are gradings without a run.
    """

    trials: tuple[Trial, ...]
    left_out: tuple[tuple[str, str], ...] = ()
    superseded: int = 0
    gradings: int = 0

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows of the trials that count, for `harness.statistics.board.summarise`."""
        return tuple(trial.row for trial in self.trials)

    @property
    def targets(self) -> tuple[str, ...]:
        """The targets, each of which is a board."""
        return tuple(sorted({trial.row.target for trial in self.trials}))


def mark_of(facts: Facts) -> Mark:
    """The mark of a run: a score, a leak, or why it has neither."""
    if facts.outcome == "ERR":
        return "error"
    if facts.ending in ENDINGS:
        return ENDINGS[facts.ending]
    if facts.grade == "accepted":
        return "score"
    if facts.grade in ("flagged", "withheld", "suspect") and facts.verdict in FLAGGED:
        return "leak"
    graded: dict[str, Mark] = {
        "flagged": "unproven", "withheld": "unproven", "suspect": "suspect", "wrong": "wrong", "refused": "refused",
    }  # fmt: skip
    return graded.get(facts.grade, "nothing")


def trials_of(facts: Iterable[Facts]) -> Trials:
    """The trials among the facts of an archive (`harness.archive.all_facts`), in an order that is not theirs."""
    every = list(facts)
    counting = counted(every)
    runs = [one for one in counting if one.kind == "run"]
    left_out = [(one.id, "it was not graded, as was asked for") for one in runs if not one.outcome]
    asked = [one for one in runs if one.outcome]
    names = _names(asked)
    cells: defaultdict[tuple[str, str, str], list[Facts]] = defaultdict(list)
    for one in asked:
        cells[one.target, names[one.id], one.problem].append(one)
    made: list[Trial] = []
    for (_, name, _), several in sorted(cells.items()):
        number = 0
        for one in sorted(several, key=lambda one: (one.trial, one.started, one.id)):
            try:
                made.append(_trial(one, name, number + 1))
                number += 1
            except StatisticsError as error:
                left_out.append((one.id, str(error)))
    return Trials(tuple(made), tuple(sorted(left_out)), len(every) - len(counting), len(counting) - len(runs))


def _trial(facts: Facts, name: str, number: int) -> Trial:
    mark = mark_of(facts)
    score = None if facts.roofline_fraction is None else min(facts.roofline_fraction, 1.0)
    if mark == "score" and score is None:
        raise StatisticsError("it was graded under a protocol that gives no share of the roofline")
    outcome: Outcome = "ERR" if mark == "error" else "PASS" if mark == "score" else "FAIL"
    seconds = facts.ended - facts.started
    return Trial(facts, mark, Row(
        name, facts.problem, number, outcome, score if outcome != "ERR" else None, mark == "leak", facts.target,
        seconds if seconds >= 0 else None, facts.cost_usd, facts.spread,
    ))  # fmt: skip


def _names(facts: Sequence[Facts]) -> dict[str, str]:
    """The name on the board of each run's model: with its agent, and with what tells it from others of these two."""
    kinds: defaultdict[tuple[str, str], set[tuple[str, float]]] = defaultdict(set)
    for one in facts:
        kinds[one.model, one.agent].add((one.effort, one.budget_s))
    names: dict[str, str] = {}
    for one in facts:
        found = kinds[one.model, one.agent]
        parts = [one.agent]
        parts += [f"effort {one.effort or 'unset'}"] if len({effort for effort, _ in found}) > 1 else []
        parts += [_budget(one.budget_s)] if len({budget for _, budget in found}) > 1 else []
        told = ", ".join(filter(None, parts))
        name = f"{one.model} ({told})" if one.model and told else one.model or told
        names[one.id] = name if len(name) <= MAX_TEXT else f"{name[: MAX_TEXT - 3]}..."
    return names


def _budget(seconds: float) -> str:
    return f"{seconds / 60:g} min"
