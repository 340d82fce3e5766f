"""Models whose large tensors are made on the device at once.

A host takes a minute to fill weights of 3 GB with random numbers, and a model is made in each process of a grading.
Nobody reads these numbers: the judge loads others. So while a model is made, a large tensor that torch is asked for
without a word about where, `torch.empty(E, H, I)`, is made on the device, as inside `with torch.device("cuda")`, and
what is done to it is done there. Small ones stay on the host, where tables and flags may be kept on purpose.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

__all__ = ["LEAST_ELEMENTS", "Placing"]

LEAST_ELEMENTS = 1 << 24  # of a tensor that takes a host long to fill: 0.3 to 0.5 s for random numbers
MAKERS = frozenset({torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn, torch.randint})
TOLD = ("device", "generator", "out", "pin_memory", "layout")  # arguments that say where


class Placing(TorchFunctionMode):
    """Within it, large tensors are made on `device` unless the call says where; `count` is how many were."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.device, self.count = device, 0

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # fmt: skip
        """Calls `func` with the device where it makes a large tensor."""
        given = dict(kwargs or {})
        told = any(given.get(name) is not None and given[name] is not False for name in TOLD)
        if func in MAKERS and not told and _elements(func, args, given) >= LEAST_ELEMENTS:
            self.count += 1
            given["device"] = self.device
        return func(*args, **given)


def _elements(func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> int:
    """Of the tensor that is asked for; 0 where that cannot be told from the arguments."""
    size: Any = kwargs.get("size")
    if size is None:
        size = next((argument for argument in args if isinstance(argument, (list, tuple))), None)
    if size is None and func not in (torch.full, torch.randint):
        size = args
    plain = size is not None and all(type(one) is int for one in size)
    return math.prod(size) if plain else 0
