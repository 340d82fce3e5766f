"""What may be less exact than the oracle: fp32 arithmetic on the bf16 caches, and one rounding of the result."""

from collections.abc import Callable, Mapping
from typing import Any

import torch

from grader.precision import round_to

# What the derivation samples: graded tables, fewer tokens.
SHAPES = [
    {"B": 1, "T": 512, "Hq": 32, "Hkv": 8, "D": 128, "mrope_section": [16, 24, 24], "max_pos": 32768},
    {"B": 2, "T": 512, "Hq": 16, "Hkv": 2, "D": 64, "mrope_section": [8, 12, 12], "max_pos": 16384},
]

Turn = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]

# What is rotated and the tables enter the fp32 arithmetic as they are.
INPUTS = "f32"


def legal(
    init: Mapping[str, Any],
    inputs: Mapping[str, torch.Tensor],
    state: Mapping[str, torch.Tensor],
    precision: Mapping[str, str],
) -> tuple[torch.Tensor, ...]:
    """q [B, Hq, T, D] and k [B, Hkv, T, D] bf16. `precision`: `arithmetic`, of both products and of their sum."""

    def narrow(t: torch.Tensor) -> torch.Tensor:
        return round_to(t, precision["arithmetic"])

    def turn(mine: torch.Tensor, other: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        return narrow(mine * cos) + narrow(other * sin)

    return turned(init, inputs, state, turn)


def fused(
    init: Mapping[str, Any],
    inputs: Mapping[str, torch.Tensor],
    state: Mapping[str, torch.Tensor],
    precision: Mapping[str, str],
) -> tuple[torch.Tensor, ...]:
    """As `legal`, with the first product and the sum in one multiply-add, rounded once."""

    def turn(mine: torch.Tensor, other: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        return (mine.double() * cos.double() + (other * sin).double()).float()

    return turned(init, inputs, state, turn)


def halves(
    init: Mapping[str, Any],
    inputs: Mapping[str, torch.Tensor],
    state: Mapping[str, torch.Tensor],
    precision: Mapping[str, str],
) -> tuple[torch.Tensor, ...]:
    """The multiply-add takes the other product; both halves of a row take angles from the tables' first half.

    The tables have each frequency twice, so that a kernel need not read all of them.
    """

    def turn(mine: torch.Tensor, other: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        return (other.double() * sin.double() + (mine * cos).double()).float()

    half = state["cos_cache"].shape[1] // 2
    return turned(init, inputs, {name: table[:, :half].repeat(1, 2) for name, table in state.items()}, turn)


def turned(
    init: Mapping[str, Any], inputs: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor], turn: Turn
) -> tuple[torch.Tensor, ...]:
    """Both tensors in bf16, each half of a row made by `turn` of its own half, the other one, cosines and sines."""
    sections = [int(width) for width in init["mrope_section"]]
    axes = torch.tensor([axis for axis, width in enumerate(sections) for _ in range(width)])
    cos, sin = (pick(state[name], inputs, axes) for name in ("cos_cache", "sin_cache"))
    half = cos.shape[-1] // 2
    out = []
    for name in ("q", "k"):
        x = inputs[name].float().transpose(1, 2)
        left, right = x[..., :half], x[..., half:]
        first = turn(left, -right, cos[..., :half], sin[..., :half])
        second = turn(right, left, cos[..., half:], sin[..., half:])
        out.append(torch.cat((first, second), dim=-1).to(torch.bfloat16).contiguous())
    return tuple(out)


def pick(cache: torch.Tensor, inputs: Mapping[str, torch.Tensor], axes: torch.Tensor) -> torch.Tensor:
    """[B, 1, T, D] f32: each channel of the cache at its axis's position; `axes` [D/2], the same in both halves."""
    rows = torch.stack([cache[inputs[name]] for name in ("pos_t", "pos_h", "pos_w")], dim=-1)
    both = torch.cat((axes, axes)).to(cache.device)
    return rows.gather(-1, both.expand(rows.shape[:-1])[..., None])[..., 0].float()[:, None]


VARIANTS = {"legal": legal, "fused": fused, "halves": halves}
