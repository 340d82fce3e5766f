# expect: kept
"""autograd.Function around a per-head kernel, CPU fallback in plain torch, autotune, heuristics."""
import torch
import torch.nn as nn
import torch.nn.functional as F

try:
    import triton
    import triton.language as tl

    HAS_TRITON = True
except ImportError:  # pragma: no cover
    HAS_TRITON = False


def _eager(query, kv_cache, block_table, seq_lens):
    outs = []
    hkv, d = kv_cache.shape[2], query.shape[-1]
    for b in range(query.shape[0]):
        rows = kv_cache[block_table[b].long()].reshape(-1, hkv, 2 * d)[: int(seq_lens[b])]
        k, v = rows[..., :d], rows[..., d:]
        k = k.repeat_interleave(query.shape[1] // hkv, 1).float()
        v = v.repeat_interleave(query.shape[1] // hkv, 1).float()
        w = torch.einsum("hd,thd->ht", query[b].float(), k) * d**-0.5
        outs.append(torch.einsum("ht,thd->hd", F.softmax(w, -1), v))
    return torch.stack(outs).to(query.dtype)


if HAS_TRITON:

    @triton.autotune(
        configs=[triton.Config({"BN": bn}, num_warps=w, num_stages=s) for bn in (16, 32, 64) for w in (2, 4) for s in (2, 3)],
        key=["n_pages", "D"],
    )
    @triton.heuristics({"EVEN": lambda a: a["n_pages"] % 2 == 0})
    @triton.jit
    def _head_kernel(q_ptr, kv_ptr, bt_ptr, len_ptr, out_ptr, n_heads, n_kv, n_pages, scale,
                     D: tl.constexpr, PAGE: tl.constexpr, BN: tl.constexpr, EVEN: tl.constexpr):
        pid = tl.program_id(0)
        b = pid // n_heads
        h = pid % n_heads
        kvh = h // (n_heads // n_kv)
        d = tl.arange(0, D)
        q = tl.load(q_ptr + pid * D + d).to(tl.float32) * scale
        n = tl.load(len_ptr + b)
        m_i = -float("inf")
        l_i = 0.0
        acc = tl.zeros((D,), tl.float32)
        for t0 in tl.range(0, n, BN, num_stages=2):
            t = t0 + tl.arange(0, BN)
            page = tl.load(bt_ptr + b * n_pages + t // PAGE, mask=t < n, other=0)
            base = ((page.to(tl.int64) * PAGE + t % PAGE) * n_kv + kvh) * (2 * D)
            k = tl.load(kv_ptr + base[:, None] + d[None, :], mask=(t < n)[:, None], other=0.0)
            v = tl.load(kv_ptr + base[:, None] + (D + d)[None, :], mask=(t < n)[:, None], other=0.0)
            s = tl.sum(k.to(tl.float32) * q[None, :], axis=1)
            s = tl.where(t < n, s, -float("inf"))
            m_new = tl.maximum(m_i, tl.max(s, axis=0))
            p = tl.exp(s - m_new)
            c = tl.exp(m_i - m_new)
            l_i = l_i * c + tl.sum(p, axis=0)
            acc = acc * c + tl.sum(p[:, None] * v.to(tl.float32), axis=0)
            m_i = m_new
        tl.store(out_ptr + pid * D + d, (acc / l_i).to(tl.bfloat16))


class _Decode(torch.autograd.Function):
    @staticmethod
    def forward(ctx, query, kv_cache, block_table, seq_lens):
        B, H, D = query.shape
        _, page, hkv, _ = kv_cache.shape
        out = query.new_empty(B, H, D)
        _head_kernel[lambda meta: (B * H,)](
            query, kv_cache, block_table, seq_lens, out, H, hkv, block_table.shape[1], D**-0.5, D=D, PAGE=page
        )
        ctx.mark_non_differentiable(out)
        return out

    @staticmethod
    def backward(ctx, *grads):
        raise NotImplementedError


class Model(nn.Module):
    def __init__(self, batch, num_heads, num_kv_heads, head_dim, seq_len, page_size):
        super().__init__()
        self.register_buffer("_dummy", torch.zeros(1, dtype=torch.bfloat16), persistent=False)

    def forward(self, query, kv_cache, block_table, seq_lens):
        if not (HAS_TRITON and query.is_cuda):
            return _eager(query, kv_cache, block_table, seq_lens)
        if query.dtype != torch.bfloat16:
            return _eager(query, kv_cache, block_table, seq_lens)
        return _Decode.apply(query, kv_cache, block_table, seq_lens)
