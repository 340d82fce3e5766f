"""Models of one shape that are copied where making one is slow: some quantise weights of their own for a second each.

The judge wants many models with weights of their own, so that none are found in the cache. A copy of what a submission
made, before weights were loaded into it, is as good as another one that it makes, if it holds nothing but plain values.
What it holds that may stand for a place in memory (an address in an integer, a descriptor in bytes, a function) would
still mean the first one's: then each is made anew. The judge tries a copy on a call of its own before it relies on any.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from grader.candidate.clock.outside import Steps, outside
from grader.candidate.placing import Placing

__all__ = ["Copies", "plain"]

SLOW_SECONDS = 0.02  # a model that took less is made anew as fast
MOST_BYTES = 1 << 30  # of all that are kept
MOST_INT = 1 << 31  # addresses of a process are larger
MOST_DEPTH = 8
MOST_PARTS = 100_000
PLAIN = (type(None), bool, float, complex, str, torch.dtype, torch.device, torch.Size, torch.memory_format)
TENSORS = (Tensor, nn.Parameter, nn.Buffer)
ADDRESSES = (torch.int64, torch.uint64, torch.int8, torch.uint8)  # what addresses and descriptors are kept in


class Copies:
    """What slow models of this process were made of, by the arguments that they were made with.

    With `place` large tensors of a model are made on that device (`grader.candidate.placing`).
    """

    def __init__(self, place: torch.device | None = None) -> None:
        self._now, self._copy, self._place = time.monotonic, copy.deepcopy, place
        self._first: dict[str, nn.Module] = {}
        self._bytes = 0
        self.used = 0  # copies that were handed out

    def model(self, make: Callable[..., Any], init: Sequence[Any], state: Sequence[str], use: bool) -> Steps[Any]:
        """A model: a copy, where there is one and it may be used, or what `make` gives, of which a copy is kept where
        it was slow. `state` names what the judge will load into it.
        """
        key = repr(init)
        if use and key in self._first:
            self.used += 1
            return (yield from outside(self._copy, self._first[key]))
        began = self._now()
        model = yield from self._made(make, init)
        if self._now() - began >= SLOW_SECONDS and key not in self._first:
            try:
                size = yield from outside(plain, model, frozenset(state))
                if size is not None and self._bytes + size <= MOST_BYTES:
                    self._first[key] = yield from outside(self._copy, model)
                    self._bytes += size
            except Exception:  # what cannot be copied is made anew each time
                self._first.pop(key, None)
        return model

    def _made(self, make: Callable[..., Any], init: Sequence[Any]) -> Steps[Any]:
        """What `make` gives. What fails with large tensors on the device, as numpy does, is made on the host."""
        if self._place is not None:
            placing = Placing(self._place)
            try:
                with placing:
                    return (yield from outside(make, *init))
            except Exception:
                if not placing.count:
                    raise
                self._place = None  # the next one would fail too
            finally:
                if placing.count and placing.device.type == "cuda":
                    torch.cuda.empty_cache()  # what it used on the way
        return (yield from outside(make, *init))


def plain(model: object, state: frozenset[str]) -> int | None:
    """How many bytes a model's tensors take, where a deep copy of it is sure to behave as the model does: it holds
    plain values and dense tensors alone, and no addresses. Else None."""
    size = 0
    for parts, (name, value) in enumerate(_held(model, "", 0)):
        if parts > MOST_PARTS:
            return None
        if type(value) in TENSORS:
            assert isinstance(value, Tensor)
            if value.is_sparse or value.grad is not None or (value.dtype in ADDRESSES and name not in state):
                return None
            size += value.untyped_storage().nbytes()
        elif type(value) is int:
            if abs(value) >= MOST_INT:
                return None
        elif type(value) not in PLAIN:
            return None
    return size


def _held(value: object, name: str, depth: int) -> Iterator[tuple[str, object]]:
    """All that a module or a plain container holds, each with the name that it has in a state dict, if it has one."""
    if depth > MOST_DEPTH:
        yield name, object()
    elif isinstance(value, nn.Module):
        if hasattr(type(value), "__deepcopy__"):
            yield name, object()
        for key, part in vars(value).items():
            if key in ("_parameters", "_buffers", "_modules"):
                for own, one in part.items():
                    yield from _held(one, f"{name}{own}." if key == "_modules" else f"{name}{own}", depth + 1)
            elif key == "_non_persistent_buffers_set":
                continue
            else:
                yield from _held(part, f"{name}{key}/", depth + 1)
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from _held(key, f"{name}/", depth + 1)
            yield from _held(part, f"{name}/", depth + 1)
    elif isinstance(value, (list, tuple, set, frozenset)) and type(value).__module__ == "builtins":
        for part in value:
            yield from _held(part, f"{name}/", depth + 1)
    else:
        yield name, value
