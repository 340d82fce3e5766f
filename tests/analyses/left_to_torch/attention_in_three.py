"""Attention over pages in three kernels; a test puts torch in the place of one."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scores_of(
    query, cache, table, lengths, out, pages, scale,
    HEADS: tl.constexpr, KV: tl.constexpr, DIM: tl.constexpr, PAGE: tl.constexpr, R: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0) // KV
    kv = tl.program_id(0) % KV
    page = tl.program_id(1)
    rows = tl.arange(0, R)
    dims = tl.arange(0, DIM)
    at = tl.arange(0, PAGE)
    SHARE: tl.constexpr = HEADS // KV
    head = (b * HEADS + kv * SHARE + rows)[:, None]
    real = (rows < SHARE)[:, None]
    q = tl.load(query + head * DIM + dims[None, :], mask=real, other=0.0)
    slot = (tl.load(table + b * pages + page) * PAGE + at) * KV + kv
    k = tl.load(cache + slot[None, :].to(tl.int64) * (2 * DIM) + dims[:, None])
    s = tl.dot(q, k) * scale
    keep = page * PAGE + at < tl.load(lengths + b)
    s = tl.where(keep[None, :], s, float("-inf"))
    tl.store(out + head * (pages * PAGE) + page * PAGE + at[None, :], s, mask=real)


@triton.jit
def softmax(scores, weights, n, BLOCK: tl.constexpr):
    row = tl.program_id(0) * n
    at = tl.arange(0, BLOCK)
    s = tl.load(scores + row + at, mask=at < n, other=float("-inf"))
    p = tl.exp(s - tl.max(s, 0))
    tl.store(weights + row + at, p / tl.sum(p, 0), mask=at < n)


@triton.jit
def weigh(
    weights, cache, table, out, pages,
    HEADS: tl.constexpr, KV: tl.constexpr, DIM: tl.constexpr, PAGE: tl.constexpr, R: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0) // KV
    kv = tl.program_id(0) % KV
    rows = tl.arange(0, R)
    dims = tl.arange(0, DIM)
    at = tl.arange(0, PAGE)
    SHARE: tl.constexpr = HEADS // KV
    head = (b * HEADS + kv * SHARE + rows)[:, None]
    real = (rows < SHARE)[:, None]
    acc = tl.zeros((R, DIM), tl.float32)
    for page in range(pages):
        w = tl.load(weights + head * (pages * PAGE) + page * PAGE + at[None, :], mask=real, other=0.0)
        slot = (tl.load(table + b * pages + page) * PAGE + at) * KV + kv
        v = tl.load(cache + slot[:, None].to(tl.int64) * (2 * DIM) + DIM + dims[None, :])
        acc = tl.dot(w.to(tl.bfloat16), v, acc)
    tl.store(out + head * DIM + dims[None, :], acc.to(tl.bfloat16), mask=real)


class Model(nn.Module):
    def __init__(self, batch, num_heads, num_kv_heads, head_dim, seq_len, page_size):
        super().__init__()
        self.heads, self.kv, self.dim, self.page = num_heads, num_kv_heads, head_dim, page_size
        self.longest = seq_len

    def forward(self, query, kv_cache, block_table, seq_lens):
        B, pages = block_table.shape
        size = {"HEADS": self.heads, "KV": self.kv, "DIM": self.dim, "PAGE": self.page, "R": 16}
        # scores
        scores = torch.empty(B, self.heads, pages * self.page, device=query.device)
        grid = (B * self.kv, pages)
        scores_of[grid](query, kv_cache, block_table, seq_lens, scores, pages, self.dim**-0.5, **size)
        # softmax
        weights = torch.empty_like(scores)
        softmax[(B * self.heads,)](scores, weights, scores.shape[2], BLOCK=triton.next_power_of_2(scores.shape[2]))
        # values
        out = torch.empty_like(query)
        weigh[(B * self.kv,)](weights, kv_cache, block_table, out, pages, **size)
        # end
        return out
