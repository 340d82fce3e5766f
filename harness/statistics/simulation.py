"""Boards whose truth is known, to see how often intervals hold it.

A problem is hard or easy for all models, and suits some more than others; sessions differ, fail and leak; the clock
errs, and tells its error with an error. The truth of a model is its expectation over problems, sessions and the clock.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy import special

from harness.statistics.layout import Array
from harness.statistics.rows import Outcome, Row

__all__ = ["SCENARIOS", "Scenario", "Truth", "draw"]

NODES = 24
POINTS = 100
MOST = 0.7  # of the peak, for the best kernel that there could be
STRICT = 0.7  # how much a problem's hardness is that of passing at all
FREE = 5  # degrees of freedom of heavy tails
UNIT = math.sqrt((FREE - 2) / FREE)


@dataclass(frozen=True, slots=True)
class Scenario:
    """How boards are drawn; standard deviations are of the score's logit, but for `session` and `clock`, shares of it.

    `talent`: between models; `hardness`: between problems, for all models; `taste`: of a model on a problem; `session`:
    between trials. `passes`: the logit of passing at an average problem. `tails`: sessions follow Student's
    distribution with five degrees of freedom. `lost`: of the trials that share is an ERR.
    """

    name: str
    models: int
    problems: int
    trials: int
    talent: float = 0.5
    hardness: float = 0.6
    taste: float = 0.5
    session: float = 0.3
    passes: float = 1.5
    leaks: float = 0.05
    clock: float = 0.01
    lost: float = 0.0
    tails: bool = False


SCENARIOS = (
    Scenario("usual board, 3 trials", 6, 9, 3),
    Scenario("usual board, 5 trials", 6, 9, 5),
    Scenario("all models alike", 6, 9, 3, talent=0.0),
    Scenario("most trials fail", 6, 9, 3, passes=-1.0),
    Scenario("restless agents, heavy tails, lost trials", 6, 9, 3, session=0.35, lost=0.1, tails=True),
    Scenario("few failures, a poor clock", 6, 9, 3, passes=3.0, leaks=0.0, session=0.15, clock=0.08),
    Scenario("20 models", 20, 9, 3),
    Scenario("4 models, 60 problems, 5 trials", 4, 60, 5, talent=0.2, taste=0.1, passes=4.0, session=0.15, leaks=0.01),
    Scenario("2 models, 3 problems, 3 trials", 2, 3, 3),
    Scenario("2 models, 3 problems, 5 trials", 2, 3, 5),
    Scenario("2 models, 3 problems, most fail", 2, 3, 3, passes=-1.0),
)


@dataclass(frozen=True, slots=True)
class Truth:
    """What was drawn from: expectations of each model, and the deviations of sessions and clock."""

    scores: Array
    deck: Array  # the scores on the problems that were drawn
    passes: Array
    cells: Array  # probability of a pass in each cell, (models, problems)
    leaks: float
    session: float
    clock: float


def draw(scenario: Scenario, random: np.random.Generator) -> tuple[tuple[Row, ...], Truth]:
    """Draws the rows of a board at random, and returns them with the truth behind them."""
    shape = (scenario.models, scenario.problems, scenario.trials)
    talent = -1.0 + scenario.talent * random.normal(0, 1, scenario.models)
    hard = random.normal(0, 1, (1, scenario.problems, 1))
    place = talent[:, None, None] + scenario.hardness * hard + random.normal(0, scenario.taste, (*shape[:2], 1))
    noise = random.standard_t(FREE, shape) * UNIT if scenario.tails else random.normal(0, 1, shape)
    worth = MOST * _share(place) * np.exp(scenario.session * noise)
    ease = scenario.passes + talent[:, None, None] + 1 + STRICT * hard + random.normal(0, 1, (*shape[:2], 1))
    leaks = random.random(shape) < scenario.leaks
    passes = (random.random(shape) < _share(ease)) & ~leaks
    error = scenario.clock * np.exp(random.normal(0, 0.3, (1, scenario.problems, 1)) - 0.09)
    seen = np.minimum(worth * np.exp(error * random.normal(0, 1, shape)), 1.0)
    told = error * np.sqrt(random.chisquare(8, shape) / 8)
    lost = random.random(shape) < scenario.lost
    rows = tuple(
        _row(where, float(seen[where]), bool(passes[where]), bool(leaks[where]), bool(lost[where]), float(told[where]))
        for where in np.ndindex(*shape)
    )
    expected = np.array([_expected(scenario, float(one)) for one in talent])
    chance = _share(ease[..., 0]) * (1 - scenario.leaks)
    deck = (chance * _worth(scenario, place[..., 0])).mean(axis=1)
    return rows, Truth(expected[:, 0], deck, expected[:, 1], chance, scenario.leaks, scenario.session, scenario.clock)


def _row(where: tuple[int, ...], score: float, passed: bool, leak: bool, lost: bool, spread: float) -> Row:
    outcome: Outcome = "ERR" if lost else "PASS" if passed or leak else "FAIL"
    kept = outcome == "PASS"
    return Row(
        f"model {where[0]:02}", f"problem {where[1]:02}", where[2], outcome, score if kept else None,
        leak and not lost, "simulated", 60.0, 0.1, spread if kept else None,
    )  # fmt: skip


@cache
def _normal() -> tuple[Array, Array]:
    """Points and weights of the normal distribution."""
    points, weights = np.polynomial.hermite_e.hermegauss(NODES)
    return points, weights / weights.sum()


@cache
def _sessions(tails: bool) -> Array:
    """Points of equal weight of what sessions follow, with variance 1."""
    shares = (np.arange(POINTS) + 0.5) / POINTS
    return np.asarray(special.stdtrit(FREE, shares) * UNIT if tails else special.ndtri(shares))


def _expected(scenario: Scenario, talent: float) -> tuple[float, float]:
    """A model's expected score and probability of a pass, by quadrature over problem, taste and session."""
    points, weights = _normal()
    ease = scenario.passes + talent + 1 + STRICT * points[:, None] + points
    chance = _share(ease) @ weights * (1 - scenario.leaks)
    worth = _worth(scenario, talent + scenario.hardness * points[:, None] + scenario.taste * points) @ weights
    return float((chance * worth) @ weights), float(chance @ weights)


def _worth(scenario: Scenario, place: Array) -> Array:
    """Expected score of a pass in cells at these places, over sessions and clock."""
    factors = np.exp(scenario.session * _sessions(scenario.tails) + scenario.clock**2 / 2)
    return np.asarray(np.minimum(MOST * _share(place)[..., None] * factors, 1.0).mean(axis=-1))


def _share(logit: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-logit)))
