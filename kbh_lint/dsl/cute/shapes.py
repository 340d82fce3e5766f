"""Sizes of CuTe's layouts on the host: nested tuples of numbers, as far as grids and loops need them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kbh_lint.base import dtypes
from kbh_lint.base.values import DType, Made, Value
from kbh_lint.dsl.tensors import kinds
from kbh_lint.host.values.tensors import Tensor, Unknown

_DIVISIONS = ("zipped_divide", "tiled_divide", "logical_divide", "flat_divide")


def shape_of(value: object) -> Any:
    """The shape of a tensor, a layout or a shape; None where unknown."""
    if isinstance(value, Tensor):
        return value.shape
    if isinstance(value, Made):
        return value.get("shape")
    if isinstance(value, list):
        return tuple(value)
    return value if isinstance(value, (int, tuple)) and not isinstance(value, bool) else None


def known(shape: object) -> Value:
    """A shape as a value of the submission; unknown for None."""
    return shape if shape is not None else Unknown((), "a shape")


def elements(shape: object) -> int | None:
    """The number of elements of a nested shape; None where a part is unknown."""
    if isinstance(shape, tuple):
        counts = [elements(part) for part in shape]
        return math.prod(c for c in counts if c is not None) if None not in counts else None
    return shape if isinstance(shape, int) else None


def count(value: object, mode: object) -> Any:
    """The value of `cute.size(value, mode=[...])`."""
    shape = shape_of(value)
    for index in mode if isinstance(mode, (list, tuple)) else () if mode is None else (mode,):
        inside = isinstance(shape, tuple) and isinstance(index, int) and -len(shape) <= index < len(shape)
        shape = shape[index] if inside else None
    found = elements(shape)
    return found if found is not None else Unknown((), "a size")


def rank(value: object) -> Any:
    """The value of `cute.rank(value)`: the number of modes."""
    shape = shape_of(value)
    return len(shape) if isinstance(shape, tuple) else 1 if isinstance(shape, int) else Unknown((), "a rank")


def divided(left: object, right: object) -> Value:
    """The value of `cute.ceil_div(left, right)`, for numbers or shapes."""
    right = right.get("shape") if isinstance(right, Made) else right
    if isinstance(left, (tuple, list)):
        parts = right if isinstance(right, (tuple, list)) else (right,)
        return tuple(divided(a, parts[i] if i < len(parts) else 1) for i, a in enumerate(left))
    b = elements(right)
    return -(-left // b) if isinstance(left, int) and b else Unknown((), "a size")


def rounded(left: object, right: object) -> Value:
    """The value of `cute.round_up(left, right)`."""
    times = divided(left, right)
    return times * right if isinstance(times, int) and isinstance(right, int) else Unknown((), "a size")


def bytes_of(args: Sequence[Value]) -> Value:
    """The value of `cute.size_in_bytes(type, layout)`."""
    total = elements(shape_of(args[1])) if len(args) > 1 else None
    bits = dtypes.BITS.get(args[0].name) if args and isinstance(args[0], DType) else None
    return total * bits // 8 if total is not None and bits else Unknown((), "a size")


def layout(name: str, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Made:
    """The layout that `make_layout(shape)`, `tile_to_shape(atom, shape, order)` and the like make."""
    place = {"make_composed_layout": 2, "tile_to_shape": 1}.get(name, 0)
    given = kwargs.get("shape", args[place] if place < len(args) else None)
    helper = name.startswith(("make_smem", "make_swizzle", "recast", "right", "left", "complement"))
    return kinds.Layout(fields=(("shape", None if helper else shape_of(given)),))


def thread_values(args: Sequence[Value]) -> tuple[Any, Made]:
    """The value of `make_layout_tv(threads, values)`: the tile that all threads cover, and the layout from (thread,
    value) to its elements."""
    threads, each = (shape_of(a) for a in (*args, None, None)[:2])
    if isinstance(threads, tuple) and isinstance(each, tuple) and len(threads) == len(each):
        counts = [(elements(a), elements(b)) for a, b in zip(threads, each, strict=True)]
        if all(a is not None and b is not None for a, b in counts):
            tile = tuple((a or 1) * (b or 1) for a, b in counts)
            return tile, kinds.Layout(fields=(("shape", (elements(threads), elements(each))),))
    return Unknown((), "a tile"), kinds.Layout(fields=(("shape", None),))


def viewed(name: str, shape: object, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Any:
    """The shape of the view that the function `name` makes of a tensor of this shape; None where unknown."""
    given = args[0] if args else next((v for k, v in kwargs.items() if k in ("tiler", "mode", "coord")), None)
    if name in ("from_dlpack", "assume", "domain_offset", "recast_tensor"):
        return shape
    if name in _DIVISIONS and isinstance(shape, (tuple, int)):
        return _divide(name, shape if isinstance(shape, tuple) else (shape,), shape_of(given))
    if name == "local_tile":
        return shape_of(given)
    if not isinstance(shape, tuple):
        return None
    if name == "group_modes":
        begin = kwargs.get("begin", args[0] if args else 0)
        return _grouped(shape, begin, kwargs.get("end", args[1] if len(args) > 1 else len(shape)))
    picked = _PICKED.get(name)
    return picked(shape, given) if picked is not None else None


Shape = tuple[Value, ...]  # of numbers, None where one is not known, and shapes


def _selected(shape: Shape, modes: Value) -> Shape | None:
    """`select(tensor, mode=[0, 2])`."""
    if not isinstance(modes, (tuple, list)):
        return None
    known = [mode for mode in modes if isinstance(mode, int) and -len(shape) <= mode < len(shape)]
    return tuple(shape[mode] for mode in known) if len(known) == len(modes) else None


def _sliced(shape: Shape, at: Value) -> Shape | None:
    """`slice_(tensor, (None, 0))`."""
    if not isinstance(at, (tuple, list)) or len(at) != len(shape):
        return None
    return tuple(part for part, place in zip(shape, at, strict=True) if place is None)


def _grouped(shape: Shape, begin: Value, end: Value) -> Shape | None:
    if isinstance(begin, int) and isinstance(end, int) and 0 <= begin < end <= len(shape):
        return (*shape[:begin], shape[begin:end], *shape[end:])
    return None


_PICKED: dict[str, Callable[[Shape, Value], Shape | None]] = {  # of a shape, and what stands beside it
    "select": _selected,
    "slice_": _sliced,
    "append": lambda shape, given: (*shape, given) if isinstance(given, (int, tuple)) else None,
    "prepend": lambda shape, given: (given, *shape) if isinstance(given, (int, tuple)) else None,
}


def _divide(name: str, shape: tuple[Value, ...], tiler: object) -> Value:
    tiles = tiler if isinstance(tiler, tuple) else (tiler,)
    if tiler is None or len(tiles) > len(shape):
        return None
    inner = tuple(tiles) + tuple(1 for _ in shape[len(tiles) :])
    rest = tuple(divided(a, b) if isinstance(a, int) else None for a, b in zip(shape, inner, strict=True))
    rest = tuple(r if isinstance(r, int) else None for r in rest)
    if name == "flat_divide":
        return (*tiles, *rest)
    if name == "tiled_divide":
        return (tuple(tiles), *rest)
    if name == "logical_divide":
        return tuple(zip(inner, rest, strict=True))
    return (tuple(tiles), rest) if len(shape) > 1 else (tiles[0], rest[0])


def whole_range(args: list[Any]) -> Value:
    """The value of `cutlass.range(...)`; unknown where its bounds are."""
    numbers = args[:3]
    if numbers and all(isinstance(n, int) for n in numbers) and (len(numbers) < 3 or numbers[2]):
        return range(*numbers)
    return Unknown((), "a range")


def extreme(pick: Callable[..., Any], args: Sequence[Value]) -> Value:
    """The value of `cutlass.min(...)` or `cutlass.max(...)`; `pick` is Python's function."""
    return pick(args) if args and all(isinstance(a, (int, float)) for a in args) else Unknown((), "a number")
