# expect: flagged builtin-op-sidestep
import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.language import standard as std


@triton.jit
def pick(x, v, i, n, k, N: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, N)
    a = tl.load(x + r * n + c, mask=c < n, other=-float("inf"))
    u = a.to(tl.int32, bitcast=True)
    u = tl.where(u < 0, u ^ 0x7FFFFFFF, u)
    key = (u.to(tl.int64) << 32) | c.to(tl.int64)
    key = std.sort(key, descending=True)
    idx = key & 0xFFFFFFFF
    w = (key >> 32).to(tl.int32)
    w = tl.where(w < 0, w ^ 0x7FFFFFFF, w)
    tl.store(v + r * k + c, w.to(tl.float32, bitcast=True), mask=c < k)
    tl.store(i + r * k + c, idx, mask=c < k)


class Model(nn.Module):
    def __init__(self, batch, n, k):
        super().__init__()
        self.batch, self.n, self.k = batch, n, k
        self.register_buffer("_dummy", torch.zeros(1))

    def forward(self, x):
        v = x.new_empty((self.batch, self.k))
        i = x.new_empty((self.batch, self.k), dtype=torch.int64)
        pick[(self.batch,)](x, v, i, self.n, self.k, N=triton.next_power_of_2(self.n), num_warps=16)
        return v, i
