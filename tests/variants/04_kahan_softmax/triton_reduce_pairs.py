# expect: kept
"""Split softmax in three Triton kernels; TwoSum pairs via tl.reduce inside the tile and across tiles."""
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _two_sum(a, b):
    s = a + b
    bb = s - a
    return s, (a - (s - bb)) + (b - bb)


@triton.jit
def _combine(s0, e0, s1, e1):
    s, e = _two_sum(s0, s1)
    return s, e + (e0 + e1)


@triton.jit
def _row_max(x_ptr, m_ptr, n, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    row, part = tl.program_id(0), tl.program_id(1)
    span = tl.cdiv(n, PARTS)
    top = tl.full([BLOCK], float("-inf"), tl.float32)
    for o in range(part * span, (part + 1) * span, BLOCK):
        c = o + tl.arange(0, BLOCK)
        v = tl.load(x_ptr + row * n + c, mask=(c < n) & (c < (part + 1) * span), other=float("-inf"))
        top = tl.maximum(top, v)
    tl.store(m_ptr + row * PARTS + part, tl.max(top, 0))


@triton.jit
def _row_sum(x_ptr, m_ptr, s_ptr, e_ptr, n, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    row, part = tl.program_id(0), tl.program_id(1)
    m = tl.max(tl.load(m_ptr + row * PARTS + tl.arange(0, PARTS)), 0)
    span = tl.cdiv(n, PARTS)
    acc = tl.zeros([BLOCK], tl.float32)
    err = tl.zeros([BLOCK], tl.float32)
    for o in range(part * span, (part + 1) * span, BLOCK):
        c = o + tl.arange(0, BLOCK)
        v = tl.load(x_ptr + row * n + c, mask=(c < n) & (c < (part + 1) * span), other=float("-inf"))
        acc, e = _two_sum(acc, tl.exp(v - m))
        err += e
    s, e = tl.reduce((acc, err), 0, _combine)
    tl.store(s_ptr + row * PARTS + part, s)
    tl.store(e_ptr + row * PARTS + part, e)


@triton.jit
def _normalise(x_ptr, y_ptr, m_ptr, s_ptr, e_ptr, n, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    p = tl.arange(0, PARTS)
    m = tl.max(tl.load(m_ptr + row * PARTS + p), 0)
    s, e = tl.reduce((tl.load(s_ptr + row * PARTS + p), tl.load(e_ptr + row * PARTS + p)), 0, _combine)
    total = s + e
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x_ptr + row * n + c, mask=c < n)
    tl.store(y_ptr + row * n + c, tl.exp(v - m) / total, mask=c < n)


class Model(nn.Module):
    PARTS = 16

    def __init__(self, batch: int, vocab: int):
        super().__init__()
        self._ws = {}

    def _workspace(self, x):
        key = (x.shape[0], x.device)
        if key not in self._ws:
            self._ws[key] = [torch.empty(x.shape[0] * self.PARTS, device=x.device) for _ in range(3)]
        return self._ws[key]

    def forward(self, x):
        b, n = x.shape
        m, s, e = self._workspace(x)
        y = torch.empty_like(x)
        _row_max[(b, self.PARTS)](x, m, n, PARTS=self.PARTS, BLOCK=1024)
        _row_sum[(b, self.PARTS)](x, m, s, e, n, PARTS=self.PARTS, BLOCK=1024, num_warps=8)
        _normalise[(b, triton.cdiv(n, 4096))](x, y, m, s, e, n, PARTS=self.PARTS, BLOCK=4096)
        return y
