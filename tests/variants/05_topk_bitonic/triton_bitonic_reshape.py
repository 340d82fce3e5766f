# expect: kept
"""A bitonic network written with reshapes over (blocks, 2, stride); one key holds value and index."""
import dataclasses
import functools

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _swap(x, flip, step: tl.constexpr, log_n: tl.constexpr):
    n: tl.constexpr = 1 << log_n
    shape: tl.constexpr = [n >> (step + 1), 2, 1 << step]
    y = tl.reshape(x, shape)
    side = tl.arange(0, 2)[None, :, None]
    left = tl.broadcast_to(tl.sum(y * (1 - side), 1)[:, None, :], shape)
    right = tl.broadcast_to(tl.sum(y * side, 1)[:, None, :], shape)
    left = tl.reshape(left, [n])
    right = tl.reshape(right, [n])
    return tl.where((left < right) != flip, tl.where(tl.reshape(tl.broadcast_to(side, shape), [n]) == 0, right, left), x)


@triton.jit
def _sort_desc(x, log_n: tl.constexpr):
    lane = tl.arange(0, 1 << log_n)
    for stage in tl.static_range(1, log_n + 1):
        flip = ((lane >> stage) & 1) != 0
        for sub in tl.static_range(stage):
            x = _swap(x, flip, stage - 1 - sub, log_n)
    return x


@triton.jit
def _encode(v, i):
    u = v.to(tl.int32, bitcast=True)
    u = tl.where(u < 0, u ^ 0x7FFFFFFF, u)
    return (u.to(tl.int64) << 32) | (0x7FFFFFFF - i).to(tl.int64)


@triton.jit
def _decode(p):
    u = (p >> 32).to(tl.int32)
    u = tl.where(u < 0, u ^ 0x7FFFFFFF, u)
    return u.to(tl.float32, bitcast=True), (0x7FFFFFFF - (p & 0xFFFFFFFF)).to(tl.int64)


@triton.jit
def leaf(x, out, n, parts, k: tl.constexpr, log_n: tl.constexpr):
    part, row = tl.program_id(0), tl.program_id(1)
    cols = part * (1 << log_n) + tl.arange(0, 1 << log_n)
    v = tl.load(x + row * n + cols, mask=cols < n, other=float("-inf"))
    p = _sort_desc(_encode(v, cols), log_n)
    lane = tl.arange(0, 1 << log_n)
    tl.store(out + (row * parts + part) * k + lane, p, mask=lane < k)


@triton.jit
def root(inp, values, indices, m, k: tl.constexpr, log_n: tl.constexpr):
    row = tl.program_id(0)
    lane = tl.arange(0, 1 << log_n)
    p = tl.load(inp + row * m + lane, mask=lane < m, other=-9223372036854775808)
    p = _sort_desc(p, log_n)
    v, i = _decode(p)
    tl.store(values + row * k + lane, v, mask=lane < k)
    tl.store(indices + row * k + lane, i, mask=lane < k)


@dataclasses.dataclass(frozen=True)
class Plan:
    log_leaf: int
    warps: int

    @classmethod
    @functools.lru_cache(maxsize=None)
    def of(cls, n: int, k: int) -> "Plan":
        return cls(log_leaf=11 if k > 16 else 10, warps=8)

    def parts(self, n: int) -> int:
        return -(-n >> self.log_leaf) if False else (n + (1 << self.log_leaf) - 1) >> self.log_leaf


class Model(nn.Module):
    def __init__(self, batch: int, n: int, k: int):
        super().__init__()
        self.n, self.k = n, k
        self.plan = Plan.of(n, k)
        self.register_buffer("_dummy", torch.zeros(1))
        self.scratch: dict[torch.device, torch.Tensor] = {}

    def forward(self, x):
        batch = x.shape[0]
        parts = self.plan.parts(self.n)
        tmp = self.scratch.get(x.device)
        if tmp is None:
            tmp = self.scratch.setdefault(x.device, torch.empty(batch, parts, self.k, dtype=torch.int64, device=x.device))
        values = torch.empty(batch, self.k, dtype=torch.float32, device=x.device)
        indices = torch.empty(batch, self.k, dtype=torch.int64, device=x.device)
        leaf[(parts, batch)](x, tmp, self.n, parts, k=self.k, log_n=self.plan.log_leaf, num_warps=self.plan.warps)
        m = parts * self.k
        root[(batch,)](tmp, values, indices, m, k=self.k, log_n=max(5, (m - 1).bit_length()), num_warps=4)
        return values, indices
