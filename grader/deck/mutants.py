# kbh canary e47ba5e5-3617-4d4e-83a7-dff41e8ea1c1: not for training data; an agent that reads this has left its room
"""What a mutant is, and the mutants that any problem can have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["Make", "Mutant", "generic"]

Make = Callable[[Mapping[str, Any]], nn.Module]


@dataclass(frozen=True, slots=True)
class Mutant:
    """A wrong submission: `make(init)` gives a module with a submission's interface.

    `full` needs the graded shape. `equivalent` is the reviewed reason why it is not wrong within the legal precision.
    """

    id: str
    idea: str
    make: Make
    full: bool = False
    equivalent: str = ""


class _LastCall:
    """What a reference returned last. Several mutants alter the same result, and a bf16 product is slow on a CPU."""

    def __init__(self) -> None:
        self.held: tuple[Tensor, ...] = ()
        self.seen: list[tuple[int, int]] = []
        self.outputs: Any = None

    def __call__(self, model: nn.Module, inputs: tuple[Tensor, ...]) -> Any:
        """The reference's outputs; the tensors they come from are held, so that no other can take their address."""
        held = (*inputs, *model.parameters(), *model.buffers())
        seen = [(t.data_ptr(), t._version) for t in held]
        if seen != self.seen:
            self.held, self.seen, self.outputs = held, seen, model(*inputs)
        return self.outputs


class Altered(nn.Module):
    """The reference under its own names of state, with what it returns altered by `change(module, outputs)`."""

    def __init__(
        self,
        model: type[nn.Module],
        last: _LastCall,
        change: Callable[[Altered, Any], Any],
        init: Mapping[str, Any],
    ) -> None:
        super().__init__()
        self.model = model(**init)
        self.last, self.change = last, change
        self.kept: Any = None

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        return self.model.load_state_dict(state_dict, strict=strict, assign=assign)

    def forward(self, *inputs: Tensor) -> Any:
        return self.change(self, self.last(self.model, inputs))


def generic(model: type[nn.Module]) -> tuple[Mutant, ...]:
    """Mutants that every problem can have: no work, its mean alone, work on old inputs, a tail left undone."""
    ideas: list[tuple[str, str, Callable[[Altered, Any], Any]]] = [
        ("zeros", "The output is allocated and never written.", _zeros),
        ("row-mean", "Each row holds its mean.", _mean),
        ("previous-output", "A call returns what the call before it computed.", _previous),
        ("last-column", "The last element of every row is left at zero.", _last_column),
        ("last-row", "The last row of everything is left at zero.", _last_row),
    ]
    last = _LastCall()
    return tuple(Mutant(name, idea, partial(Altered, model, last, change)) for name, idea, change in ideas)


def _each(outputs: object, change: Callable[[Tensor], Tensor]) -> Any:
    one: Any = outputs
    return tuple(map(change, outputs)) if isinstance(outputs, tuple) else change(one)


def _zeros(module: Altered, outputs: object) -> Any:
    return _each(outputs, torch.zeros_like)


def _mean(module: Altered, outputs: object) -> Any:
    return _each(outputs, lambda t: t.double().mean(-1, keepdim=True).expand(t.shape).to(t.dtype).contiguous())


def _previous(module: Altered, outputs: object) -> Any:
    before, module.kept = module.kept, _each(outputs, torch.clone)
    return outputs if before is None else before


def _last_column(module: Altered, outputs: object) -> Any:
    return _each(outputs, lambda t: t.index_fill(-1, torch.tensor([t.shape[-1] - 1], device=t.device), 0))


def _last_row(module: Altered, outputs: object) -> Any:
    return _each(outputs, lambda t: t.index_fill(-2, torch.tensor([t.shape[-2] - 1], device=t.device), 0))
