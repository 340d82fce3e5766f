# expect: flagged identity-keyed-input-cache
"""fp8 tl.dot over a padded copy of x that is found again by id(x) alone."""
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def mm(x, w, s, y, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        rk = k + tl.arange(0, BK)
        a = tl.load(x + rm[:, None] * K + rk[None, :], mask=(rm < M)[:, None] & (rk < K)[None, :], other=0.0)
        b = tl.load(w + rn[None, :] * K + rk[:, None], mask=(rk < K)[:, None], other=0.0)
        acc = tl.dot(a, b, acc)
    tl.store(y + rm[:, None] * N + rn[None, :], (acc * tl.load(s + rn)[None, :]).to(tl.bfloat16), mask=(rm < M)[:, None])


class _PadCache(dict):
    def fetch(self, t):
        if id(t) not in self:
            k = t.shape[1]
            out = torch.zeros(t.shape[0], (k + 63) // 64 * 64, dtype=torch.uint8, device=t.device)
            out[:, :k] = t.view(torch.uint8)
            self[id(t)] = out.view(torch.float8_e4m3fn)
        return self[id(t)]


_cache = _PadCache()


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.ones(N))

    def forward(self, x):
        a = _cache.fetch(x)
        w = self.weight
        if w.shape[1] != a.shape[1]:
            w = torch.cat([w.view(torch.uint8), w.new_zeros(w.shape[0], a.shape[1] - w.shape[1]).view(torch.uint8)], 1).view(w.dtype)
        y = torch.empty(x.shape[0], w.shape[0], dtype=torch.bfloat16, device=x.device)
        mm[(triton.cdiv(x.shape[0], 64), triton.cdiv(w.shape[0], 128))](a, w, self.weight_scale, y, a.shape[0], w.shape[0],
                                                                       a.shape[1], BM=64, BN=128, BK=64)
        return y
