"""What names and expressions stand for while addresses are followed: sums, addresses, boxes of tensors, conditions."""

from __future__ import annotations

from typing import Any, NamedTuple

from kbh_lint.base import values
from kbh_lint.base.records import dataclass
from kbh_lint.kernels.extents.intervals import Linear

Dims = tuple[Any, ...]


class Pointer(NamedTuple):
    """An address: so many elements behind the start of a storage, each index on it being `unit` of them: four behind
    a `float4*` to floats."""

    storage: int
    offset: Linear
    unit: int = 1


class Described(NamedTuple):
    """A tensor that is loaded and stored a box of `block` at a time: through a TMA descriptor, which clips what is
    outside of the tensor, or, where `at` says where the box begins, through a block pointer of Triton."""

    storage: int
    start: Linear
    shape: tuple[Linear, ...]
    strides: tuple[Linear, ...]
    block: tuple[int, ...]
    at: tuple[Linear, ...] | None = None


AtMost = tuple[Linear, Linear, int]  # a <= b - room


@dataclass(frozen=True, slots=True)
class Test:
    """A condition: what is known where it holds and where it does not; `doubt`: more than positions decides it."""

    yes: tuple[AtMost, ...] = ()
    no: tuple[AtMost, ...] = ()
    doubt: bool = False


Value = Linear | Pointer | Described | Test
Env = dict[str, Value]


class Frame:
    """A function that runs: what its names stand for, and of which element types they were declared in C++."""

    __slots__ = ("kernel", "env", "declared")

    def __init__(self, kernel: values.Func, env: Env) -> None:
        self.kernel, self.env = kernel, env
        self.declared: dict[str, str] = {}
