"""Wrong softmaxes: sums that lose small terms, tails set to zero, a maximum that is not the row's."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn as nn

from grader.mutation import Mutant, generic

from .reference import Model


class Softmax(nn.Module):
    """exp(x - max) / sum with one of the steps replaced."""

    def __init__(self, steps: Mapping[str, Callable[..., torch.Tensor]], init: Mapping[str, Any]) -> None:
        super().__init__()
        self.steps = steps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        top = self.steps.get("top", row_max)(x)
        terms = self.steps.get("exp", torch.exp)(x - top)
        total = self.steps.get("sum", exact_sum)(terms)
        return self.steps.get("end", torch.clone)(terms / total)


class Chunked(nn.Module):
    """An online softmax in two halves that does not bring the first half's sum to the new maximum."""

    def __init__(self, init: Mapping[str, Any]) -> None:
        super().__init__()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        halves = x.chunk(2, dim=-1)
        total = sum(exact_sum((half - row_max(half)).exp()) for half in halves)
        return (x - row_max(x)).exp() / total


def row_max(x: torch.Tensor) -> torch.Tensor:
    return x.amax(-1, keepdim=True)


def exact_sum(terms: torch.Tensor) -> torch.Tensor:
    return terms.sum(-1, keepdim=True, dtype=torch.float64).float()


def running(strided: bool, lanes: int, terms: torch.Tensor) -> torch.Tensor:
    """`lanes` running fp32 sums without compensation, over neighbouring or strided terms; then merged exactly."""
    rows = terms.cpu().numpy().reshape(terms.shape[0], *((-1, lanes) if strided else (lanes, -1)))
    steps = rows if strided else np.ascontiguousarray(rows.transpose(0, 2, 1))
    # numpy's sum would be pairwise along a contiguous axis; an accumulation is not.
    last = np.add.accumulate(steps, axis=1, dtype=np.float32)[:, -1]
    total = last.sum(-1, keepdims=True, dtype=np.float64)
    return torch.from_numpy(total.astype(np.float32)).to(terms.device)


def running_tiles(terms: torch.Tensor) -> torch.Tensor:
    """64 tiles, each summed exactly, added up in a running fp32 sum."""
    tiles = exact_sum(terms.unflatten(-1, (64, -1))).squeeze(-1)
    total = torch.zeros_like(tiles[:, 0])
    for tile in tiles.unbind(-1):
        total = total + tile
    return total[:, None]


def wrong_sign(terms: torch.Tensor) -> torch.Tensor:
    """Kahan's loop in 32 lanes with the compensation added instead of taken away."""
    steps = terms.unflatten(-1, (-1, 32)).cpu().numpy()
    total = np.zeros_like(steps[:, 0])
    lost = np.zeros_like(total)
    for i in range(steps.shape[1]):
        term = steps[:, i] + lost
        after = total + term
        lost = (after - total) - term
        total = after
    return torch.from_numpy(total.sum(-1, keepdims=True, dtype=np.float64).astype(np.float32)).to(terms.device)


def narrow_sum(dtype: torch.dtype, terms: torch.Tensor) -> torch.Tensor:
    """Terms rounded to a narrow type before they are summed."""
    return exact_sum(terms.to(dtype).float())


def part_of_sum(last: Callable[[int], int], terms: torch.Tensor) -> torch.Tensor:
    return exact_sum(terms[:, : last(terms.shape[1])])


def rough_exp(x: torch.Tensor) -> torch.Tensor:
    """2^n times a cubic for the fraction, 1e-4 off."""
    power = x * 1.4426950408889634
    whole = power.floor()
    f = power - whole
    return torch.exp2(whole) * (1 + f * (0.695556856 + f * (0.226173572 + f * 0.0781455737)))


def tail_zeroed(limit: float, y: torch.Tensor) -> torch.Tensor:
    return torch.where(y < limit, 0.0, y)


def narrowed(dtype: torch.dtype, t: torch.Tensor) -> torch.Tensor:
    return t.to(dtype).float()


STEPS: list[tuple[str, str, dict[str, Callable[..., torch.Tensor]]]] = [
    ("running-sum-of-a-warp", "32 lanes keep running fp32 sums of strided terms.",
     {"sum": partial(running, True, 32)}),
    ("running-sum-of-chunks", "64 threads keep running fp32 sums of neighbouring terms.",
     {"sum": partial(running, False, 64)}),
    ("running-sum-of-one", "One thread keeps a running fp32 sum of the row.", {"sum": partial(running, True, 1)}),
    ("running-sum-of-tiles", "The sums of 64 tiles are added up in a running fp32 sum.", {"sum": running_tiles}),
    ("compensation-added", "Kahan's compensation has the wrong sign.", {"sum": wrong_sign}),
    ("bf16-terms-summed", "The exponentials are summed as bf16.", {"sum": partial(narrow_sum, torch.bfloat16)}),
    ("f16-terms-summed", "The exponentials are summed as fp16.", {"sum": partial(narrow_sum, torch.float16)}),
    ("sum-without-the-last", "The last term is not in the sum.", {"sum": partial(part_of_sum, lambda n: n - 1)}),
    ("sum-without-two-percent", "The last 2 % of the row are not in the sum.",
     {"sum": partial(part_of_sum, lambda n: n - n // 50)}),
    ("epsilon-in-the-sum", "1e-5 is added to the sum against a division by zero.",
     {"sum": lambda terms: exact_sum(terms) + 1e-5}),
    ("no-maximum", "No maximum is subtracted.", {"top": lambda x: torch.zeros_like(x[:, :1])}),
    ("maximum-of-all-rows", "The maximum is that of the whole batch.",
     {"top": lambda x: x.max().expand(x.shape[0], 1)}),
    ("maximum-of-the-first", "The row's first value serves as its maximum.", {"top": lambda x: x[:, :1]}),
    ("rough-exponential", "The exponential is a cubic, 1e-4 off.", {"exp": rough_exp}),
    ("base-two", "2 to the x instead of e to the x.", {"exp": torch.exp2}),
    ("tail-zeroed", "Outputs below 1e-9 are zero.", {"end": partial(tail_zeroed, 1e-9)}),
    ("deep-tail-zeroed", "Outputs below 1e-16 are zero.", {"end": partial(tail_zeroed, 1e-16)}),
    ("tail-clamped", "Arguments of the exponential are clamped at -20.", {"exp": lambda x: x.clamp(min=-20).exp()}),
    ("bf16-output", "The result is rounded to bf16 on its way.", {"end": partial(narrowed, torch.bfloat16)}),
    ("f16-exponential", "The argument of the exponential is rounded to fp16.",
     {"exp": lambda x: narrowed(torch.float16, x).exp()}),
]  # fmt: skip

MUTANTS = (
    *generic(Model),
    *(Mutant(name, idea, partial(Softmax, steps)) for name, idea, steps in STEPS),
    Mutant("never-rescaled", "Half a row's sum stays relative to that half's maximum.", Chunked),
)
