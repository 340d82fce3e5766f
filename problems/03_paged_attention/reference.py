"""Single-query attention over gathered pages: in fp32, and in fp64."""

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn as nn


class Model(nn.Module):
    """query [batch, heads, dim] bf16 -> the same, attending to the first seq_lens[b] positions of sequence b."""

    def __init__(
        self, batch: int, num_heads: int, num_kv_heads: int, head_dim: int, seq_len: int, page_size: int
    ) -> None:
        super().__init__()
        self.share, self.longest = num_heads // num_kv_heads, seq_len

    def forward(
        self, query: torch.Tensor, kv_cache: torch.Tensor, block_table: torch.Tensor, seq_lens: torch.Tensor
    ) -> torch.Tensor:
        rows = kv_cache[block_table.long()].flatten(1, 2)[:, : self.longest].float()
        keys, values = rows.repeat_interleave(self.share, dim=2).chunk(2, dim=-1)
        scores = torch.einsum("bhd,bnhd->bhn", query.float(), keys) * query.shape[-1] ** -0.5
        past = torch.arange(keys.shape[1], device=query.device) >= seq_lens[:, None]
        weights = torch.softmax(scores.masked_fill(past[:, None], float("-inf")), dim=-1)
        return torch.einsum("bhn,bnhd->bhd", weights, values).to(torch.bfloat16)


def oracle(
    init: Mapping[str, Any], inputs: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor]
) -> tuple[torch.Tensor, ...]:
    """Each sequence on its own in fp64, over the positions it has and no others; [batch, heads, dim]."""
    query, cache, table = inputs["query"], inputs["kv_cache"], inputs["block_table"].long()
    heads, dim = query.shape[1:]
    shared = cache.shape[2]
    out = torch.empty(query.shape, dtype=torch.float64, device=query.device)
    for b, length in enumerate(inputs["seq_lens"].tolist()):
        pages = table[b, : -(-length // cache.shape[1])]
        rows = cache[pages].flatten(0, 1)[:length].double().transpose(0, 1)
        keys, values = rows[..., :dim], rows[..., dim:]
        queries = query[b].double().view(shared, heads // shared, dim)
        weights = torch.softmax(queries @ keys.transpose(-1, -2) * dim**-0.5, dim=-1)
        out[b] = (weights @ values).reshape(heads, dim)
    return (out,)
