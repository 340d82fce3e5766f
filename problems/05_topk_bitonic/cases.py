"""Structured rows of the top-k: where the largest values stand, and what is equal or almost equal to them."""

from collections.abc import Mapping
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Generator, Tensor

from grader.structure import Structure

Plan = dict[str, Any]
Symbols = Mapping[str, Any]
Tensors = dict[str, Tensor]

STRETCH = 1024


def _clustered_plan(symbols: Symbols) -> st.SearchStrategy[Plan]:
    n, k = symbols["n"], symbols["k"]
    stretch = min(STRETCH, n // 4)
    return st.fixed_dictionaries({
        "start": st.integers(0, n // stretch - 1).map(lambda part: part * stretch),
        "length": st.sampled_from([stretch, max(2 * k, stretch // 4), max(2 * k, 8)]),
        "more": st.integers(1, k),
    })


def _clustered(plan: Plan, symbols: Symbols, inputs: Tensors, state: Tensors, g: Generator) -> None:
    """k + more values of one stretch are lifted above all others, in an order of their own in each row."""
    x = inputs["x"]
    batch, n = x.shape
    length = min(plan["length"], n - plan["start"])
    count = min(symbols["k"] + plan["more"], length)
    place = torch.rand(batch, length, device=x.device, generator=g).argsort(-1)[:, :count] + plan["start"]
    x.scatter_(1, place, x.gather(1, place).abs() + 16)


def _ties_plan(symbols: Symbols) -> st.SearchStrategy[Plan]:
    return st.fixed_dictionaries({"different": st.sampled_from([1, 2, 3, 17]), "top": st.integers(0, symbols["k"])})


def _ties(plan: Plan, symbols: Symbols, inputs: Tensors, state: Tensors, g: Generator) -> None:
    """A row holds `different` values; `top` places of it hold a larger one."""
    x = inputs["x"]
    levels = torch.randint(plan["different"], x.shape, generator=g, device=x.device)
    x.copy_(levels.float() - plan["different"] / 2)
    if plan["top"]:
        place = torch.rand(x.shape, device=x.device, generator=g).argsort(-1)[:, : plan["top"]]
        x.scatter_(1, place, 32.0)


def _sorted_plan(symbols: Symbols) -> st.SearchStrategy[Plan]:
    return st.fixed_dictionaries({"descending": st.booleans(), "rotate": st.sampled_from([1, 7, 511])})


def _sorted(plan: Plan, symbols: Symbols, inputs: Tensors, state: Tensors, g: Generator) -> None:
    """Every other row falls and the rest rise; all but the first two are then rotated by a few places."""
    ordered = inputs["x"].sort(dim=-1, descending=plan["descending"]).values
    ordered[1::2] = ordered[1::2].flip(-1)
    ordered[2:] = ordered[2:].roll(plan["rotate"], dims=-1)
    inputs["x"] = ordered


def _edges_plan(symbols: Symbols) -> st.SearchStrategy[Plan]:
    return st.fixed_dictionaries({"stretch": st.sampled_from([256, 1000, 1536, 2048]), "rising": st.booleans()})


def _borders(n: int, size: int) -> list[int]:
    """The last place of each stretch and the first of the next, from the end of the row."""
    return [place for start in range(n - 1 - (n - 1) % size, 0, -size) for place in (start - 1, start)]


def _edges(plan: Plan, symbols: Symbols, inputs: Tensors, state: Tensors, g: Generator) -> None:
    """The largest values are at the row's ends, and on both sides of where stretches meet, of 1024 and of the plan's.

    Row r begins with the r-th of these places, so that each has its turn where k is 1.
    """
    x = inputs["x"]
    n, k = symbols["n"], symbols["k"]
    ours, theirs = _borders(n, STRETCH), _borders(n, plan["stretch"])
    inner = [place for pair in zip(ours, theirs * len(ours)) for place in pair]
    ends = list(dict.fromkeys((n - 1, 0, *inner)))
    for row in range(x.shape[0]):
        turn = row % len(ends)
        places = torch.tensor((ends[turn:] + ends[:turn])[:k], device=x.device)
        height = torch.arange(len(places), device=x.device, dtype=x.dtype)
        x[row, places] = 16 + (height if plan["rising"] else height.flip(0))


def _negative_plan(symbols: Symbols) -> st.SearchStrategy[Plan]:
    return st.fixed_dictionaries({"power": st.integers(-20, 30), "near": st.booleans()})


def _negative(plan: Plan, symbols: Symbols, inputs: Tensors, state: Tensors, g: Generator) -> None:
    """All values are below zero, of one size or close to one number."""
    scale = 2.0 ** plan["power"]
    values = -(inputs["x"].abs() + 2**-20) * scale
    inputs["x"] = values / 1024 - 4 * scale if plan["near"] else values


def _close_plan(symbols: Symbols) -> st.SearchStrategy[Plan]:
    return st.fixed_dictionaries({"base": st.floats(0.5, 1000, width=32), "negative": st.booleans()})


def _close(plan: Plan, symbols: Symbols, inputs: Tensors, state: Tensors, g: Generator) -> None:
    """A row is a permutation of n neighbouring fp32 numbers."""
    x = inputs["x"]
    order = torch.rand(x.shape, device=x.device, generator=g).argsort(-1).to(torch.int32)
    start = torch.tensor(plan["base"], dtype=torch.float32).view(torch.int32).item()
    values = (order + start).view(torch.float32)
    inputs["x"] = -values if plan["negative"] else values


STRUCTURES = {
    "clustered": Structure(_clustered_plan, _clustered),
    "ties": Structure(_ties_plan, _ties),
    "sorted": Structure(_sorted_plan, _sorted),
    "edges": Structure(_edges_plan, _edges),
    "negative": Structure(_negative_plan, _negative),
    "close": Structure(_close_plan, _close),
}
