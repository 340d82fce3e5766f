"""An authored kernel gathers the pages into a dense cache; the library's attention does the rest."""

import torch
import torch.nn as nn
import torch.nn.functional as F
import triton
import triton.language as tl


@triton.jit
def densify(cache, table, lengths, keys, values, pages, shared, DIM: tl.constexpr, PAGE: tl.constexpr):
    """One page of one head becomes [sequence, head, position, dim], keys and values apart and zero past the end."""
    b = tl.program_id(0)
    page = tl.program_id(1)
    head = tl.program_id(2)
    slot = tl.load(table + b * pages + page).to(tl.int64)
    place = tl.arange(0, PAGE)
    dims = tl.arange(0, DIM)
    keep = (page * PAGE + place < tl.load(lengths + b))[:, None]
    source = cache + ((slot * PAGE + place) * shared + head)[:, None] * (2 * DIM) + dims[None, :]
    to = (((b * shared + head).to(tl.int64) * pages + page) * PAGE + place)[:, None] * DIM + dims[None, :]
    tl.store(keys + to, tl.load(source, mask=keep, other=0.0))
    tl.store(values + to, tl.load(source + DIM, mask=keep, other=0.0))


class Model(nn.Module):
    """query [batch, heads, dim] bf16 -> the same, attending to the first seq_lens[b] positions of sequence b."""

    def __init__(
        self, batch: int, num_heads: int, num_kv_heads: int, head_dim: int, seq_len: int, page_size: int
    ) -> None:
        super().__init__()

    def forward(
        self, query: torch.Tensor, kv_cache: torch.Tensor, block_table: torch.Tensor, seq_lens: torch.Tensor
    ) -> torch.Tensor:
        batch, pages = block_table.shape
        _, page, shared, both = kv_cache.shape
        dim = both // 2
        keys = torch.empty(batch, shared, pages * page, dim, dtype=query.dtype, device=query.device)
        values = torch.empty_like(keys)
        densify[(batch, pages, shared)](
            kv_cache, block_table, seq_lens, keys, values, pages, shared, DIM=dim, PAGE=page
        )
        past = torch.arange(pages * page, device=query.device)[None, :] < seq_lens[:, None]
        mask = past[:, None, None, :]
        return F.scaled_dot_product_attention(query[:, :, None], keys, values, attn_mask=mask, enable_gqa=True)[:, :, 0]
