"""Structured inputs of paged attention: lengths, pages, and where in the sequence the weight lies."""

from collections.abc import Mapping
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Generator, Tensor

from grader.structure import Structure

Symbols = Mapping[str, Any]
Plan = dict[str, Any]

POISON = 1e30  # finite, so a masked weight of zero still takes it out; any other weight lets it show
FEW = 4  # positions that carry the weight: the values of two may cancel, and what is left says little of the kernel


def lengths(symbols: Symbols) -> st.SearchStrategy[list[int]]:
    """One length a sequence: the edges of a page and of the whole, and any other.

    At least one ends inside a page that is not the sequence's first, so that a partial page is never a whole one.
    """
    batch, full, page = (int(symbols[name]) for name in ("batch", "seq_len", "page_size"))
    edges = [n for n in (1, page - 1, page, page + 1, full - 1, full) if 0 < n <= full]
    one = st.sampled_from(edges) | st.integers(1, full)
    inside = st.integers(page + 1, full - 1).filter(lambda n: n % page != 0)
    rest = st.lists(one, min_size=batch - 1, max_size=batch - 1)
    at = st.integers(0, batch - 1)
    return st.builds(lambda some, n, i: [*some[:i], n, *some[i:]], rest, inside, at)


def draw_ragged(symbols: Symbols) -> st.SearchStrategy[Plan]:
    return st.fixed_dictionaries({"lengths": lengths(symbols)})


def apply_ragged(
    plan: Plan, symbols: Symbols, inputs: dict[str, Tensor], state: dict[str, Tensor], generator: Generator
) -> None:
    """Sets the lengths, and poisons every row of the cache that no sequence may read."""
    set_lengths(inputs, plan["lengths"])
    cache = inputs["kv_cache"]
    legal = torch.zeros(cache.shape[:2], dtype=torch.bool, device=cache.device)
    for pages, length in zip(inputs["block_table"].long(), plan["lengths"]):
        at = torch.arange(length, device=cache.device)
        legal[pages[at // cache.shape[1]], at % cache.shape[1]] = True
    cache[~legal] = POISON


def draw_pages(symbols: Symbols) -> st.SearchStrategy[Plan]:
    order = st.sampled_from(["rising", "falling", "interleaved", "scattered"])
    return st.fixed_dictionaries({"order": order})


def apply_pages(
    plan: Plan, symbols: Symbols, inputs: dict[str, Tensor], state: dict[str, Tensor], generator: Generator
) -> None:
    """Lays the pages out in an order, and shifts the values of each page by amounts of its own, one a channel."""
    cache, table = inputs["kv_cache"], inputs["block_table"]
    batch, each = table.shape
    pages = torch.arange(batch * each, device=cache.device)
    layouts = {
        "rising": pages.view(batch, each),
        "falling": pages.flip(0).view(batch, each),
        "interleaved": pages.view(each, batch).T,
        "scattered": table,
    }
    inputs["block_table"] = layouts[plan["order"]].to(table.dtype).contiguous()
    dim = cache.shape[-1] // 2
    shift = torch.randn(cache.shape[0], 1, 1, dim, generator=generator, device=cache.device)
    cache[..., dim:] = (cache[..., dim:].float() + shift).to(cache.dtype)


def draw_late(symbols: Symbols) -> st.SearchStrategy[Plan]:
    """How many of the last positions carry the weight: from a few to an eighth of the sequence."""
    return st.fixed_dictionaries({"count": st.integers(FEW, max(FEW, int(symbols["seq_len"]) // 8))})


def apply_late(
    plan: Plan, symbols: Symbols, inputs: dict[str, Tensor], state: dict[str, Tensor], generator: Generator
) -> None:
    full = int(symbols["seq_len"])
    agree(inputs, torch.arange(full - plan["count"], full, device=inputs["query"].device))


def draw_early(symbols: Symbols) -> st.SearchStrategy[Plan]:
    count = st.integers(FEW, int(symbols["page_size"]))
    return st.fixed_dictionaries({"count": count, "lengths": lengths(symbols)})


def apply_early(
    plan: Plan, symbols: Symbols, inputs: dict[str, Tensor], state: dict[str, Tensor], generator: Generator
) -> None:
    set_lengths(inputs, plan["lengths"])
    agree(inputs, torch.arange(plan["count"], device=inputs["query"].device))


def set_lengths(inputs: dict[str, Tensor], drawn: list[int]) -> None:
    """Replaces seq_lens."""
    old = inputs["seq_lens"]
    inputs["seq_lens"] = torch.tensor(drawn, dtype=old.dtype, device=old.device)


def agree(inputs: dict[str, Tensor], positions: Tensor) -> None:
    """Turns queries that share keys towards their mean direction, and adds that to the keys at `positions`.

    Its size lifts the scores there, of one position in n, by about log(n) + 1.5 over the others, so that these get most
    of the weight and the others still have some. Queries in all directions would need keys so large that half a unit in
    the last place of each moves the weights by more than a kernel may err.
    """
    query, cache, table = inputs["query"], inputs["kv_cache"], inputs["block_table"].long()
    batch, heads, dim = query.shape
    page, shared = cache.shape[1], cache.shape[2]
    groups = query.float().view(batch, shared, heads // shared, dim)
    size = groups.norm(dim=-1, keepdim=True).mean(2, keepdim=True)
    direction = unit(unit(groups).mean(2))
    groups = size * unit(unit(groups) + 3 * direction[:, :, None])
    inputs["query"] = groups.view(query.shape).to(query.dtype)
    usual = (groups * direction[:, :, None]).sum(-1).mean(-1, keepdim=True) * dim**-0.5
    lift = (inputs["seq_lens"] / positions.numel()).clamp(min=1).log()[:, None, None] + 1.5
    added = (direction * (lift / usual)).to(cache.dtype)
    pages, rows = table[:, positions // page], positions % page
    keys = cache[pages, rows, :, :dim]
    cache[pages, rows, :, :dim] = keys + added[:, None]


def unit(t: Tensor) -> Tensor:
    """Vectors of the last dimension scaled to norm one."""
    return t / t.norm(dim=-1, keepdim=True)


STRUCTURES = {
    "ragged-lengths": Structure(draw_ragged, apply_ragged),
    "scattered-pages": Structure(draw_pages, apply_pages),
    "late-positions": Structure(draw_late, apply_late),
    "early-positions": Structure(draw_early, apply_early),
}
