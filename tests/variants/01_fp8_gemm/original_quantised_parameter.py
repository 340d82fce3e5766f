# expect: kept
"""First board's contract: the bf16 parameter is quantised per output channel by a Triton kernel once a version, row scales go to the epilogue."""
from __future__ import annotations
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def fp8_mm(x, w, s, y, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        rk = k + tl.arange(0, BK)
        a = tl.load(x + rm[:, None] * K + rk[None, :], mask=(rm < M)[:, None] & (rk < K)[None, :], other=0.0)
        b = tl.load(w + rn[None, :] * K + rk[:, None], mask=(rk < K)[:, None], other=0.0)
        acc = tl.dot(a, b, acc)
    tl.store(y + rm[:, None] * N + rn[None, :], (acc * tl.load(s + rn)[None, :]).to(tl.bfloat16), mask=(rm < M)[:, None])


def run_fp8(x, w, s, out=None):
    m, k = x.shape
    n = w.shape[0]
    y = torch.empty(m, n, dtype=torch.bfloat16, device=x.device) if out is None else out
    fp8_mm[(triton.cdiv(m, 64), triton.cdiv(n, 128))](x, w, s, y, m, n, k, BM=64, BN=128, BK=64)
    return y


@triton.jit
def quantise(w, q, s, K, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    top = tl.zeros((BLOCK,), tl.float32)
    for o in range(0, K, BLOCK):
        c = o + tl.arange(0, BLOCK)
        top = tl.maximum(top, tl.abs(tl.load(w + row * K + c, mask=c < K, other=0.0).to(tl.float32)))
    scale = tl.max(top, 0) / 448.0 + 1e-12
    tl.store(s + row, scale)
    for o in range(0, K, BLOCK):
        c = o + tl.arange(0, BLOCK)
        v = tl.load(w + row * K + c, mask=c < K, other=0.0).to(tl.float32) / scale
        tl.store(q + row * K + c, v.to(tl.float8e4nv), mask=c < K)


class _Quantised:
    __slots__ = ("version", "q", "s")

    def __init__(self, w: torch.Tensor):
        self.version = w._version
        self.q = torch.empty(w.shape, dtype=torch.float8_e4m3fn, device=w.device)
        self.s = torch.empty(w.shape[0], dtype=torch.float32, device=w.device)
        quantise[(w.shape[0],)](w, self.q, self.s, w.shape[1], BLOCK=1024)


class Model(nn.Module):
    def __init__(self, M: int, N: int, K: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(N, K, dtype=torch.bfloat16), requires_grad=False)
        self._quant: _Quantised | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        quant = self._quant
        if quant is None or quant.version != self.weight._version or quant.q.device != x.device:
            quant = self._quant = _Quantised(self.weight.data)
        return run_fp8(x, quant.q, quant.s)
