"""How many checks a GPU's memory holds at once: what one may take, and a budget that threads share."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from grader.deck.code import TORCH_DTYPES
from kbh_lint.problems import Binding, Problem
from kbh_lint.problems.model import TensorSpec

__all__ = ["Budget", "bindings", "footprint"]

CONTEXT_BYTES = 1 << 30  # what a process takes on the GPU before it has a tensor


class Budget:
    """A number of bytes that threads share; who asks for more than is left waits."""

    def __init__(self, size: int) -> None:
        self._size = self._left = size
        self._changed = threading.Condition()

    @contextmanager
    def taken(self, amount: int) -> Iterator[None]:
        """Holds `amount` (at most everything) inside the block."""
        amount = min(amount, self._size)
        with self._changed:
            self._changed.wait_for(lambda: self._left >= amount)
            self._left -= amount
        try:
            yield
        finally:
            with self._changed:
                self._left += amount
                self._changed.notify_all()


def bindings(problem: Problem) -> list[Binding]:
    """The tensors of the first contract at each graded shape."""
    contract = next(iter(problem.contracts.values()))
    return [contract.bind(shape) for shape in problem.shapes]


def footprint(problem: Problem) -> int:
    """Bytes on the GPU that a check may take at once, judge and candidate together.

    State: judge's, candidate's and its pristine copy. Inputs: judge's, two sets and a copy. Outputs: both sides', the
    oracle in fp64 and as much again for its arithmetic, and the temporaries of one block of a comparison.
    """
    largest = 0
    for binding in bindings(problem):
        state = sum(_bytes(spec) for spec in binding.state.values())
        inputs, outputs = sum(map(_bytes, binding.inputs)), sum(map(_bytes, binding.outputs))
        largest = max(largest, 3 * state + 5 * inputs + 12 * outputs)
    return largest + 2 * CONTEXT_BYTES


def _bytes(spec: TensorSpec) -> int:
    return torch.Size(spec.shape).numel() * TORCH_DTYPES[spec.dtype].itemsize
