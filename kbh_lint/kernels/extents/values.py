"""What names and expressions stand for while addresses are followed: sums, addresses, boxes of tensors, conditions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kbh_lint.base import values
from kbh_lint.base.records import dataclass
from kbh_lint.kernels.extents.intervals import Linear

Dims = tuple[Any, ...]


@dataclass(slots=True, eq=False, repr=False)
class Laid:
    """The memory layout of a struct or vector of `bits` bits: its fields by name."""

    bits: int
    fields: Mapping[str, Field]


@dataclass(frozen=True, slots=True)
class Field:
    """A field that begins after so many bits: a number, a struct, or an array of `count` of these."""

    at: int
    bits: int
    kind: Laid | None = None
    count: int | None = None


def counts_whole(kind: Laid | None, bits: int, width: int) -> bool:
    """Whether all fields of a struct of so many bits are so many elements of a width."""
    fields = () if kind is None else kind.fields.values()
    whole = all(f.at % width == 0 and counts_whole(f.kind, f.bits, width) for f in fields)
    return bits % width == 0 and whole


class Pointer(NamedTuple):
    """An address: so many elements behind the start of a storage, each index on it being `unit` of them: four behind
    a `float4*` to floats. `kind` is how a struct or a vector lies that it leads to."""

    storage: int
    offset: Linear
    unit: int = 1
    kind: Laid | None = None


class Place(NamedTuple):
    """What a reference of C++ refers to: memory behind a pointer."""

    at: Pointer

    @property
    def storage(self) -> int:
        """The id of the storage."""
        return self.at.storage


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
    """A condition: the limits that hold where it is true and where it is false; `doubt` says that it depends on more
    than positions."""

    yes: tuple[AtMost, ...] = ()
    no: tuple[AtMost, ...] = ()
    doubt: bool = False


Value = Linear | Pointer | Place | Described | Test
Env = dict[str, Value]


class Frame:
    """The running function: the values of its variables, and in C++ the element types with which they were declared."""

    __slots__ = ("kernel", "env", "declared", "called", "around")

    def __init__(self, kernel: values.Func, env: Env) -> None:
        self.kernel, self.env = kernel, env
        self.declared: dict[str, str] = {}
        self.called: dict[int, str] = {}  # the names of functions of the language, by the node that calls one
        self.around: dict[str, object] = {}  # what names mean outside, that were asked for
