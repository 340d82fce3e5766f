"""Patch embedding in legal precision: exact bf16 products summed in fp32, one rounding to bf16."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch

from grader.precision import matmul

# Shapes that tolerances are derived at: both lengths of a patch, with as many patches as graded.
SHAPES = (
    {"B": 1, "C": 3, "T": 2, "H": 224, "W": 224, "kT": 2, "kH": 14, "kW": 14, "embed_dim": 1280},
    {"B": 4, "C": 3, "T": 1, "H": 224, "W": 224, "kT": 1, "kH": 16, "kW": 16, "embed_dim": 768},
)

# Operands enter the product as they are: nothing is rounded before the sums.
INPUTS = "f32"


def legal(
    init: Mapping[str, Any],
    inputs: Mapping[str, torch.Tensor],
    state: Mapping[str, torch.Tensor],
    precision: Mapping[str, str],
    *,
    parts: int = 1,
) -> tuple[torch.Tensor, ...]:
    """y [B, embed_dim, T/kT, H/kH, W/kW] bf16; `precision["accumulator"]` is the format of the running sum.

    A kernel may take the patch in `parts`, a channel, frame or tile each, and add their fp32 sums, the last one first.
    """
    x, weight = inputs["x"], state["conv.weight"]
    batch, channels = x.shape[:2]
    kernel = weight.shape[2:]
    grid = [size // k for size, k in zip(x.shape[2:], kernel, strict=True)]
    split = [part for pair in zip(grid, kernel, strict=True) for part in pair]
    rows = x.reshape(batch, channels, *split).permute(0, 2, 4, 6, 1, 3, 5, 7)
    patches = rows.reshape(batch * grid[0] * grid[1] * grid[2], -1)
    pairs = zip(patches.chunk(parts, dim=1), weight.flatten(1).chunk(parts, dim=1), strict=True)
    product = sum(matmul(some, own.T, precision["accumulator"]) for some, own in reversed(list(pairs)))
    assert isinstance(product, torch.Tensor)
    out = product.to(torch.bfloat16).reshape(batch, *grid, -1).permute(0, 4, 1, 2, 3)
    return (out.contiguous(),)


def direct(
    init: Mapping[str, Any],
    inputs: Mapping[str, torch.Tensor],
    state: Mapping[str, torch.Tensor],
    precision: Mapping[str, str],
) -> tuple[torch.Tensor, ...]:
    """The convolution as its definition has it: each channel, frame and row of a patch adds what it gives."""
    x, weight = inputs["x"].float(), state["conv.weight"].float()
    frames, height, width = weight.shape[2:]
    total: torch.Tensor | None = None
    for channel in range(weight.shape[1]):
        for frame in range(frames):
            for row in range(height):
                pixels = x[:, channel, frame::frames, row::height].unflatten(-1, (-1, width))
                taps = weight[:, channel, frame, row].T
                part = matmul(pixels.flatten(0, -2), taps, precision["accumulator"])
                total = part if total is None else total + part
    grid = [size // k for size, k in zip(x.shape[2:], weight.shape[2:], strict=True)]
    assert total is not None
    out = total.to(torch.bfloat16).reshape(x.shape[0], *grid, -1).permute(0, 4, 1, 2, 3)
    return (out.contiguous(),)


VARIANTS = {"legal": legal, "split-k": partial(legal, parts=4), "direct": direct}
