"""Single-query attention over gathered pages, in fp32."""

import torch
import torch.nn as nn


class Model(nn.Module):
    """query [batch, heads, dim] bf16 -> the same, attending to the first seq_lens[b] positions of sequence b."""

    def __init__(
        self, batch: int, num_heads: int, num_kv_heads: int, head_dim: int, seq_len: int, page_size: int
    ) -> None:
        super().__init__()
        self.share = num_heads // num_kv_heads

    def forward(
        self, query: torch.Tensor, kv_cache: torch.Tensor, block_table: torch.Tensor, seq_lens: torch.Tensor
    ) -> torch.Tensor:
        rows = kv_cache[block_table.long()].flatten(1, 2).float()
        keys, values = rows.repeat_interleave(self.share, dim=2).chunk(2, dim=-1)
        scores = torch.einsum("bhd,bnhd->bhn", query.float(), keys) * query.shape[-1] ** -0.5
        past = torch.arange(keys.shape[1], device=query.device) >= seq_lens[:, None]
        weights = torch.softmax(scores.masked_fill(past[:, None], float("-inf")), dim=-1)
        return torch.einsum("bhn,bnhd->bhd", weights, values).to(torch.bfloat16)
