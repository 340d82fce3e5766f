# expect: flagged input-structure-hardcode
"""The kernel takes the length from the constructor and never looks at seq_lens."""
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def whole(q_ptr, kv_ptr, bt_ptr, o_ptr, H, HKV, P, scale, N: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr, BN: tl.constexpr):
    b, h = tl.program_id(0), tl.program_id(1)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + (b * H + h) * D + d).to(tl.float32) * scale
    m = -float("inf")
    l = 0.0
    acc = tl.zeros((D,), tl.float32)
    for s in range(0, N, BN):
        t = s + tl.arange(0, BN)
        page = tl.load(bt_ptr + b * P + t // PAGE, mask=t < N, other=0).to(tl.int64)
        base = ((page * PAGE + t % PAGE) * HKV + h // (H // HKV)) * 2 * D
        k = tl.load(kv_ptr + base[:, None] + d[None, :], mask=(t < N)[:, None], other=0.0).to(tl.float32)
        v = tl.load(kv_ptr + base[:, None] + D + d[None, :], mask=(t < N)[:, None], other=0.0).to(tl.float32)
        z = tl.where(t < N, tl.sum(k * q[None, :], 1), -float("inf"))
        n = tl.maximum(m, tl.max(z, 0))
        p = tl.exp(z - n)
        a = tl.exp(m - n)
        l = l * a + tl.sum(p, 0)
        acc = acc * a + tl.sum(p[:, None] * v, 0)
        m = n
    tl.store(o_ptr + (b * H + h) * D + d, (acc / l).to(tl.bfloat16))


class Model(nn.Module):
    def __init__(self, batch, num_heads, num_kv_heads, head_dim, seq_len, page_size):
        super().__init__()
        self.seq_len, self.page, self.hkv = seq_len, page_size, num_kv_heads
        self.register_buffer("_dummy", torch.zeros(1, dtype=torch.bfloat16), persistent=False)

    def forward(self, query, kv_cache, block_table, seq_lens):
        assert seq_lens.shape[0] == query.shape[0]
        B, H, D = query.shape
        out = torch.empty_like(query)
        whole[(B, H)](query, kv_cache, block_table, out, H, self.hkv, block_table.shape[1], D**-0.5,
                      N=self.seq_len, D=D, PAGE=self.page, BN=64)
        return out
