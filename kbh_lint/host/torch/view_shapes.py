"""Shapes and strides of views and indexed tensors. None stands for what is not known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kbh_lint.dtypes import BITS
from kbh_lint.host.torch.signatures import Shape
from kbh_lint.host.values.tensors import Tensor, product, row_major

MAX_PIECES = 4096


def _dim(value: Any, rank: int) -> int | None:
    return value % rank if isinstance(value, int) and rank else None


def bitcast(shape: Shape, old: str, new: str) -> Shape:
    """The shape of `view(dtype)`."""
    if not shape:
        return shape
    a, b = BITS.get(old, 32), BITS.get(new, 32)
    last = shape[-1]
    return (*shape[:-1], last * a // b if isinstance(last, int) else None)


_PARAMETERS = {
    "flatten": ("start_dim", "end_dim"), "chunk": ("chunks", "dim"), "split": ("split_size", "dim"),
    "split_with_sizes": ("split_sizes", "dim"), "tensor_split": ("indices_or_sections", "dim"),
    "narrow": ("dim", "start", "length"), "select": ("dim", "index"), "unflatten": ("dim", "sizes"),
    "transpose": ("dim0", "dim1"), "swapaxes": ("axis0", "axis1"), "movedim": ("source", "destination"),
    "moveaxis": ("source", "destination"), "as_strided": ("size", "stride", "storage_offset"),
    "unfold": ("dimension", "size", "step"), "permute": ("dims",), "expand": ("size",), "broadcast_to": ("size",),
    "reshape": ("shape",), "view": ("size",), "view_as": ("other",), "expand_as": ("other",), "reshape_as": ("other",),
}  # fmt: skip
_OTHER_NAMES = {
    "split_size": ("split_size_or_sections",), "indices_or_sections": ("sections", "indices"),
    "dim0": ("axis0",), "dim1": ("axis1",), "size": ("shape",), "dim": ("axis",),
}  # fmt: skip


def in_order(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    """The arguments of a view after the tensor by their positions, where torch's own names give them."""
    out = list(args)
    names = _PARAMETERS.get(name, ("dim",))
    for place, parameter in enumerate(names):
        given = next((kwargs[k] for k in (parameter, *_OTHER_NAMES.get(parameter, ())) if k in kwargs), None)
        if given is None:
            continue
        while len(out) < place:
            out.append(0)  # only flatten's start_dim may be left out before another
        if len(out) == place:
            out.append(given)
    return out + ([kwargs["dtype"]] if not out and "dtype" in kwargs else [])


def pieces(name: str, shape: Shape, rest: Sequence[Any]) -> list[Shape]:
    """Shapes of unbind, chunk and split."""
    if shape is None:
        return [None, None]
    if name == "unbind":
        axis = _dim(rest[0], len(shape)) if rest else 0
        count = shape[axis or 0]
        left = tuple(d for i, d in enumerate(shape) if i != (axis or 0))
        return [left] * (min(count, MAX_PIECES) if isinstance(count, int) else 1)
    axis = (_dim(rest[1], len(shape)) if len(rest) > 1 else 0) or 0
    size, by = shape[axis], rest[0] if rest else 1
    if isinstance(by, (list, tuple)):
        parts: list[Any] = list(by)
    elif isinstance(size, int) and isinstance(by, int) and by > 0:
        step = -(-size // by) if name in ("chunk", "tensor_split") else by
        parts = [min(step, size - i) for i in range(0, size, max(step, 1))[:MAX_PIECES]]
    else:
        parts = [None, None]
    return [(*shape[:axis], part, *shape[axis + 1 :]) for part in parts]


def viewed(name: str, tensor: Tensor, rest: Sequence[Any]) -> tuple[Shape, Any]:
    """Shape and strides of a view; strides None means row-major (or, for a reshape, that it may copy)."""
    shape, strides = tensor.shape, tensor.strides
    if shape is None:
        if name in ("view", "reshape", "expand") and rest:
            return _sizes(rest, None), None
        return None, None
    rank = len(shape)
    if name in ("detach", "detach_", "requires_grad_", "alias", "view_as_real"):
        return shape, strides
    if name in ("view", "reshape"):
        return _sizes(rest, product(shape)), None
    if name in ("view_as", "expand_as") and rest and isinstance(rest[0], Tensor):
        return rest[0].shape, None
    if name in ("t", "t_") and rank <= 2:
        return tuple(reversed(shape)), tuple(reversed(strides)) if strides is not None else None
    if name in ("transpose", "transpose_", "swapaxes", "permute", "movedim", "moveaxis", "adjoint", "t"):
        order = _order(name, rank, rest)
        if order is None:
            return (None,) * rank, None
        return tuple(shape[i] for i in order), tuple(strides[i] for i in order) if strides is not None else None
    if name in ("squeeze", "squeeze_"):
        axis = _dim(rest[0], rank) if rest else None
        keep = [i for i, d in enumerate(shape) if not (d == 1 and (axis is None or i == axis))]
        return tuple(shape[i] for i in keep), tuple(strides[i] for i in keep) if strides is not None else None
    if name in ("unsqueeze", "unsqueeze_"):
        axis = rest[0] % (rank + 1) if rest and isinstance(rest[0], int) else 0
        grown = (*shape[:axis], 1, *shape[axis:])
        return grown, (*strides[:axis], 1, *strides[axis:]) if strides is not None else None
    if name in ("expand", "broadcast_to"):
        want = _sizes(rest, None) or ()
        pad = (1,) * (len(want) - rank)
        return tuple(d if w in (-1, None) else w for d, w in zip((*pad, *shape), want, strict=False)), None
    if name in ("flatten", "ravel"):
        start = _dim(rest[0], rank) if rest else 0
        end = _dim(rest[1], rank) if len(rest) > 1 else rank - 1
        start, end = start or 0, rank - 1 if end is None else end
        return (*shape[:start], product(shape[start : end + 1]), *shape[end + 1 :]), None
    if name == "unflatten" and len(rest) > 1 and isinstance(rest[1], (list, tuple)):
        axis = _dim(rest[0], rank) or 0
        size = _sizes([rest[1]], shape[axis] if isinstance(shape[axis], int) else None) or ()
        return (*shape[:axis], *size, *shape[axis + 1 :]), None
    if name == "narrow" and len(rest) > 2:
        axis = _dim(rest[0], rank) or 0
        return (*shape[:axis], rest[2] if isinstance(rest[2], int) else None, *shape[axis + 1 :]), strides
    if name == "select" and rest:
        axis = _dim(rest[0], rank) or 0
        keep = [i for i in range(rank) if i != axis]
        return tuple(shape[i] for i in keep), tuple(strides[i] for i in keep) if strides is not None else None
    if name == "as_strided" and len(rest) > 1:
        return _sizes([rest[0]], None), tuple(rest[1]) if isinstance(rest[1], (list, tuple)) else None
    return shape, strides


def _order(name: str, rank: int, rest: Sequence[Any]) -> list[int] | None:
    if name == "permute":
        dims = rest[0] if rest and isinstance(rest[0], (list, tuple)) else rest
        return [d % rank for d in dims] if len(dims) == rank and all(isinstance(d, int) for d in dims) else None
    order = list(range(rank))
    if name in ("movedim", "moveaxis"):
        if len(rest) == 2 and all(isinstance(d, int) for d in rest):
            order.insert(rest[1] % rank, order.pop(rest[0] % rank))
            return order
        return None
    pair = [d % rank for d in rest[:2] if isinstance(d, int)] if rank else []
    if len(pair) == 2:
        order[pair[0]], order[pair[1]] = order[pair[1]], order[pair[0]]
    return order


def _sizes(rest: Sequence[Any], total: int | None) -> Shape:
    """Sizes given as (2, 3) or ((2, 3),), with -1 worked out from the number of elements."""
    sizes = rest[0] if len(rest) == 1 and isinstance(rest[0], (list, tuple)) else rest
    out = [s if isinstance(s, int) else None for s in sizes]
    if -1 in out and total is not None:
        known = product(tuple(d for d in out if d != -1))
        out[out.index(-1)] = total // known if known else None
    elif -1 in out:
        out[out.index(-1)] = None
    return tuple(out)


def by_dimension(keys: Sequence[Any], rank: int) -> Iterator[tuple[Any, int | None]]:
    """Each key of `tensor[keys]` with the dimension that it is for; None is for none of `rank`, an Ellipsis comes once
    for each of those that no other key is for.
    """
    used = sum(1 for key in keys if key is not None and key is not Ellipsis)
    at = 0
    for key in keys if any(key is Ellipsis for key in keys) else (*keys, Ellipsis):
        if key is None:
            yield key, None
            continue
        for _ in range(rank - used if key is Ellipsis else 1):
            yield key, at
            at += 1


def indexed(shape: Shape, keys: tuple[Any, ...]) -> Shape:
    """The shape of `tensor[keys]`."""
    if shape is None:
        return None
    out: list[Any] = []
    for key, dimension in by_dimension(keys, len(shape)):
        size = shape[dimension] if dimension is not None and dimension < len(shape) else None
        if key is None:
            out.append(1)
        elif key is Ellipsis:
            out.append(size)
        elif isinstance(key, slice):
            out.append(_slice_length(size, key))
        elif isinstance(key, Tensor):
            out.extend(key.shape if key.shape is not None and key.dtype != "bool" else [None])
        elif isinstance(key, (list, tuple)):
            out.append(len(key))
    return tuple(out)


def _slice_length(size: Any, key: slice) -> int | None:
    parts = (key.start, key.stop, key.step)
    if not isinstance(size, int) or not all(p is None or isinstance(p, int) for p in parts):
        return None
    try:
        return len(range(*key.indices(size)))
    except (ValueError, TypeError):
        return None


def indexed_strides(tensor: Tensor, keys: tuple[Any, ...]) -> Any:
    """Strides of a basic index; row-major when they cannot be told."""
    strides = tensor.strides if tensor.strides is not None else row_major(tensor.shape)
    if strides is None or any(isinstance(k, (Tensor, list)) for k in keys):
        return None
    out: list[Any] = []
    for key, dimension in by_dimension(keys, len(strides)):
        stride = strides[dimension] if dimension is not None and dimension < len(strides) else None
        if key is None:
            out.append(1)
        elif key is Ellipsis:
            out.append(stride)
        elif isinstance(key, slice):
            step = key.step if isinstance(key.step, int) else 1
            out.append(stride * step if isinstance(stride, int) else None)
    return tuple(out)
