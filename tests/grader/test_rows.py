"""The tensors of a call as rows in shared memory, which the judge writes and copies."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from grader.wire.channel import Memory, Slot
from grader.wire.rows import Row

PAIR = Row((Slot("x", torch.float32, (2, 3), 0), Slot("n", torch.int64, (2,), 512)))


@pytest.fixture()
def memory() -> Iterator[Memory]:
    region = Memory("rows", 3 * PAIR.stride)
    region.poison(region.size)
    yield region
    region.close()


def values(number: float) -> dict[str, torch.Tensor]:
    return {"x": torch.full((2, 3), number), "n": torch.tensor([1, 2])}


def test_what_is_written_to_a_row_is_read_from_it_and_from_no_other(memory: Memory) -> None:
    PAIR.write(memory, 1, values(0.5))
    x, n = PAIR.split(PAIR.copied(memory, 1))
    assert torch.equal(x, values(0.5)["x"]) and torch.equal(n, values(0.5)["n"])
    assert all(bool((PAIR.copied(memory, other) == 0xFF).all()) for other in (0, 2))


def test_a_copy_of_a_row_does_not_follow_what_is_written_later(memory: Memory) -> None:
    PAIR.write(memory, 0, values(0.5))
    taken = PAIR.copied(memory, 0)
    PAIR.write(memory, 0, values(2.0))
    assert torch.equal(PAIR.split(taken)[0], values(0.5)["x"])


def test_the_tensors_of_a_row_that_hold_other_bytes_are_named(memory: Memory) -> None:
    PAIR.write(memory, 2, values(0.0))
    assert PAIR.changed(memory, 2, values(0.0)) == []
    assert PAIR.changed(memory, 2, values(-0.0)) == ["x"]


@pytest.mark.parametrize("wrong", [torch.zeros(2, 3, dtype=torch.float64), torch.zeros(3, 2)])
def test_a_tensor_of_another_type_or_shape_is_refused(memory: Memory, wrong: torch.Tensor) -> None:
    with pytest.raises(ValueError, match="^x as torch.float"):
        PAIR.write(memory, 0, {**values(0.0), "x": wrong})


def test_bytes_that_are_looked_at_lie_anywhere_in_the_tensors_of_each_row_and_nowhere_between_them() -> None:
    row = Row(
        tuple(Slot(name, torch.uint8, (size,), at) for name, size, at in (("a", 3, 0), ("b", 0, 8), ("c", 5, 16)))
    )
    within = row.sampled(200, 16) - torch.arange(200)[:, None] * row.stride
    assert set(within.flatten().tolist()) == {0, 1, 2, 16, 17, 18, 19, 20}
    assert len({tuple(each) for each in within.tolist()}) > 190
