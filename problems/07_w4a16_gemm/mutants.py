"""Wrong 4-bit GEMMs: nibbles, zero points, scales and groups misread, a part of K left out, coarser numbers."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
import torch.nn as nn

from grader.mutation import Mutant, generic

from .reference import Model


class Gemm(Model):
    """The product in fp32 with `change` made to its parts: x, q [K, N], scales and zeros by row of K [K, N]."""

    def __init__(self, change: Any, product: Callable[..., torch.Tensor], init: Mapping[str, Any]) -> None:
        super().__init__(**init)
        self.change, self.product = change, product

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q = torch.stack((self.w_q & 0xF, self.w_q >> 4), dim=1).flatten(0, 1).float()
        scales = self.scales.float().repeat_interleave(self.group, dim=0)
        zeros = self.zeros.float().repeat_interleave(self.group, dim=0)
        parts = self.change({"x": x.float(), "q": q, "s": scales, "z": zeros})
        weight = parts["w"] if "w" in parts else (parts["q"] - parts["z"]) * parts["s"]
        return self.product(parts["x"], weight).to(torch.bfloat16)


def narrow_sum(dtype: torch.dtype, step: int, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """x @ w with the running sum rounded to `dtype` after every `step` products."""
    total = torch.zeros(x.shape[0], w.shape[1], device=x.device)
    for k in range(0, x.shape[1], step):
        total = (total + x[:, k : k + step] @ w[k : k + step]).to(dtype).float()
    return total


def without(rows: Callable[[int], slice], p: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Columns of x that are never read."""
    x = p["x"].clone()
    x[:, rows(x.shape[1])] = 0
    return {**p, "x": x}


def set_to(name: str, make: Callable[..., torch.Tensor], p: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {**p, name: make(p)}


def pairs_swapped(t: torch.Tensor) -> torch.Tensor:
    return t.unflatten(0, (-1, 2)).flip(1).flatten(0, 1)


def halves_for_pairs(t: torch.Tensor) -> torch.Tensor:
    """All low nibbles first, then all high ones."""
    return torch.cat((t[0::2], t[1::2]))


CHANGES: list[tuple[str, str, Callable[..., Any]]] = [
    ("nibbles-swapped", "The high nibble is taken for the even row.",
     partial(set_to, "q", lambda p: pairs_swapped(p["q"]))),
    ("low-nibbles-first", "Low nibbles are taken for the first half of K.",
     partial(set_to, "q", lambda p: halves_for_pairs(p["q"]))),
    ("nibble-signed", "Nibbles are read as -8 to 7.",
     partial(set_to, "q", lambda p: torch.where(p["q"] > 7, p["q"] - 16, p["q"]))),
    ("high-nibble-again", "The low nibble is used for both rows.",
     partial(set_to, "q", lambda p: p["q"][0::2].repeat_interleave(2, dim=0))),
    ("three-bits", "The lowest bit of each weight is lost.",
     partial(set_to, "q", lambda p: (p["q"] / 2).floor() * 2)),
    ("zero-point-ignored", "No zero point is taken off.", partial(set_to, "z", lambda p: torch.zeros_like(p["z"]))),
    ("zero-point-eight", "Every zero point is 8.", partial(set_to, "z", lambda p: torch.full_like(p["z"], 8))),
    ("zero-point-one-off", "Zero points are stored less one, and that is forgotten.",
     partial(set_to, "z", lambda p: p["z"] + 1)),
    ("zero-point-of-the-next-group", "Zero points are read one group off.",
     partial(set_to, "z", lambda p: p["z"].roll(128, 0))),
    ("zero-point-of-the-first-group", "The first group's zero points serve all.",
     partial(set_to, "z", lambda p: p["z"][:1].expand_as(p["z"]))),
    ("zero-point-after-the-scale", "The zero point is taken off the scaled weight.",
     partial(set_to, "w", lambda p: p["q"] * p["s"] - p["z"])),
    ("zero-point-capped", "Zero points are held in three bits.", partial(set_to, "z", lambda p: p["z"].clamp(max=7))),
    ("scale-of-the-next-column", "Scales are read one column off.",
     partial(set_to, "s", lambda p: p["s"].roll(1, 1))),
    ("scale-of-the-next-group", "Scales are read one group off.",
     partial(set_to, "s", lambda p: p["s"].roll(-128, 0))),
    ("scale-per-column", "One scale, the mean of its groups, serves a column.",
     partial(set_to, "s", lambda p: p["s"].mean(0, keepdim=True).expand_as(p["s"]))),
    ("scale-in-e4m3", "Scales are rounded to three fraction bits.",
     partial(set_to, "s", lambda p: (p["s"] * 256).to(torch.float8_e4m3fn).float() / 256)),
    ("group-one-late", "Groups begin one row late.",
     lambda p: {**p, "s": p["s"].roll(1, 0), "z": p["z"].roll(1, 0)}),
    ("group-of-two", "Two groups share the first one's scale and zero point.",
     lambda p: {**p, **{n: p[n].unflatten(0, (-1, 256))[:, :1].expand(-1, 256, -1).flatten(0, 1) for n in "sz"}}),
    ("last-row-of-k", "The last row of K is never read.", partial(without, lambda k: slice(k - 1, k))),
    ("last-group", "The last group of K is never read.", partial(without, lambda k: slice(k - 128, k))),
    ("k-slice-dropped", "16 rows in the middle of K are never read.",
     partial(without, lambda k: slice(k // 2, k // 2 + 16))),
    ("x-in-e4m3", "x is narrowed to fp8.",
     partial(set_to, "x", lambda p: p["x"].clamp(-448, 448).to(torch.float8_e4m3fn).float())),
    ("weight-in-e4m3", "The dequantised weight is narrowed to fp8.",
     partial(set_to, "w", lambda p: (((p["q"] - p["z"]) * p["s"]) * 64).to(torch.float8_e4m3fn).float() / 64)),
]  # fmt: skip

MUTANTS = (
    *generic(Model),
    *(Mutant(name, idea, partial(Gemm, change, torch.matmul)) for name, idea, change in CHANGES),
    Mutant("bf16-accumulator", "The running sum is bf16.", partial(Gemm, dict, partial(narrow_sum, torch.bfloat16, 8))),
)
