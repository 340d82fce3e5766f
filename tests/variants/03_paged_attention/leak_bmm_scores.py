# expect: flagged partial-torch-compute
"""Scores by baddbmm, softmax in an authored kernel, values by bmm."""
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def masked_softmax(s, sl, p, rows_per, N, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    n = tl.load(sl + r // rows_per)
    x = tl.load(s + r * N + c, mask=c < n, other=-float("inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x, 0))
    tl.store(p + r * N + c, (e / tl.sum(e, 0)).to(tl.bfloat16), mask=c < N)


class Model(nn.Module):
    def __init__(self, batch, num_heads, num_kv_heads, head_dim, seq_len, page_size):
        super().__init__()
        self.register_buffer("_dummy", torch.zeros(1, dtype=torch.bfloat16), persistent=False)

    def forward(self, query, kv_cache, block_table, seq_lens):
        B, H, D = query.shape
        rows = torch.index_select(kv_cache, 0, block_table.reshape(-1)).view(B, -1, kv_cache.shape[2], 2 * D)
        k, v = rows.permute(0, 2, 1, 3).split(D, dim=-1)
        q = query.view(B, k.shape[1], -1, D)
        s = (q.flatten(0, 1) @ k.flatten(0, 1).mT) * D**-0.5
        p = torch.empty_like(s)
        N = s.shape[-1]
        masked_softmax[(s.shape[0] * s.shape[1],)](s, seq_lens, p, H, N, BLOCK=triton.next_power_of_2(N))
        return torch.bmm(p, v.flatten(0, 1)).view(B, H, D)
