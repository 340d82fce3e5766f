"""Bounds of sums: what was worked out before is used again only where it must come out the same."""

from __future__ import annotations

import random

from kbh_lint.kernels.extents import intervals
from kbh_lint.kernels.extents.intervals import Atoms, Limits, Linear, add, highest, limited, lowest, scaled


def _made(seed: int) -> tuple[Atoms, list[Linear], list[Limits]]:
    """Some numbers, what operations make of them, and conditions on them; the same for the same seed."""
    rng, atoms = random.Random(seed), Atoms()
    values = [atoms.between(rng.choice((None, 0, -3)), rng.choice((None, 7, 40))) for _ in range(4)]
    for _ in range(8):
        a, b = rng.choice(values), rng.choice((*values, Linear(rng.randint(1, 9))))
        values.append(atoms.apply(rng.choice(("+", "-", "*", "//", "%", "min", "max", "&")), a, b))
    under: list[Limits] = [{}]
    for _ in range(5):
        under.append(limited(rng.choice(under), rng.choice(values), Linear(rng.randint(-4, 30)), 1))
    return atoms, values, under


def test_an_answer_does_not_depend_on_what_was_asked_before() -> None:
    for seed in range(60):
        atoms, values, under = _made(seed)
        asked = [(ask, at, on) for ask in (highest, lowest) for at in range(len(values)) for on in range(len(under))]
        random.Random(seed).shuffle(asked)
        for ask, at, on in asked * 2:
            atoms.steps = 0
            fresh, others, limits = _made(seed)
            assert ask(atoms, values[at], under[on]) == ask(fresh, others[at], limits[on])


def test_other_limits_give_another_answer() -> None:
    atoms = Atoms()
    x = atoms.between(0, 100)
    assert highest(atoms, x, {}) == 100
    narrow = limited({}, x, Linear(10))
    assert highest(atoms, x, narrow) == 10
    assert highest(atoms, add(x, Linear(5)), narrow) == 15
    assert highest(atoms, x, limited({}, x, Linear(20))) == 20
    assert highest(atoms, x, {}) == 100


def test_an_answer_that_is_there_costs_the_steps_that_it_did() -> None:
    atoms = Atoms()
    value = atoms.apply("//", add(atoms.between(0, 63), scaled(atoms.between(0, 7), 64)), Linear(3))
    highest(atoms, value, {})
    first = atoms.steps
    highest(atoms, value, {})
    assert atoms.steps == 2 * first
    atoms.steps = intervals.MAX_STEPS - 1
    assert highest(atoms, value, {}) is None
