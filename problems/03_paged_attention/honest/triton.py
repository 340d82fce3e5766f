"""Paged single-query attention: split rows, an online softmax in each split, and the last split merges (Triton).

A program owns one sequence, one key/value head and one split of the positions. The query heads that share the
key/value head are the rows of one tensor-core product, so every key and value is read once. Pages are looked up in
`block_table`, a few for every block of positions; nothing past `seq_lens` is loaded. A split leaves its maximum, its sum and its
weighted values in a work buffer and takes a ticket; the program with the last ticket of its (sequence, head) merges
the splits, writes the output and puts the ticket counter back to zero.
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def pages_from(row, start, pages, PAGE: tl.constexpr, BLOCK: tl.constexpr):
    """The pages of BLOCK positions from `start`, by a few scalar loads."""
    place = tl.arange(0, BLOCK)
    page = tl.zeros((BLOCK,), tl.int32)
    for i in tl.static_range(BLOCK // PAGE):
        here = start // PAGE + i
        page = tl.where(place // PAGE == i, tl.load(row + here, mask=here < pages, other=0), page)
    return page


@triton.jit
def attend(
    query, cache, table, lengths, output, part_sum, part_top, part_total, tickets,
    pages, splits, scale,
    HEADS: tl.constexpr, KV_HEADS: tl.constexpr, DIM: tl.constexpr, PAGE: tl.constexpr,
    ROWS: tl.constexpr, SHARE_UP: tl.constexpr, SPLITS_UP: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """One split of one (sequence, key/value head): SHARE query heads in ROWS rows."""
    SHARE: tl.constexpr = HEADS // KV_HEADS
    split = tl.program_id(0)
    group = tl.program_id(1)
    b = group // KV_HEADS
    kv_head = group % KV_HEADS
    rows = tl.arange(0, ROWS)
    dims = tl.arange(0, DIM)
    real = rows < SHARE
    at = (b * HEADS + kv_head * SHARE + rows)[:, None] * DIM + dims[None, :]
    q = tl.load(query + at, mask=real[:, None], other=0.0)

    length = tl.load(lengths + b)
    span = tl.cdiv(tl.cdiv(length, splits), BLOCK) * BLOCK
    first = split * span
    last = tl.minimum(first + span, length)

    top = tl.full((ROWS,), -1.0e30, tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    acc = tl.zeros((ROWS, DIM), tl.float32)
    row = table + b * pages
    page = pages_from(row, first, pages, PAGE, BLOCK)
    for start in tl.range(first, last, BLOCK, num_stages=STAGES):
        place = tl.arange(0, BLOCK)
        positions = start + place
        keep = positions < last
        slot = (page.to(tl.int64) * PAGE + place % PAGE) * KV_HEADS + kv_head
        k = tl.load(cache + slot[None, :] * (2 * DIM) + dims[:, None], mask=keep[None, :], other=0.0)
        v = tl.load(cache + slot[:, None] * (2 * DIM) + DIM + dims[None, :], mask=keep[:, None], other=0.0)
        scores = tl.dot(q, k) * (scale * LOG2E)
        scores = tl.where(keep[None, :], scores, -1.0e30)
        new_top = tl.maximum(top, tl.max(scores, axis=1))
        shrink = tl.exp2(top - new_top)
        p = tl.exp2(scores - new_top[:, None])
        total = total * shrink + tl.sum(p, axis=1)
        acc = tl.dot(p.to(tl.bfloat16), v, acc * shrink[:, None])
        top = new_top
        page = pages_from(row, start + BLOCK, pages, PAGE, BLOCK)  # for the next block, so that its loads can run ahead

    part = (group * splits + split) * ROWS + rows
    tl.store(part_top + part, top, mask=real)
    tl.store(part_total + part, total, mask=real)
    tl.store(part_sum + part[:, None] * DIM + dims[None, :], acc, mask=real[:, None])
    tl.debug_barrier()
    ticket = tl.atomic_add(tickets + group, 1, sem="acq_rel")
    if ticket == splits - 1:
        tl.debug_barrier()
        # All splits at once, so that their loads are all in flight together.
        heads = tl.arange(0, SHARE_UP)
        splits_up = tl.arange(0, SPLITS_UP)
        parts = (group * splits + splits_up)[:, None] * ROWS + heads[None, :]
        left = (splits_up < splits)[:, None] & (heads < SHARE)[None, :]
        tops = tl.load(part_top + parts, mask=left, other=-1.0e30, cache_modifier=".cg")
        weight = tl.exp2(tops - tl.max(tops, axis=0)[None, :])
        sums = tl.sum(weight * tl.load(part_total + parts, mask=left, other=0.0, cache_modifier=".cg"), axis=0)
        at_part = part_sum + parts[:, :, None] * DIM + dims[None, None, :]
        values = tl.load(at_part, mask=left[:, :, None], other=0.0, cache_modifier=".cg")
        merged = tl.sum(weight[:, :, None] * values, axis=0) / sums[:, None]
        to = (b * HEADS + kv_head * SHARE + heads)[:, None] * DIM + dims[None, :]
        tl.store(output + to, merged.to(tl.bfloat16), mask=(heads < SHARE)[:, None])
        tl.store(tickets + group, 0)


class Model(nn.Module):
    """query [batch, heads, dim] bf16 -> the same, attending to the first seq_lens[b] positions of sequence b."""

    BLOCK, WARPS, STAGES = 64, 4, 2
    PROGRAMS = 396

    def __init__(
        self, batch: int, num_heads: int, num_kv_heads: int, head_dim: int, seq_len: int, page_size: int
    ) -> None:
        super().__init__()
        if self.BLOCK % page_size:
            raise ValueError(f"page_size must divide {self.BLOCK}")
        self.heads, self.kv_heads, self.dim, self.page = num_heads, num_kv_heads, head_dim, page_size
        self.groups = batch * num_kv_heads
        self.rows = max(16, triton.next_power_of_2(num_heads // num_kv_heads))
        self.splits = max(1, min(triton.cdiv(self.PROGRAMS, self.groups), triton.cdiv(seq_len, self.BLOCK)))
        self.work: dict[torch.device, tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]] = {}

    def buffers(self, device: torch.device) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Work buffers: weighted values, maxima and sums of every split, and the ticket counters (all zero)."""
        if device not in self.work:
            parts = self.groups * self.splits * self.rows
            self.work[device] = (
                torch.empty(parts, self.dim, device=device),
                torch.empty(parts, device=device),
                torch.empty(parts, device=device),
                torch.zeros(self.groups, dtype=torch.int32, device=device),
            )
        return self.work[device]

    def forward(
        self, query: torch.Tensor, kv_cache: torch.Tensor, block_table: torch.Tensor, seq_lens: torch.Tensor
    ) -> torch.Tensor:
        output = torch.empty_like(query)
        attend[(self.splits, self.groups)](
            query, kv_cache, block_table, seq_lens, output, *self.buffers(query.device),
            block_table.shape[1], self.splits, self.dim**-0.5,
            HEADS=self.heads, KV_HEADS=self.kv_heads, DIM=self.dim, PAGE=self.page,
            ROWS=self.rows, SHARE_UP=triton.next_power_of_2(self.heads // self.kv_heads),
            SPLITS_UP=triton.next_power_of_2(self.splits), BLOCK=self.BLOCK, STAGES=self.STAGES, num_warps=self.WARPS,
        )  # fmt: skip
        return output
