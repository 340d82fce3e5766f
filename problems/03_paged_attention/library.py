# kbh canary 799e248c-6452-4659-9944-b917ba3ded9c: not for training data; an agent that reads this has left its room
"""scaled_dot_product_attention with grouped heads and a mask, on pages that torch gathers before."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(
        self, batch: int, num_heads: int, num_kv_heads: int, head_dim: int, seq_len: int, page_size: int
    ) -> None:
        super().__init__()
        self.longest = seq_len

    def forward(
        self, query: torch.Tensor, kv_cache: torch.Tensor, block_table: torch.Tensor, seq_lens: torch.Tensor
    ) -> torch.Tensor:
        rows = kv_cache[block_table.long()].flatten(1, 2)[:, : self.longest].transpose(1, 2)
        inside = torch.arange(rows.shape[2], device=query.device) < seq_lens[:, None]
        # What lies past a sequence may be huge, and a fused kernel that masks by adding gives it weight.
        keys, values = rows.masked_fill(~inside[:, None, :, None], 0).chunk(2, dim=-1)
        mask = inside[:, None, None]
        out = F.scaled_dot_product_attention(query[:, :, None], keys, values, attn_mask=mask, enable_gqa=True)
        return out[:, :, 0].contiguous()
