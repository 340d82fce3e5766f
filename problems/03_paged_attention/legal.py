"""What may be less exact than the oracle: the weights of the values, rounded before they multiply them."""

from collections.abc import Mapping
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


def legal(
    init: Mapping[str, Any],
    inputs: Mapping[str, torch.Tensor],
    state: Mapping[str, torch.Tensor],
    precision: Mapping[str, str],
) -> tuple[torch.Tensor, ...]:
    """[batch, heads, dim] bf16. `precision`: `scores`, `probabilities`, `accumulator`.

    Probabilities are those before normalisation, exp(score - maximum). Their sum is taken before they are rounded, as
    an online softmax does.
    """
    query, cache, table = inputs["query"], inputs["kv_cache"], inputs["block_table"].long()
    heads, dim = query.shape[1:]
    shared = cache.shape[2]
    out = torch.empty_like(query)
    for b, length in enumerate(inputs["seq_lens"].tolist()):
        pages = table[b, : -(-length // cache.shape[1])]
        rows = cache[pages].flatten(0, 1)[:length].float().transpose(0, 1)
        keys, values = rows[..., :dim], rows[..., dim:]
        queries = query[b].float().view(shared, heads // shared, dim)
        scores = matmul(queries, keys.transpose(-1, -2), precision["accumulator"]) * dim**-0.5
        scores = round_to(scores, precision["scores"])
        odds = (scores - scores.amax(-1, keepdim=True)).exp()
        weighted = matmul(round_to(odds, precision["probabilities"]), values, precision["accumulator"])
        out[b] = (weighted / odds.sum(-1, keepdim=True)).reshape(heads, dim).to(torch.bfloat16)
    return (out,)
