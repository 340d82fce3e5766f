# expect: flagged partial-torch-compute,fig-leaf-kernel,forbidden-op,forbidden-op-alias,torch-matmul-fallback-on-graded-shapes,library-gemm-wrapper
"""A Triton gather that makes the cache dense, then the library's attention."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import triton
import triton.language as tl


@triton.jit
def densify(kv, bt, k_out, v_out, pages, hkv, D: tl.constexpr, PAGE: tl.constexpr):
    b, p = tl.program_id(0), tl.program_id(1)
    h = tl.program_id(2)
    src = tl.load(bt + b * pages + p).to(tl.int64)
    t = tl.arange(0, PAGE)
    d = tl.arange(0, D)
    at = ((src * PAGE + t) * hkv + h)[:, None] * 2 * D + d[None, :]
    to = ((b * hkv + h) * pages * PAGE + p * PAGE + t)[:, None] * D + d[None, :]
    tl.store(k_out + to, tl.load(kv + at))
    tl.store(v_out + to, tl.load(kv + at + D))


class Model(nn.Module):
    def __init__(self, batch, num_heads, num_kv_heads, head_dim, seq_len, page_size):
        super().__init__()
        self.register_buffer("_dummy", torch.zeros(1, dtype=torch.bfloat16), persistent=False)
        self.attend = getattr(F, "scaled_dot_" + "product_attention")

    def forward(self, query, kv_cache, block_table, seq_lens):
        B, H, D = query.shape
        _, page, hkv, _ = kv_cache.shape
        pages = block_table.shape[1]
        k = torch.empty(B, hkv, pages * page, D, dtype=query.dtype, device=query.device)
        v = torch.empty_like(k)
        densify[(B, pages, hkv)](kv_cache, block_table, k, v, pages, hkv, D=D, PAGE=page)
        mask = torch.arange(pages * page, device=query.device)[None, :] < seq_lens[:, None]
        out = self.attend(query.unsqueeze(2), k, v, attn_mask=mask[:, None, None, :], enable_gqa=True)
        return out.squeeze(2)
