"""Shapes and strides of views and indexed tensors. None stands for what is not known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kbh_lint.base.dtypes import STORED
from kbh_lint.base.values import Value
from kbh_lint.host.torch.memory_order import Strides, regrouped, strides_of
from kbh_lint.host.torch.signatures import Shape
from kbh_lint.host.values.tensors import Tensor, broadcast, product, row_major

MAX_PIECES = 4096
Sizes = tuple[Any, ...]  # a shape whose rank is known
Given = Sequence[Any]  # the arguments after the tensor
Viewed = tuple[Shape, Any]  # shape and strides of a view
View = Callable[[Sizes, Strides, Given], Viewed]


def _dim(value: Value, rank: int) -> int | None:
    return value % rank if isinstance(value, int) and rank else None


def bitcast(shape: Shape, old: str, new: str) -> Shape:
    """Returns the shape of `view(dtype)`."""
    if not shape:
        return shape
    a, b = STORED.get(old, 32), STORED.get(new, 32)
    last = shape[-1]
    return (*shape[:-1], last * a // b if isinstance(last, int) else None)


def pieces(name: str, shape: Shape, rest: Given) -> list[Shape]:
    """Returns the shapes of the views that unbind, chunk and split return."""
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
        if name == "tensor_split":
            return [(*shape[:axis], None, *shape[axis + 1 :])] * (len(by) + 1)
    elif isinstance(size, int) and isinstance(by, int) and by > 0:
        if name == "tensor_split":
            parts = [size // by + (i < size % by) for i in range(min(by, MAX_PIECES))]
            return [(*shape[:axis], part, *shape[axis + 1 :]) for part in parts]
        step = -(-size // by) if name == "chunk" else by
        parts = [min(step, size - i) for i in range(0, size, max(step, 1))[:MAX_PIECES]]
    else:
        parts = [None, None]
    return [(*shape[:axis], part, *shape[axis + 1 :]) for part in parts]


def of_pieces(name: str, tensor: Tensor, rest: Given) -> Any:
    """Returns the strides of the views that unbind, chunk and split return: those of the tensor, without the axis that
    unbind removes. None where they are not known."""
    strides = strides_of(tensor)
    if strides is None or name != "unbind":
        return strides
    axis = (_dim(rest[0], len(strides)) if rest else 0) or 0
    return (*strides[:axis], *strides[axis + 1 :])


def viewed(name: str, tensor: Tensor, rest: Given) -> Viewed:
    """Returns shape and strides of a view; strides None means row-major (or, for a reshape, that it may copy)."""
    shape, strides = tensor.shape, strides_of(tensor)
    if shape is None:
        return (_sizes(rest, None) if name in ("view", "reshape", "expand") and rest else None), None
    if name in REGROUPING:
        wanted = _regrouping(name, shape, rest)
        if wanted is None or name == "ravel" and not tensor.is_contiguous():
            return wanted, None
        return wanted, regrouped(shape, strides, wanted)
    row = _VIEWS.get(name)
    return row(shape, strides, rest) if row is not None else (None, None)


def _kept(shape: Sizes, strides: Strides, axes: Iterable[int]) -> Viewed:
    """Some of the dimensions, in another order."""
    axes = list(axes)
    return tuple(shape[i] for i in axes), tuple(strides[i] for i in axes) if strides is not None else None


def _reordered(name: str) -> View:
    """`transpose`, `permute` and the like, by what `_order` says of them."""

    def row(shape: Sizes, strides: Strides, rest: Given) -> Viewed:
        order = _order(name, len(shape), rest)
        return ((None,) * len(shape), None) if order is None else _kept(shape, strides, order)

    return row


def _squeezed(shape: Sizes, strides: Strides, rest: Given) -> Viewed:
    named = rest[0] if rest and isinstance(rest[0], (list, tuple)) else rest[:1]
    axes = [_dim(value, len(shape)) for value in named]
    return _kept(shape, strides, [i for i, d in enumerate(shape) if not (d == 1 and (not rest or i in axes))])


def _unsqueezed(shape: Sizes, strides: Strides, rest: Given) -> Viewed:
    axis = rest[0] % (len(shape) + 1) if rest and isinstance(rest[0], int) else 0
    grown = (*shape[:axis], 1, *shape[axis:])
    return grown, (*strides[:axis], 1, *strides[axis:]) if strides is not None else None


def _expanded_to(shape: Sizes, strides: Strides, rest: Given) -> Viewed:
    return expanded(shape, strides, [-1 if w is None else w for w in _given(rest)])


def _expanded_as(shape: Sizes, strides: Strides, rest: Given) -> Viewed:
    other = rest[0].shape if rest and isinstance(rest[0], Tensor) else None
    return (None, None) if other is None else expanded(shape, strides, other)


def _narrowed(shape: Sizes, strides: Strides, rest: Given) -> Viewed:
    if len(rest) < 3:
        return None, None
    axis = _dim(rest[0], len(shape)) or 0
    return (*shape[:axis], rest[2] if isinstance(rest[2], int) else None, *shape[axis + 1 :]), strides


def _selected(shape: Sizes, strides: Strides, rest: Given) -> Viewed:
    if not rest:
        return None, None
    axis = _dim(rest[0], len(shape)) or 0
    return _kept(shape, strides, [i for i in range(len(shape)) if i != axis])


def _strided(shape: Sizes, strides: Strides, rest: Given) -> Viewed:
    if len(rest) < 2:
        return None, None
    return _sizes([rest[0]], None), tuple(rest[1]) if isinstance(rest[1], (list, tuple)) else None


def sliced(shape: Shape, axis: Value, bounds: Sequence[Value]) -> tuple[Value, ...]:
    """Returns `slice(axis, start, end, step)` as the keys of an index; an Ellipsis where the dimension is not known."""
    start, end, step = (*bounds, None, None, None)[:3]
    rank = len(shape) if shape is not None else 0
    at = _dim(axis, rank) if rank else axis if type(axis) is int and axis >= 0 else None
    return (Ellipsis,) if at is None else (*(slice(None),) * at, slice(start, end, step))


REGROUPING = frozenset(("view", "reshape", "view_as", "reshape_as", "flatten", "ravel", "unflatten"))


def _regrouping(name: str, shape: tuple[Any, ...], rest: Given) -> Shape:
    """The shape that the same elements get, in their order."""
    rank = len(shape)
    if name in ("view_as", "reshape_as"):
        return rest[0].shape if rest and isinstance(rest[0], Tensor) else None
    if name in ("flatten", "ravel"):
        if not shape:
            return (1,)
        start = _dim(rest[0], rank) if rest else 0
        end = _dim(rest[1], rank) if len(rest) > 1 else rank - 1
        start, end = start or 0, rank - 1 if end is None else end
        return (*shape[:start], product(shape[start : end + 1]), *shape[end + 1 :])
    if name == "unflatten":
        axis = _dim(rest[0], rank) if rest else None
        if axis is None or len(rest) < 2 or not isinstance(rest[1], (list, tuple)):
            return None
        size = _sizes([rest[1]], shape[axis] if isinstance(shape[axis], int) else None) or ()
        return (*shape[:axis], *size, *shape[axis + 1 :])
    return _sizes(rest, product(shape))


def _given(rest: Given) -> Sequence[Value]:
    """Sizes given one by one or in one sequence."""
    return rest[0] if len(rest) == 1 and isinstance(rest[0], (list, tuple)) else rest


def expanded(shape: Sizes, strides: Strides, wanted: Given) -> Viewed:
    """Returns shape and strides of `expand`: repeated elements have stride 0, and -1 keeps a size."""
    ahead = len(wanted) - len(shape)
    if ahead < 0:
        return None, None
    sizes, steps = [], []
    for i, want in enumerate(wanted):
        size = shape[i - ahead] if i >= ahead else 1
        new = size if want == -1 and type(want) is int else want if isinstance(want, int) else None
        sizes.append(new)
        own = strides[i - ahead] if strides is not None and i >= ahead else 0 if i < ahead else None
        steps.append(0 if size == 1 and new != 1 else own)
    return tuple(sizes), tuple(steps)


def _windows(shape: Sizes, strides: Strides, rest: Given) -> Viewed:
    """unfold(dimension, size, step): windows along one dimension, as one more."""
    if len(rest) < 3:
        return None, None
    axis, size, step = _dim(rest[0], len(shape)), rest[1], rest[2]
    if axis is None or not isinstance(size, int) or not isinstance(step, int) or step < 1:
        return (*(None for _ in shape), None), None
    length = shape[axis]
    count = (length - size) // step + 1 if isinstance(length, int) and length >= size else None
    moved = strides[axis] * step if strides is not None and isinstance(strides[axis], int) else None
    steps = None if strides is None else (*strides[:axis], moved, *strides[axis + 1 :], strides[axis])
    return (*shape[:axis], count, *shape[axis + 1 :], size), steps


def _diagonal(shape: Sizes, strides: Strides, rest: Given) -> Viewed:
    """diagonal(offset, dim1, dim2): what is left of the others, then the diagonal."""
    given = [*rest, *[0, 0, 1][len(rest) :]]
    off, one, other = given[:3]
    first, second = _dim(one, len(shape)), _dim(other, len(shape))
    if first is None or second is None or not isinstance(off, int) or len(shape) < 2:
        return None, None
    rows, columns = shape[first], shape[second]
    known = isinstance(rows, int) and isinstance(columns, int)
    count = max(min(rows, columns - off) if off >= 0 else min(rows + off, columns), 0) if known else None
    keep = [i for i in range(len(shape)) if i not in (first, second)]
    both = None if strides is None else (strides[first], strides[second])
    step = both[0] + both[1] if both is not None and all(isinstance(s, int) for s in both) else None
    return (*(shape[i] for i in keep), count), None if strides is None else (*(strides[i] for i in keep), step)


def _order(name: str, rank: int, rest: Given) -> list[int] | None:
    if name == "permute":
        dims = rest[0] if rest and isinstance(rest[0], (list, tuple)) else rest
        return [d % rank for d in dims] if len(dims) == rank and all(isinstance(d, int) for d in dims) else None
    if name in ("movedim", "moveaxis"):
        source, target = ([side] if isinstance(side, int) else side for side in (*rest, None, None)[:2])
        return _moved(rank, source, target)
    order = list(range(rank))
    pair = [d % rank for d in ((-2, -1) if name == "adjoint" else rest[:2]) if isinstance(d, int)] if rank else []
    if len(pair) == 2:
        order[pair[0]], order[pair[1]] = order[pair[1]], order[pair[0]]
    return order


def _moved(rank: int, source: object, target: object) -> list[int] | None:
    """The order of dimensions once those of `source` are where `target` says; the others keep theirs."""
    if not isinstance(source, (list, tuple)) or not isinstance(target, (list, tuple)) or len(source) != len(target):
        return None
    if not all(isinstance(d, int) for d in (*source, *target)):
        return None
    taken = [d % rank for d in source]
    placed = {to % rank: of for of, to in zip(taken, target, strict=True)}
    left = iter([i for i in range(rank) if i not in taken])
    return [placed[i] if i in placed else next(left) for i in range(rank)]


_VIEWS: dict[str, View] = {
    **dict.fromkeys(("detach", "detach_", "requires_grad_", "alias"), lambda shape, strides, rest: (shape, strides)),
    **dict.fromkeys(("t", "t_"), lambda shape, strides, rest: _kept(shape, strides, reversed(range(len(shape))))),
    **{
        name: _reordered(name)
        for name in ("transpose", "transpose_", "swapaxes", "swapdims", "permute", "movedim", "moveaxis", "adjoint")
    },
    **dict.fromkeys(("squeeze", "squeeze_"), _squeezed),
    **dict.fromkeys(("unsqueeze", "unsqueeze_"), _unsqueezed),
    **dict.fromkeys(("expand", "broadcast_to"), _expanded_to),
    "expand_as": _expanded_as,
    "unfold": _windows,
    "diagonal": _diagonal,
    "narrow": _narrowed,
    "select": _selected,
    "as_strided": _strided,
}


def _sizes(rest: Given, total: int | None) -> Shape:
    """Sizes given as (2, 3) or ((2, 3),), with -1 worked out from the number of elements."""
    sizes = rest[0] if len(rest) == 1 and isinstance(rest[0], (list, tuple)) else rest
    out = [s if isinstance(s, int) else None for s in sizes]
    if -1 in out and total is not None:
        known = product(tuple(d for d in out if d != -1))
        out[out.index(-1)] = total // known if known else None
    elif -1 in out:
        out[out.index(-1)] = None
    return tuple(out)


def by_dimension(keys: Sequence[Value], rank: int) -> list[tuple[Any, int | None]]:
    """Pairs each key of `tensor[keys]` with its dimension, None for a key that takes none of `rank`; an Ellipsis is
    repeated for each dimension without a key."""
    used, open_ended = 0, True
    for key in keys:
        if key is Ellipsis:
            open_ended = False
        elif key is not None:
            used += 1
    found: list[tuple[Any, int | None]] = []
    at = 0
    for key in (*keys, Ellipsis) if open_ended else keys:
        if key is None:
            found.append((key, None))
            continue
        for _ in range(rank - used if key is Ellipsis else 1):
            found.append((key, at))
            at += 1
    return found


def indexed(shape: Shape, keys: tuple[Value, ...]) -> Shape:
    """Returns the shape of `tensor[keys]`."""
    if shape is None:
        return None
    if any(isinstance(key, (Tensor, list, bool)) for key in keys):
        return _picked(shape, keys)
    out: list[Any] = []
    for key, dimension in by_dimension(keys, len(shape)):
        size = shape[dimension] if dimension is not None and dimension < len(shape) else None
        if key is None:
            out.append(1)
        elif key is Ellipsis:
            out.append(size)
        elif isinstance(key, slice):
            out.append(_slice_length(size, key))
    return tuple(out)


def _picked(shape: tuple[Value, ...], keys: Sequence[Value]) -> Shape:
    """The shape of an index by tensors or lists: they broadcast, and stand where they are when they are neighbours, in
    front otherwise. Truths pick an unknown number.
    """
    used = sum(_takes(key) for key in keys if key is not None and key is not Ellipsis)
    if used > len(shape) or any(isinstance(key, bool) for key in keys):
        return None
    out: list[Any] = []
    picks: list[Shape] = []
    places: list[int] = []  # positions among the keys; numbers do not count
    first = at = place = 0
    for key in keys if any(key is Ellipsis for key in keys) else (*keys, Ellipsis):
        place += 1
        if key is None:
            out.append(1)
        elif key is Ellipsis:
            out.extend(shape[at : at + len(shape) - used])
            at += len(shape) - used
        elif isinstance(key, slice):
            out.append(_slice_length(shape[at], key))
            at += 1
        elif not isinstance(key, (Tensor, list, tuple)):
            at += 1
            place -= 1
        else:
            first = len(out) if not places else first
            places.append(place)
            picks.append(_pick(key))
            at += _takes(key)
    both = broadcast(picks)
    if both is None:
        return None
    apart = places != list(range(places[0], places[-1] + 1))
    return (*both, *out) if apart else (*out[:first], *both, *out[first:])


def _takes(key: object) -> int:
    """How many dimensions a key is for."""
    if isinstance(key, Tensor) and key.dtype in ("bool", "u8"):
        return len(key.shape) if key.shape is not None else 1
    return 1


def _pick(key: object) -> Shape:
    """The shape that one key of an index has among those that broadcast."""
    if isinstance(key, Tensor):
        return (None,) if key.dtype in ("bool", "u8") else key.shape
    sizes: list[int] = []
    while isinstance(key, (list, tuple)):
        sizes.append(len(key))
        key = key[0] if key else None
    return None if isinstance(key, (bool, Tensor)) else tuple(sizes)


def _slice_length(size: Value, key: slice) -> int | None:
    parts = (key.start, key.stop, key.step)
    if not isinstance(size, int) or not all(p is None or isinstance(p, int) for p in parts):
        return None
    try:
        return len(range(*key.indices(size)))
    except (ValueError, TypeError):
        return None


def indexed_strides(tensor: Tensor, keys: tuple[Any, ...]) -> Any:
    """Returns the strides of a basic index; None where they cannot be told (callers take row-major ones)."""
    strides = tensor.strides if tensor.strides is not None else row_major(tensor.shape)
    if strides is None or any(isinstance(k, (Tensor, list, bool)) for k in keys):
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
