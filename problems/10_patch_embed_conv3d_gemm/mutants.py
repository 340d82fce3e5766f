"""Wrong patch embeddings: patches read in another order, parts of them left out, coarser numbers."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
import torch.nn as nn

from grader.mutation import Mutant, generic

from .reference import Model

Parts = tuple[torch.Tensor, torch.Tensor]
"""Patches [B, t, h, w, C, kT, kH, kW] and the weight [embed, C, kT, kH, kW], in fp32."""


class Embed(Model):
    """The product in fp32 with the patches and the weight changed before it, or the grid after it."""

    def __init__(self, change: Any, product: Any, end: Any, init: Mapping[str, Any]) -> None:
        super().__init__(**init)
        self.change, self.product, self.end = change, product, end

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = self.conv.weight
        kernel = weight.shape[2:]
        grid = [size // k for size, k in zip(x.shape[2:], kernel, strict=True)]
        split = x.reshape(*x.shape[:2], *(n for pair in zip(grid, kernel, strict=True) for n in pair))
        patches, rows = self.change(split.permute(0, 2, 4, 6, 1, 3, 5, 7).float(), weight.float())
        y = self.product(patches.reshape(-1, rows[0].numel()), rows.flatten(1).T)
        out = y.to(torch.bfloat16).reshape(x.shape[0], *grid, -1).permute(0, 4, 1, 2, 3)
        return self.end(out).contiguous()


def narrow_sum(dtype: torch.dtype, step: int, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a @ b with the running sum rounded to `dtype` after every `step` products."""
    total = torch.zeros(a.shape[0], b.shape[1], device=a.device)
    for k in range(0, a.shape[1], step):
        total = (total + a[:, k : k + step] @ b[k : k + step]).to(dtype).float()
    return total


def product_without(columns: Callable[[int], slice], a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Values of a patch, in the order of the weight, that are never read."""
    kept = a.clone()
    kept[:, columns(a.shape[1])] = 0
    return kept @ b


def as_is(patches: torch.Tensor, weight: torch.Tensor) -> Parts:
    return patches, weight


def same(out: torch.Tensor) -> torch.Tensor:
    return out


def fp8(t: torch.Tensor) -> torch.Tensor:
    """Rounded to e4m3, with the largest magnitude at 448."""
    scale = t.abs().max().clamp(min=1e-30) / 448
    return (t / scale).to(torch.float8_e4m3fn).float() * scale


def one_column_late(p: torch.Tensor) -> torch.Tensor:
    """Patches that begin one pixel to the right; the last pixel of the row comes first."""
    b, t, h, w, c, kt, kh, kw = p.shape
    rows = p.permute(0, 1, 2, 4, 5, 6, 3, 7).reshape(b, t, h, c, kt, kh, w * kw).roll(-1, -1)
    return rows.unflatten(-1, (w, kw)).permute(0, 1, 2, 6, 3, 4, 5, 7)


ORDERS: list[tuple[str, str, Callable[..., Parts]]] = [
    ("rows-for-columns", "Height and width are swapped inside a patch.", lambda p, w: (p.transpose(-1, -2), w)),
    ("channels-last", "A patch is read with its channels innermost.",
     lambda p, w: (p.permute(0, 1, 2, 3, 5, 6, 7, 4), w)),
    ("channels-reversed", "Channels come in the other order.", lambda p, w: (p.flip(4), w)),
    ("one-channel", "The first channel is used for all.", lambda p, w: (p[:, :, :, :, :1].expand_as(p), w)),
    ("kernel-flipped", "The kernel is flipped, as a convolution in the books is.", lambda p, w: (p, w.flip(2, 3, 4))),
    ("one-pixel-late", "Patches begin one pixel late.", lambda p, w: (one_column_late(p), w)),
    ("patch-of-the-left", "Each patch is its left neighbour.", lambda p, w: (p.roll(1, 3), w)),
    ("x-in-fp8", "x is narrowed to e4m3.", lambda p, w: (fp8(p), w)),
    ("weight-in-fp8", "The weight is narrowed to e4m3.", lambda p, w: (p, fp8(w))),
    ("last-column-of-a-patch", "The last column of each patch is never read.",
     lambda p, w: (p, torch.cat((w[..., :-1], torch.zeros_like(w[..., -1:])), -1))),
    ("last-channel", "The last channel is never read.",
     lambda p, w: (p, torch.cat((w[:, :-1], torch.zeros_like(w[:, -1:])), 1))),
]  # fmt: skip
PRODUCTS = [
    ("last-value-of-a-patch", "The last value of each patch is never read.",
     partial(product_without, lambda k: slice(k - 1, k))),
    ("last-eight-of-a-patch", "The last 8 values of each patch are never read.",
     partial(product_without, lambda k: slice(k - 8, k))),
    ("k-slice-dropped", "16 values in the middle of each patch are never read.",
     partial(product_without, lambda k: slice(k // 2, k // 2 + 16))),
    ("bf16-accumulator", "The running sum is bf16.", partial(narrow_sum, torch.bfloat16, 16)),
    ("f16-accumulator", "The running sum is fp16, rounded every 4 values.", partial(narrow_sum, torch.float16, 4)),
]  # fmt: skip
ENDS = [
    ("grid-transposed", "Patches of a frame come out column by column.",
     lambda out: out.transpose(3, 4).reshape(out.shape)),
    ("channel-one-off", "Embedding channels are stored one off.", lambda out: out.roll(1, 1)),
    ("last-patch-row", "The last row of patches is left at zero.",
     lambda out: torch.cat((out[:, :, :, :-1], torch.zeros_like(out[:, :, :, -1:])), 3)),
    ("doubled-by-the-first", "The first patch is stored everywhere.", lambda out: out[..., :1, :1].expand_as(out)),
]  # fmt: skip

MUTANTS = (
    *generic(Model),
    *(Mutant(name, idea, partial(Embed, change, torch.matmul, same)) for name, idea, change in ORDERS),
    *(Mutant(name, idea, partial(Embed, as_is, product, same)) for name, idea, product in PRODUCTS),
    *(Mutant(name, idea, partial(Embed, as_is, torch.matmul, end)) for name, idea, end in ENDS),
)
