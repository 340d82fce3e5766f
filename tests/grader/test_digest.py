"""Digests of outputs tell whether bits are the same, also of large ones, which are folded."""

from __future__ import annotations

import hashlib

import pytest
import torch

from grader.deck import digest as module
from grader.deck.digest import CHUNK, LANES, digest_of, folded

MASTER, SEED = b"m" * 32, 7


def test_the_digest_of_small_outputs_is_that_of_their_bytes() -> None:
    outputs = [torch.arange(6, dtype=torch.int32).view(2, 3).t(), torch.tensor(True)]
    assert digest_of(outputs, MASTER) == hashlib.sha256(outputs[0].contiguous().numpy().tobytes() + b"\1").hexdigest()


def test_sums_are_those_of_the_words_times_the_numbers_modulo_2_to_the_64(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK", 4)
    data = torch.tensor([0xFF, 0xFF, 0xFF, 0xFF, 1, 0, 0, 0x80] + [3] * 9, dtype=torch.uint8)
    generator = torch.Generator().manual_seed(SEED)
    most = torch.iinfo(torch.int64)
    numbers = torch.randint(most.min, most.max, (LANES, 4), generator=generator)
    words = [[0xFFFFFFFF, 0x80000001, 0x03030303, 0x03030303], [3]]
    for found, chunk in zip(folded(data, SEED), words, strict=True):
        wanted = [sum(int(n) * w for n, w in zip(lane, chunk, strict=False)) % 2**64 for lane in numbers]
        assert [int(one) % 2**64 for one in found] == wanted


@pytest.mark.parametrize("at", [0, 1, 4 * CHUNK - 1, 4 * CHUNK, 8 * CHUNK - 1, 8 * CHUNK + 2])
@pytest.mark.parametrize("bit", [1, 128])
def test_a_bit_anywhere_changes_every_lane_of_its_chunk_alone(at: int, bit: int) -> None:
    data = torch.randint(0, 256, (8 * CHUNK + 3,), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    first = folded(data, SEED)
    assert torch.equal(first, folded(data.clone(), SEED)) and first.shape == (3, LANES)
    assert not (first == folded(data, SEED + 1)).any(), "another key"
    data[at] ^= bit
    same = folded(data, SEED) == first
    assert [bool(row.any()) for row in same] == [index != at // (4 * CHUNK) for index in range(3)]


def test_bytes_that_do_not_begin_at_a_word_are_folded_too() -> None:
    data = torch.arange(101, dtype=torch.uint8)
    assert torch.equal(folded(data[1:], SEED), folded(data[1:].clone(), SEED))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_folds_as_this_says_and_tells_a_bit_of_a_large_output() -> None:
    output = torch.randn(3, 1 << 24, device="cuda", dtype=torch.bfloat16)
    before = digest_of([output], MASTER)
    assert before == digest_of([output.clone()], MASTER) != digest_of([output], b"n" * 32)
    output[2, -1] = -output[2, -1]
    assert digest_of([output], MASTER) != before
