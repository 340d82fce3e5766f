"""Digests of outputs: whether two calls gave the same bits.

A large output is 2 GB on a GPU, of which a host takes seconds to copy and hash, while others wait for the device. Such
an output is folded where it lies: of every CHUNK words of 32 bits, LANES sums modulo 2^64 of the words times secret
numbers remain. Two outputs that differ have the same sums with a probability of at most 2^-32 a lane, whatever a
submission wrote, since it does not know the numbers (D. Lemire and O. Kaser, "Strongly universal string hashing is
fast", 2014: multilinear hashing with words of half the width of the sums).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import torch
from torch import Tensor

from grader.deck.keys import derive

__all__ = ["digest_of"]

LEAST_BYTES = 1 << 24  # of a tensor that is folded; a host hashes less than that in some ten milliseconds
CHUNK = 1 << 20  # words
LANES = 4


def digest_of(outputs: Sequence[Tensor], master: bytes) -> str:
    """SHA-256 of the bytes of the outputs, one after the other, where large ones on a GPU are folded first.

    The secret numbers are derived from `master`, so digests of one trial alone can be compared.
    """
    digest = hashlib.sha256()
    for tensor in outputs:
        flat = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
        if flat.device.type == "cuda" and flat.numel() >= LEAST_BYTES:
            digest.update(flat.numel().to_bytes(8, "big"))
            flat = folded(flat, derive(master, "digest")).view(torch.uint8)
        digest.update(flat.cpu().numpy().data)
    return digest.hexdigest()


def folded(flat: Tensor, seed: int) -> Tensor:
    """The sums of all chunks of bytes, (chunks, LANES) of int64; the last chunk is filled up with zeros."""
    flat = flat.clone() if flat.storage_offset() % 4 else flat  # to be read as words
    generator = torch.Generator(flat.device).manual_seed(seed)
    most = torch.iinfo(torch.int64)
    numbers = torch.randint(most.min, most.max, (LANES, CHUNK), generator=generator, device=flat.device)
    words = flat[: len(flat) // 4 * 4].view(torch.int32)
    rest = flat[len(flat) // 4 * 4 :]
    sums = [_sums(numbers, words[at : at + CHUNK]) for at in range(0, len(words), CHUNK)]
    if len(rest):
        last = torch.zeros(4, dtype=torch.uint8, device=flat.device)
        last[: len(rest)] = rest
        sums.append(_sums(numbers, last.view(torch.int32)))
    return torch.stack(sums)


def _sums(numbers: Tensor, words: Tensor) -> Tensor:
    unsigned = words.to(torch.int64) & 0xFFFFFFFF
    return (numbers[:, : len(words)] * unsigned).sum(1)
