"""What is used of Triton's objects, which have no types: an element type or pointer, a handle of values, a tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from grader.candidate.interpreter.formats import Array


class Type(Protocol):
    """`tl.dtype` and what is made of one: a pointer to it, a block of it."""

    name: str
    shape: Any

    @property
    def scalar(self) -> Any:
        """The type of one element."""

    def is_block(self) -> bool:
        """Whether it is the type of a block."""


class Handle(Protocol):
    """`TensorHandle`: the values of a tensor, and their type."""

    data: Array
    dtype: Type

    def get_element_ty(self) -> Type:
        """The type that a pointer points to."""


class Block(Protocol):
    """`tl.tensor`."""

    handle: Handle
    type: Type
    dtype: Any
    shape: Any
    numel: Any


class Stock(Protocol):
    """Triton's module `triton.runtime.interpreter`, whose classes and functions (`PATCHED`) are used and replaced."""

    def __getattr__(self, name: str) -> Any: ...

    def __setattr__(self, name: str, value: object, /) -> None: ...


class Helper(Protocol):
    """An `InterpretedFunction`, which a kernel calls."""

    fn: object

    def rewrite(self) -> Callable[..., Any]:
        """The function as it runs in the interpreter."""
        ...


class SetsAttributes(Protocol):
    """What patches the language for one launch, and takes the patches back."""

    def set_attr(self, obj: object, name: str, value: object) -> None:
        """Gives an object an attribute until then."""


class BlockType(Protocol):
    """A `tl.block_type` that is being made."""

    element_ty: Type
    shape: Any
    numel: Any
    name: str
