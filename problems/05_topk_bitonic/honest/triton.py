"""Top-k by a truncated bitonic network: tiles keep their best k, then one program a row merges them (Triton).

A value and its column are one 64-bit key whose order is that of the values; keys are unique, so ties need no care.
Runs of K keys (K = k rounded up to a power of two) are sorted, every second one the other way round. Then pairs of
runs shrink to one: the larger of the two at every place are the best K of both, a bitonic run that log2(K) steps put
in order. The first kernel does this to tiles of a row, the second to what the tiles left.
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl

NOTHING = tl.constexpr(-(2**63))  # smaller than the key of any value


@triton.jit
def key_of(value, column):
    """The int64 whose order is that of the values; of equal values the first column is larger."""
    bits = value.to(tl.int32, bitcast=True)
    bits = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    return (bits.to(tl.int64) << 32) | (0x7FFFFFFF - column).to(tl.int64)


@triton.jit
def merge_runs(keys, SIZE: tl.constexpr, RUN: tl.constexpr, LOG_RUN: tl.constexpr):
    """Sort bitonic runs of RUN keys: descending, and every second one ascending."""
    odd = (tl.arange(0, SIZE) & RUN) != 0
    upper = tl.arange(0, 2)[None, :, None] == 1
    keys = tl.where(odd, ~keys, keys)  # the other way round is the same way round on the complements
    for step in tl.static_range(LOG_RUN):
        pairs = tl.reshape(keys, (SIZE // (RUN >> step), 2, RUN >> (step + 1)))
        other = tl.sum(pairs, axis=1, keep_dims=True) - pairs
        pairs = tl.where(upper, tl.minimum(pairs, other), tl.maximum(pairs, other))
        keys = tl.reshape(pairs, (SIZE,))
    return tl.where(odd, ~keys, keys)


@triton.jit
def best(keys, SIZE: tl.constexpr, K: tl.constexpr, LOG_K: tl.constexpr, LOG_RUNS: tl.constexpr):
    """The K largest of SIZE keys, descending."""
    for log_run in tl.static_range(1, LOG_K + 1):
        keys = merge_runs(keys, SIZE, 1 << log_run, log_run)
    for level in tl.static_range(LOG_RUNS):
        keys = tl.reshape(tl.max(tl.reshape(keys, (SIZE >> (level + 1 + LOG_K), 2, K)), axis=1), (SIZE >> (level + 1),))
        keys = merge_runs(keys, SIZE >> (level + 1), K, LOG_K)
    return keys


@triton.jit
def tile_best(x, kept, n, tiles, SIZE: tl.constexpr, K: tl.constexpr, LOG_K: tl.constexpr, LOG_RUNS: tl.constexpr):
    """The best K keys of one tile of a row."""
    row = tl.program_id(0)
    tile = tl.program_id(1)
    columns = tile * SIZE + tl.arange(0, SIZE)
    value = tl.load(x + row.to(tl.int64) * n + columns, mask=columns < n, other=0.0)
    keys = tl.where(columns < n, key_of(value, columns), NOTHING)
    tl.store(kept + (row * tiles + tile) * K + tl.arange(0, K), best(keys, SIZE, K, LOG_K, LOG_RUNS))


@triton.jit
def row_best(
    kept, values, indices, k, tiles, SIZE: tl.constexpr, K: tl.constexpr, LOG_K: tl.constexpr, LOG_RUNS: tl.constexpr
):
    """The best k of all tiles of a row, taken apart into values and columns."""
    row = tl.program_id(0)
    item = tl.arange(0, SIZE)
    keys = tl.load(kept + row * tiles * K + item, mask=item < tiles * K, other=NOTHING)
    keys = best(keys, SIZE, K, LOG_K, LOG_RUNS)
    bits = (keys >> 32).to(tl.int32)
    bits = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    place = tl.arange(0, K)
    tl.store(values + row * k + place, bits.to(tl.float32, bitcast=True), mask=place < k)
    tl.store(indices + row * k + place, 0x7FFFFFFF - (keys & 0x7FFFFFFF), mask=place < k)


def log2_up(value: int) -> int:
    """The smallest power of two that reaches `value`, as its exponent."""
    return max(0, value - 1).bit_length()


class Model(nn.Module):
    """x [batch, n] f32 -> values [batch, k] f32 in descending order, indices [batch, k] i64."""

    LOG_TILE, WARPS = 11, 8

    def __init__(self, batch: int, n: int, k: int) -> None:
        super().__init__()
        self.k = k
        self.log_k = log2_up(k)
        self.log_tile = max(self.log_k, min(self.LOG_TILE, log2_up(n)))
        self.tiles = triton.cdiv(n, 1 << self.log_tile)
        self.log_left = log2_up(self.tiles << self.log_k)
        self.register_buffer("_dummy", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        batch, n = x.shape
        keep = 1 << self.log_k
        kept = torch.empty(batch, self.tiles, keep, dtype=torch.int64, device=x.device)
        values = torch.empty(batch, self.k, dtype=torch.float32, device=x.device)
        indices = torch.empty(batch, self.k, dtype=torch.int64, device=x.device)
        tile_best[(batch, self.tiles)](
            x, kept, n, self.tiles,
            SIZE=1 << self.log_tile, K=keep, LOG_K=self.log_k, LOG_RUNS=self.log_tile - self.log_k,
            num_warps=self.WARPS,
        )  # fmt: skip
        row_best[(batch,)](
            kept, values, indices, self.k, self.tiles,
            SIZE=1 << self.log_left, K=keep, LOG_K=self.log_k, LOG_RUNS=self.log_left - self.log_k,
            num_warps=self.WARPS,
        )  # fmt: skip
        return values, indices
