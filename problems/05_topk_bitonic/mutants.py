"""Wrong selections: parts of a row left out, keys that are not the value, indices of something else.

On the shape with k = 1 a mutant that only breaks the order, or offers too few values of a stretch, does the same to the
first place: it returns the second largest value, or the first of a stretch.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
import torch.nn as nn

from grader.mutation import Mutant, generic

from .reference import Model

STRETCH = 1024


class Select(nn.Module):
    """Top-k by `key(x)`, and then what `end(module, x, values, indices)` makes of it."""

    def __init__(self, key: Any, end: Any, init: Mapping[str, Any]) -> None:
        super().__init__()
        self.k, self.key, self.end = init["k"], key, end
        self.register_buffer("_dummy", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        order = self.key(self, x).sort(dim=-1, descending=True, stable=True).indices
        values, indices = self.end(self, x, order)
        return values.contiguous(), indices.contiguous()


def first_k(module: Select, x: torch.Tensor, order: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    indices = order[:, : module.k]
    return x.gather(1, indices), indices


def plain(module: Select, x: torch.Tensor) -> torch.Tensor:
    return x


def without(places: slice, module: Select, x: torch.Tensor) -> torch.Tensor:
    """Places of a row that are never looked at."""
    key = x.clone()
    key[:, places] = float("-inf")
    return key


def one_less_of_each(module: Select, x: torch.Tensor) -> torch.Tensor:
    """Each stretch offers k - 1 values; its first one where that is none."""
    key = torch.full_like(x, float("-inf"))
    for start in range(0, x.shape[1], STRETCH):
        part = x[:, start : start + STRETCH]
        offered = part.topk(max(module.k - 1, 1), dim=-1).indices
        if module.k == 1:
            offered = torch.zeros_like(offered)
        key.scatter_(1, offered + start, part.gather(1, offered))
    return key


def low_bits_cut(module: Select, x: torch.Tensor) -> torch.Tensor:
    """The value's low bits make room for the place, as in a key of value and index."""
    return (x.view(torch.int32) & -(1 << 12)).view(torch.float32)


def order_of(change: Callable[..., torch.Tensor], module: Select, x: torch.Tensor, order: torch.Tensor) -> Any:
    """The right places in another order; one place more than k takes part."""
    indices = change(order[:, : module.k + 1])[:, : module.k]
    return x.gather(1, indices), indices


def values_of(change: Callable[..., torch.Tensor], module: Select, x: torch.Tensor, order: torch.Tensor) -> Any:
    values, indices = first_k(module, x, order)
    return change(values), indices


def indices_of(change: Callable[..., torch.Tensor], module: Select, x: torch.Tensor, order: torch.Tensor) -> Any:
    values, indices = first_k(module, x, order)
    return values, change(indices, x.shape[1])


def found_again(module: Select, x: torch.Tensor, order: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Each index is looked up by its value: equal values get the same one; with k = 1, the last place of any other."""
    values = first_k(module, x, order)[0]
    if module.k == 1:
        return values, (x != values).int().mul(torch.arange(x.shape[1], device=x.device)).amax(-1, keepdim=True).long()
    return values, (x[:, None] == values[:, :, None]).int().argmax(-1)


def swapped(ranks: torch.Tensor) -> torch.Tensor:
    return torch.cat((ranks[:, 1:2], ranks[:, :1], ranks[:, 2:]), dim=1)


def tail_swapped(ranks: torch.Tensor) -> torch.Tensor:
    return torch.cat((ranks[:, :-2], ranks[:, -1:], ranks[:, -2:-1]), dim=1)


KEYS = [
    ("last-place-unseen", "The last place of a row is never read.", partial(without, slice(-1, None))),
    ("first-place-unseen", "The first place of a row is never read.", partial(without, slice(0, 1))),
    ("last-stretch-unseen", "The last 1024 places of a row are never read.", partial(without, slice(-STRETCH, None))),
    ("last-two-percent-unseen", "The last 2 % of a row are never read.",
     lambda m, x: without(slice(-x.shape[1] // 50, None), m, x)),
    ("stretch-ends-unseen", "The last place of each stretch of 1024 is never read.",
     partial(without, slice(STRETCH - 1, None, STRETCH))),
    ("one-less-of-each-stretch", "Each stretch of 1024 offers one value less than k.", one_less_of_each),
    ("by-magnitude", "Selected by magnitude.", lambda m, x: x.abs()),
    ("smallest", "The smallest values are selected.", lambda m, x: -x),
    ("bf16-keys", "Compared as bf16.", lambda m, x: x.to(torch.bfloat16)),
    ("low-bits-cut", "Twelve bits of the key hold the index.", low_bits_cut),
    ("bits-as-signed", "Compared by bits as signed numbers, so that negative values come in reverse.",
     lambda m, x: x.view(torch.int32)),
    ("clamped-at-zero", "Padding is zero, so that values below it never win.", lambda m, x: x.clamp(min=0)),
]  # fmt: skip
ENDS = [
    ("ascending", "Values come in rising order.", partial(order_of, lambda ranks: ranks.flip(1))),
    ("first-two-swapped", "The two largest are swapped.", partial(order_of, swapped)),
    ("last-two-swapped", "The last merge is left out: the two smallest are swapped.", partial(order_of, tail_swapped)),
    ("one-rank-off", "The largest value is left out.", partial(order_of, lambda ranks: ranks[:, 1:])),
    ("bf16-values", "Values are rounded to bf16.", partial(values_of, lambda v: v.to(torch.bfloat16).float())),
    ("index-one-off", "Indices count from one.", partial(indices_of, lambda i, n: (i + 1) % n)),
    ("index-in-its-stretch", "Indices count within their stretch of 1024.",
     partial(indices_of, lambda i, n: i % STRETCH)),
    ("same-index", "All indices are the first one, or its neighbour where there is one only.",
     partial(indices_of, lambda i, n: i[:, :1].expand_as(i) if i.shape[1] > 1 else (i - 1) % n)),
    ("index-looked-up", "Equal values share an index.", found_again),
]  # fmt: skip

MUTANTS = (
    # The mean of a row of one value is that value.
    *(mutant for mutant in generic(Model) if mutant.id != "row-mean"),
    *(Mutant(name, idea, partial(Select, key, first_k)) for name, idea, key in KEYS),
    *(Mutant(name, idea, partial(Select, plain, end)) for name, idea, end in ENDS),
)
