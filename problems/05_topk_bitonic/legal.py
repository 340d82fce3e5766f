"""Top-k in legal precision: a selection does no arithmetic, so nothing may be less exact than the oracle."""

import math
from collections.abc import Mapping
from typing import Any

import torch


def legal(
    init: Mapping[str, Any],
    inputs: Mapping[str, torch.Tensor],
    state: Mapping[str, torch.Tensor],
    precision: Mapping[str, str],
) -> tuple[torch.Tensor, ...]:
    """Values [batch, k] f32 in descending order, indices [batch, k] i64."""
    values, indices = torch.sort(inputs["x"], dim=-1, descending=True, stable=True)
    return values[:, : init["k"]].contiguous(), indices[:, : init["k"]].contiguous()


def network(
    init: Mapping[str, Any],
    inputs: Mapping[str, torch.Tensor],
    state: Mapping[str, torch.Tensor],
    precision: Mapping[str, str],
) -> tuple[torch.Tensor, ...]:
    """A bitonic network on pairs of value and index, padded to a power of two; equal values end in any order."""
    x, count = inputs["x"], 1 << (init["n"] - 1).bit_length()
    values = torch.nn.functional.pad(x, (0, count - init["n"]), value=-math.inf)
    place = torch.arange(count, device=x.device)
    indices = place.expand_as(values)
    for size in (2 << i for i in range(count.bit_length() - 1)):
        distance = size // 2
        while distance:
            other = place ^ distance
            falling = (place & size == 0) == (place & distance == 0)
            theirs = values[:, other]
            swap = torch.where(falling, theirs > values, theirs < values)
            values, indices = torch.where(swap, theirs, values), torch.where(swap, indices[:, other], indices)
            distance //= 2
    return values[:, : init["k"]].contiguous(), indices[:, : init["k"]].contiguous()


def radix(
    init: Mapping[str, Any],
    inputs: Mapping[str, torch.Tensor],
    state: Mapping[str, torch.Tensor],
    precision: Mapping[str, str],
) -> tuple[torch.Tensor, ...]:
    """The k-th largest bit pattern, bit by bit; then what is above it, and of what equals it the last places."""
    x, k = inputs["x"], int(init["k"])
    bits = x.view(torch.int32).long()
    order = torch.where(bits < 0, ~bits & 0xFFFFFFFF, bits | 0x80000000)
    least = torch.zeros_like(order[:, :1])
    for bit in reversed(range(32)):
        higher = least | 1 << bit
        least = torch.where((order >= higher).sum(-1, keepdim=True) >= k, higher, least)
    above, equal = order > least, order == least
    free = k - above.sum(-1, keepdim=True)
    chosen = above | (equal & (equal.flip(-1).cumsum(-1).flip(-1) <= free))
    indices = chosen.nonzero()[:, 1].view(-1, k)
    found, places = order.gather(1, indices), torch.arange(k, device=x.device)
    larger = (found[:, None] > found[:, :, None]) | ((found[:, None] == found[:, :, None]) & (places < places[:, None]))
    indices = torch.empty_like(indices).scatter_(1, larger.sum(-1), indices)
    return x.gather(1, indices), indices


VARIANTS = {"legal": legal, "network": network, "radix": radix}
