"""Wrong submissions that the cases must tell from right ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

__all__ = ["Mutant"]


@dataclass(frozen=True, slots=True)
class Mutant:
    """A wrong submission: `make(init)` gives a module with a submission's interface.

    `full` needs the graded shape. `equivalent` is the reviewed reason why it is not wrong within the legal precision.
    """

    id: str
    idea: str
    make: Callable[[Mapping[str, Any]], nn.Module]
    full: bool = False
    equivalent: str = ""
