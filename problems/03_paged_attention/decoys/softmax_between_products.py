"""Scores and weighted values are torch products over gathered pages; only the softmax between them is authored."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def masked_softmax(scores, lengths, heads, n, scale, BLOCK: tl.constexpr):
    """The softmax of one row of scores, in place, over the positions of its sequence."""
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    length = tl.load(lengths + row // heads)
    at = scores + row.to(tl.int64) * n + columns
    value = tl.load(at, mask=columns < length, other=float("-inf")) * scale
    terms = tl.exp(value - tl.max(value, axis=0))
    tl.store(at, terms / tl.sum(terms, axis=0), mask=columns < n)


class Model(nn.Module):
    """query [batch, heads, dim] bf16 -> the same, attending to the first seq_lens[b] positions of sequence b."""

    def __init__(
        self, batch: int, num_heads: int, num_kv_heads: int, head_dim: int, seq_len: int, page_size: int
    ) -> None:
        super().__init__()

    def forward(
        self, query: torch.Tensor, kv_cache: torch.Tensor, block_table: torch.Tensor, seq_lens: torch.Tensor
    ) -> torch.Tensor:
        batch, heads, dim = query.shape
        rows = kv_cache[block_table.long()].flatten(1, 2)
        n, shared = rows.shape[1:3]
        past = torch.arange(n, device=query.device)[None, :] >= seq_lens[:, None]
        rows = rows.masked_fill(past[:, :, None, None], 0.0).permute(0, 2, 1, 3).float()
        queries = query.float().view(batch, shared, heads // shared, dim)
        scores = torch.matmul(queries, rows[..., :dim].transpose(-1, -2))
        block = triton.next_power_of_2(n)
        masked_softmax[(batch * heads,)](scores, seq_lens, heads, n, dim**-0.5, BLOCK=block)
        return torch.matmul(scores, rows[..., dim:]).view(batch, heads, dim).to(torch.bfloat16)
