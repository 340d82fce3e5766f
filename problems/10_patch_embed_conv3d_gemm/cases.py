"""Structured volumes of the patch embedding: patches of different sizes, and what lies at the edges of a patch."""

from collections.abc import Mapping
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Generator, Tensor

from grader.structure import Structure

Plan = dict[str, Any]
Symbols = Mapping[str, Any]
Tensors = dict[str, Tensor]


def _grid(symbols: Symbols) -> tuple[int, int, int]:
    """Patches along time, height and width."""
    return symbols["T"] // symbols["kT"], symbols["H"] // symbols["kH"], symbols["W"] // symbols["kW"]


def _patches(x: Tensor, symbols: Symbols) -> Tensor:
    """A view [B, C, T/kT, kT, H/kH, kH, W/kW, kW] of x."""
    t, h, w = _grid(symbols)
    return x.view(x.shape[0], x.shape[1], t, symbols["kT"], h, symbols["kH"], w, symbols["kW"])


def _mixed_plan(symbols: Symbols) -> st.SearchStrategy[Plan]:
    return st.fixed_dictionaries({"spread": st.integers(4, 10)})


def _mixed(plan: Plan, symbols: Symbols, inputs: Tensors, state: Tensors, g: Generator) -> None:
    """Each patch is scaled by 2^-n with an n of its own, 0 to `spread`."""
    x = inputs["x"]
    t, h, w = _grid(symbols)
    power = torch.randint(plan["spread"] + 1, (x.shape[0], 1, t, 1, h, 1, w, 1), generator=g, device=x.device)
    _patches(x, symbols).mul_(torch.exp2(-power.float()).to(x.dtype))


def _edge_plan(symbols: Symbols) -> st.SearchStrategy[Plan]:
    return st.fixed_dictionaries({"edge": st.sampled_from(["channel", "frame", "row", "column", "corner"])})


def _edge(plan: Plan, symbols: Symbols, inputs: Tensors, state: Tensors, g: Generator) -> None:
    """All but the last channel, frame, row, column or single value of each patch is divided by 64."""
    x = inputs["x"]
    keep = torch.zeros(_patches(x, symbols).shape, dtype=torch.bool, device=x.device)
    edges = {
        "channel": keep[:, -1],
        "frame": keep[:, :, :, -1],
        "row": keep[:, :, :, :, :, -1],
        "column": keep[..., -1],
        "corner": keep[:, -1, :, -1, :, -1, :, -1],
    }
    edges[plan["edge"]].fill_(True)
    inputs["x"] = torch.where(keep.view(x.shape), x, x / 64)


def _one_plan(symbols: Symbols) -> st.SearchStrategy[Plan]:
    sizes = (symbols["B"], *_grid(symbols))
    return st.fixed_dictionaries({"at": st.tuples(*(st.integers(0, n - 1) for n in sizes)).map(list)})


def _one(plan: Plan, symbols: Symbols, inputs: Tensors, state: Tensors, g: Generator) -> None:
    """Every patch but one is zero, and the last one of the volume is kept as well."""
    x = inputs["x"]
    patches = _patches(x, symbols)
    only = torch.zeros_like(patches)
    for b, t, h, w in (plan["at"], [n - 1 for n in (symbols["B"], *_grid(symbols))]):
        only[b, :, t, :, h, :, w] = patches[b, :, t, :, h, :, w]
    inputs["x"] = only.view(x.shape)


STRUCTURES = {
    "mixed-patches": Structure(_mixed_plan, _mixed),
    "hot-edge": Structure(_edge_plan, _edge),
    "one-patch": Structure(_one_plan, _one),
}
