"""Structured inputs of the grouped GEMM: who owns the rows, and how large they are."""

from collections.abc import Mapping
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Generator, Tensor

from grader.structure import Structure

Symbols = Mapping[str, Any]
Plan = dict[str, Any]


def draw_unbalanced(symbols: Symbols) -> st.SearchStrategy[Plan]:
    """One expert with more than half of the rows; the others share the rest by small weights, some of them zero."""
    experts = int(symbols["E"])
    total = int(symbols["T_total"]) * int(symbols["K"])

    @st.composite
    def plan(draw: st.DrawFn) -> Plan:
        owner = draw(st.integers(0, experts - 1))
        share = draw(st.integers(total // 2 + 1, total - experts))
        weights = draw(st.lists(st.integers(0, 9), min_size=experts, max_size=experts))
        weights[owner] = 0
        counts = spread(total - share, weights, owner)
        counts[owner] += share
        return {"counts": counts}

    return plan()


def draw_empty(symbols: Symbols) -> st.SearchStrategy[Plan]:
    """At most half of the experts own rows, at uneven shares; one of them at least comes after an empty one."""
    experts = int(symbols["E"])
    total = int(symbols["T_total"]) * int(symbols["K"])

    @st.composite
    def plan(draw: st.DrawFn) -> Plan:
        some = st.sets(st.integers(0, experts - 1), min_size=1, max_size=max(1, experts // 2))
        owners = draw(some.filter(lambda drawn: max(drawn) >= len(drawn)))
        weights = [draw(st.integers(1, 9)) if expert in owners else 0 for expert in range(experts)]
        return {"counts": spread(total, weights, min(owners))}

    return plan()


def spread(total: int, weights: list[int], rest: int) -> list[int]:
    """`total` rows in proportion to the weights, rounded down; expert `rest` takes what is left."""
    whole = sum(weights)
    counts = [total * weight // whole if whole else 0 for weight in weights]
    counts[rest] += total - sum(counts)
    return counts


def apply_counts(
    plan: Plan, symbols: Symbols, inputs: dict[str, Tensor], state: dict[str, Tensor], generator: Generator
) -> None:
    old = inputs["expert_offsets"]
    bounds = torch.tensor([0, *plan["counts"]]).cumsum(0)
    inputs["expert_offsets"] = bounds.to(dtype=old.dtype, device=old.device)


def draw_rows(symbols: Symbols) -> st.SearchStrategy[Plan]:
    """The powers of two between which the rows' amplitudes lie."""
    return st.fixed_dictionaries({"low": st.integers(-8, -2), "high": st.integers(7, 9)})


def apply_rows(
    plan: Plan, symbols: Symbols, inputs: dict[str, Tensor], state: dict[str, Tensor], generator: Generator
) -> None:
    hidden = inputs["hidden_states"]
    rows = (hidden.shape[0], 1)
    powers = torch.randint(plan["low"], plan["high"] + 1, rows, generator=generator, device=hidden.device)
    hidden.mul_(powers.float().exp2().to(hidden.dtype))


STRUCTURES = {
    "unbalanced": Structure(draw_unbalanced, apply_counts),
    "empty-experts": Structure(draw_empty, apply_counts),
    "mixed-rows": Structure(draw_rows, apply_rows),
}
