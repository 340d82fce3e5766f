"""Wrong fp8 GEMMs: a part of K left out, operands or sums less precise, the weight or its scale misread."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
import torch.nn as nn

from grader.mutation import Mutant, generic

from .reference import Model

TILE = 32


class Gemm(Model):
    """The reference with its operands changed before the product, or with a product of its own."""

    def __init__(self, change: Callable[..., tuple[torch.Tensor, ...]], product: Any, init: Mapping[str, Any]) -> None:
        super().__init__(**init)
        self.change, self.product = change, product

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        left, right, scale = self.change(x.float(), self.weight.float(), self.weight_scale)
        return (self.product(left, right.T) * scale).to(torch.bfloat16)


def narrow_sum(dtype: torch.dtype, step: int, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """left @ right with the running sum rounded to `dtype` after every `step` products."""
    total = torch.zeros(left.shape[0], right.shape[1], device=left.device)
    for k in range(0, left.shape[1], step):
        total = (total + left[:, k : k + step] @ right[k : k + step]).to(dtype).float()
    return total


def without(first: int, last: int, x: torch.Tensor) -> torch.Tensor:
    """x with columns first to last (counted from the end where negative) at zero."""
    kept = x.clone()
    kept[:, first : x.shape[1] if last == 0 else last] = 0
    return kept


def tiles_transposed(w: torch.Tensor) -> torch.Tensor:
    """Each whole 32 x 32 tile of w transposed."""
    rows, columns = w.shape[0] // TILE * TILE, w.shape[1] // TILE * TILE
    out = w.clone()
    tiles = w[:rows, :columns].unflatten(0, (-1, TILE)).unflatten(2, (-1, TILE))
    out[:rows, :columns] = tiles.transpose(1, 3).reshape(rows, columns)
    return out


def int4_rows(w: torch.Tensor) -> torch.Tensor:
    """w in 4 bits a value, scaled by row."""
    step = w.abs().amax(1, keepdim=True).clamp(min=1e-9) / 7
    return (w / step).round() * step


def second_block_again(x: torch.Tensor) -> torch.Tensor:
    """The first 32 columns read a second time in place of the next."""
    out = x.clone()
    out[:, TILE : 2 * TILE] = x[:, :TILE]
    return out


def narrowed(t: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return t.to(dtype).float()


E5M2 = torch.float8_e5m2
OPERANDS: list[tuple[str, str, Callable[..., Any]]] = [
    ("last-of-k-left-out", "The last column of K is never read.", lambda x, w, s: (without(-1, 0, x), w, s)),
    ("last-sixteen-of-k", "The last 16 columns of K are never read.", lambda x, w, s: (without(-16, 0, x), w, s)),
    ("first-of-k-left-out", "The first 8 columns of K are never read.", lambda x, w, s: (without(0, 8, x), w, s)),
    ("k-slice-dropped", "16 columns in the middle of K are never read.",
     lambda x, w, s: (without(x.shape[1] // 2, x.shape[1] // 2 + 16, x), w, s)),
    ("k-block-twice", "A block of x is multiplied with the next block of the weight.",
     lambda x, w, s: (second_block_again(x), w, s)),
    ("x-in-e5m2", "x is narrowed to two fraction bits.", lambda x, w, s: (narrowed(x, E5M2), w, s)),
    ("weight-in-e5m2", "The weight is narrowed to two fraction bits.", lambda x, w, s: (x, narrowed(w, E5M2), s)),
    ("weight-in-int4", "The weight is quantised again, to four bits.", lambda x, w, s: (x, int4_rows(w), s)),
    ("scale-of-the-next-channel", "Scales are read one channel off.", lambda x, w, s: (x, w, s.roll(1))),
    ("scale-per-tensor", "One scale, the mean, serves all channels.", lambda x, w, s: (x, w, s.mean().expand_as(s))),
    ("scale-ignored", "The channel's scale is left out.", lambda x, w, s: (x, w, torch.ones_like(s))),
    ("scale-by-pairs", "Two neighbouring channels share the first one's scale.",
     lambda x, w, s: (x, w, s[::2].repeat_interleave(2))),
    ("tiles-transposed", "Every 32 x 32 tile of the weight is transposed.",
     lambda x, w, s: (x, tiles_transposed(w), s)),
    ("rows-swapped", "Neighbouring rows of x are swapped.",
     lambda x, w, s: (x.unflatten(0, (-1, 2)).flip(1).flatten(0, 1), w, s)),
    ("negative-zeroed", "The sign of x is lost: negative values become zero.", lambda x, w, s: (x.clamp(min=0), w, s)),
]  # fmt: skip


def unchanged(x: torch.Tensor, w: torch.Tensor, s: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x, w, s


SUMS = [
    ("f16-accumulator", "The running sum is fp16, and overflows.", partial(narrow_sum, torch.float16, 32)),
    ("bf16-accumulator", "The running sum is bf16.", partial(narrow_sum, torch.bfloat16, 8)),
]

MUTANTS = (
    *generic(Model),
    *(Mutant(name, idea, partial(Gemm, change, torch.matmul)) for name, idea, change in OPERANDS),
    *(Mutant(name, idea, partial(Gemm, unchanged, product)) for name, idea, product in SUMS),
)
