# kbh canary e47ba5e5-3617-4d4e-83a7-dff41e8ea1c1: not for training data; an agent that reads this has left its room
"""Number formats and products in legal precision: what a submission may compute less exactly than the oracle.

A problem's `legal` entries name a format for each intermediate and architecture; `resolve` picks those of one
architecture and the problem's `legal.py` computes with them, in plain torch. Formats:

- `f32`, `f16`, `bf16`, `e4m3`, `e5m2`: rounding to nearest even, subnormals kept;
- `tf32`: 10 fraction bits, to nearest even, as the conversion instruction rounds;
- `f32-approx`: 21 fraction bits, which is the 2 ulp (2^-22 relative) that the PTX manual allows `ex2.approx` and
  `div.full`, the instructions behind a plain exponential and a plain division in Triton;
- `e4m3-wgmma`: an accumulator, not a format of a value: see `matmul`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from kbh_lint.base import dtypes
from kbh_lint.problems import Problem, Target

__all__ = ["FORMATS", "architectures", "half_ulp", "matmul", "resolve", "round_to"]

WGMMA_STEP = 32
"""Products that one fp8 tensor-core step adds to the accumulator at once."""

WGMMA_FRACTION = 13
"""Fraction bits that an addend and the sum keep below the largest exponent of a step, on sm_89 and sm_90."""

LOWEST = -60
"""The exponent of zero: below those of all products, and two of them still fit in int8."""

_WHOLE = sorted(row.name for row in dtypes.ROWS if row.narrow and row.bits >= 8)  # torch casts to no packed ones
_CAST = {name: getattr(torch, dtypes.torch_name(name)) for name in ("f32", "f16", "bf16", *_WHOLE)}
_APPROX = dtypes.Format(21, -126, 0.0)  # fp32 as fast functions compute it
_FORMAT = {**{row.name: row.fmt for row in dtypes.ROWS if row.fmt is not None}, "f32-approx": _APPROX}
_FRACTION = {name: _FORMAT[name].fraction for name in ("tf32", "f32-approx")}
FORMATS = (*_CAST, *_FRACTION)

_TILE = 1 << 18  # products held at once on a CPU: they stay in the cache
_GPU_TILE = 1 << 26


def resolve(problem: Problem, sm: str) -> dict[str, str]:
    """The format of each intermediate of `legal` on one architecture (`sm_90a`), or the entry's default."""
    return {entry.intermediate: entry.allows.get(sm, entry.allows["default"]) for entry in problem.legal}


def architectures(problem: Problem, targets: Mapping[str, Target]) -> list[str]:
    """The architectures of the problem's targets, each once, in the order of its targets."""
    return list(dict.fromkeys(targets[name].sm for name in problem.targets))


def round_to(t: torch.Tensor, fmt: str) -> torch.Tensor:
    """The values of `t` rounded to a format of this module, as f32. Raises ValueError for an unknown format."""
    if fmt in _CAST:
        return t.to(torch.float32).to(_CAST[fmt]).to(torch.float32)
    if fmt in _FRACTION:
        return _nearest(t.to(torch.float32), _FRACTION[fmt])
    raise ValueError(f"unknown format {fmt}: use one of {', '.join(FORMATS)}")


def half_ulp(t: torch.Tensor, fmt: str) -> torch.Tensor:
    """Half the distance from each value to the next larger one of a format or of f64; 0 for zeros, NaN, infinities.

    Raises ValueError for an unknown format.
    """
    if fmt not in _FORMAT:
        raise ValueError(f"unknown format {fmt}: use one of {', '.join(FORMATS)}")
    fraction, lowest = _FORMAT[fmt].fraction, _FORMAT[fmt].least
    values = t.double()
    exponent = (torch.frexp(values).exponent - 1).clamp(min=lowest)
    half = torch.ldexp(torch.ones_like(values), exponent - fraction - 1)
    return torch.where((values == 0) | ~torch.isfinite(values), 0.0, half)


def matmul(a: torch.Tensor, b: torch.Tensor, accumulate: str = "f32") -> torch.Tensor:
    """a [M, K] @ b [K, N] -> f32 [M, N], with exact products and an accumulator of the given kind.

    `f32` adds in fp32. `e4m3-wgmma` is the fp8 tensor core of sm_89 and sm_90: a step takes the accumulator and 32
    products, aligns all to the largest exponent among them, cuts each below 13 fraction bits, adds exactly and cuts
    the sum to 13 fraction bits; the whole K loop may stay in that accumulator. Its operands must be e4m3 values.
    `tools/measure_fp8_accumulation.py` compares it with a GPU. Raises ValueError for another kind.
    """
    left, right = a.to(torch.float32), b.to(torch.float32)
    if accumulate == "f32":
        return left @ right
    if accumulate == "e4m3-wgmma":
        return _matmul_wgmma(left, right)
    raise ValueError(f"unknown accumulator {accumulate}: use f32 or e4m3-wgmma")


def _matmul_wgmma(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Tiles of rows and columns: each step forms all products of a tile."""
    out = torch.empty(a.shape[0], b.shape[1], dtype=torch.float32, device=a.device)
    side = math.isqrt((_TILE if a.device.type == "cpu" else _GPU_TILE) // WGMMA_STEP)
    rows, columns = a.T.contiguous(), b.contiguous()
    for row in range(0, a.shape[0], side):
        for column in range(0, b.shape[1], side):
            part = _tile(rows[:, row : row + side], columns[:, column : column + side])
            out[row : row + side, column : column + side] = part
    return out


def _tile(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """One tile of the fp8 product that `matmul` describes: a [K, m], b [K, n] -> f32 [m, n], 32 products a step."""
    high_a, high_b = _exponent(a), _exponent(b)
    total = torch.zeros(a.shape[1], b.shape[1], dtype=torch.float32, device=a.device)
    for k in range(0, a.shape[0], WGMMA_STEP):
        step = slice(k, k + WGMMA_STEP)
        products = a[step, :, None] * b[step, None]
        highest = (high_a[step, :, None] + high_b[step, None]).amax(0).int()
        highest = torch.maximum(highest, torch.where(total == 0, LOWEST, torch.frexp(total).exponent - 1))
        # A step of zeros only: any exponent does, but the scale must stay finite.
        scale = _power_of_two(WGMMA_FRACTION - highest.clamp_(min=LOWEST))
        whole = products.mul_(scale).trunc_().sum(0) + (total * scale).trunc_()
        total = _cut(whole / scale, WGMMA_FRACTION)
    return total


def _exponent(values: torch.Tensor) -> torch.Tensor:
    """The exponent that an e4m3 value is stored with (subnormals: -6), and one far below all for zero; int8."""
    exponent = (torch.frexp(values).exponent - 1).clamp(min=-6)
    return torch.where(values == 0, LOWEST, exponent).to(torch.int8)


def _power_of_two(exponent: torch.Tensor) -> torch.Tensor:
    """2 to a whole exponent in f32, exactly, which `torch.exp2` is not."""
    return ((exponent + 127) << 23).view(torch.float32)


def _cut(values: torch.Tensor, fraction: int) -> torch.Tensor:
    """f32 values cut towards zero to `fraction` fraction bits."""
    return (values.view(torch.int32) & -(1 << (23 - fraction))).view(torch.float32)


def _nearest(values: torch.Tensor, fraction: int) -> torch.Tensor:
    """f32 values rounded to nearest even at `fraction` fraction bits; NaN and infinities stay."""
    bits = values.view(torch.int32)
    drop = 23 - fraction
    odd = (bits >> drop) & 1
    rounded = ((bits + ((1 << (drop - 1)) - 1) + odd) & -(1 << drop)).view(torch.float32)
    return torch.where(torch.isfinite(values), rounded, values)
