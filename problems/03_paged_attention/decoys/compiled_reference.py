"""Gather, scores, softmax and weighted values in torch, fused by torch.compile."""

import torch
import torch.nn as nn


@torch.compile(dynamic=False)
def attend(
    query: torch.Tensor, kv_cache: torch.Tensor, block_table: torch.Tensor, seq_lens: torch.Tensor
) -> torch.Tensor:
    batch, heads, dim = query.shape
    rows = kv_cache[block_table.long()].flatten(1, 2)
    n, shared = rows.shape[1:3]
    past = torch.arange(n, device=query.device)[None, :] >= seq_lens[:, None]
    keys, values = rows.masked_fill(past[:, :, None, None], 0.0).float().chunk(2, dim=-1)
    queries = query.view(batch, shared, heads // shared, dim).float()
    scores = torch.einsum("bsgd,bnsd->bsgn", queries, keys) * dim**-0.5
    weights = torch.softmax(scores.masked_fill(past[:, None, None], float("-inf")), dim=-1)
    return torch.einsum("bsgn,bnsd->bsgd", weights, values).reshape(batch, heads, dim).to(torch.bfloat16)


class Model(nn.Module):
    """query [batch, heads, dim] bf16 -> the same, attending to the first seq_lens[b] positions of sequence b."""

    def __init__(
        self, batch: int, num_heads: int, num_kv_heads: int, head_dim: int, seq_len: int, page_size: int
    ) -> None:
        super().__init__()

    def forward(
        self, query: torch.Tensor, kv_cache: torch.Tensor, block_table: torch.Tensor, seq_lens: torch.Tensor
    ) -> torch.Tensor:
        return attend(query, kv_cache, block_table, seq_lens)
