"""What the built-ins of `triton.language` do to abstract values."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kbh_lint import dtypes, ir, values
from kbh_lint.kernels.arith import broadcast
from kbh_lint.kernels.core import operand_type
from kbh_lint.kernels.ptx import triton_asm
from kbh_lint.kernels.value import (
    LITERAL,
    NOTHING,
    UNKNOWN_V,
    CType,
    Mul,
    Shape,
    Unbound,
    V,
    constant,
    data_origins,
    flagged,
    join,
    leaves,
    mix,
    tuple_of,
    union,
    union_casts,
)

if TYPE_CHECKING:
    from kbh_lint.kernels.triton import TritonMachine


class Call:
    """Arguments of one call, and the machine to work on."""

    __slots__ = ("m", "args", "kwargs", "node", "loc")

    def __init__(self, m: TritonMachine, args: list[V], kwargs: dict[str, V], node: Any) -> None:
        self.m = m
        self.args = args
        self.kwargs = kwargs
        self.node = node
        self.loc: ir.Loc = node.loc

    def get(self, position: int, name: str) -> V | None:
        """An argument by position or keyword."""
        if 0 <= position < len(self.args):
            return self.args[position]
        return self.kwargs.get(name)

    def dtype(self, position: int, name: str, default: str = "?") -> str:
        """An element type argument; it counts as having decided something."""
        value = self.get(position, name)
        if value is None or not isinstance(value.const, values.DType):
            if value is not None and isinstance(value.const, str):
                self.m.decide(value)
                return dtypes.from_triton(value.const) or default
            return default
        self.m.decide(value)
        return value.const.name

    def shape(self, value: V | None) -> Shape | None:
        """A shape argument."""
        if value is None:
            return None
        self.m.sized(value)
        if isinstance(value.x, tuple):
            return tuple(v.const if isinstance(v.const, int) else None for v in value.x)
        return (value.const,) if isinstance(value.const, int) else None


def _first(call: Call) -> V:
    if call.args:
        return call.args[0]
    return next(iter(call.kwargs.values()), UNKNOWN_V)


# --- memory ---


def _load(call: Call) -> V:
    pointer = call.get(0, "pointer") or UNKNOWN_V
    made = call.m.load(pointer, "?", call.loc)
    for position, name in ((1, "mask"), (2, "other")):
        extra = call.get(position, name)
        if extra is not None and extra.origins:
            made = made.with_(origins=union(made.origins, flagged(extra.origins, "index")))
    return made.with_(const=NOTHING)


def _store(call: Call) -> V:
    pointer, value = call.get(0, "pointer") or UNKNOWN_V, call.get(1, "value") or UNKNOWN_V
    call.m.store(pointer, value, call.loc)
    return constant(None)


def _atomic(call: Call) -> V:
    pointer, value = call.args[0] if call.args else UNKNOWN_V, call.get(1, "val") or UNKNOWN_V
    name = call.node.func.name if isinstance(call.node.func, ir.Attr) else "atomic_add"
    m = call.m
    if name == "atomic_cas":
        value = call.get(2, "val") or UNKNOWN_V
    if name == "atomic_add":
        value = m.accumulate(UNKNOWN_V, value, pointer.dtype, call.loc, True)
    m.store(pointer, value, call.loc)
    made = m.load(pointer, "?", call.loc)
    return made.with_(origins=union(made.origins, value.origins))


def _block_pointer(call: Call) -> V:
    base = call.get(0, "base") or UNKNOWN_V
    offsets = call.get(3, "offsets")
    origins = base.origins
    for value in leaves(offsets) if offsets is not None else ():
        origins = union(origins, value.origins)
    return base.with_(shape=call.shape(call.get(4, "block_shape")), origins=origins)


def _descriptor(call: Call) -> V:
    base = call.get(0, "base") or UNKNOWN_V
    return base.with_(shape=call.shape(call.get(3, "block_shape")))


def _advance(call: Call) -> V:
    base = call.get(0, "base") or UNKNOWN_V
    origins = base.origins
    for value in call.args[1:] + list(call.kwargs.values()):
        for leaf in leaves(value):
            origins = union(origins, leaf.origins)
    return base if origins is base.origins else base.with_(origins=origins)


def _descriptor_load(base: V, call: Call) -> V:
    shape = base.shape or None
    for value in call.args:
        for leaf in leaves(value):
            if leaf.origins and base.cells:
                base = base.with_(origins=union(base.origins, leaf.origins))
    return call.m.load(base, "?", call.loc).with_(shape=shape, const=NOTHING)


def _descriptor_store(base: V, call: Call) -> V:
    value = call.kwargs.get("value") or (call.args[-1] if call.args else UNKNOWN_V)
    call.m.store(base, value, call.loc)
    return constant(None)


def _ragged_load(call: Call) -> V:
    """triton.tools.ragged_tma: load_ragged(descriptor, start, size, coordinates)."""
    return _descriptor_load(_first(call), Call(call.m, call.args[1:], call.kwargs, call.node))


def _ragged_store(call: Call) -> V:
    return _descriptor_store(_first(call), Call(call.m, call.args[1:], call.kwargs, call.node))


def _experimental_load(call: Call) -> V:
    base = call.args[0] if call.args else UNKNOWN_V
    dtype = call.dtype(3, "dtype")
    return call.m.load(base, dtype, call.loc).with_(shape=call.shape(call.get(2, "shape")), const=NOTHING)


def _experimental_store(call: Call) -> V:
    if len(call.args) > 1:
        call.m.store(call.args[0], call.args[1], call.loc)
    return constant(None)


# --- making tiles ---


def _index_tile(call: Call) -> V:
    low, high = call.get(0, "start"), call.get(1, "end")
    size: int | None = None
    if high is not None:
        call.m.sized(high)
    if low is not None and high is not None and isinstance(low.const, int) and isinstance(high.const, int):
        size = high.const - low.const
    deps = (low.deps if low else frozenset()) | (high.deps if high else frozenset())
    return V("i32", "i32", shape=(size,), deps=deps)


def _scalar_index(call: Call) -> V:
    return V("i32", "i32", shape=())


def _filled(call: Call) -> V:
    value, shape = call.get(1, "value"), call.shape(call.get(0, "shape"))
    dtype = call.dtype(2, "dtype", value.dtype if value is not None else "?")
    made = V(dtype, dtype, shape=shape)
    if value is not None and value.origins:
        converted = call.m.convert(value, dtype, call.loc)
        made = converted.with_(shape=shape, const=NOTHING)
    return made


def _zeros(call: Call) -> V:
    dtype = call.dtype(1, "dtype", "f32")
    return V(dtype, dtype, shape=call.shape(call.get(0, "shape")))


def _like(call: Call) -> V:
    value = _first(call)
    return V(value.dtype, value.dtype, shape=value.shape)


# --- shape changes ---


def _reshape(call: Call) -> V:
    value = _first(call)
    sizes = call.args[1:] or [v for k, v in call.kwargs.items() if k == "shape"]
    if len(sizes) == 1:
        shape = call.shape(sizes[0])
    else:
        shape = tuple(v.const if isinstance(v.const, int) else None for v in sizes)
    return value.with_(shape=shape)


def _trans(call: Call) -> V:
    value = _first(call)
    order = call.args[1:]
    if value.shape is None:
        return value
    if len(order) == 1 and isinstance(order[0].x, tuple):
        order = list(order[0].x)
    if order:
        places = [v.const for v in order]
        if len(places) == len(value.shape) and all(isinstance(p, int) and 0 <= p < len(places) for p in places):
            return value.with_(shape=tuple(value.shape[p] for p in places))
        return value.with_(shape=None)
    return value.with_(shape=(*value.shape[:-2], *value.shape[:-3:-1]))


def _expand(call: Call) -> V:
    value, axis = _first(call), call.get(1, "axis")
    if value.shape is None or axis is None or not isinstance(axis.const, int):
        return value.with_(shape=None)
    place = axis.const if axis.const >= 0 else axis.const + len(value.shape) + 1
    return value.with_(shape=(*value.shape[:place], 1, *value.shape[place:]))


def _broadcast(call: Call) -> V:
    if len(call.args) == 2 and not isinstance(call.args[1].x, tuple):
        other = call.args[1]
        return call.args[0].with_(shape=broadcast(call.args[0].shape, other.shape))
    return _reshape(call)


def _merged(call: Call) -> V:
    made = [v for v in call.args if not isinstance(v.const, bool)]
    result = mix(made)
    twiddled = any(v.x is not None and not isinstance(v.x, (tuple, Mul)) for v in made)
    return result if twiddled else result.with_(x=None)


def _split(call: Call) -> V:
    value = _first(call)
    half = value.with_(shape=value.shape[:-1] if value.shape else None)
    return V(x=(half, half))


def _same(call: Call) -> V:
    return _first(call)


# --- numbers ---


def _cast(call: Call) -> V:
    return _to(_first(call), Call(call.m, call.args[1:], call.kwargs, call.node))


def _to(base: V, call: Call) -> V:
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
        return V(target, target, origins=base.origins, x=Unbound(_pointer_name(base)), shape=base.shape)
    return call.m.convert(base, target, call.loc)


def _pointer_name(value: V) -> str:
    names = sorted(o.param for o in data_origins(value.origins))
    return (names[0] if names else "pointer") + "[]"


def _pointer_type(call: Call) -> V:
    dtype = call.dtype(0, "element_ty")
    return V(const=values.DType(dtype), ct=CType(dtype, pointers=1)) if dtype != "?" else UNKNOWN_V


def _dot(call: Call) -> V:
    m = call.m
    a, b = call.get(0, "input") or UNKNOWN_V, call.get(1, "other") or UNKNOWN_V
    acc = call.get(2, "acc")
    wanted = call.kwargs.get("out_dtype")
    accumulator = wanted.const.name if wanted is not None and isinstance(wanted.const, values.DType) else "f32"
    if operand_type(a) in dtypes.INTS and operand_type(b) in dtypes.INTS:
        accumulator = "i32"
    rows = _rows(call, a)
    shape = (*a.shape[:-1], b.shape[-1]) if a.shape and b.shape and len(a.shape) > 1 else None
    made = m.product("dot", _widest(a), _widest(b), accumulator, call.loc, rows=rows)
    if acc is not None and acc.const is not None:
        made = m.accumulate(acc, made, accumulator, call.loc, m.frame.loops > 0)
        made = join(made, acc.with_(const=NOTHING, x=None))
    return made.with_(shape=shape)


def _widest(value: V) -> V:
    return value.with_(x=None) if value.x is not None else value


def _rows(call: Call, a: V) -> int | None:
    rows = a.shape[-2] if a.shape is not None and len(a.shape) > 1 else None
    if not isinstance(rows, int):
        return None
    call.m.decided |= call.m.sizes.get(rows, frozenset())
    return rows


def _dot_scaled(call: Call) -> V:
    m = call.m
    get = call.get
    a, b = get(0, "lhs") or UNKNOWN_V, get(3, "rhs") or UNKNOWN_V
    types = []
    for position, name in ((2, "lhs_format"), (5, "rhs_format")):
        value = get(position, name)
        text = value.const if value is not None and isinstance(value.const, str) else "?"
        types.append({"fp16": "f16"}.get(text, text))
    made = m.product("dot", a, b, "f32", call.loc, a_dtype=types[0], b_dtype=types[1], rows=_rows(call, a))
    scales = [v for v in (get(1, "lhs_scale"), get(4, "rhs_scale")) if v is not None]
    origins = made.origins
    for scale in scales:
        origins = union(origins, scale.origins)
    acc = get(6, "acc")
    made = made.with_(origins=origins)
    return made if acc is None else join(made, acc.with_(const=NOTHING, x=None))


def _sum(call: Call) -> V:
    value = _first(call)
    dtype = call.dtype(3, "dtype", value.dtype)
    if dtype != value.dtype:
        value = call.m.convert(value, dtype, call.loc)
    value = call.m.accumulate(UNKNOWN_V, value, dtype, call.loc, True)
    return _reduced(call, value)


def _reduced(call: Call, value: V) -> V:
    axis, shape = call.get(1, "axis"), value.shape
    if axis is None or axis.const is None:
        shape = ()
    elif shape is not None and isinstance(axis.const, int) and -len(shape) <= axis.const < len(shape):
        place = axis.const % len(shape)
        keep = call.kwargs.get("keep_dims")
        middle: tuple[int | None, ...] = (1,) if keep is not None and keep.const is True else ()
        shape = (*shape[:place], *middle, *shape[place + 1 :])
    return value.with_(shape=shape, const=NOTHING)


def _extreme(call: Call) -> V:
    value = _first(call)
    value = value.with_(origins=flagged(value.origins, "max"), x=None)
    made = _reduced(call, value)
    pair = call.kwargs.get("return_indices")
    if pair is not None and pair.const is True:
        return V(x=(made, _chosen(made)))
    return made


def _chosen(value: V) -> V:
    return V("i32", "i32", value.origins, value.casts, shape=value.shape)


def _argextreme(call: Call) -> V:
    return _reduced(call, _chosen(_first(call)))


def _scan(call: Call) -> V:
    """tl.reduce and tl.associative_scan: runs the combine function on the values."""
    value, combine = _first(call), call.get(2, "combine_fn")
    items = list(value.x) if isinstance(value.x, tuple) else [value]
    m = call.m
    if combine is None:
        return _reduced(call, value)
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
    reduce = not (isinstance(call.node.func, ir.Attr) and call.node.func.name == "associative_scan")
    if reduce:
        results = [_reduced(call, v) for v in results]
    results = [v.with_(origins=flagged(v.origins, "reduce"), x=None) for v in results]
    return V(x=tuple(results)) if isinstance(value.x, tuple) else results[0]


def _cumulative(call: Call) -> V:
    value = call.m.accumulate(UNKNOWN_V, _first(call), _first(call).dtype, call.loc, True)
    return value.with_(const=NOTHING)


def _whole_job(symbol: str, flag: str) -> Callable[[Call], V]:
    def run(call: Call) -> V:
        call.m.use(f"triton.language.{symbol}", call.loc)
        value = _first(call)
        if symbol == "topk":
            count = call.get(1, "k")
            size = count.const if count is not None and isinstance(count.const, int) else None
            value = value.with_(shape=(*value.shape[:-1], size) if value.shape else None)
        return value.with_(origins=flagged(value.origins, flag) if flag else value.origins, x=None, const=NOTHING)

    return run


def _where(call: Call) -> V:
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
    origins = union(made.origins, flagged(condition.origins, "index"))
    if mark is not None and data_origins(yes.origins) and data_origins(no.origins):
        mark = None
    return made.with_(shape=shape, origins=origins, const=NOTHING, x=mark if mark is not None else made.x)


def _bound(call: Call) -> V:
    """minimum, maximum."""
    m, a = call.m, _first(call)
    b = call.get(1, "y") or UNKNOWN_V
    if isinstance(a.const, (int, float)) and isinstance(b.const, (int, float)):
        name = call.node.func.name if isinstance(call.node.func, ir.Attr) else "min"
        pick = max if "max" in name else min
        return constant(pick(a.const, b.const), a.deps | b.deps)
    target = m.promote("+", a, b)
    if target in dtypes.FLOATS:
        a, b = m.convert(a, target, call.loc), m.convert(b, target, call.loc)
    origins = flagged(union(a.origins, b.origins), "max") if target in dtypes.FLOATS else union(a.origins, b.origins)
    return V(target, target, origins, union_casts(a.casts, b.casts), deps=a.deps | b.deps,
             shape=broadcast(a.shape, b.shape))  # fmt: skip


def _cdiv(call: Call) -> V:
    a, b = (call.args + [UNKNOWN_V, UNKNOWN_V])[:2]
    if isinstance(a.const, int) and isinstance(b.const, int) and b.const:
        return constant(-(-a.const // b.const), a.deps | b.deps)
    return V("i32", "i32", union(a.origins, b.origins), shape=())


def _next_power(call: Call) -> V:
    value = _first(call)
    if isinstance(value.const, int) and 0 < value.const < 1 << 40:
        return constant(1 << (value.const - 1).bit_length(), value.deps)
    return V("i32", "i32")


def _fma(call: Call) -> V:
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
    "dividef": "", "fdividef": "", "rsqrt_rn": "",
}  # fmt: skip
_SAME_SHAPE_INT = {"popc", "ffs", "clz", "brev"}


def elementwise_name(call: Call, name: str) -> V:
    """A function of numbers by its name; UNKNOWN_V when it is none."""
    base = name.lstrip("_")
    flag = _ELEMENTWISE.get(base)
    if flag is None:
        return UNKNOWN_V
    m = call.m
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


def _inline_asm(call: Call) -> V:
    return triton_asm(call)


def _nothing(call: Call) -> V:
    return constant(None)


def _constexpr(call: Call) -> V:
    return _first(call)


def _range(call: Call) -> V:
    numbers = [v.const for v in call.args]
    for name in ("arg1", "arg2", "step"):
        if name in call.kwargs and len(numbers) < 3:
            numbers.append(call.kwargs[name].const)
    deps = frozenset().union(*(v.deps for v in call.args)) if call.args else frozenset()
    if numbers and all(isinstance(n, int) for n in numbers) and (len(numbers) < 3 or numbers[2] != 0):
        made = range(*numbers[:3])
        if abs(made.start) < 1 << 60 and abs(made.stop) < 1 << 60:
            return V("i32", const=made, deps=deps)
    origins: Any = frozenset()
    for value in call.args:
        origins = union(origins, flagged(value.origins, "index"))
    return V("i32", "i32", origins, shape=())


BUILTINS: dict[str, Callable[[Call], V]] = {
    "load": _load, "store": _store, "make_block_ptr": _block_pointer, "advance": _advance,
    "make_tensor_descriptor": _descriptor, "_experimental_make_tensor_descriptor": _descriptor,
    "load_tensor_descriptor": lambda c: _descriptor_load(c.args[0], Call(c.m, c.args[1:], c.kwargs, c.node)),
    "store_tensor_descriptor": lambda c: _descriptor_store(c.args[0], Call(c.m, c.args[1:], c.kwargs, c.node)),
    "_experimental_descriptor_load": _experimental_load, "_experimental_descriptor_store": _experimental_store,
    "load_ragged": _ragged_load, "store_ragged": _ragged_store, "_experimental_reinterpret_tensor_descriptor": _same,
    "atomic_add": _atomic, "atomic_max": _atomic, "atomic_min": _atomic, "atomic_xchg": _atomic, "atomic_cas": _atomic,
    "atomic_and": _atomic, "atomic_or": _atomic, "atomic_xor": _atomic,
    "arange": _index_tile, "program_id": _scalar_index, "num_programs": _scalar_index, "full": _filled, "zeros": _zeros,
    "zeros_like": _like, "full_like": _like, "reshape": _reshape, "view": _reshape, "trans": _trans, "permute": _trans,
    "expand_dims": _expand, "broadcast_to": _reshape, "broadcast": _broadcast, "join": _merged, "interleave": _merged,
    "cat": _merged, "split": _split, "ravel": lambda c: _first(c).with_(shape=None), "cast": _cast, "dot": _dot,
    "dot_scaled": _dot_scaled, "sum": _sum, "max": _extreme, "min": _extreme, "argmax": _argextreme,
    "argmin": _argextreme, "reduce": _scan, "associative_scan": _scan, "cumsum": _cumulative, "cumprod": _cumulative,
    "topk": _whole_job("topk", ""), "sort": _whole_job("sort", ""), "softmax": _whole_job("softmax", "exp"),
    "where": _where, "minimum": _bound, "maximum": _bound, "cdiv": _cdiv, "next_power_of_2": _next_power, "fma": _fma,
    "inline_asm_elementwise": _inline_asm, "multiple_of": _same, "max_contiguous": _same, "max_constancy": _same,
    "assume": _nothing, "static_assert": _nothing, "static_print": _nothing, "device_print": _nothing,
    "device_assert": _nothing, "debug_barrier": _nothing, "constexpr": _constexpr, "range": _range,
    "static_range": _range, "pointer_type": _pointer_type, "to_tensor": _same, "histogram": _argextreme,
    "tuple": _constexpr, "globaltimer": _scalar_index, "smid": _scalar_index, "num_threads": _scalar_index,
    "num_warps": _scalar_index, "gdc_wait": _nothing, "gdc_launch_dependents": _nothing, "inline_asm": _inline_asm,
    "squeeze": lambda c: _first(c).with_(shape=None), "unsqueeze": _expand, "swizzle2d": lambda c: V(
        x=(V("i32", "i32", shape=()), V("i32", "i32", shape=()))
    ),
    "mul": lambda c: c.m.binary("*", c.args[0], c.args[1], c.loc) if len(c.args) > 1 else UNKNOWN_V,
    "add": lambda c: c.m.binary("+", c.args[0], c.args[1], c.loc) if len(c.args) > 1 else UNKNOWN_V,
    "sub": lambda c: c.m.binary("-", c.args[0], c.args[1], c.loc) if len(c.args) > 1 else UNKNOWN_V,
}  # fmt: skip

METHODS: dict[str, Callable[[V, Call], V]] = {
    "to": _to, "cast": _to, "load": _descriptor_load, "store": _descriptor_store, "gather": _descriptor_load,
    "scatter": _descriptor_store, "atomic_add": _descriptor_store, "is_ptr": lambda v, c: constant(bool(v.cells)),
}  # fmt: skip


def _unknown_bool(call: Call) -> V:
    return V("bool", "bool")


def _length(call: Call) -> V:
    value = _first(call)
    if isinstance(value.x, tuple):
        return constant(len(value.x))
    return constant(len(value.const)) if isinstance(value.const, (str, range)) else V("i32", "i32")


_NUMBERS: dict[str, Callable[[Any], Any]] = {"int": int, "float": float, "bool": bool, "abs": abs}


def _number(call: Call) -> V:
    value = _first(call)
    if isinstance(value.const, (int, float)) and isinstance(call.node.func, ir.Name):
        kind = _NUMBERS.get(call.node.func.id)
        if kind is not None:
            try:
                return constant(kind(value.const), value.deps)
            except (OverflowError, ValueError):
                return UNKNOWN_V
    if isinstance(value.const, str) and isinstance(call.node.func, ir.Name) and call.node.func.id == "float":
        return V(LITERAL, LITERAL, const=float("inf") if "inf" in value.const else 0.0, shape=())
    return value.with_(const=NOTHING)


def _pick(call: Call) -> V:
    """Python's min and max, also on tensors."""
    items = list(call.args[0].x) if len(call.args) == 1 and isinstance(call.args[0].x, tuple) else call.args
    name = call.node.func.id if isinstance(call.node.func, ir.Name) else "min"
    numbers = [v.const for v in items]
    if numbers and all(isinstance(n, (int, float)) for n in numbers):
        return constant(max(numbers) if name == "max" else min(numbers), frozenset().union(*(v.deps for v in items)))
    return mix(items)


def _zip(call: Call) -> V:
    columns: list[tuple[V, ...]] = [v.x for v in call.args if isinstance(v.x, tuple)]
    if len(columns) != len(call.args):
        return mix(call.args)
    return tuple_of([V(x=tuple(row)) for row in zip(*columns, strict=False)])


def _enumerate(call: Call) -> V:
    value = _first(call)
    if isinstance(value.x, tuple):
        return tuple_of([V(x=(constant(i), item)) for i, item in enumerate(value.x)])
    return V(x=(V(x=(V("i32", "i32"), value)),))


def _sequence(call: Call) -> V:
    value = _first(call) if call.args else V(x=())
    if isinstance(value.const, range) and len(value.const) <= 64:
        return V(x=tuple(constant(i) for i in value.const))
    return value


PYTHON: dict[str, Callable[[Call], V]] = {
    "range": _range, "min": _pick, "max": _pick, "len": _length, "isinstance": _unknown_bool, "abs": _number,
    "int": _number, "float": _number, "bool": _number, "print": _nothing, "tuple": _sequence, "list": _sequence,
    "zip": _zip, "enumerate": _enumerate, "hasattr": _unknown_bool, "str": _constexpr, "getattr": _constexpr,
    "reversed": _sequence, "sum": lambda c: mix(c.args), "divmod": lambda c: V(x=(mix(c.args), mix(c.args))),
    "round": _number, "all": _unknown_bool, "any": _unknown_bool, "type": _constexpr,
}  # fmt: skip
