"""Where in its storage a view begins, in elements; None where that is not known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kbh_lint.base.values import Value
from kbh_lint.host.torch.view_shapes import by_dimension
from kbh_lint.host.values.tensors import Tensor, row_major


def _strides(tensor: Tensor) -> tuple[Value, ...] | None:
    return tensor.strides if tensor.strides is not None else row_major(tensor.shape)


def _along(tensor: Tensor, axis: Value, index: Value) -> int | None:
    """The start of what lies at `index` of one dimension."""
    strides, shape = _strides(tensor), tensor.shape
    if strides is None or shape is None or type(axis) is not int or type(index) is not int or tensor.offset is None:
        return None
    if not -len(strides) <= axis < len(strides):
        return None
    stride, size = strides[axis], shape[axis]
    if index < 0 and not isinstance(size, int):
        return None
    at = index + size if index < 0 else index
    return tensor.offset + at * stride if isinstance(stride, int) else 0 if at == 0 and tensor.offset == 0 else None


def indexed(tensor: Tensor, keys: Sequence[Value]) -> int | None:
    """Returns the offset of `tensor[keys]`, for numbers and slices."""
    if tensor.shape is None or tensor.offset is None:
        return None
    total = tensor.offset
    strides = _strides(tensor)
    if len(keys) == 1 and type(keys[0]) is int and strides and keys[0] >= 0 and isinstance(strides[0], int):
        return total + keys[0] * strides[0]
    for key, at in by_dimension(keys, len(tensor.shape)):
        if at is None or key is Ellipsis:
            continue
        first: Any = key
        if isinstance(key, slice):
            if type(key.step) is int and key.step < 0:
                return None
            first = 0 if key.start is None else key.start
            size = tensor.shape[at] if at < len(tensor.shape) else None
            if type(first) is int and isinstance(size, int):
                first = slice(first, None).indices(size)[0]
        here = _along(tensor, at, first)
        if here is None:
            return None
        total += here - tensor.offset
    return total


def of_pieces(name: str, tensor: Tensor, pieces: Sequence[Any], rest: Sequence[Any]) -> list[int | None]:
    """Returns the offsets of the views that unbind, chunk and split return, whose shapes are `pieces`."""
    axis = rest[0] if name == "unbind" and rest else rest[1] if name != "unbind" and len(rest) > 1 else 0
    out: list[int | None] = []
    at: int | None = 0
    for i, shape in enumerate(pieces):
        out.append(_along(tensor, axis, i if name == "unbind" else at))
        known = shape is not None and type(axis) is int and -len(shape) <= axis < len(shape) and name != "unbind"
        width = shape[axis] if known else None
        at = at + width if at is not None and isinstance(width, int) else None
    return out


def viewed(name: str, tensor: Tensor, rest: Sequence[Value]) -> int | None:
    """Returns the offset of a narrow, select, as_strided or unfold view."""
    if name == "unfold":
        return tensor.offset
    if name == "diagonal":
        return tensor.offset if not rest or rest[0] == 0 else None
    if name == "as_strided":
        given = rest[2] if len(rest) > 2 else None
        return tensor.offset if given is None else given if type(given) is int else None
    return _along(tensor, rest[0], rest[1]) if len(rest) > 1 else None
