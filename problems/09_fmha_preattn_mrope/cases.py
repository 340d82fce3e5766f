"""Structured inputs of the rotary embedding: positions at their limits, in a grid, and amplitudes by head."""

from collections.abc import Mapping
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Generator, Tensor

from grader.structure import Structure

Symbols = Mapping[str, Any]
Plan = dict[str, Any]

AXES = ("pos_t", "pos_h", "pos_w")


def draw_extremes(symbols: Symbols) -> st.SearchStrategy[Plan]:
    """How many of the last positions count as extreme, and the share of tokens that have an extreme one."""
    return st.fixed_dictionaries({"width": st.integers(1, 4), "share": st.sampled_from([0.5, 0.75, 1.0])})


def apply_extremes(
    plan: Plan, symbols: Symbols, inputs: dict[str, Tensor], state: dict[str, Tensor], generator: Generator
) -> None:
    last = int(symbols["max_pos"]) - 1
    for axis in AXES:
        at = inputs[axis]
        off = torch.randint(0, plan["width"], at.shape, generator=generator, device=at.device)
        low = torch.rand(at.shape, generator=generator, device=at.device) < 0.5
        chosen = torch.rand(at.shape, generator=generator, device=at.device) < plan["share"]
        inputs[axis] = torch.where(chosen, torch.where(low, off, last - off), at).to(at.dtype)


def draw_grid(symbols: Symbols) -> st.SearchStrategy[Plan]:
    """Tokens of text before the picture, the picture's width, and the position that the text starts at."""
    length, positions = int(symbols["T"]), int(symbols["max_pos"])
    return st.fixed_dictionaries(
        {
            "text": st.integers(1, length // 2),
            "width": st.integers(2, max(2, length // 4)),
            "start": st.integers(1, max(1, positions - 2 * length)),
        }
    )


def apply_grid(
    plan: Plan, symbols: Symbols, inputs: dict[str, Tensor], state: dict[str, Tensor], generator: Generator
) -> None:
    """Text at rising positions; then the picture: one time, and rows and columns counted from where the text ends."""
    like = inputs["pos_t"]
    text, start = plan["text"], plan["start"]
    prefix = torch.arange(start, start + text, device=like.device)
    cells = torch.arange(like.shape[1] - text, device=like.device)
    picture = (torch.full_like(cells, 0), cells // plan["width"], cells % plan["width"])
    for axis, part in zip(AXES, picture):
        row = torch.cat((prefix, start + text + part)).clamp(max=int(symbols["max_pos"]) - 1)
        inputs[axis] = row.expand(like.shape).to(like.dtype).contiguous()


def draw_heads(symbols: Symbols) -> st.SearchStrategy[Plan]:
    """The powers of two between which amplitudes lie."""
    return st.fixed_dictionaries({"low": st.integers(-8, -2), "high": st.integers(1, 6)})


def apply_heads(
    plan: Plan, symbols: Symbols, inputs: dict[str, Tensor], state: dict[str, Tensor], generator: Generator
) -> None:
    for name in ("q", "k"):
        x = inputs[name]
        size = (*x.shape[:3], 1)
        powers = torch.randint(plan["low"], plan["high"] + 1, size, generator=generator, device=x.device)
        x.mul_(powers.float().exp2().to(x.dtype))


def draw_cancelling(symbols: Symbols) -> st.SearchStrategy[Plan]:
    """A channel of each section, among its first and so fastest ones."""
    starts = [sum(symbols["mrope_section"][:axis]) for axis in range(3)]
    return st.fixed_dictionaries({"channels": st.tuples(*(st.integers(s, s + 3) for s in starts)).map(list)})


def apply_cancelling(
    plan: Plan, symbols: Symbols, inputs: dict[str, Tensor], state: dict[str, Tensor], generator: Generator
) -> None:
    """Where the sine is not small, left * cos = right * sin for large values of the pair, but for right's rounding."""
    half = int(symbols["D"]) // 2
    for channel, axis in zip(plan["channels"], AXES):
        cos, sin = (state[name][inputs[axis], channel].float()[..., None] for name in ("cos_cache", "sin_cache"))
        for name in ("q", "k"):
            x = inputs[name]
            left, right = x[..., channel].float() * 16, x[..., half + channel].float()
            x[..., channel] = left.to(x.dtype)
            x[..., half + channel] = torch.where(sin.abs() > 0.3, left * cos / sin, right).to(x.dtype)


STRUCTURES = {
    "extreme-positions": Structure(draw_extremes, apply_extremes),
    "text-and-grid": Structure(draw_grid, apply_grid),
    "own-heads": Structure(draw_heads, apply_heads),
    "cancelling-pairs": Structure(draw_cancelling, apply_cancelling),
}
