"""Conversions, products, reductions and functions of numbers in Triton."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kbh_lint.base import dtypes, ir, values
from kbh_lint.dsl.triton.call import Call, first
from kbh_lint.kernels.core.arith import broadcast
from kbh_lint.kernels.core.core import operand_type
from kbh_lint.kernels.core.joins import join, mix
from kbh_lint.kernels.core.origins import FLOOR, choosing, data_origins, flagged, testing, union, union_casts
from kbh_lint.kernels.core.value import LITERAL, NOTHING, UNKNOWN_V, CType, Mul, Unbound, V, constant

if TYPE_CHECKING:
    from kbh_lint.dsl.triton.kernel import TritonMachine

# --- numbers ---


def cast(call: Call) -> V:
    return to(first(call), Call(call.m, call.args[1:], call.kwargs, call.node))


def to(base: V, call: Call) -> V:
    target = call.dtype(0, "dtype")
    if target == "?":
        wanted = call.get(0, "dtype")
        if wanted is not None and wanted.cells:  # a pointer type made from loaded integers
            return base.with_(dtype=wanted.dtype)
        if wanted is None or wanted.known:
            return base
        call.m.unread("a conversion to an unknown type", call.loc)
        return base.with_(dtype="?", const=NOTHING)
    bits = call.get(2, "bitcast")
    if bits is not None and bits.const is True:
        return call.m.bitcast(base, target, call.loc)
    pointer = call.get(0, "dtype")
    if pointer is not None and pointer.ct is not None:
        if base.cells:  # a pointer seen as one to another type
            return base.with_(dtype=target, const=NOTHING)
        return V(target, target, origins=base.origins, x=Unbound(pointer_name(base)), shape=base.shape)
    return call.m.convert(base, target, call.loc)


def pointer_name(value: V) -> str:
    names = sorted(o.param for o in data_origins(value.origins))
    return (names[0] if names else "pointer") + "[]"


def pointer_type(call: Call) -> V:
    dtype = call.dtype(0, "element_ty")
    return V(const=values.DType(dtype), ct=CType(dtype, pointers=1)) if dtype != "?" else UNKNOWN_V


def dot(call: Call) -> V:
    m = call.m
    a, b = call.get(0, "input") or UNKNOWN_V, call.get(1, "other") or UNKNOWN_V
    acc = call.get(2, "acc")
    wanted = call.get(6, "out_dtype")
    accumulator = wanted.const.name if wanted is not None and isinstance(wanted.const, values.DType) else "f32"
    if operand_type(a) in dtypes.INTS and operand_type(b) in dtypes.INTS:
        accumulator = "i32"
    height = rows(call, a)
    shape = (*a.shape[:-1], b.shape[-1]) if a.shape and b.shape and len(a.shape) > 1 else None
    mode = how_precise(call) if operand_type(a) == operand_type(b) == "f32" else ""
    made = m.product("dot", widest(a), widest(b), accumulator, call.loc, rows=height, mode=mode)
    if acc is not None and acc.const is not None:
        made = m.accumulate(acc, made, accumulator, call.loc, m.frame.loops > 0)
        made = join(made, acc.with_(const=NOTHING, x=None))
    return made.with_(shape=shape)


def how_precise(call: Call) -> str:
    """How a dot multiplies fp32 operands: `tf32` unless it says otherwise, `?` when that is not known."""
    wanted, allowed = call.get(3, "input_precision"), call.get(4, "allow_tf32")
    for value in (wanted, allowed):
        if value is not None and value.known:
            call.m.decide(value)
    if wanted is not None and wanted.const is not None:
        return wanted.const if isinstance(wanted.const, str) else "?"
    if allowed is not None and allowed.const is not None:
        return "?" if not allowed.known else "tf32" if allowed.const else "ieee"
    return "tf32"


def widest(value: V) -> V:
    return value.with_(x=None) if value.x is not None else value


def rows(call: Call, a: V) -> int | None:
    rows = a.shape[-2] if a.shape is not None and len(a.shape) > 1 else None
    if not isinstance(rows, int):
        return None
    call.m.decided |= call.m.sizes.get(rows, frozenset())
    return rows


def dot_scaled(call: Call) -> V:
    m = call.m
    get = call.get
    a, b = get(0, "lhs") or UNKNOWN_V, get(3, "rhs") or UNKNOWN_V
    types = []
    for position, name in ((2, "lhs_format"), (5, "rhs_format")):
        value = get(position, name)
        text = value.const if value is not None and isinstance(value.const, str) else "?"
        types.append({"fp16": "f16"}.get(text, text))
    made = m.product("dot", a, b, "f32", call.loc, a_dtype=types[0], b_dtype=types[1], rows=rows(call, a))
    scales = [v for v in (get(1, "lhs_scale"), get(4, "rhs_scale")) if v is not None]
    origins = made.origins
    for scale in scales:
        origins = union(origins, scale.origins)
    acc = get(6, "acc")
    made = made.with_(origins=origins)
    return made if acc is None else join(made, acc.with_(const=NOTHING, x=None))


def sum_(call: Call) -> V:
    value = first(call)
    dtype = call.dtype(3, "dtype", value.dtype)
    if dtype != value.dtype:
        value = call.m.convert(value, dtype, call.loc)
    value = call.m.accumulate(UNKNOWN_V, value, dtype, call.loc, True)
    return reduced(call, value)


def reduced(call: Call, value: V, keep_at: int = 2) -> V:
    """A value over one axis or all; `keep_at` is the position of `keep_dims`, which functions differ in."""
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
    value = first(call)
    value = value.with_(origins=flagged(value.origins, "max"), x=None)
    made = reduced(call, value, 4)
    pair = call.get(2, "return_indices")
    if pair is not None and pair.const is True:
        return V(x=(made, chosen(made)))
    return made


def chosen(value: V) -> V:
    return V("i32", "i32", value.origins, value.casts, shape=value.shape)


def argextreme(call: Call) -> V:
    return reduced(call, chosen(first(call)), 3)


def scan(call: Call) -> V:
    """tl.reduce and tl.associative_scan: runs the combine function on the values."""
    value, combine = first(call), call.get(2, "combine_fn")
    items = list(value.x) if isinstance(value.x, tuple) else [value]
    m = call.m
    if combine is None:
        return reduced(call, value, 3)
    func = combine.const.func if isinstance(combine.const, values.JitFunction) else combine.const
    results = items
    for item in items:
        m.add_sum(item.dtype, item.origins, call.loc)
    if isinstance(func, values.Func):
        for _ in range(2):
            inner = Call(m, [v.with_(x=None) for v in results + items], {}, call.node)
            made = m.inline(func, m.bind_call(func, inner), call.loc)
            got = list(made.x) if isinstance(made.x, tuple) else [made]
            if len(got) == len(items):
                results = [join(old, new) for old, new in zip(items, got, strict=True)]
    else:
        m.unread("a reduction with an unknown combine function", call.loc)
    if call.name != "associative_scan":
        results = [reduced(call, v, 3) for v in results]
    results = [v.with_(origins=flagged(v.origins, "reduce"), x=None) for v in results]
    return V(x=tuple(results)) if isinstance(value.x, tuple) else results[0]


def cumulative(call: Call) -> V:
    value = call.m.accumulate(UNKNOWN_V, first(call), first(call).dtype, call.loc, True)
    return value.with_(const=NOTHING)


def whole_job(symbol: str, flag: str) -> Callable[[Call], V]:
    def run(call: Call) -> V:
        call.m.use(f"triton.language.{symbol}", call.loc)
        value = first(call)
        if symbol == "topk":
            count = call.get(1, "k")
            size = count.const if count is not None and isinstance(count.const, int) else None
            value = value.with_(shape=(*value.shape[:-1], size) if value.shape else None)
        return value.with_(origins=flagged(value.origins, flag) if flag else value.origins, x=None, const=NOTHING)

    return run


def where(call: Call) -> V:
    condition, yes, no = (call.get(i, n) or UNKNOWN_V for i, n in enumerate(("condition", "x", "y")))
    m = call.m
    target = m.promote("+", yes, no)
    if target == LITERAL:
        target = "f32" if isinstance(yes.const, float) or isinstance(no.const, float) else "i32"
        yes, no = (v.with_(dtype=target, content=target) for v in (yes, no))
    if target in dtypes.FLOATS and not yes.cells and not no.cells:
        yes, no = m.convert(yes, target, call.loc), m.convert(no, target, call.loc)
    mark = yes.x if isinstance(yes.x, Mul) else no.x if isinstance(no.x, Mul) else None
    made = join(yes.with_(shape=None, x=None), no.with_(shape=None, x=None))
    shape = broadcast(broadcast(condition.shape, yes.shape), no.shape)
    chose = choosing(testing(condition.origins)) if yes.known and no.known else frozenset()
    origins = union(made.origins, chose or flagged(condition.origins, "index"))
    if mark is not None and data_origins(yes.origins) and data_origins(no.origins):
        mark = None
    made = made.with_(shape=shape, origins=origins, const=NOTHING, x=mark if mark is not None else made.x)
    return only(made, _kept(call, yes, no))


def only(made: V, side: V | None) -> V:
    """A value that always equals one of those that it was made of."""
    return made if side is None else made.with_(origins=side.origins, casts=side.casts)


def _kept(call: Call, yes: V, no: V) -> V | None:
    """The side that a choice always equals."""
    nodes = [*call.node.args, *(value for _, value in call.node.keywords)] if isinstance(call.node, ir.Call) else []
    if len(nodes) != 3 or list(call.kwargs) not in ([], ["y"], ["x", "y"], ["condition", "x", "y"]):
        return None
    kept = call.m.identities().kept(*nodes)
    return None if kept is None else yes if kept is nodes[1] else no


def absorbed(call: Call, operands: Sequence[V]) -> V | None:
    """The operand that a bound always equals, which another bound takes back."""
    kept = call.m.identities().bound(call.node)
    return next((v for v, node in zip(operands, call.node.args, strict=True) if node is kept), None) if kept else None


def at_least(m: TritonMachine, value: V, least: V) -> V:
    """An integer that is no less than a known number: its origins say which."""
    if not isinstance(least.const, int) or not value.origins:
        return value
    m.decide(least)
    return value.with_(origins=flagged(value.origins, f"{FLOOR}{least.const}"))


def bound(call: Call) -> V:
    """minimum, maximum."""
    m, a = call.m, first(call)
    b = call.get(1, "y") or UNKNOWN_V
    if isinstance(a.const, (int, float)) and isinstance(b.const, (int, float)):
        pick = max if "max" in call.name else min
        return constant(pick(a.const, b.const), a.deps | b.deps)
    target = m.promote("+", a, b)
    if target in dtypes.FLOATS:
        a, b = m.convert(a, target, call.loc), m.convert(b, target, call.loc)
    elif "max" in call.name:
        a, b = at_least(m, a, b), at_least(m, b, a)
    origins = flagged(union(a.origins, b.origins), "max") if target in dtypes.FLOATS else union(a.origins, b.origins)
    made = V(target, target, origins, union_casts(a.casts, b.casts), deps=a.deps | b.deps,
             shape=broadcast(a.shape, b.shape))  # fmt: skip
    return made if target in dtypes.FLOATS else only(made, absorbed(call, (a, b)))


def cdiv(call: Call) -> V:
    a, b = (call.args + [UNKNOWN_V, UNKNOWN_V])[:2]
    if isinstance(a.const, int) and isinstance(b.const, int) and b.const:
        return constant(-(-a.const // b.const), a.deps | b.deps)
    return V("i32", "i32", union(a.origins, b.origins), shape=())


def next_power(call: Call) -> V:
    value = first(call)
    if isinstance(value.const, int) and 0 < value.const < 1 << 40:
        return constant(1 << (value.const - 1).bit_length(), value.deps)
    return V("i32", "i32")


def fma(call: Call) -> V:
    m = call.m
    a, b, c = (call.args + [UNKNOWN_V] * 3)[:3]
    product = m.binary("*", a, b, call.loc)
    fresh = all(o.flags & {"product", "reduce", "index"} for o in c.origins) and not isinstance(c.x, Mul)
    if fresh and isinstance(product.x, Mul):
        product = m.accumulate(c, product, product.dtype, call.loc, m.frame.loops > 0)
    return m.binary("+", product, c, call.loc)


_ELEMENTWISE = {
    "exp": "exp", "exp2": "exp", "log": "", "log2": "", "sqrt": "", "sqrt_rn": "", "rsqrt": "", "sin": "", "cos": "",
    "tanh": "exp", "erf": "", "sigmoid": "exp", "abs": "", "fabs": "", "floor": "", "ceil": "", "fast_expf": "exp",
    "expf": "exp", "exp2f": "exp", "div_rn": "", "fdiv": "", "umulhi": "", "log1p": "", "expm1": "exp", "pow": "",
    "fast_dividef": "", "round": "", "rint": "", "trunc": "", "copysign": "", "clamp": "max", "fast_logf": "",
    "isnan": "", "isinf": "", "finitef": "", "popc": "", "ffs": "", "clz": "", "brev": "", "mulhi": "",
    "softplus": "exp", "mul_rn": "", "add_rn": "", "sub_rn": "", "fma_rn": "", "llrint": "", "nearbyint": "", "tan": "",
    "atan2": "",
    "fast_tanhf": "exp", "log10": "", "exp10": "exp", "hypot": "", "fmod": "", "rcp_rn": "", "byte_perm": "",
    "sqrtf": "", "prefetch": "", "xor_sum": "reduce", "rand": "", "randint": "", "philox": "", "flip": "", "gather": "",
    "dividef": "", "fdividef": "", "rsqrt_rn": "", "powf": "", "ldexp": "exp", "ldexpf": "exp", "scalbn": "exp",
    "scalbnf": "exp",
}  # fmt: skip
_MOVES = {"flip", "gather", "prefetch", "byte_perm"}
_SAME_SHAPE_INT = {"popc", "ffs", "clz", "brev"}


def elementwise_name(call: Call, name: str) -> V:
    """A function of numbers by its name; UNKNOWN_V when it is none."""
    base = name.lstrip("_")
    flag = _ELEMENTWISE.get(base)
    if flag is None:
        return UNKNOWN_V
    m = call.m
    if base not in _MOVES:
        m.arithmetic = m.arithmetic or any(v.dtype in dtypes.FLOATS and data_origins(v.origins) for v in call.args)
    if base in ("pow", "powf") and call.args and isinstance(call.args[0].const, (int, float)):
        flag = "exp"  # a power of a constant
    if base in ("div_rn", "fdiv", "fast_dividef", "dividef", "fdividef") and len(call.args) > 1:
        return m.binary("/", call.args[0], call.args[1], call.loc)
    if base in ("mul_rn", "add_rn", "sub_rn") and len(call.args) > 1:
        return m.binary({"m": "*", "a": "+", "s": "-"}[base[0]], call.args[0], call.args[1], call.loc)
    values_ = [v for v in call.args if data_origins(v.origins)] or call.args[:1]
    made = mix(values_)
    if base == "gather":
        index = call.args[1].origins if len(call.args) > 1 else frozenset()
        return call.args[0].with_(
            origins=union(call.args[0].origins, flagged(index, "index")), x=None,
            shape=call.args[1].shape if len(call.args) > 1 else None,
        )  # fmt: skip
    shape = call.args[0].shape if call.args else None
    origins = flagged(made.origins, flag) if flag else made.origins
    dtype = "i32" if base in _SAME_SHAPE_INT and made.dtype in dtypes.INTS else made.dtype
    if made.dtype in dtypes.INTS or made.dtype == LITERAL:
        content = made.content
    else:
        content = dtype
    extra = made.x if made.dtype in dtypes.INTS else None
    return V(dtype, content, origins, made.casts, shape=shape, x=extra)
