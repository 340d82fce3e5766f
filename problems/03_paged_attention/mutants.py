"""Wrong paged attention: lengths, pages, heads or the softmax mistaken in one place."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
import torch.nn as nn

from grader.mutation import Mutant, generic

from .reference import Model


class Attention(nn.Module):
    """The attention in fp32 with one `fault` in it; no fault is the right one."""

    def __init__(self, fault: str, init: Mapping[str, Any]) -> None:
        super().__init__()
        self.fault, self.full = fault, int(init["seq_len"])

    def forward(
        self, query: torch.Tensor, kv_cache: torch.Tensor, block_table: torch.Tensor, seq_lens: torch.Tensor
    ) -> torch.Tensor:
        page, shared, dim = kv_cache.shape[1], kv_cache.shape[2], query.shape[2]
        rows = kv_cache[self.pages(block_table.long())].flatten(1, 2).float()
        share = query.shape[1] // shared
        if self.fault == "heads-interleaved":
            rows = rows.repeat(1, 1, share, 1)
        else:
            rows = rows.repeat_interleave(share, dim=2)
        keys, values = rows.chunk(2, dim=-1)
        if self.fault == "keys-for-values":
            values = keys
        if self.fault == "page-values-rolled":
            values = values.unflatten(1, (-1, page)).roll(1, 1).flatten(1, 2)
        width = dim if self.fault != "scale-of-the-cache-row" else 2 * dim
        scores = torch.einsum("bhd,bnhd->bhn", query.float(), keys) * width**-0.5
        at = torch.arange(keys.shape[1], device=query.device)
        seen = (at < self.lengths(seq_lens, page)[:, None]) & (at >= self.start(seq_lens)[:, None])
        return self.mix(scores, seen[:, None], values).to(torch.bfloat16)

    def pages(self, table: torch.Tensor) -> torch.Tensor:
        if self.fault == "block-table-ignored":
            return torch.arange(table.numel(), device=table.device).view(table.shape)
        if self.fault == "table-of-the-first":
            return table[:1].expand_as(table)
        if self.fault == "first-page-twice":
            return torch.cat((table[:, :1], table[:, :1], table[:, 2:]), dim=1)
        return table

    def lengths(self, seq_lens: torch.Tensor, page: int) -> torch.Tensor:
        """How far each sequence reads."""
        changed = {
            "lengths-ignored": torch.full_like(seq_lens, self.full),
            "length-of-the-first": seq_lens[:1].expand_as(seq_lens),
            "one-short": (seq_lens - 1).clamp(min=1),
            "one-too-far": seq_lens + 1,
            "whole-pages-only": torch.where(seq_lens > page, seq_lens // page * page, seq_lens),
            "page-rounded-up": (seq_lens + page - 1) // page * page,
            "last-two-percent": seq_lens - seq_lens // 50,
            "last-tenth": seq_lens - seq_lens // 10,
        }
        return changed.get(self.fault, seq_lens)

    def start(self, seq_lens: torch.Tensor) -> torch.Tensor:
        """Where each sequence starts to read."""
        window = seq_lens - seq_lens * 3 // 4
        return window if self.fault == "sliding-window" else torch.zeros_like(seq_lens)

    def mix(self, scores: torch.Tensor, seen: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """softmax(scores) @ values; scores [batch, heads, n]."""
        masked = scores.masked_fill(~seen, float("-inf"))
        if self.fault in ("splits-averaged", "never-rescaled"):
            return self.in_splits(masked, values)
        odds = (masked - masked.amax(-1, keepdim=True)).exp()
        total = odds.sum(-1, keepdim=True)
        if self.fault == "padding-counted":
            pages = seen.shape[-1] * torch.ones_like(total)
            total = total + (pages - seen.sum(-1, keepdim=True)) * (-masked.amax(-1, keepdim=True)).exp()
        if self.fault == "fp8-probabilities":
            odds = odds.to(torch.float8_e4m3fn).float()
        if self.fault == "uniform":
            odds, total = seen.expand_as(odds).float(), seen.sum(-1, keepdim=True)
        return torch.einsum("bhn,bnhd->bhd", odds / total, values)

    def in_splits(self, masked: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """Splits of 64 positions, each with its own maximum, put together wrongly."""
        weighted, totals = [], []
        for part, rows in zip(masked.split(64, -1), values.split(64, 1)):
            top = part.amax(-1, keepdim=True).clamp(min=-1e30)
            odds = (part - top).exp()
            weighted.append(torch.einsum("bhn,bnhd->bhd", odds, rows))
            totals.append(odds.sum(-1, keepdim=True))
        if self.fault == "never-rescaled":
            return torch.stack(weighted).sum(0) / torch.stack(totals).sum(0)
        used = [total > 0 for total in totals]
        parts = [torch.where(some, w / total, 0.0) for w, total, some in zip(weighted, totals, used)]
        return torch.stack(parts).sum(0) / torch.stack(used).sum(0)


FAULTS = {
    "lengths-ignored": "seq_lens is never read: every sequence has the full length.",
    "length-of-the-first": "All sequences have the first one's length.",
    "one-short": "The last position is left out.",
    "one-too-far": "One position too many is read.",
    "whole-pages-only": "A last page that is not full is left out.",
    "page-rounded-up": "The last page counts in full.",
    "last-two-percent": "The last 2 % of the positions are skipped.",
    "last-tenth": "The last tenth of the positions is skipped.",
    "sliding-window": "Only the last three quarters of the positions are read.",
    "block-table-ignored": "Pages are read in the order of the cache.",
    "table-of-the-first": "All sequences read the first one's pages.",
    "first-page-twice": "The second page of each sequence is the first one again.",
    "heads-interleaved": "Query head h reads key head h modulo their number.",
    "keys-for-values": "Keys are averaged instead of values.",
    "page-values-rolled": "Values come from the page before that of their key.",
    "scale-of-the-cache-row": "Scores are scaled by the length of a cache row, which holds a key and a value.",
    "uniform": "The values are averaged without weights.",
    "padding-counted": "Positions past the length count in the denominator, as scores of zero.",
    "splits-averaged": "Results of splits are averaged and not weighted by their sums.",
    "never-rescaled": "Splits are added up without being brought to one maximum.",
    "fp8-probabilities": "Probabilities are e4m3 where they multiply the values.",
}

MUTANTS = (*generic(Model), *(Mutant(fault, idea, partial(Attention, fault)) for fault, idea in FAULTS.items()))
