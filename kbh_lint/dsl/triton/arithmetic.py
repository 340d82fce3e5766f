"""Conversions, products, reductions and functions of numbers in Triton."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kbh_lint.base import dtypes, values
from kbh_lint.dsl.triton import shared_memory
from kbh_lint.kernels.core.joins import join
from kbh_lint.kernels.core.origins import flagged, union
from kbh_lint.kernels.core.products import operand_type
from kbh_lint.kernels.core.value import NOTHING, UNKNOWN_V, CType, V, constant
from kbh_lint.kernels.languages.python.arithmetic import to
from kbh_lint.kernels.languages.python.call import Call, first

if TYPE_CHECKING:
    pass

# --- numbers ---


def cast(call: Call) -> V:
    """The value of `tl.cast(x, dtype)`."""
    return to(first(call), Call(call.m, call.args[1:], call.kwargs, call.node))


def int_type(call: Call) -> V:
    """The value of `core.get_int_dtype(bitwidth, signed)`."""
    bits, signed = call.get(0, "bitwidth"), call.get(1, "signed")
    if bits is None or signed is None or bits.const not in (1, 8, 16, 32, 64) or not signed.known:
        return UNKNOWN_V
    name = "bool" if bits.const == 1 else f"{'i' if signed.const else 'u'}{bits.const}"
    return constant(values.DType(name))


def pointer_type(call: Call) -> V:
    """The value of `tl.pointer_type(element_ty)`."""
    dtype = call.dtype(0, "element_ty")
    return V(const=values.DType(dtype), ct=CType(dtype, pointers=1)) if dtype != "?" else UNKNOWN_V


def dot(call: Call) -> V:
    """The value of `tl.dot(a, b, acc)`; records the product."""
    m = call.m
    a, b = call.get(0, "input") or UNKNOWN_V, call.get(1, "other") or UNKNOWN_V
    acc = call.get(2, "acc")
    wanted = call.get(6, "out_dtype")
    accumulator = wanted.const.name if wanted is not None and isinstance(wanted.const, values.DType) else "f32"
    if operand_type(a) in dtypes.INTS and operand_type(b) in dtypes.INTS:
        accumulator = "i32"
    shape = (*a.shape[:-1], b.shape[-1]) if a.shape and b.shape and len(a.shape) > 1 else None
    mode = how_precise(call) if operand_type(a) == operand_type(b) == "f32" else ""
    shared_memory.noted(call, a, b)
    made = m.products.product("dot", widest(a), widest(b), accumulator, call.loc, rows=m.tiles.rows(a), mode=mode)
    if acc is not None and acc.const is not None:
        made = m.products.accumulate(acc, made, accumulator, call.loc, m.frame.loops > 0)
        made = m.products.onto(made, acc)
    return made.with_(shape=shape)


def how_precise(call: Call) -> str:
    """The precision of a dot on fp32 operands: `tf32` unless the call says otherwise, `?` where unknown."""
    wanted, allowed = call.get(3, "input_precision"), call.get(4, "allow_tf32")
    for value in (wanted, allowed):
        if value is not None and value.known:
            call.m.facts.decide(value)
    if wanted is not None and wanted.const is not None:
        return wanted.const if isinstance(wanted.const, str) else "?"
    if allowed is not None and allowed.const is not None:
        return "?" if not allowed.known else "tf32" if allowed.const else "ieee"
    return "tf32"


def widest(value: V) -> V:
    """`value` without a mark on it, such as that of a pending product or of a constant tile."""
    return value.with_(x=None) if value.x is not None else value


def dot_scaled(call: Call) -> V:
    """The value of `tl.dot_scaled(...)`; records the product."""
    m = call.m
    get = call.get
    a, b = get(0, "lhs") or UNKNOWN_V, get(3, "rhs") or UNKNOWN_V
    types = []
    for position, name in ((2, "lhs_format"), (5, "rhs_format")):
        value = get(position, name)
        text = value.const if value is not None and isinstance(value.const, str) else "?"
        types.append({"fp16": "f16"}.get(text, text))
    made = m.products.product("dot", a, b, "f32", call.loc, a_dtype=types[0], b_dtype=types[1], rows=m.tiles.rows(a))
    scales = [v for v in (get(1, "lhs_scale"), get(4, "rhs_scale")) if v is not None]
    origins = made.origins
    for scale in scales:
        origins = union(origins, scale.origins)
    acc = get(6, "acc")
    made = made.with_(origins=origins)
    return made if acc is None else m.products.onto(made, acc)


def sum_(call: Call) -> V:
    """The value of `tl.sum(x, axis)`."""
    value = first(call)
    dtype = call.dtype(3, "dtype", value.dtype)
    if dtype != value.dtype:
        value = call.m.numbers.convert(value, dtype, call.loc)
    made = reduced(call, call.m.products.accumulate(UNKNOWN_V, value, dtype, call.loc, True))
    return call.m.ranges.over_all("sum", value, made) if call.m.ranges.rising else made


def reduced(call: Call, value: V, keep_at: int = 2) -> V:
    """`value` reduced over one axis, or over all; `keep_at` is the position of the argument `keep_dims`, which differs
    between functions."""
    axis, shape = call.get(1, "axis"), value.shape
    if axis is None or axis.const is None:
        shape = ()
    elif shape is not None and isinstance(axis.const, int) and -len(shape) <= axis.const < len(shape):
        place = axis.const % len(shape)
        keep = call.get(keep_at, "keep_dims")
        middle: tuple[int | None, ...] = (1,) if keep is not None and keep.const is True else ()
        shape = (*shape[:place], *middle, *shape[place + 1 :])
    return value.with_(shape=shape, const=NOTHING)


def extreme(call: Call) -> V:
    """The value of `tl.max(x, axis)` or `tl.min(x, axis)`."""
    value = first(call)
    value = value.with_(origins=flagged(value.origins, "max"), x=None)
    made = reduced(call, value, 4)
    if call.m.ranges.rising and "max" in call.name:
        made = call.m.ranges.over_all("max", first(call), made)
    pair = call.get(2, "return_indices")
    if pair is not None and pair.const is True:
        return V(x=(made, chosen(made)))
    return made


def chosen(value: V) -> V:
    """The index that a selection of a maximum or minimum of `value` gives."""
    return V("i32", "i32", flagged(value.origins, "max"), value.casts, shape=value.shape)


def argextreme(call: Call) -> V:
    """The value of `tl.argmax(x, axis)` or `tl.argmin(x, axis)`."""
    return reduced(call, chosen(first(call)), 3)


def scan(call: Call) -> V:
    """The value of `tl.reduce` or `tl.associative_scan`, whose combine function is executed on the values."""
    value, combine = first(call), call.get(2, "combine_fn")
    items = list(value.x) if isinstance(value.x, tuple) else [value]
    m = call.m
    if combine is None:
        return reduced(call, value, 3)
    func = combine.const.func if isinstance(combine.const, values.JitFunction) else combine.const
    results = items
    for item in items:
        m.facts.add_sum(item.dtype, item.origins, call.loc)
    if isinstance(func, values.Func):
        for _ in range(2):
            inner = Call(m, [v.with_(x=None) for v in results + items], {}, call.node)
            made = m.calls.inline(func, m.calls.bind_call(func, inner), call.loc)
            got = list(made.x) if isinstance(made.x, tuple) else [made]
            if len(got) == len(items):
                results = [join(old, new) for old, new in zip(items, got, strict=True)]
    else:
        m.facts.unread("a reduction with an unknown combine function", call.loc)
    if call.name != "associative_scan":
        results = [reduced(call, v, 3) for v in results]
    results = [v.with_(origins=flagged(v.origins, "reduce"), x=None) for v in results]
    return V(x=tuple(results)) if isinstance(value.x, tuple) else results[0]


def cumulative(call: Call) -> V:
    """The value of `tl.cumsum(x)` and the like."""
    value = call.m.products.accumulate(UNKNOWN_V, first(call), first(call).dtype, call.loc, True)
    made = value.with_(const=NOTHING)
    return call.m.ranges.over_all("cumulative", first(call), made) if call.m.ranges.rising else made


_PART_OF = {"standard.sort_impl": "sort"}  # what tl.sort and tl.topk are made of counts as the sort


def whole_job(symbol: str, flag: str) -> Callable[[Call], V]:
    """The handler of a function that does a whole job, such as `topk`: records its use and flags the result with
    `flag`."""

    def run(call: Call) -> V:
        call.m.facts.use(f"triton.language.{_PART_OF.get(symbol, symbol)}", call.loc)
        value = first(call)
        count = call.get(1, "k") if symbol in ("topk", "standard.sort_impl") else None
        if count is not None and count.const is not None:
            size = count.const if isinstance(count.const, int) else None
            value = value.with_(shape=(*value.shape[:-1], size) if value.shape else None)
        return value.with_(origins=flagged(value.origins, flag) if flag else value.origins, x=None, const=NOTHING)

    return run


def cdiv(call: Call) -> V:
    """The value of `tl.cdiv(a, b)`."""
    a, b = (call.args + [UNKNOWN_V, UNKNOWN_V])[:2]
    if isinstance(a.const, int) and isinstance(b.const, int) and b.const:
        return constant(-(-a.const // b.const), a.deps | b.deps)
    made = V("i32", "i32", union(a.origins, b.origins), shape=())
    return call.m.ranges.rounded_up(a, b, made) if call.m.ranges.given else made


def next_power(call: Call) -> V:
    """The value of `triton.next_power_of_2(n)`."""
    value = first(call)
    if isinstance(value.const, int) and 0 < value.const < 1 << 40:
        return constant(1 << (value.const - 1).bit_length(), value.deps)
    return V("i32", "i32")
