"""Programs that the rewrites are run on: what they compute must stay what it is."""

from __future__ import annotations

HOST = '''\
"""A model in plain torch, with everything in it that a host rewrite changes."""

import functools
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

WIDTH = 24
SCALES: dict = {"low": 0.5, "high": 2.0}


def halves(n, first=8):
    """n in two parts."""
    rest = n - first
    return first, rest


def weigh(a, b):
    return torch.matmul(a, b)


def both(a, b):
    return a * 2 + b


def gathered(rows):
    total = torch.zeros(rows[0].shape, dtype=torch.float32, device=rows[0].device)
    for at in range(0, len(rows), 1):
        if at % 2 == 0:
            total = total + rows[at]
        else:
            total = total - rows[at]
        if at > 16:
            break
    return total


class Model(nn.Module):
    KIND = "dense"

    def __init__(self, n, k, mode="low"):
        super().__init__()
        self.n = n
        self.k = k
        self.kept = None
        self.sizes = (n, k)
        self.scale = SCALES[mode]
        self.weight = nn.Parameter(torch.arange(n * k, dtype=torch.float32).reshape(n, k) / 64)
        self.register_buffer("bias", torch.ones(k))

    def scaled(self, x, factor):
        if factor > 1:
            return x * factor
        elif factor == 1:
            return x
        return x / math.sqrt(4)

    def forward(self, x: Tensor) -> Tensor:
        first, rest = halves(n=WIDTH)
        a = x.float() @ self.weight
        b = weigh(x.to(torch.float32), self.weight)
        index = 3
        other = index
        count = 64 // 16 + other
        rows = [both(a, b), torch.exp(-a.abs()), F.relu(b), torch.softmax(a, dim=-1), torch.sum(b, 0, keepdim=True) + a]
        while count > 4:
            count -= 1
        result = self.scaled(gathered(rows), self.scale) + self.bias
        values, _ = torch.topk(result, 4, dim=-1)
        added = functools.reduce(lambda p, q: p + q, [i * 0.125 for i in range(first)])
        return torch.cat([values, torch.full((values.shape[0], 1), added + rest + count)], dim=1)
'''

TRITON = '''\
"""A Triton product and a compensated sum of its rows."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

TINY = tl.constexpr(1e-9)


@triton.jit
def add(high, low, value):
    total = high + value
    seen = total - high
    return total, low + (value - seen)


@triton.jit
def product(x, w, y, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        depth = start + tl.arange(0, BK)
        a = tl.load(x + rows[:, None] * K + depth[None, :], mask=(rows < M)[:, None] & (depth < K)[None, :], other=0.0)
        b = tl.load(w + cols[None, :] * K + depth[:, None], mask=(depth < K)[:, None] & (cols < N)[None, :], other=0.0)
        total = tl.dot(a.to(tl.float32), b.to(tl.float32), total)
    tl.store(y + rows[:, None] * N + cols[None, :], total, mask=(rows < M)[:, None] & (cols < N)[None, :])


@triton.jit
def sums(y, out, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    high = tl.zeros((BLOCK,), dtype=tl.float32)
    low = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, N, BLOCK):
        value = tl.load(y + row * N + start + lanes, mask=start + lanes < N, other=0.0)
        high, low = add(high, low, value)
    tl.store(out + row, tl.sum(high + low, axis=0) + TINY)


class Model(nn.Module):
    def __init__(self, n, k):
        super().__init__()
        self.block = 16
        self.weight = nn.Parameter(torch.arange(n * k, dtype=torch.float32).reshape(n, k) / 256)

    def forward(self, x):
        (m, k), n = x.shape, self.weight.shape[0]
        y = torch.empty(m, n, dtype=torch.float32, device=x.device)
        out = torch.empty(m, dtype=torch.float32, device=x.device)
        grid = (triton.cdiv(m, 16), triton.cdiv(n, 16))
        product[grid](x, self.weight, y, m, n, k, BM=16, BN=16, BK=self.block)
        sums[(m,)](y, out, n, BLOCK=16)
        return torch.cat([y, out[:, None]], dim=1)
'''

CUDA = """\
#include <cstdio>
#include <cmath>
#ifndef TILE
#define TILE 4
#endif
#define __global__
#define __device__ static inline
#define SQUARE(x) ((x) * (x))

// Two helpers and a "kernel", written so that a C++ compiler runs them.
__device__ float half_of(const float value) {
    const float two = 2.0f;  /* a comment */
    return value / two;
}

__device__ unsigned int mixed(unsigned int seed, int step) {
    unsigned int state = seed * 1664525u + (unsigned int)step;
    return state ^ (state >> 16);
}

__global__ void accumulate(const float* source, float* target, int n) {
    float carried = 0.0f, total = 0.0f;
    for (int i = 0; i < n; ++i) {
        float y = half_of(source[i]) - carried;
        float t = total + y;
        carried = (t - total) - y;
        total = t;
    }
    target[0] = total + SQUARE(TILE);
    target[1] = static_cast<float>(mixed(7u, n) % 1000u);
}

int main() {
    float source[64], target[2];
    for (int i = 0; i < 64; ++i) source[i] = std::sqrt(float(i)) * 1.25f;
    accumulate(source, target, 64);
    std::printf("%.9g %.9g \\\\ \\"a.quoted.word\\"\\n", target[0], target[1]);
    return 0;
}
"""
