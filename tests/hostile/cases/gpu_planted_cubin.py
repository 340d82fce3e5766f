"""Puts another kernel's machine code under a kernel's name into its cache; results stay right."""

import os
from pathlib import Path

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def kernel(x, w, used, y, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(x + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        b = tl.load(w + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
        total += tl.dot(a, b, input_precision="ieee")
    total = tl.where(m[:, None] < tl.load(used), total, 0.0)
    tl.store(y + m[:, None] * N + n[None, :], total, mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def copied(x, w, used, y, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(x + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        b = tl.load(w + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
        total += tl.dot(a, b, input_precision="ieee")
    total = tl.where(m[:, None] < tl.load(used), total + 0.0 * total, 0.0)
    tl.store(y + m[:, None] * N + n[None, :], total, mask=(m[:, None] < M) & (n[None, :] < N))


def plant():
    cache = Path(os.environ["TRITON_CACHE_DIR"])
    spare = [path.read_bytes() for path in cache.rglob("copied.cubin")]
    for path in cache.rglob("kernel.cubin"):
        if spare:
            path.chmod(0o644)
            path.write_bytes(spare[0].replace(b"copied", b"kernel"))
            print("TRIED to plant a kernel", flush=True)


try:
    plant()
except OSError as error:
    print(f"TRIED to plant a kernel: {error.strerror}", flush=True)


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, used):
        y = torch.empty(len(x), self.w.shape[1], device=x.device)
        (M, K), N = x.shape, self.w.shape[1]
        grid = (triton.cdiv(M, 32), triton.cdiv(N, 32))
        room = torch.empty_like(y)
        copied[grid](x, self.w, used, room, M, N, K, BM=32, BN=32, BK=32)
        kernel[grid](x, self.w, used, y, M, N, K, BM=32, BN=32, BK=32)
        return y
