"""TileLang kernels: buffers are memory; an index is an element or, in tile operations, where a region starts."""

from __future__ import annotations

from collections.abc import Callable

from kbh_lint.base import dtypes, ir, values
from kbh_lint.base.architectures import MOST_SHARED
from kbh_lint.dsl.tensors import room
from kbh_lint.dsl.tensors.memory import held
from kbh_lint.dsl.tensors.run import TensorLanguage
from kbh_lint.kernels.core.origins import flagged
from kbh_lint.kernels.core.value import NOTHING, UNKNOWN_V, V, constant
from kbh_lint.kernels.languages.python import arithmetic as numbers
from kbh_lint.kernels.languages.python.call import Call, first
from kbh_lint.kernels.languages.python.functions import whole_range
from kbh_lint.ops.catalogue import OPERATIONS
from kbh_lint.ops.operation import spelled

PACKAGE = "tilelang"
REGIONS = frozenset(
    word
    for row in OPERATIONS
    if row.effect or row.kind in ("product", "lanes") or row.name == "reshape"
    for word in row.spellings.get("tilelang", ())
) | {"reduce"}


def dtype_of(value: V | None) -> str:
    """The name of the element type that a value is or names."""
    const = value.const if value is not None else None
    if isinstance(const, values.DType):
        return const.name
    return (dtypes.from_tilelang(const) if isinstance(const, str) else None) or "?"


def _allocated(kind: str, position: int = 1, *, limited: bool = True) -> Callable[[Call], V]:
    def run(call: Call) -> V:
        dtype = dtype_of(call.get(position, "dtype"))
        if dtype == "?":
            call.m.facts.unread("memory of an element type that is not known", call.loc)
        if kind == "shared" and limited:  # buffers that are not in use at once may be laid over one another
            room.noted(call, call.get(0, "shape"), dtype, MOST_SHARED, apart=False)
        return call.m.memory.tensor(kind, dtype, call.loc)

    return run


def _variable(call: Call) -> V:
    dtype = dtype_of(call.get(0, "dtype"))
    start = call.get(1, "init")
    return V(dtype, dtype, start.origins if start is not None else UNKNOWN_V.origins, shape=())


def _argument(call: Call, position: int, name: str) -> ir.Expr | None:
    """How an argument of a call is written."""
    node = call.node
    if not isinstance(node, ir.Call):
        return None
    named = (value for word, value in node.keywords if word == name)
    return node.args[position] if position < len(node.args) else next(named, None)


def _copy(call: Call) -> V:
    source, target = call.get(0, "src") or UNKNOWN_V, call.get(1, "dst") or UNKNOWN_V
    if not target.cells:
        call.m.facts.unread("a copy to memory that is not known", call.loc)
    value = held(call, source)
    call.m.memory.target = _argument(call, 1, "dst")
    call.m.memory.store(target, value, call.loc)
    call.m.memory.target = None
    policy = call.get(4, "eviction_policy")
    if policy is not None and policy.const == "evict_last":
        call.m.facts.add_hint(source, call.loc)
    return constant(None)


def _l2_window(call: Call) -> V:
    """annotate_l2_hit_ratio({buffer: ratio}): a persisting window over each buffer while the kernel runs."""
    node = call.node.args[0] if isinstance(call.node, ir.Call) and call.node.args else None
    for key in node.keys if isinstance(node, ir.DictE) else ():
        if key is not None:
            call.m.facts.add_hint(call.m.expressions.eval(key), call.loc)
    return constant(None) if isinstance(node, ir.DictE) else _not_read(call)


def _fill(call: Call) -> V:
    call.m.memory.store(first(call), call.get(1, "value") or constant(0), call.loc)
    return constant(None)


def _gemm(call: Call) -> V:
    """gemm(A, B, C): C += A B, on the types of the buffers."""
    target = call.get(2, "C") or UNKNOWN_V
    a, b = (held(call, call.get(i, n) or UNKNOWN_V).with_(x=None) for i, n in enumerate("AB"))
    old = held(call, target)
    m = call.m
    if "?" in (a.dtype, b.dtype):
        m.facts.unread("a matrix product on types that are not known", call.loc)
    made = m.products.product("mma", a, b, target.dtype, call.loc)
    made = m.products.accumulate(old, made, target.dtype, call.loc, m.frame.loops > 0)
    m.memory.target = _argument(call, 2, "C")
    m.memory.store(target, m.products.onto(made, old), call.loc)
    m.memory.target = None
    return constant(None)


def _reduced(call: Call) -> V:
    """reduce_sum(buffer, result, dim, clear): what was in the result is added, or dropped."""
    source, target, name = held(call, first(call)), call.get(1, "out") or UNKNOWN_V, call.name
    if "max" in name or "min" in name:
        made = source.with_(origins=flagged(source.origins, "max"), x=None)
    else:
        made = call.m.products.accumulate(UNKNOWN_V, source, source.dtype, call.loc, True)
    call.m.memory.store(target, made.with_(const=NOTHING, shape=None), call.loc)
    return constant(None)


def _atomic(call: Call) -> V:
    target, value = call.get(0, "dst") or UNKNOWN_V, held(call, call.get(1, "value") or UNKNOWN_V)
    if "add" in call.name:
        value = call.m.products.add_in_memory(value, target.dtype, call.loc)
    call.m.memory.store(target, value, call.loc)
    return held(call, target)


def _loop(call: Call) -> V:
    """serial(n), Pipelined(n, num_stages): a range; Parallel(m, n): one index for each."""
    bounds = Call(call.m, call.args[:3], {}, call.node)
    return whole_range(bounds) if call.name not in ("Parallel", "grid") else _index(call)


def _index(call: Call) -> V:
    return V("i32", "i32", shape=())


def _cast(call: Call) -> V:
    """Cast(type, value) and cast(value, type); reinterpret likewise."""
    swapped = dtype_of(call.get(0, "dtype")) != "?"
    value, wanted = (call.args[::-1] if swapped else call.args)[:2] if len(call.args) > 1 else (first(call), None)
    bits = "reinterpret" in call.name
    turn = call.m.numbers.bitcast if bits else call.m.numbers.convert
    return turn(held(call, value), dtype_of(wanted), call.loc)


def _limit(call: Call) -> V:
    dtype = dtype_of(first(call))
    return V(dtype, dtype, shape=())


def _view(call: Call) -> V:
    wanted = dtype_of(call.get(2, "dtype"))
    return first(call).with_(dtype=wanted) if wanted != "?" else first(call)


def _matched(call: Call) -> V:
    """match_buffer(handle, shape, type): the memory behind an argument."""
    wanted = dtype_of(call.get(2, "dtype") or constant("float32"))
    return first(call).with_(dtype=wanted) if wanted != "?" and first(call).cells else _not_read(call)


def _over(call: Call) -> V:
    """Tensor(shape, type, data): another shape over the memory of a buffer, which its attribute `data` is."""
    there, wanted = call.get(2, "data"), dtype_of(call.get(1, "dtype") or constant("float32"))
    if there is None or not there.cells:
        return _not_read(call)
    return there.with_(dtype=wanted) if wanted != "?" else there


def _nothing(call: Call) -> V:
    return constant(None)


def _not_read(call: Call) -> V:
    return call.m.calls.not_read(f"a call of TileLang's {call.name}", call)


FUNCTIONS: dict[str, Callable[[Call], V]] = spelled(
    OPERATIONS,
    "tilelang",
    {
        "allocate_shared": _allocated("shared"), "allocate_tensor_memory": _allocated("shared", limited=False),
        "allocate_registers": _allocated("local"), "allocate_variable": _variable, "copy": _copy, "fill": _fill,
        "sum": _reduced, "sum_of_sizes": _reduced, "cumulative": _reduced, "reduce_max": _reduced,
        "reduce_min": _reduced, "reduce_absmax": _reduced, "range": _loop, "range_for_generated": _loop,
        "parallel": _loop, "kernel_indices": _index, "ceil_div": _index, "bound_index": _index, "lane_index": _index,
        "warp_index": _index, "size": _index, "where": numbers.where, "cast": _cast, "reinterpret": _cast,
        "infinity": _limit, "limit": _limit, "reshape": _view, "match_buffer": _matched, "fma": numbers.fma,
        "buffer_over": _over, "sync": _nothing, "check": _nothing, "annotation": _nothing, "swizzled_layout": _nothing,
        "l2_window": _l2_window, "unread": _not_read,
    },
    {
        "product": lambda op: _gemm,
        "atomic": lambda op: _atomic,
        "extreme": lambda op: numbers.bound,
    },
)  # fmt: skip


def _as_type(base: V, call: Call) -> V:
    """`x.astype(type)`."""
    return call.m.numbers.convert(held(call, base), dtype_of(first(call)), call.loc)


class TileLang(TensorLanguage):
    """`@T.prim_func` functions."""

    packages = (PACKAGE,)
    operations = FUNCTIONS
    methods = {"astype": _as_type}
    regions = REGIONS

    def element_type(self, path: str, name: str) -> str | None:
        """The element type that `name`, as in `T.float32`, stands for in the module `path`; None for other names."""
        return dtypes.from_tilelang(name) if self.owns(path) else super().element_type(path, name)

    def symbol(self, path: str, call: Call) -> V:
        """The result of calling a function of the package, or of TVM, which has the same names."""
        if path.partition(".")[0] not in (PACKAGE, "tvm"):
            return super().symbol(path, call)
        made = self.function(path.rpartition(".")[2], call)
        return made if made is not None else call.m.calls.opaque_call(path, call)

    def function(self, name: str, call: Call) -> V | None:
        """The result of calling an operation or a mathematical function; None for other names."""
        found = super().function(name, call)
        if found is not None or any(v.cells for v in call.args):
            return found
        made = numbers.elementwise_name(call, name)
        return made if made is not UNKNOWN_V else None


LANGUAGE = TileLang()
