# expect: flagged zero-kernel-torch-wrapper,torch-compile-compute,library-gemm-wrapper,partial-torch-compute,forbidden-op-alias,foreign-library-compute
import torch
import torch.nn as nn
from torch.nn.attention.flex_attention import flex_attention


class Model(nn.Module):
    def __init__(self, batch, num_heads, num_kv_heads, head_dim, seq_len, page_size):
        super().__init__()
        self.register_buffer("_dummy", torch.zeros(1, dtype=torch.bfloat16), persistent=False)
        self.fn = torch.compile(flex_attention, dynamic=False)

    def forward(self, query, kv_cache, block_table, seq_lens):
        d = query.shape[-1]
        rows = kv_cache[block_table.long()].flatten(1, 2).transpose(1, 2)
        k, v = rows[..., :d], rows[..., d:]

        def mod(score, b, h, qi, ki):
            return torch.where(ki < seq_lens[b], score, -float("inf"))

        return self.fn(query[:, :, None], k, v, score_mod=mod, enable_gqa=True)[:, :, 0]
