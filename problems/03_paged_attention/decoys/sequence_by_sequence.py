"""The reference's products written out for one sequence after the other, in a Python loop; no kernel of its own."""

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
        outputs = []
        for b in range(query.shape[0]):
            rows = kv_cache[block_table[b].long()].flatten(0, 1).float()
            past = torch.arange(rows.shape[0], device=query.device) >= seq_lens[b]
            rows = rows.masked_fill(past[:, None, None], 0.0).repeat_interleave(self.share, dim=1)
            keys, values = rows.chunk(2, dim=-1)
            scores = torch.einsum("hd,nhd->hn", query[b].float(), keys) * query.shape[-1] ** -0.5
            weights = torch.softmax(scores.masked_fill(past, float("-inf")), dim=-1)
            outputs.append(torch.einsum("hn,nhd->hd", weights, values))
        return torch.stack(outputs).to(torch.bfloat16)
