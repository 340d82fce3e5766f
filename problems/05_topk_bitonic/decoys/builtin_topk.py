"""Triton's own selection network, `tl.topk`, over tiles and again over what the tiles left."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

NOTHING = tl.constexpr(-(2**63))


@triton.jit
def key_of(value, column):
    """The int64 whose order is that of the values."""
    bits = value.to(tl.int32, bitcast=True)
    bits = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    return (bits.to(tl.int64) << 32) | (0x7FFFFFFF - column).to(tl.int64)


@triton.jit
def tile_best(x, kept, n, tiles, SIZE: tl.constexpr, K: tl.constexpr):
    """The best K keys of one tile of a row."""
    row = tl.program_id(0)
    tile = tl.program_id(1)
    columns = tile * SIZE + tl.arange(0, SIZE)
    value = tl.load(x + row.to(tl.int64) * n + columns, mask=columns < n, other=0.0)
    keys = tl.where(columns < n, key_of(value, columns), NOTHING)
    tl.store(kept + (row * tiles + tile) * K + tl.arange(0, K), tl.topk(keys, K))


@triton.jit
def row_best(kept, values, indices, k, left, SIZE: tl.constexpr, K: tl.constexpr):
    """The best k of all tiles of a row."""
    row = tl.program_id(0)
    item = tl.arange(0, SIZE)
    keys = tl.topk(tl.load(kept + row * left + item, mask=item < left, other=NOTHING), K)
    bits = (keys >> 32).to(tl.int32)
    bits = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    place = tl.arange(0, K)
    tl.store(values + row * k + place, bits.to(tl.float32, bitcast=True), mask=place < k)
    tl.store(indices + row * k + place, 0x7FFFFFFF - (keys & 0x7FFFFFFF), mask=place < k)


class Model(nn.Module):
    """x [batch, n] f32 -> values [batch, k] f32 in descending order, indices [batch, k] i64."""

    SIZE = 2048

    def __init__(self, batch: int, n: int, k: int) -> None:
        super().__init__()
        self.k = k
        self.keep = max(2, triton.next_power_of_2(k))
        self.tiles = triton.cdiv(n, self.SIZE)
        self.register_buffer("_dummy", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        batch, n = x.shape
        left = self.tiles * self.keep
        kept = torch.empty(batch, left, dtype=torch.int64, device=x.device)
        values = torch.empty(batch, self.k, dtype=torch.float32, device=x.device)
        indices = torch.empty(batch, self.k, dtype=torch.int64, device=x.device)
        tile_best[(batch, self.tiles)](x, kept, n, self.tiles, SIZE=self.SIZE, K=self.keep)
        row_best[(batch,)](kept, values, indices, self.k, left, SIZE=max(16, triton.next_power_of_2(left)), K=self.keep)
        return values, indices
