"""What may be less exact than the oracle: operands of the two products in bf16; scores, sums and merges in fp32.

Kernels round the weights at scales of their own, which is where their errors differ. Each function is one of them:

- `legal`: two passes; weights relative to the maximum of all scores are rounded;
- `online`: one pass over blocks with a running maximum; the query is rounded with the scale in it; exp2 for exp;
- `normalised`: two passes; weights are divided by their sum before they are rounded;
- `splits`: parts of the sequence with maxima of their own, each on normalised results that are merged by their sums;
- `plain`: fp32 throughout.
"""

import math
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import torch

from grader.precision import matmul, round_to

# What the derivation samples: graded sequences and heads of fewer batches.
SHAPES = [
    {"batch": 4, "num_heads": 32, "num_kv_heads": 8, "head_dim": 128, "seq_len": 1024, "page_size": 16},
    {"batch": 1, "num_heads": 64, "num_kv_heads": 8, "head_dim": 128, "seq_len": 4096, "page_size": 16},
    {"batch": 2, "num_heads": 32, "num_kv_heads": 8, "head_dim": 128, "seq_len": 1535, "page_size": 16},
    {"batch": 4, "num_heads": 16, "num_kv_heads": 4, "head_dim": 64, "seq_len": 2000, "page_size": 16},
]

Init = Mapping[str, Any]
Tensors = Mapping[str, torch.Tensor]
Precision = Mapping[str, str]


def legal(init: Init, inputs: Tensors, state: Tensors, precision: Precision) -> tuple[torch.Tensor, ...]:
    """[batch, heads, dim] bf16. `precision`: `scores`, `query`, `probabilities`, `accumulator`.

    Probabilities are those before normalisation, exp(score - maximum). Their sum is taken before they are rounded, as
    an online softmax does.
    """
    out = torch.empty_like(inputs["query"])
    for b, queries, keys, values in sequences(inputs):
        scores = matmul(queries, keys.mT, precision["accumulator"]) * queries.shape[-1] ** -0.5
        scores = round_to(scores, precision["scores"])
        odds = (scores - scores.amax(-1, keepdim=True)).exp()
        weighted = matmul(round_to(odds, precision["probabilities"]), values, precision["accumulator"])
        out[b] = (weighted / odds.sum(-1, keepdim=True)).flatten(0, 1).to(torch.bfloat16)
    return (out,)


def online(
    init: Init, inputs: Tensors, state: Tensors, precision: Precision, *, block: int = 64
) -> tuple[torch.Tensor, ...]:
    """As `legal` in one pass: what was rounded relative to an earlier maximum is scaled when a larger one comes."""
    out = torch.empty_like(inputs["query"])
    for b, queries, keys, values in sequences(inputs):
        queries = round_to(queries * (queries.shape[-1] ** -0.5 * math.log2(math.e)), precision["query"])
        top = torch.full((*queries.shape[:-1], 1), -math.inf, device=queries.device)
        total, weighted = torch.zeros_like(top), torch.zeros_like(queries)
        for some, own in zip(keys.split(block, 1), values.split(block, 1), strict=True):
            scores = matmul(queries, some.mT, precision["accumulator"])
            higher = torch.maximum(top, scores.amax(-1, keepdim=True))
            kept, odds = (top - higher).exp2(), (scores - higher).exp2()
            total = total * kept + odds.sum(-1, keepdim=True)
            added = matmul(round_to(odds, precision["probabilities"]), own, precision["accumulator"])
            weighted, top = weighted * kept + added, higher
        out[b] = (weighted * (1 / total)).flatten(0, 1).to(torch.bfloat16)
    return (out,)


def normalised(init: Init, inputs: Tensors, state: Tensors, precision: Precision) -> tuple[torch.Tensor, ...]:
    """As `legal`, and weights are whole before they are rounded: near 1/length, where most may round the same way."""
    out = torch.empty_like(inputs["query"])
    for b, queries, keys, values in sequences(inputs):
        scores = matmul(queries, keys.mT, precision["accumulator"]) * queries.shape[-1] ** -0.5
        power = round_to(scores, precision["scores"]) * math.log2(math.e)
        odds = (power - power.amax(-1, keepdim=True)).exp2()
        weights = round_to(odds / odds.sum(-1, keepdim=True), precision["probabilities"])
        out[b] = matmul(weights, values, precision["accumulator"]).flatten(0, 1).to(torch.bfloat16)
    return (out,)


def splits(
    init: Init, inputs: Tensors, state: Tensors, precision: Precision, *, parts: int = 8
) -> tuple[torch.Tensor, ...]:
    """Parts of whole pages, each attended to on its own; fp32 results and logarithms of sums merge, the last first."""
    out = torch.empty_like(inputs["query"])
    page = inputs["kv_cache"].shape[1]
    for b, queries, keys, values in sequences(inputs):
        queries = round_to(queries * queries.shape[-1] ** -0.5, precision["query"])
        size = page * math.ceil(math.ceil(keys.shape[1] / page) / parts)
        partials, sums = [], []
        for some, own in zip(keys.split(size, 1), values.split(size, 1), strict=True):
            scores = matmul(queries, some.mT, precision["accumulator"])
            top = scores.amax(-1, keepdim=True)
            odds = (scores - top).exp()
            total = odds.sum(-1, keepdim=True)
            weighted = matmul(round_to(odds, precision["probabilities"]), own, precision["accumulator"])
            partials.append(weighted / total)
            sums.append(top + total.log())
        merged, whole = partials.pop(), sums.pop()
        while partials:
            both = torch.logaddexp(whole, sums[-1])
            merged = merged * (whole - both).exp() + partials.pop() * (sums.pop() - both).exp()
            whole = both
        out[b] = merged.flatten(0, 1).to(torch.bfloat16)
    return (out,)


def plain(init: Init, inputs: Tensors, state: Tensors, precision: Precision) -> tuple[torch.Tensor, ...]:
    """fp32 on inputs as they are, as a kernel without tensor cores has it."""
    out = torch.empty_like(inputs["query"])
    for b, queries, keys, values in sequences(inputs):
        weights = torch.softmax(queries @ keys.mT * queries.shape[-1] ** -0.5, dim=-1)
        out[b] = (weights @ values).flatten(0, 1).to(torch.bfloat16)
    return (out,)


def sequences(inputs: Tensors) -> Iterator[tuple[int, torch.Tensor, torch.Tensor, torch.Tensor]]:
    """Number, queries [shared, heads / shared, dim], keys and values [shared, length, dim] of each sequence; fp32."""
    query, cache, table = inputs["query"], inputs["kv_cache"], inputs["block_table"].long()
    heads, dim = query.shape[1:]
    shared = cache.shape[2]
    for b, length in enumerate(inputs["seq_lens"].tolist()):
        pages = table[b, : -(-length // cache.shape[1])]
        rows = cache[pages].flatten(0, 1)[:length].float().transpose(0, 1)
        yield b, query[b].float().view(shared, heads // shared, dim), rows[..., :dim], rows[..., dim:]


VARIANTS = {
    "legal": legal,
    "online": online,
    "online-by-page": partial(online, block=16),
    "normalised": normalised,
    "splits": splits,
    "plain": plain,
}
