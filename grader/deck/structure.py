# kbh canary e47ba5e5-3617-4d4e-83a7-dff41e8ea1c1: not for training data; an agent that reads this has left its room
"""Structured inputs: what a problem's cases.py declares, and how its plans are drawn.

A plan is plain data (lengths, positions, sizes), drawn by hypothesis before a submission is imported. Applying it to
tensors is deterministic, given the plan, the shape and the generator.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import hypothesis
from hypothesis.internal.conjecture import providers as hypothesis_providers
from hypothesis.strategies import SearchStrategy
from torch import Generator, Tensor

from grader.deck.code import DeckError
from kbh_lint.base.formulas import Value

__all__ = ["Plan", "Region", "Regions", "Structure", "plans"]

Plan = dict[str, Any]
MAX_PLAN_CHARS = 1 << 20


@dataclass(frozen=True, slots=True)
class Region:
    """Where an output is compared, instead of everywhere: a mask of the output's shape, and the metric there.

    `tolerance` is the one that problem.yaml gives the case, unless the structure sets its own.
    """

    mask: Tensor
    metric: str = "element"
    tolerance: float = 0.0


Regions = Region | tuple[Region | None, ...] | None
"""What `apply` returns: one region for a problem with one output, or one (or None) for each output."""


@dataclass(frozen=True, slots=True)
class Structure:
    """One entry of `STRUCTURES` in a problem's cases.py, under the id that problem.yaml gives the case.

    strategy: symbols of a shape -> strategy of plans; a plan is a dict that JSON can hold.
    apply: (plan, symbols, inputs, state, generator) changes tensors in place or replaces them in the dicts, and may
        return where and how outputs are compared.
    changes_state: whether `apply` touches state. Such a case gets a state of its own and a fresh model.
    """

    strategy: Callable[[Mapping[str, Value]], SearchStrategy[Plan]]
    apply: Callable[[Plan, Mapping[str, Value], dict[str, Tensor], dict[str, Tensor], Generator], Regions]
    changes_state: bool = False


def plans(structure: Structure, symbols: Mapping[str, Value], seed: int, count: int) -> list[Plan]:
    """`count` plans for one shape, the same ones for the same seed; distinct where the strategy has that many.

    Hypothesis starts with the simplest example whatever the seed, so more are drawn than needed and `count` of them
    are picked at random. Raises DeckError when a plan is not plain data.
    """
    found: dict[str, None] = {}

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=8 * count + 8,
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
        verbosity=hypothesis.Verbosity.quiet,
    )
    @hypothesis.given(structure.strategy(symbols))
    def collect(plan: Plan) -> None:
        found.setdefault(_text(plan))

    with _seed_alone():
        collect()
    texts = list(found)
    chosen = random.Random(seed).sample(texts, min(count, len(texts)))
    return [json.loads(chosen[i % len(chosen)]) for i in range(count)]


@contextmanager
def _seed_alone() -> Iterator[None]:
    """Hypothesis mixes in constants from the source of whatever local modules are imported; a plan must not vary so."""
    provider: Any = getattr(hypothesis_providers, "HypothesisProvider", None)
    original = getattr(provider, "_maybe_draw_constant", None)
    if original is None:
        yield
        return
    provider._maybe_draw_constant = lambda *_, **__: None
    try:
        yield
    finally:
        provider._maybe_draw_constant = original


def _text(plan: Plan) -> str:
    try:
        text = json.dumps(plan, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise DeckError(f"a plan must be a dict that JSON can hold: {error}") from None
    if not isinstance(plan, dict) or json.loads(text) != plan or len(text) > MAX_PLAN_CHARS:
        raise DeckError("a plan must be a dict of at most 1 MB that JSON gives back as it was (lists, no tuples)")
    return text
