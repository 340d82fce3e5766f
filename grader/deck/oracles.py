"""The oracle of a trial, launched as a CUDA graph where its kernels take less time than launching them one by one.

The chunked oracle of 02 has up to 1,600 small kernels: 7 to 23 ms of launches for 1 to 3 ms of work on an H200, and a
trial holds 120 outputs of a shape against it. The same kernels run on the same numbers, so the bits are the same, which
is looked at once for each graph. An oracle that asks the device for a number in between cannot be captured, and one
that the device takes long for gains nothing: it is called as it is.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from grader.deck.code import Oracle

__all__ = ["Replayed"]

WORTH_SECONDS = 4e-3  # that an oracle must take before a graph of it is tried
GAIN = 2.0  # times as long as the graph it must take
MOST_BYTES = 1 << 30  # that a graph may keep
EAGER = 2  # calls of a kind before it: the first one loads and tunes, the second tells what one takes
Tensors = Mapping[str, Tensor]


class Replayed:
    """An oracle with the same meaning. It captures when it is `quiet`: no other thread of this process uses the device
    then, and it keeps the graph of one shape, the latest.
    """

    def __init__(self, oracle: Oracle) -> None:
        self.quiet = False
        self._oracle = oracle
        self._calls: dict[object, int] = {}
        self._graph: tuple[object, _Graph | None] = None, None

    def __call__(self, init: Mapping[str, Any], inputs: Tensors, state: Tensors) -> tuple[Tensor, ...]:
        """The oracle's outputs. Those of a graph are valid until the next call."""
        device = next(iter(inputs.values())).device
        if not self.quiet or device.type != "cuda":
            return self._oracle(init, inputs, state)
        with torch.cuda.device(device):
            return self._given(init, inputs, state)

    def _given(self, init: Mapping[str, Any], inputs: Tensors, state: Tensors) -> tuple[Tensor, ...]:
        kind = _kind(init, inputs, state)
        known, graph = self._graph
        if known == kind and graph is not None:
            return graph.replayed(inputs, state)
        calls = self._calls[kind] = self._calls.get(kind, 0) + 1
        if calls != EAGER:
            return self._oracle(init, inputs, state)
        began = _settled()
        outputs = self._oracle(init, inputs, state)
        taken = _settled() - began
        if taken >= WORTH_SECONDS:
            self._graph = kind, None  # what another shape's keeps is free for this one
            self._graph = kind, _captured(self._oracle, init, inputs, state, outputs, taken)
        return outputs


@dataclass(frozen=True, slots=True)
class _Graph:
    """Kernels that read `given` and write `outputs`."""

    graph: torch.cuda.CUDAGraph
    given: tuple[dict[str, Tensor], dict[str, Tensor]]
    outputs: tuple[Tensor, ...]

    def replayed(self, *given: Tensors) -> tuple[Tensor, ...]:
        """Runs the graph on other inputs and state; returns its outputs, which the next run overwrites."""
        for held, new in zip(self.given, given, strict=True):
            for name, tensor in held.items():
                tensor.copy_(new[name])
        self.graph.replay()
        return self.outputs


def _captured(
    oracle: Oracle, init: Mapping[str, Any], inputs: Tensors, state: Tensors, right: tuple[Tensor, ...], eager: float
) -> _Graph | None:
    """A graph that gives the same bits in half the time of an eager call; None where there is none."""
    before = torch.cuda.memory_reserved()
    try:
        given = (
            {name: one.clone() for name, one in inputs.items()},
            {name: one.clone() for name, one in state.items()},
        )
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            oracle(init, *given)  # what a library keeps for a stream is not made within a capture
        torch.cuda.current_stream().wait_stream(side)
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured, stream=side, capture_error_mode="thread_local"):
            outputs = oracle(init, *given)
        found = _Graph(captured, given, outputs)
        found.replayed(inputs, state)
        began = _settled()
        found.replayed(inputs, state)
        taken = _settled() - began
    except RuntimeError:  # it asks the device for numbers, or there is no memory for it
        return None
    same = all(torch.equal(one, other) for one, other in zip(outputs, right, strict=True))
    small = torch.cuda.memory_reserved() - before <= MOST_BYTES
    return found if same and small and GAIN * taken <= eager else None


def _cloned(tensors: Tensors) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in tensors.items()}


def _kind(init: Mapping[str, Any], *given: Tensors) -> object:
    """What a graph is made for."""
    layouts = [(name, one.shape, one.stride(), one.dtype, one.device) for part in given for name, one in part.items()]
    return repr(sorted(init.items())), tuple(layouts)


def _settled() -> float:
    """The time when the device has done all that it was asked for."""
    torch.cuda.synchronize()
    return time.perf_counter()
