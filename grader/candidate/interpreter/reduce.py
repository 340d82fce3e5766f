"""Reductions and scans of Triton's interpreter: a whole block at a time, with the combining function's own rounding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter as stock

from grader.candidate.interpreter.formats import Array
from grader.candidate.interpreter.ops import InterpreterRefusal, made, np_dtype
from grader.candidate.interpreter.typed import Type

__all__ = ["reduce", "scan"]

Combine = Callable[..., Any]


def reduce(input: object, axis: int | None, combine_fn: object, keep_dims: object = False, **_: object) -> Any:
    """`tl.reduce`: neighbours are combined in pairs, level by level, so that the order of elements is kept."""
    tensors = input if isinstance(input, tuple) else (input,)
    axis, keep = tl.core._unwrap_if_constexpr(axis), bool(tl.core._unwrap_if_constexpr(keep_dims))
    shape = tensors[0].handle.data.shape
    blocks = [tensor.handle.data.reshape(-1) if axis is None else tensor.handle.data for tensor in tensors]
    at = 0 if axis is None else _axis(axis, len(shape))
    dtypes = [tensor.dtype for tensor in tensors]
    results = _extreme(blocks, at, combine_fn)
    if results is None:
        results = _tree([np.moveaxis(block, at, 0) for block in blocks], dtypes, _combiner(combine_fn))
    if keep:
        kept = (1,) * len(shape) if axis is None else (*shape[:at], 1, *shape[at + 1 :])
        results = [result.reshape(kept) for result in results]
    found = tuple(_tensor(result, dtype) for result, dtype in zip(results, dtypes, strict=True))
    return found if isinstance(input, tuple) else found[0]


def scan(input: object, axis: object, combine_fn: object, reverse: object = False, **_: object) -> Any:
    """`tl.associative_scan`: one element of the axis after the other, all others at once."""
    tensors = input if isinstance(input, tuple) else (input,)
    at = _axis(tl.core._unwrap_if_constexpr(axis), len(tensors[0].handle.data.shape))
    dtypes = [tensor.dtype for tensor in tensors]
    blocks = [np.moveaxis(tensor.handle.data, at, 0) for tensor in tensors]
    if tl.core._unwrap_if_constexpr(reverse):
        blocks = [block[::-1] for block in blocks]
    combine = _combiner(combine_fn)
    rows = [[block[:1] for block in blocks]]
    for i in range(1, blocks[0].shape[0]):
        rows.append(_combined(combine, rows[-1], [block[i : i + 1] for block in blocks], dtypes))
    results = [np.concatenate(parts) for parts in zip(*rows, strict=True)]
    if tl.core._unwrap_if_constexpr(reverse):
        results = [result[::-1] for result in results]
    found = tuple(
        _tensor(np.ascontiguousarray(np.moveaxis(result, 0, at)), dtype)
        for result, dtype in zip(results, dtypes, strict=True)
    )
    return found if isinstance(input, tuple) else found[0]


def _axis(axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} out of bounds for {rank} dimensions")
    return axis % rank


def _combiner(combine_fn: object) -> Combine:
    """The combining function with assignments and `and`, `or` rewritten, as in a kernel."""
    if not isinstance(combine_fn, stock.InterpretedFunction):
        raise InterpreterRefusal("a combining function that is not a @triton.jit function")
    rewritten: Combine = combine_fn.rewrite()
    return rewritten


def _extreme(blocks: Sequence[Array], axis: int, combine_fn: object) -> list[Array] | None:
    """Value and place of the largest or smallest element, the first of equals. With NaN the order would matter."""
    standard = tl.standard
    largest = (standard._argmax_combine_tie_break_left, standard._argmax_combine_tie_break_fast)
    smallest = (standard._argmin_combine_tie_break_left, standard._argmin_combine_tie_break_fast)
    if combine_fn not in (*largest, *smallest):
        return None
    values, places = blocks
    if values.dtype.kind == "f" and np.isnan(values).any():
        raise InterpreterRefusal("the place of the largest or smallest of values with NaN")
    at = np.expand_dims((np.argmax if combine_fn in largest else np.argmin)(values, axis=axis), axis)
    return [np.take_along_axis(block, at, axis=axis).squeeze(axis) for block in (values, places)]


def _tree(blocks: list[Array], dtypes: Sequence[Any], combine: Combine) -> list[Array]:
    """Combine along the first axis, in pairs of neighbours; an element without a neighbour waits for the next level."""
    while (count := blocks[0].shape[0]) > 1:
        left, right = [block[: count - 1 : 2] for block in blocks], [block[1::2] for block in blocks]
        paired = _combined(combine, left, right, dtypes)
        if count % 2:
            paired = [np.concatenate((pair, block[-1:])) for pair, block in zip(paired, blocks, strict=True)]
        blocks = paired
    return [block[0] for block in blocks]


def _combined(combine: Combine, left: Sequence[Array], right: Sequence[Array], dtypes: Sequence[Any]) -> list[Array]:
    both = [_tensor(block, dtype) for side in (left, right) for block, dtype in zip(side, dtypes, strict=True)]
    found = combine(*both)
    results = found if isinstance(found, tuple) else (found,)
    if len(results) != len(dtypes):
        raise ValueError(f"the combining function returns {len(results)} values for {len(dtypes)}")
    shape = left[0].shape
    arrays = []
    for result, dtype in zip(results, dtypes, strict=True):
        data = result.handle.data if isinstance(result, tl.tensor) else np.asarray(result)
        wide = (
            data if data.dtype == np_dtype(dtype) else data.astype(np.float64 if data.dtype.kind == "f" else data.dtype)
        )
        arrays.append(np.broadcast_to(made(wide, dtype).data, shape))
    return arrays


def _tensor(data: Array, dtype: Type) -> Any:
    """A Triton tensor of an array; a single value without dimensions is a scalar."""
    if not data.shape:
        return tl.tensor(stock.TensorHandle(data.reshape(1).astype(np_dtype(dtype), copy=False), dtype), dtype)
    handle = stock.TensorHandle(data.astype(np_dtype(dtype), copy=False), dtype.scalar)
    return tl.tensor(handle, tl.block_type(dtype, list(data.shape)))
