"""What two values have in common where control flow meets, or where one is computed from both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kbh_lint.base import dtypes
from kbh_lint.kernels.core.origins import union, union_casts
from kbh_lint.kernels.core.ranges import Ranged
from kbh_lint.kernels.core.totals import together
from kbh_lint.kernels.core.value import (
    LETS_GO,
    LITERAL,
    MAX_TREE,
    NO_NAMES,
    NOTHING,
    TWIDDLED,
    UNKNOWN_V,
    CachePolicy,
    Mul,
    Offset,
    Place,
    Shape,
    Splat,
    Struct,
    V,
    leaves,
)

_RANK = {name: (1 if name in dtypes.FLOATS else 0) * 100 + dtypes.BITS[name] for name in dtypes.BITS}


def wider(a: str, b: str) -> str:
    """The element type of two values joined: an unknown or literal type yields to the other, floats win over integers,
    then the wider type wins."""
    if a == b or b in ("?", LITERAL):
        return a
    if a in ("?", LITERAL):
        return b
    return max(a, b, key=lambda name: (_RANK.get(name, 0), name))


def join_shape(a: Shape | None, b: Shape | None) -> Shape | None:
    """The shape of two values joined: None for each dimension in which they differ, and where one is unknown the
    other."""
    if a == b:
        return a
    if a is None or b is None or len(a) != len(b):
        return a or b
    return tuple(p if p == q else None for p, q in zip(a, b, strict=True))


def broadcast(a: Shape | None, b: Shape | None) -> Shape | None:
    """The shape of an elementwise operation on two shapes, after broadcasting; None where unknown."""
    if a == b or b == () or b is None:
        return a if a is not None or b == () else None
    if a is None:
        return None
    if a == ():
        return b
    if len(a) != len(b):
        short, long_ = (a, b) if len(a) < len(b) else (b, a)
        short = (1,) * (len(long_) - len(short)) + short
        a, b = short, long_
    return tuple(q if p == 1 else p if q == 1 or q == p else (p if q is None else q) for p, q in zip(a, b, strict=True))


def _join_x(a: V, b: V) -> object:
    x, y = a.x, b.x
    if isinstance(x, Splat) or isinstance(y, Splat):
        return x if x == y else None
    if x is y or y is None:
        return x
    if x is None:
        return y
    joined = _OF_A_KIND.get(type(x)) if type(x) is type(y) else None
    if joined is not None:
        return joined(x, y)
    if not isinstance(x, Struct) and (isinstance(y, (Struct, tuple)) or y is TWIDDLED):
        return y
    return x


def _join_products(x: Mul, y: Mul) -> Mul:
    return y if y.terms > x.terms else x  # a loop that adds to what it had has more terms each time


def _join_offsets(x: Offset, y: Offset) -> Offset:
    return x if x == y or x.bytes is None else type(x)(None)


def _join_tuples(x: tuple[V, ...], y: tuple[V, ...]) -> tuple[V, ...]:
    if len(x) != len(y):
        return x if len(x) > len(y) else y
    items = tuple(join(p, q) for p, q in zip(x, y, strict=True))
    return x if all(p is q for p, q in zip(x, items, strict=True)) else items


def _join_structs(x: Struct, y: Struct) -> Struct:
    fields = dict(x.fields)
    changed = False
    for name, value in y.fields.items():
        old = fields.get(name)
        new = value if old is None else join(old, value)
        if new is not old:
            fields[name] = new
            changed = True
    return Struct(fields, x.type) if changed else x


_OF_A_KIND: dict[type, Callable[[Any, Any], object]] = {
    Mul: _join_products,
    CachePolicy: lambda x, y: LETS_GO,
    Offset: _join_offsets,
    Place: _join_offsets,
    tuple: _join_tuples,
    Struct: _join_structs,
}


def same_const(a: object, b: object) -> bool:
    """Whether two known values are the same, in type too (1 and True are not)."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    try:
        return bool(a == b)
    except TypeError:
        return False


def join(a: V, b: V) -> V:
    """The least precise value that covers both `a` and `b`; `a` itself if it covers `b` already."""
    if a is b:
        return a
    const = a.const if a.const is NOTHING or (b.const is not NOTHING and same_const(a.const, b.const)) else NOTHING
    dtype = wider(a.dtype, b.dtype)
    content = wider(a.content, b.content)
    origins = union(a.origins, b.origins)
    casts = union_casts(a.casts, b.casts)
    deps = a.deps if not b.deps or b.deps <= a.deps else a.deps | b.deps
    cells = a.cells if not b.cells or b.cells <= a.cells else a.cells | b.cells
    shape = join_shape(a.shape, b.shape)
    x = _join_x(a, b)
    ct = a.ct or b.ct
    totals = together(a.totals, b.totals) if b.totals else a.totals
    if (
        const is a.const and dtype == a.dtype and content == a.content and origins is a.origins and casts is a.casts
        and deps is a.deps and cells is a.cells and shape == a.shape and x is a.x and ct is a.ct
        and totals is a.totals
    ):  # fmt: skip
        if type(a) is V or isinstance(a, Ranged) and a.holds(b):
            return a
    made = V(dtype, content, origins, casts, const, deps, cells, shape, x, ct)
    if totals:
        made.totals = totals
    return made


def mix(values: list[V]) -> V:
    """One value that has the origins, casts and cells of all `values`; it has no constant and no shape."""
    found = [leaf for value in values for leaf in leaves(value)]
    if not found:
        return UNKNOWN_V
    result = found[0]
    for value in found[1:]:
        result = join(result, value)
    return result.with_(const=NOTHING, x=TWIDDLED if result.x is TWIDDLED else None, shape=None)


def tuple_of(items: list[V] | tuple[V, ...], deps: frozenset[str] = NO_NAMES) -> V:
    """A value that is a tuple of `items`; if that has more than MAX_TREE values in it, the mix of them."""
    size = 0
    stack = list(items[: MAX_TREE + 1])
    while stack and size <= MAX_TREE:
        top = stack.pop()
        size += 1
        if isinstance(top.x, tuple):
            stack.extend(top.x)
    if size > MAX_TREE:
        return mix(list(items))
    return V(x=tuple(items), deps=deps)
