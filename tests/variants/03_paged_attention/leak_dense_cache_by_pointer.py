# expect: flagged pointer-keyed-stale-state
"""Pages are gathered into a dense K/V once an address, and reused as long as the address stays the same."""
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def attend(q, k, v, sl, o, H, HKV, T, scale, D: tl.constexpr, BN: tl.constexpr):
    b, h = tl.program_id(0), tl.program_id(1)
    d = tl.arange(0, D)
    x = tl.load(q + (b * H + h) * D + d).to(tl.float32) * scale
    n = tl.load(sl + b)
    base = (b * HKV + h // (H // HKV)).to(tl.int64) * T * D
    m = -float("inf")
    l = 0.0
    acc = tl.zeros((D,), tl.float32)
    for s in range(0, n, BN):
        t = s + tl.arange(0, BN)
        at = base + t[:, None] * D + d[None, :]
        kk = tl.load(k + at, mask=(t < n)[:, None], other=0.0).to(tl.float32)
        vv = tl.load(v + at, mask=(t < n)[:, None], other=0.0).to(tl.float32)
        z = tl.where(t < n, tl.sum(kk * x[None, :], 1), -float("inf"))
        mn = tl.maximum(m, tl.max(z, 0))
        p = tl.exp(z - mn)
        a = tl.exp(m - mn)
        l = l * a + tl.sum(p, 0)
        acc = acc * a + tl.sum(p[:, None] * vv, 0)
        m = mn
    tl.store(o + (b * H + h) * D + d, (acc / l).to(tl.bfloat16))


class DenseCache:
    def __init__(self):
        self.entries = {}

    def get(self, kv, bt):
        key = (kv.data_ptr(), bt.data_ptr())
        if key not in self.entries:
            d = kv.shape[-1] // 2
            rows = kv[bt.long()].flatten(1, 2).transpose(1, 2)
            self.entries = {key: (rows[..., :d].contiguous(), rows[..., d:].contiguous())}
        return self.entries[key]


class Model(nn.Module):
    def __init__(self, batch, num_heads, num_kv_heads, head_dim, seq_len, page_size):
        super().__init__()
        self.dense = DenseCache()
        self.register_buffer("_dummy", torch.zeros(1, dtype=torch.bfloat16), persistent=False)

    def forward(self, query, kv_cache, block_table, seq_lens):
        k, v = self.dense.get(kv_cache, block_table)
        B, H, D = query.shape
        out = torch.empty_like(query)
        attend[(B, H)](query, k, v, seq_lens, out, H, k.shape[1], k.shape[2], D**-0.5, D=D, BN=64)
        return out
