"""Structured logits of the softmax. The heads-and-swamp case half-tests the compensation itself.

Each of its rows has a few heads at exactly 0 and the rest, the swamp, at -17.4 or a little below: one exponential of
the swamp is less than half a unit in the last place of 1, so a running fp32 sum that holds a head loses all that come
after it, while together they are 1e-6 of the sum and more. Outputs are compared at the heads, where nothing else is
rounded. A sum that is made as a deep tree passes too: no numbers can tell that from a compensated one.
"""

from collections.abc import Mapping
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Generator, Tensor

from grader.structure import Region, Structure

Plan = dict[str, Any]
Symbols = Mapping[str, Any]
Tensors = dict[str, Tensor]

SWAMP = -17.4
HEADS = (1, 32, 1024, 4096)


def _swamp_plan(symbols: Symbols) -> st.SearchStrategy[Plan]:
    """Which size of head comes first, how far below -17.4 the swamp is, and whether heads stand together."""
    return st.fixed_dictionaries({
        "first": st.integers(0, len(HEADS) - 1),
        "below": st.integers(0, 63).map(lambda n: n / 512),
        "scattered": st.booleans(),
    })


def _swamp(plan: Plan, symbols: Symbols, inputs: Tensors, state: Tensors, g: Generator) -> Region:
    """Row r has HEADS[first + r] heads (at most an eighth of it): at its start, or at even distances from its start.

    The swamp is a little lower in each row, so that rows differ in their sums.
    """
    batch, vocab = inputs["x"].shape
    x = torch.full_like(inputs["x"], SWAMP - plan["below"])
    x -= torch.arange(batch, device=x.device)[:, None] / 4096
    heads = torch.zeros(batch, vocab, dtype=torch.bool, device=x.device)
    for row in range(batch):
        count = min(HEADS[(plan["first"] + row) % len(HEADS)], vocab // 8)
        step = vocab // count if plan["scattered"] else 1
        heads[row, : count * step : step] = True
    inputs["x"] = x.masked_fill_(heads, 0.0)
    return Region(heads, "element")


def _tail_plan(symbols: Symbols) -> st.SearchStrategy[Plan]:
    return st.fixed_dictionaries({"drop": st.integers(30, 60), "side": st.sampled_from(["front", "back", "odd"])})


def _tail(plan: Plan, symbols: Symbols, inputs: Tensors, state: Tensors, g: Generator) -> None:
    """One half of each row is `drop` lower than drawn."""
    x = inputs["x"].clamp(-5, 5)
    half = x.shape[1] // 2
    part = {"front": slice(0, half), "back": slice(half, None), "odd": slice(1, None, 2)}[plan["side"]]
    x[:, part] -= plan["drop"]
    inputs["x"] = x


def _offset_plan(symbols: Symbols) -> st.SearchStrategy[Plan]:
    """Large logits get beyond 88, where a plain exponential overflows, and none beyond 128.

    Half a unit in the last place of a larger one would move its exponential by more than the bound.
    """
    return st.fixed_dictionaries({"offset": st.sampled_from([80.0, 85.0, -80.0, -85.0])})


def _offset(plan: Plan, symbols: Symbols, inputs: Tensors, state: Tensors, g: Generator) -> None:
    """Even rows are moved by the offset, odd ones the other way, so that no maximum serves two rows."""
    x = inputs["x"]
    sign = 1 - 2 * (torch.arange(x.shape[0], device=x.device) % 2)
    inputs["x"] = x + plan["offset"] * sign[:, None]


def _dominating_plan(symbols: Symbols) -> st.SearchStrategy[Plan]:
    return st.fixed_dictionaries({"place": st.integers(1, symbols["vocab"] - 2), "first": st.integers(0, 2)})


def _dominating(plan: Plan, symbols: Symbols, inputs: Tensors, state: Tensors, g: Generator) -> Region:
    """One place of each row, in turn the plan's, the last and the first, is above the others: by 40 and 200 in turn.

    Exponentials below e^-80 may be lost in fp32 and are not compared.
    """
    x = inputs["x"]
    places = (plan["place"], x.shape[1] - 1, 0)
    for row in range(x.shape[0]):
        turn = (plan["first"] + row) % 3
        x[row, places[turn]] = x[row].max() + (200 if row % 2 else 40)
    return Region(x >= x.amax(-1, keepdim=True) - 80, "element")


def _equal_plan(symbols: Symbols) -> st.SearchStrategy[Plan]:
    return st.fixed_dictionaries({"value": st.floats(-80, 80, width=32)})


def _equal(plan: Plan, symbols: Symbols, inputs: Tensors, state: Tensors, g: Generator) -> None:
    """Row r holds value + (r modulo 32) everywhere."""
    x = inputs["x"]
    step = torch.arange(x.shape[0], device=x.device, dtype=x.dtype) % 32
    x.copy_((plan["value"] + step)[:, None].expand_as(x))


STRUCTURES = {
    "heads-and-swamp": Structure(_swamp_plan, _swamp),
    "zero-tail": Structure(_tail_plan, _tail),
    "common-offset": Structure(_offset_plan, _offset),
    "dominating": Structure(_dominating_plan, _dominating),
    "all-equal": Structure(_equal_plan, _equal),
}
