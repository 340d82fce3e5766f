"""What cuTile kernels call: tiles are read from arrays and written to them, and everything between is on tiles."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kbh_lint.base import dtypes, ir, values
from kbh_lint.kernels.core.joins import join, mix
from kbh_lint.kernels.core.origins import flagged, union
from kbh_lint.kernels.core.products import operand_type
from kbh_lint.kernels.core.value import NOTHING, UNKNOWN_V, Shape, Splat, V, constant, leaves
from kbh_lint.kernels.languages.python import arithmetic as shared
from kbh_lint.kernels.languages.python.call import Call, first
from kbh_lint.kernels.languages.python.functions import nothing
from kbh_lint.kernels.languages.python.run import PythonRun
from kbh_lint.ops.catalogue import OPERATIONS
from kbh_lint.ops.operation import spelled

# --- arrays ---


def _placed(array: V, where: Iterable[V | None]) -> V:
    """An array at an index: what is read there depends on where the index came from."""
    origins = array.origins
    for value in where:
        for leaf in leaves(value) if value is not None else ():
            origins = union(origins, leaf.origins)
    return array.with_(origins=origins)


def _load(call: Call) -> V:
    """load(array, index, shape), and load(index) of a view whose tiles have a shape."""
    array = _placed(first(call), [call.get(1, "index")])
    made = call.m.memory.load(array, "?", call.loc)
    return made.with_(shape=call.shape(call.get(2, "shape")) or array.shape or None, const=NOTHING)


def _gather(call: Call) -> V:
    """gather(array, indices, mask=, padding_value=)."""
    indices = call.get(1, "indices")
    made = call.m.memory.load(_placed(first(call), [indices]), "?", call.loc)
    for name in ("mask", "padding_value"):
        extra = call.kwargs.get(name)
        if extra is not None and extra.origins:
            made = made.with_(origins=union(made.origins, flagged(extra.origins, "index")))
    shapes = [leaf.shape for leaf in leaves(indices)] if indices is not None else []
    return made.with_(shape=max(shapes, key=lambda shape: len(shape or ()), default=None), const=NOTHING)


def _stored(name: str) -> Callable[[Call], V]:
    def run(call: Call) -> V:
        where = call.get(1, "index" if name == "tile" else "indices")
        for value in (where, call.kwargs.get("mask")):
            for leaf in leaves(value) if value is not None else ():
                call.m.facts.add_choice(leaf, call.loc)
        call.m.memory.store(first(call), call.get(2, name) or UNKNOWN_V, call.loc)
        return constant(None)

    return run


def _atomic(call: Call) -> V:
    """atomic_add(array, indices, update), atomic_cas(array, indices, expected, desired)."""
    array = _placed(first(call), [call.get(1, "indices")])
    for value in [*call.args[1:], *call.kwargs.values()]:
        for leaf in leaves(value):
            call.m.facts.add_choice(leaf, call.loc)
    value = (call.get(3, "desired") if call.name == "atomic_cas" else call.get(2, "update")) or UNKNOWN_V
    if call.name == "atomic_add":
        value = call.m.products.add_in_memory(value, array.dtype, call.loc)
    call.m.memory.store(array, value, call.loc)
    made = call.m.memory.load(array, "?", call.loc)
    return made.with_(origins=union(made.origins, value.origins), const=NOTHING)


def _index(call: Call) -> V:
    return V("i32", "i32", shape=())


def _part(base: V, call: Call) -> V:
    """`array.slice(axis, start, stop)`: what is read through it depends on the bounds."""
    return _placed(base, [*call.args, *call.kwargs.values()])


def _tiled(base: V, call: Call) -> V:
    """`array.tiled_view(shape)`."""
    return base.with_(shape=call.shape(call.get(0, "tile_shape")))


def _view_load(base: V, call: Call) -> V:
    return _load(Call(call.m, [base, *call.args], call.kwargs, call.node, "load"))


def _view_store(base: V, call: Call) -> V:
    return _stored("tile")(Call(call.m, [base, *call.args], call.kwargs, call.node, "store"))


def _ceil_div(call: Call) -> V:
    a, b = (call.args + [UNKNOWN_V, UNKNOWN_V])[:2]
    if isinstance(a.const, int) and isinstance(b.const, int) and b.const:
        return constant(-(-a.const // b.const), a.deps | b.deps)
    return V("i32", "i32", union(a.origins, b.origins), shape=a.shape)


# --- making tiles ---


def _arange(call: Call) -> V:
    dtype = call.dtype(1, "dtype", "i32")
    return V(dtype, dtype, shape=call.shape(call.get(0, "size")))


def _filled(call: Call, value: V | None, at: int) -> V:
    dtype = call.dtype(at, "dtype", value.dtype if value is not None else "f32")
    shape = call.shape(call.get(0, "shape"))
    if value is not None and value.origins:
        return call.m.numbers.convert(value, dtype, call.loc).with_(shape=shape, const=NOTHING)
    whole = value is not None and type(value.const) is int
    return V(dtype, dtype, shape=shape, x=Splat(value.const) if value is not None and whole else None)


# --- shapes ---


def _reshaped(call: Call) -> V:
    return first(call).with_(shape=call.shape(call.get(1, "shape")), const=NOTHING)


def _other_order(call: Call) -> V:
    value, order = first(call), call.get(1, "axes")
    places = [leaf.const for leaf in leaves(order)] if order is not None and isinstance(order.x, tuple) else []
    if value.shape is None or sorted(p for p in places if isinstance(p, int)) != list(range(len(value.shape))):
        plain = value.shape is not None and len(call.args) + len(call.kwargs) == 1
        return value.with_(shape=value.shape[::-1] if plain and value.shape is not None else None)
    return value.with_(shape=tuple(value.shape[p] for p in places if isinstance(p, int)))


def _grown(call: Call) -> V:
    value, axis = first(call), call.get(1, "axis")
    if value.shape is None or axis is None or not isinstance(axis.const, int):
        return value.with_(shape=None)
    place = axis.const if axis.const >= 0 else axis.const + len(value.shape) + 1
    return value.with_(shape=(*value.shape[:place], 1, *value.shape[place:]))


def _joined(call: Call) -> V:
    return mix(leaves(first(call))).with_(shape=None, const=NOTHING)


def _extracted(call: Call) -> V:
    index = call.get(1, "index")
    origins = first(call).origins
    for leaf in leaves(index) if index is not None else ():
        origins = union(origins, flagged(leaf.origins, "index"))
    return first(call).with_(shape=call.shape(call.get(2, "shape")), origins=origins, const=NOTHING)


def _bitcast(call: Call) -> V:
    return call.m.numbers.bitcast(first(call), call.dtype(1, "dtype"), call.loc)


def _converted(call: Call) -> V:
    return shared.to(first(call), Call(call.m, call.args[1:], call.kwargs, call.node))


# --- over a tile ---


def _reduced(call: Call, value: V) -> V:
    """A value over one axis, several, or all."""
    axis, keep = call.get(1, "axis"), call.kwargs.get("keepdims")
    shape: Shape | None = value.shape
    if axis is None or axis.const is None:
        shape = ()
    elif shape is not None:
        places = {leaf.const % len(shape) for leaf in leaves(axis) if isinstance(leaf.const, int) and shape}
        one: Shape = (1,) if keep is not None and keep.const is True else ()
        parts = [one if place in places else (size,) for place, size in enumerate(shape)]
        shape = tuple(size for part in parts for size in part)
    return value.with_(shape=shape, const=NOTHING)


def _sum(call: Call) -> V:
    value = first(call)
    return _reduced(call, call.m.products.accumulate(UNKNOWN_V, value, value.dtype, call.loc, True))


def _extreme(call: Call) -> V:
    value = first(call)
    return _reduced(call, value.with_(origins=flagged(value.origins, "max"), x=None))


def _place(call: Call) -> V:
    value = first(call)
    return _reduced(call, V("i32", "i32", value.origins, value.casts, shape=value.shape))


def _running(call: Call) -> V:
    value = first(call)
    return call.m.products.accumulate(UNKNOWN_V, value, value.dtype, call.loc, True).with_(const=NOTHING)


def _combined(call: Call) -> V:
    """reduce(x, axis, func, identity) and scan: runs the function on the values, of one tile or of several."""
    value, func = first(call), call.get(2, "func")
    combine = func.const if func is not None else None
    items = list(value.x) if isinstance(value.x, tuple) else [value]
    results = items
    for item in items:
        call.m.facts.add_sum(item.dtype, item.origins, call.loc)
    if not isinstance(combine, values.Func):
        call.m.facts.unread("a reduction by a function that is not known", call.loc)
    else:
        for _ in range(2):
            inner = Call(call.m, [v.with_(x=None) for v in results + items], {}, call.node)
            made = call.m.calls.invoke(combine, call.m.calls.bind_call(combine, inner), call.loc)
            got = list(made.x) if isinstance(made.x, tuple) else [made]
            if len(got) == len(items):
                results = [join(old, new) for old, new in zip(items, got, strict=True)]
    if call.name == "reduce":
        results = [_reduced(call, v) for v in results]
    results = [v.with_(origins=flagged(v.origins, "reduce"), x=None) for v in results]
    return V(x=tuple(results)) if isinstance(value.x, tuple) else results[0]


def _product_of(call: Call) -> V:
    value = first(call)
    return _reduced(call, value.with_(origins=flagged(value.origins, "reduce"), x=None))


def _negative(call: Call) -> V:
    return call.m.numbers.unary("-", first(call), call.loc)


# --- products ---


def multiplied(run: PythonRun, a: V, b: V, acc: V | None, loc: ir.Loc, types: tuple[str, str] = ("", "")) -> V:
    """The product of two tiles, added to `acc`. Tiles of fp32 are multiplied in full precision, as cuTile uses TF32
    only for tiles that were converted to it."""
    whole = operand_type(a) in dtypes.INTS and operand_type(b) in dtypes.INTS
    known = acc is not None and acc.dtype in dtypes.BITS
    accumulator = acc.dtype if acc is not None and known else "i32" if whole else "f32"
    rows = run.tiles.rows(a)
    mode = "ieee" if operand_type(a) == operand_type(b) == "f32" else ""
    plain = (a.with_(x=None), b.with_(x=None))
    made = run.products.product(
        "dot", *plain, accumulator, loc, a_dtype=types[0], b_dtype=types[1], rows=rows, mode=mode
    )
    if acc is not None:
        made = run.products.accumulate(acc, made, accumulator, loc, run.frame.loops > 0)
        made = run.products.onto(made, acc)
    shape = (*a.shape[:-1], b.shape[-1]) if a.shape and b.shape and len(a.shape) > 1 else None
    return made.with_(shape=shape)


def _mma(call: Call) -> V:
    a, b = call.get(0, "x") or UNKNOWN_V, call.get(1, "y") or UNKNOWN_V
    return multiplied(call.m, a, b, call.get(2, "acc"), call.loc)


def _mma_scaled(call: Call) -> V:
    """mma_scaled(x, x_scale, y, y_scale, acc): the scales are factors of the product's result."""
    names = ("x", "x_scale", "y", "y_scale")
    a, a_scale, b, b_scale = (call.get(at, name) or UNKNOWN_V for at, name in enumerate(names))
    made = multiplied(call.m, a, b, call.get(4, "acc"), call.loc)
    return made.with_(origins=union(made.origins, union(a_scale.origins, b_scale.origins)))


def _compared(symbol: str) -> Callable[[Call], V]:
    def run(call: Call) -> V:
        return call.m.numbers.compare(symbol, call.args[0], call.args[1]) if len(call.args) > 1 else UNKNOWN_V

    return run


def _operator(symbol: str) -> Callable[[Call], V]:
    def run(call: Call) -> V:
        return call.m.numbers.binary(symbol, call.args[0], call.args[1], call.loc) if len(call.args) > 1 else UNKNOWN_V

    return run


_COMPARISONS = {
    "greater": ">", "greater_equal": ">=", "less": "<", "less_equal": "<=", "equal": "==", "not_equal": "!=",
}  # fmt: skip
_OPERATORS = {
    "floordiv": "//", "mod": "%", "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^", "bitwise_lshift": "<<",
    "bitwise_rshift": ">>",
}  # fmt: skip

OPERATIONS_OF_TILES: dict[str, Callable[[Call], V]] = {
    **spelled(
        OPERATIONS,
        "cutile",
        {
            "load": _load, "store": _stored("tile"), "gather_elements": _gather, "scatter_elements": _stored("value"),
            "program_id": _index, "num_programs": _index, "size": _index, "ceil_div": _ceil_div, "index_tile": _arange,
            "full": lambda c: _filled(c, c.get(1, "fill_value"), 2), "zeros": lambda c: _filled(c, None, 1),
            "ones": lambda c: _filled(c, None, 1), "reshape": _reshaped, "transpose": _other_order,
            "expand_dims": _grown, "join": _joined, "extract": _extracted, "bitcast": _bitcast, "cast": _converted,
            "sum": _sum, "reduce_max": _extreme, "reduce_min": _extreme, "argmax": _place, "cumulative": _running,
            "cumulative_product": _running, "product_of": _product_of, "reduce": _combined, "negative": _negative,
            "dot": _mma, "dot_scaled": _mma_scaled, "where": shared.where,
            "max": shared.bound, "min": shared.bound, "constexpr": first, "check": nothing, "sync": nothing,
            "hint": first,
        },
        {"arithmetic": lambda op: _operator(op.symbol), "atomic": lambda op: _atomic},
    ),
    **{name: _compared(symbol) for name, symbol in _COMPARISONS.items()},
    **{name: _operator(symbol) for name, symbol in _OPERATORS.items()},
}  # fmt: skip

METHODS: dict[str, Callable[[V, Call], V]] = {
    "astype": shared.to, "slice": _part, "tiled_view": _tiled, "item": lambda base, call: base,
    "load": _view_load, "store": _view_store, "num_tiles": lambda base, call: _index(call),
}  # fmt: skip
