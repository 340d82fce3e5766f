"""What may be less exact than the oracle: the delta rule with bf16 operands, fp32 accumulators and an fp32 state.

Kernels get there on different ways, and their errors differ. Each function below is one of them, in plain torch:

- `legal`: a chunk's inverse by substitution, rounded once; w and u are handed on;
- `doubling`: the inverse from products alone, (I - A)(I + A^2)(I + A^4)..., each of them on rounded operands;
- `blocks`: blocks of 16 inverted by substitution and merged by products, decay counted from each block's own middle,
  and the inverse applied to what the state leaves of v instead of to k and v;
- `scan`: each chunk as one affine map of the state, S = M S + c;
- `recurrent`: the definition, step by step, on fp32 throughout.
"""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from grader.precision import matmul, round_to

# What the derivation samples: all of T, K and V, over which errors add up, and fewer heads.
SHAPES = [
    {"B": 1, "T": 1024, "H": 4, "K": 128, "V": 128, "CHUNK_SIZE": 64},
    {"B": 1, "T": 4096, "H": 2, "K": 128, "V": 128, "CHUNK_SIZE": 64},
]

BLOCK = 16

Init = Mapping[str, Any]
Tensors = Mapping[str, torch.Tensor]
Precision = Mapping[str, str]
Function = Callable[[torch.Tensor], torch.Tensor]


def legal(
    init: Init, inputs: Tensors, state: Tensors, precision: Precision, *, chunk: int = 0
) -> tuple[torch.Tensor, ...]:
    """[B, T, H, V] bf16. `precision`: `operands`, `state-operand` (a copy of the state), `accumulator`.

    The cumulative decay, the matrix that is inverted, its inverse and the carried state stay in fp32: their errors
    would grow along the chunk or along T. What enters a product may be rounded, and so may what a kernel hands to the
    next one through memory (w, u and the copy of the state are operands there). A kernel may take chunks of its own.
    """
    chunk, scale = chunk or int(init["chunk_size"]), int(init["K"]) ** -0.5
    operand, product = _rounding(precision)
    q, k, v, g, step = _split(inputs, chunk)
    decay = g.cumsum(-2)
    reads = operand(q * decay.exp() * scale)
    ahead, behind = operand(k * decay.exp()), operand(k * (-decay).exp())
    pairs = (step * product(ahead, behind.mT)).tril(-1)
    inverse = operand(_solved(pairs))
    w = operand(product(inverse, operand(step * ahead)))
    u = operand(product(inverse, operand(step * v)))
    scores = operand(product(reads, behind.mT).tril())
    kept = operand(k * (decay[..., -1:, :] - decay).exp())
    carried = _empty_state(q, v)
    out = torch.empty_like(v)
    for i in range(q.shape[2]):
        read = round_to(carried, precision["state-operand"])
        fresh = operand(u[:, :, i] - product(w[:, :, i], read))
        out[:, :, i] = product(reads[:, :, i], read) + product(scores[:, :, i], fresh)
        left = decay[:, :, i, -1, :, None].exp()
        carried = carried * left + product(kept[:, :, i].mT, fresh)
    return (_joined(out),)


def doubling(init: Init, inputs: Tensors, state: Tensors, precision: Precision) -> tuple[torch.Tensor, ...]:
    """As `legal`, and the inverse is a product of powers, each a product of rounded operands itself.

    Decay is in powers of two and counted from the chunk's middle, which leaves smaller numbers to round. The inverse's
    columns take the step, and keys are rounded once more where they take the decay up to the chunk's start.
    """
    chunk, scale = int(init["chunk_size"]), int(init["K"]) ** -0.5
    operand, product = _rounding(precision)
    q, k, v, g, step = _split(inputs, chunk)
    decay = (g * math.log2(math.e)).cumsum(-2)
    middle = decay[..., chunk // 2 - 1 : chunk // 2, :]
    ahead, behind = operand(k * (decay - middle).exp2()), operand(k * (middle - decay).exp2())
    looks = operand(q * (decay - middle).exp2() * scale)
    power = operand(-(step * product(ahead, behind.mT)).tril(-1))
    inverse = torch.eye(chunk, device=q.device) + power
    for _ in range(chunk.bit_length() - 2):
        power = operand(product(power, power))
        inverse = inverse + product(operand(inverse), power)
    inverse = operand(inverse * step.mT)
    w = operand(product(inverse, operand(ahead * operand(middle.exp2()))))
    u = operand(product(inverse, v))
    scores = operand(product(looks, behind.mT).tril())
    reads = operand(q * decay.exp2() * scale)
    last = decay[..., -1:, :]
    kept = operand(behind * (last - middle).exp2())
    carried = _empty_state(q, v)
    out = torch.empty_like(v)
    for i in range(q.shape[2]):
        read = round_to(carried, precision["state-operand"])
        fresh = operand(u[:, :, i] - product(w[:, :, i], read))
        out[:, :, i] = product(reads[:, :, i], read) + product(scores[:, :, i], fresh)
        carried = carried * last[:, :, i].mT.exp2() + product(kept[:, :, i].mT, fresh)
    return (_joined(out),)


def blocks(init: Init, inputs: Tensors, state: Tensors, precision: Precision) -> tuple[torch.Tensor, ...]:
    """Chunks in blocks of 16: diagonal blocks are inverted by substitution, the others are products of rounded blocks.

    The inverse multiplies v less what the state says of k, so that there are no w and u. Each block of keys counts its
    decay from its own middle.
    """
    chunk, scale = int(init["chunk_size"]), int(init["K"]) ** -0.5
    operand, product = _rounding(precision)
    q, k, v, g, step = _split(inputs, chunk)
    decay = g.cumsum(-2)
    spans = [slice(at, min(at + BLOCK, chunk)) for at in range(0, chunk, BLOCK)]
    pairs, scores = (torch.zeros(*q.shape[:-1], chunk, device=q.device) for _ in range(2))
    for span in spans:
        middle = decay[..., span, :][..., BLOCK // 2 : BLOCK // 2 + 1, :]
        rows = slice(span.start, chunk)
        later = (decay[..., rows, :] - middle).exp()
        behind = operand(k[..., span, :] * (middle - decay[..., span, :]).exp()).mT
        pairs[..., rows, span] = product(operand(k[..., rows, :] * later), behind)
        scores[..., rows, span] = product(operand(q[..., rows, :] * later), behind) * scale
    pairs = operand((step * pairs).tril(-1))
    scores = operand(scores.tril())
    inverse = _merged(pairs, spans, operand, product)
    inverse = operand(inverse * step.mT)
    reads, seen = operand(q * (decay.exp() * scale)), operand(k * decay.exp())
    kept = operand(k * (decay[..., -1:, :] - decay).exp())
    carried = _empty_state(q, v)
    out = torch.empty_like(v)
    for i in range(q.shape[2]):
        read = round_to(carried, precision["state-operand"])
        fresh = operand(product(inverse[:, :, i], operand(v[:, :, i] - product(seen[:, :, i], read))))
        out[:, :, i] = product(scores[:, :, i], fresh) + product(reads[:, :, i], read)
        carried = carried * decay[:, :, i, -1, :, None].exp() + product(kept[:, :, i].mT, fresh)
    return (_joined(out),)


def _merged(
    pairs: torch.Tensor, spans: list[slice], operand: Function, product: Callable[..., torch.Tensor]
) -> torch.Tensor:
    """(I + pairs)^-1 by blocks, row by row: X_ij = -X_ii (A_ij X_jj + ... + A_ik X_kj)."""
    inverse = torch.zeros_like(pairs)
    for row, here in enumerate(spans):
        own = _solved(pairs[..., here, here])
        inverse[..., here, here] = own
        for there in spans[:row]:
            between = slice(there.start, here.start)
            total = product(pairs[..., here, between], operand(inverse[..., between, there]))
            inverse[..., here, there] = -product(operand(own), operand(total))
    return inverse


def scan(init: Init, inputs: Tensors, state: Tensors, precision: Precision) -> tuple[torch.Tensor, ...]:
    """Every chunk maps the state that it enters, S = M S + c, so that only this product is done one after the other.

    M, with the chunk's decay on its diagonal, is rounded as an operand, and so is the state that it multiplies: what is
    carried goes through bf16 once a chunk, which shows where it is carried far. c and the sum are fp32.
    """
    chunk, scale = int(init["chunk_size"]), int(init["K"]) ** -0.5
    operand, product = _rounding(precision)
    q, k, v, g, step = _split(inputs, chunk)
    decay = (g * math.log2(math.e)).cumsum(-2)
    ahead, behind = operand(k * decay.exp2()), operand(k * (-decay).exp2())
    inverse = operand(_solved((step * product(ahead, behind.mT)).tril(-1)) * step.mT)
    w, u = operand(product(inverse, ahead)), operand(product(inverse, v))
    last = decay[..., -1:, :]
    kept = operand(k * (last - decay).exp2()).mT
    change = operand(torch.diag_embed(last[..., 0, :].exp2()) - product(kept, w))
    added = product(kept, u)
    reads = operand(q * decay.exp2() * scale)
    scores = operand(product(reads, behind.mT).tril())
    carried = _empty_state(q, v)
    out = torch.empty_like(v)
    for i in range(q.shape[2]):
        read = round_to(carried, precision["state-operand"])
        fresh = operand(u[:, :, i] - product(w[:, :, i], read))
        out[:, :, i] = product(reads[:, :, i], read) + product(scores[:, :, i], fresh)
        carried = product(change[:, :, i], read) + added[:, :, i]
    return (_joined(out),)


def recurrent(init: Init, inputs: Tensors, state: Tensors, precision: Precision) -> tuple[torch.Tensor, ...]:
    """The definition, one step of T after the other, in fp32."""
    q, k, v, g, beta = (inputs[name].float() for name in ("q", "k", "v", "g", "beta"))
    kept = g.exp()
    carried = torch.zeros(q.shape[0], q.shape[2], q.shape[3], v.shape[3], device=q.device)
    out = torch.empty_like(v)
    for t in range(q.shape[1]):
        carried = carried * kept[:, t, :, :, None]
        fresh = beta[:, t, :, None, None] * (v[:, t, :, None] - k[:, t, :, None] @ carried)
        carried = carried + k[:, t, :, :, None] * fresh
        out[:, t] = (q[:, t, :, None] @ carried)[:, :, 0] * q.shape[-1] ** -0.5
    return (out.to(torch.bfloat16),)


def _rounding(precision: Precision) -> tuple[Function, Callable[..., torch.Tensor]]:
    """Rounding of an operand, and a product of rounded ones."""
    return partial(round_to, fmt=precision["operands"]), partial(matmul, accumulate=precision["accumulator"])


def _split(inputs: Tensors, chunk: int) -> tuple[torch.Tensor, ...]:
    """q, k, v, g [B, H, chunks, chunk, ...] and beta [B, H, chunks, chunk, 1], in fp32."""
    q, k, v, g = (inputs[name].float().transpose(1, 2).unflatten(2, (-1, chunk)) for name in ("q", "k", "v", "g"))
    return q, k, v, g, inputs["beta"].float().transpose(1, 2).unflatten(2, (-1, chunk))[..., None]


def _solved(pairs: torch.Tensor) -> torch.Tensor:
    """(I + pairs)^-1 by substitution; `pairs` is strictly lower triangular."""
    unit = torch.eye(pairs.shape[-1], device=pairs.device)
    return torch.linalg.solve_triangular(unit + pairs, unit.expand_as(pairs), upper=False, unitriangular=True)


def _empty_state(q: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.zeros(*q.shape[:2], q.shape[-1], v.shape[-1], device=q.device)


def _joined(out: torch.Tensor) -> torch.Tensor:
    return out.flatten(2, 3).transpose(1, 2).to(torch.bfloat16).contiguous()


VARIANTS = {
    "legal": legal,
    "chunks-of-16": partial(legal, chunk=16),
    "chunks-of-32": partial(legal, chunk=32),
    "doubling": doubling,
    "blocks": blocks,
    "scan": scan,
    "recurrent": recurrent,
}
