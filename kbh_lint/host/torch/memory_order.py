"""How results lie in memory: strides of views that keep their elements where they are, and of new tensors that follow
the order of what they were computed from; and which operations put the entries of a sparse tensor in order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from kbh_lint.base.values import Value
from kbh_lint.host.values.tensors import Tensor, product, row_major

Strides = tuple[Any, ...] | None


def strides_of(tensor: Tensor) -> Strides:
    """Returns a tensor's strides; row-major ones where none are recorded."""
    return tensor.strides if tensor.strides is not None else row_major(tensor.shape)


def regrouped(shape: tuple[Any, ...], strides: Strides, wanted: tuple[Any, ...]) -> Strides:
    """Returns strides with which the same memory has the shape `wanted`; None when it would have to be copied, or not
    all is known. As in torch, dimensions that lie one after the other without gaps form one piece, and each new
    dimension must fit into a piece."""
    if strides is None or not all(isinstance(v, int) for v in (*shape, *strides, *wanted)):
        return None
    total = product(shape)
    if total != product(wanted):
        return None
    if not shape or total == 0:
        return row_major(wanted)
    out: list[int] = []
    left = len(wanted) - 1
    base, piece, filled = strides[-1], 1, 1
    for axis in range(len(shape) - 1, -1, -1):
        piece *= shape[axis]
        if axis and (shape[axis - 1] == 1 or strides[axis - 1] == piece * base):
            continue
        while left >= 0 and (filled < piece or wanted[left] == 1):
            out.append(filled * base)
            filled *= wanted[left]
            left -= 1
        if filled != piece:
            return None
        if axis:
            base, piece, filled = strides[axis - 1], 1, 1
    return tuple(reversed(out)) if left < 0 else None


def following(shape: tuple[Any, ...] | None, operands: Sequence[Tensor]) -> Strides:
    """Returns the strides of an elementwise result: dense, its dimensions in the order of the operands' strides; the
    first operand that tells two dimensions apart decides."""
    lying = tuple([(tensor.shape, tensor.strides) for tensor in operands])
    try:  # a program does the same to tensors of few shapes, in loops and in each call
        found = _following(shape, lying)
    except TypeError:  # a size that is no number
        found = _following.__wrapped__(shape, lying)
    if found is not _UNCLEAR or shape is None:
        return found
    return row_major(shape) if all(tensor.is_contiguous() for tensor in operands) else (None,) * len(shape)


_Lying = tuple[Strides, Strides]  # the shape of a tensor, and its strides
_UNCLEAR: Strides = ("unclear",)  # where a size, or a stride, is no number


@lru_cache(maxsize=4096)
def _following(shape: Strides, operands: tuple[_Lying, ...]) -> Strides:
    plain = row_major(shape)
    if not shape:
        return plain
    if all(mine == shape and (strides is None or strides == plain) for mine, strides in operands):
        return plain
    rows: list[tuple[Any, ...]] = []
    for mine, told in operands:
        strides = told if told is not None else row_major(mine)
        if strides is None or mine is None or len(mine) > len(shape):
            return (None,) * len(shape)
        ahead = len(shape) - len(strides)
        sizes = zip(mine, shape[ahead:], strides, strict=True)
        rows.append((*(0,) * ahead, *[0 if own == 1 != size else stride for own, size, stride in sizes]))
    if not all(isinstance(v, int) for row in (shape, *rows) for v in row):
        return _UNCLEAR
    if all(row == rows[0] for row in rows) and _is_dense(shape, rows[0]):
        return rows[0]
    order = list(range(len(shape)))[::-1]  # from the innermost
    for i in range(1, len(order)):
        at = i
        for other in range(i - 1, -1, -1):
            found = _compared(order[other], order[at], rows, shape)
            if found > 0:
                order[other], order[at] = order[at], order[other]
                at = other
            elif found < 0:
                break
    out: list[int] = [0] * len(shape)
    step = 1
    for axis in order:
        out[axis] = step
        step *= shape[axis]
    return tuple(out)


def _compared(one: int, other: int, rows: Sequence[tuple[int, ...]], shape: tuple[int, ...]) -> int:
    """Positive when dimension `one` should lie outside of `other`, negative the other way, 0 when nothing tells."""
    for row in rows:
        if row[one] == 0 or row[other] == 0:
            continue
        if row[one] != row[other]:
            return 1 if row[one] > row[other] else -1
        if shape[one] > shape[other]:
            return 1
    return 0


def _is_dense(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether strides fill memory without gaps or overlaps."""
    step = 1
    for stride, size in sorted((s, d) for s, d in zip(strides, shape, strict=True) if d != 1):
        if stride != step:
            return False
        step *= size
    return True


# --- sparse tensors of coordinates

ENTRIES = "entries"  # the attribute of a tensor of coordinates: how many entries it has, as (count,)
_MAKERS = frozenset(
    "sparse_coo_tensor _sparse_coo_tensor_unsafe _sparse_coo_tensor_with_dims_and_tensors".split()
)  # of indices and values, in whatever order these come
# Each begins by adding up the entries that share a place, for which torch sorts them all.
_ORDERING = frozenset(
    "coalesce _coalesce to_sparse to_sparse_coo to_sparse_csr to_sparse_csc to_sparse_bsr to_sparse_bsc sparse_mask "
    "abs asin asinh atan atanh ceil deg2rad erf erfinv expm1 floor frac isinf isnan isposinf isneginf "
    "log1p nan_to_num rad2deg relu round sgn sign signbit sin sinh sqrt tan tanh trunc".split()
)
_AS_IT_IS = frozenset(("to_sparse", "to_sparse_coo"))  # of what is one already, where no other layout is named


def is_sparse(tensor: Tensor) -> bool:
    """Whether a tensor is one of coordinates whose entries may lie in any order."""
    return ENTRIES in tensor.attrs


def sorts_entries(name: str, args: Sequence[Value], kwargs: Mapping[str, Value]) -> bool:
    """Whether an operation of torch sorts the entries of the sparse tensor that it is given first."""
    of = args[0] if args else kwargs.get("input")
    if not isinstance(of, Tensor) or not is_sparse(of) or name not in _ORDERING:
        return False
    return name not in _AS_IT_IS or len(args) > 1 or "layout" in kwargs


def note_sparse(name: str, args: Sequence[Value], kwargs: Mapping[str, Value], made: Tensor) -> None:
    """Notes on what an operation made that it is a sparse tensor, unless the caller vouches for its order."""
    if name in _MAKERS and kwargs.get("is_coalesced") is not True:
        values = kwargs.get("values", args[1] if len(args) > 1 else None)
        made.attrs[ENTRIES] = (entries(values) if isinstance(values, Tensor) else None,)


def entries(tensor: Tensor) -> int | None:
    """Returns the number of elements that a tensor holds, of a sparse one of its entries; None when unknown."""
    held: tuple[int | None] | None = tensor.attrs.get(ENTRIES)
    return product(tensor.shape) if held is None else held[0]
