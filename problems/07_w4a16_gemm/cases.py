"""Structured inputs of the 4-bit GEMM: which rows of K and which groups matter, and extreme scales and zero points."""

from collections.abc import Mapping
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Generator, Tensor

from grader.structure import Structure

Plan = dict[str, Any]
Symbols = Mapping[str, Any]
Tensors = dict[str, Tensor]

GROUP = 128


def _mixed_plan(symbols: Symbols) -> st.SearchStrategy[Plan]:
    return st.fixed_dictionaries({"spread": st.integers(4, 12), "period": st.sampled_from([2, 3, 7])})


def _mixed(plan: Plan, symbols: Symbols, inputs: Tensors, state: Tensors, g: Generator) -> None:
    """Row i of x is scaled by 2^-(spread * (i mod period) / (period - 1))."""
    x = inputs["x"]
    place = torch.arange(x.shape[0], device=x.device) % plan["period"]
    inputs["x"] = x * torch.exp2(-(plan["spread"] * place / (plan["period"] - 1)).round()).to(x.dtype)[:, None]


def _hot_group_plan(symbols: Symbols) -> st.SearchStrategy[Plan]:
    last = symbols["K"] // GROUP - 1
    return st.fixed_dictionaries({"group": st.sampled_from([0, last]) | st.integers(0, last)})


def _hot_group(plan: Plan, symbols: Symbols, inputs: Tensors, state: Tensors, g: Generator) -> None:
    """Columns of x outside one group are divided by 64."""
    x = inputs["x"]
    factor = torch.full((x.shape[1],), 1 / 64, dtype=x.dtype, device=x.device)
    factor[plan["group"] * GROUP : (plan["group"] + 1) * GROUP] = 1
    inputs["x"] = x * factor


def _hot_row_plan(symbols: Symbols) -> st.SearchStrategy[Plan]:
    groups = symbols["K"] // GROUP
    edge = st.tuples(st.integers(0, groups - 1), st.sampled_from([0, 1, GROUP - 2, GROUP - 1]))
    place = edge.map(lambda at: at[0] * GROUP + at[1])
    return st.fixed_dictionaries({"rows": st.lists(place, min_size=1, max_size=3, unique=True)})


def _hot_row(plan: Plan, symbols: Symbols, inputs: Tensors, state: Tensors, g: Generator) -> None:
    """A few columns of x, of both parities and at the edges of groups, are 256 times as large as the others."""
    x = inputs["x"]
    rows = sorted({*plan["rows"], x.shape[1] - 1, plan["rows"][0] ^ 1})
    factor = torch.full((x.shape[1],), 1 / 256, dtype=x.dtype, device=x.device)
    factor[torch.tensor(rows, device=x.device)] = 1
    inputs["x"] = x * factor


def _end_points_plan(symbols: Symbols) -> st.SearchStrategy[Plan]:
    return st.fixed_dictionaries({"pattern": st.sampled_from(["zero", "fifteen", "by group", "by column"])})


def _end_points(plan: Plan, symbols: Symbols, inputs: Tensors, state: Tensors, g: Generator) -> None:
    """Zero points are 0 or 15: everywhere, by group or by column."""
    zeros = torch.zeros_like(state["zeros"])
    chosen = {"zero": zeros[:0], "fifteen": zeros, "by group": zeros[::2], "by column": zeros[:, ::2]}
    chosen[plan["pattern"]].fill_(15)
    state["zeros"] = zeros


def _spread_plan(symbols: Symbols) -> st.SearchStrategy[Plan]:
    return st.fixed_dictionaries({"bits": st.integers(3, 8), "by": st.sampled_from(["group", "column", "both"])})


def _spread(plan: Plan, symbols: Symbols, inputs: Tensors, state: Tensors, g: Generator) -> None:
    """Scales are multiplied by 2^-n, n up to `bits` and drawn by group, by column or for each of them."""
    scales = state["scales"]
    groups, columns = scales.shape
    size = {"group": (groups, 1), "column": (1, columns), "both": (groups, columns)}[plan["by"]]
    power = torch.randint(plan["bits"] + 1, size, generator=g, device=scales.device)
    state["scales"] = scales * torch.exp2(-power.float()).to(scales.dtype)


STRUCTURES = {
    "mixed-rows": Structure(_mixed_plan, _mixed),
    "hot-group": Structure(_hot_group_plan, _hot_group),
    "hot-row": Structure(_hot_row_plan, _hot_row),
    "end-points": Structure(_end_points_plan, _end_points, changes_state=True),
    "spread-scales": Structure(_spread_plan, _spread, changes_state=True),
}
