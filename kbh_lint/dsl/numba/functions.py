"""What kernels call, by paths in the package: `cuda.shared.array`, `cuda.atomic.add`, `cuda.libdevice.fmaf_rn`."""

from __future__ import annotations

from collections.abc import Callable

from kbh_lint.base import dtypes
from kbh_lint.base.architectures import STATIC_SHARED
from kbh_lint.base.regexes import regex
from kbh_lint.dsl.numba.types import PACKAGE
from kbh_lint.dsl.tensors import room
from kbh_lint.dsl.tensors.memory import held
from kbh_lint.dsl.tensors.rows import array_of
from kbh_lint.kernels.core.origins import flagged, union
from kbh_lint.kernels.core.value import NOTHING, UNKNOWN_V, V, constant, leaves
from kbh_lint.kernels.languages.python import arithmetic as numbers
from kbh_lint.kernels.languages.python.call import Builtin, Call, first

LIBDEVICE = "cuda.libdevice."
HALVES = "cuda.fp16."
_ROUNDING = regex(r"(?:_r[nzud])\Z")
_BITS = {
    "float_as_int": "i32", "float_as_uint": "u32", "int_as_float": "f32", "uint_as_float": "f32",
    "double_as_longlong": "i64", "longlong_as_double": "f64",
}  # fmt: skip
_TO = regex(r"(float|double|half|int|uint|ll|ull|short)2(float|double|half|int|uint|ll|ull|short)(?:_r[nzud])?\Z")
_NAMED = {
    "float": "f32", "double": "f64", "half": "f16", "int": "i32", "uint": "u32", "ll": "i64", "ull": "u64",
    "short": "i16",
}  # fmt: skip
_OPERATORS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "fdividef": "/", "fdivide": "/"}
_TERNARY = frozenset(("fma", "fmaf", "ffma", "mad"))
LANE, WARP_SIZE = f"{PACKAGE}.cuda.laneid", f"{PACKAGE}.cuda.warpsize"
INDICES = ("threadIdx", "blockIdx", "blockDim", "gridDim")


def index(call: Call) -> V:
    """The value of a function that gives an index in the grid, or a size of it."""
    return V("i64", "i64", shape=())


def _indices(call: Call) -> V:
    count = first(call).const
    return index(call) if count in (1, NOTHING) or not isinstance(count, int) else V(x=(index(call),) * count)


def nothing(call: Call) -> V:
    """Models a barrier, a fence or a print; its result is None."""
    return constant(None)


def _array(kind: str) -> Builtin:
    def run(call: Call) -> V:
        dtype = _dtype(call, 1)
        sizes = call.get(0, "shape")
        if kind == "shared" and sizes is not None and sizes.const == 0:  # what the launch gives, one memory for all
            return call.m.memory.tensor(kind, dtype, call.loc, "dynamic shared memory", one=True).with_(dtype=dtype)
        if kind == "shared":
            room.noted(call, sizes, dtype, STATIC_SHARED, apart=True)
        return call.m.memory.tensor(kind, dtype, call.loc)

    return run


def _dtype(call: Call, at: int) -> str:
    found = call.dtype(at, "dtype")
    if found == "?":
        call.m.facts.unread("memory of an element type that is not known", call.loc)
    return found


def _constants(call: Call) -> V:
    """`cuda.const.array_like(table)`."""
    return first(call)


def _place(call: Call) -> V:
    """The element that an atomic works on."""
    array, where = array_of(call.get(0, "ary") or UNKNOWN_V), call.get(1, "idx") or UNKNOWN_V
    for leaf in leaves(where):
        call.m.facts.add_choice(leaf, call.loc)
        array = array.with_(origins=union(array.origins, leaf.origins))
    return array


def _atomic(at: int, *, adds: bool = False) -> Builtin:
    """`atomic.add(array, index, value)`; the value is the argument at a position."""

    def run(call: Call) -> V:
        array, value = _place(call), held(call, call.get(at, "val") or UNKNOWN_V)
        if adds:
            value = call.m.products.add_in_memory(value, array.dtype, call.loc)
        call.m.memory.store(array, value, call.loc)
        made = call.m.memory.load(array, "?", call.loc)
        return made.with_(origins=union(made.origins, value.origins), const=NOTHING, x=None)

    return run


def _whole_array_swap(call: Call) -> V:
    """`atomic.compare_and_swap(array, old, value)`: of the first element."""
    moved = [first(call), constant(0), *call.args[1:]]
    return _atomic(3)(Call(call.m, moved, call.kwargs, call.node, call.name))


def _extreme(call: Call) -> V:
    array, value = _place(call), held(call, call.get(2, "val") or UNKNOWN_V)
    return _atomic(2)(
        Call(call.m, [array, constant(0), value.with_(origins=flagged(value.origins, "max"))], {}, call.node, call.name)
    )


def _shuffled(call: Call) -> V:
    """`shfl_down_sync(mask, value, delta)`: what another thread has."""
    return held(call, call.get(1, "value") or UNKNOWN_V).with_(const=NOTHING, x=None)


def _vote(call: Call) -> V:
    """What threads say together: a number that depends on what each of them has."""
    origins = UNKNOWN_V.origins
    for value in call.args:
        for leaf in leaves(value):
            origins = union(origins, leaf.origins)
    return V("i32", "i32", flagged(origins, "index"), shape=())


def _select(call: Call) -> V:
    return numbers.where(call)


def fma(call: Call) -> V:
    """The value of `fma(a, b, c)`."""
    return numbers.fma(Call(call.m, [held(call, v) for v in call.args], {}, call.node, "fma"))


def _as(dtype: str, call: Call) -> list[V]:
    """The arguments as a function takes them."""
    return [
        call.m.numbers.convert(held(call, v), dtype, call.loc) if v.dtype in dtypes.FLOATS or v.known else held(call, v)
        for v in call.args
    ]


def libdevice(name: str, call: Call) -> V:
    """The result of the libdevice function `name`; its type is part of the name, as an `f` at the end or before a
    rounding operation."""
    if name in _BITS:
        target = _BITS[name]
        value = held(call, first(call))
        return call.m.numbers.bitcast(value, target, call.loc)
    named = _TO.match(name)
    if named is not None:
        return call.m.numbers.convert(held(call, first(call)), _NAMED[named.group(2)], call.loc)
    return of_numbers(name, call)


def plain(name: str) -> str:
    """A function's name without the parts for type, rounding and precision: `fast_expf` becomes `exp`."""
    rounded = _ROUNDING.search(name) is not None
    name = _ROUNDING.sub("", name).removeprefix("fast_")
    if rounded and name[:1] in "fdh" and (name[1:] in _OPERATORS or name[1:] in ("sqrt", "rcp", "rsqrt")):
        return name[1:]
    return name


def of_numbers(name: str, call: Call) -> V:
    """The result of calling the mathematical function `name`; unknown functions are recorded as unread."""
    base = plain(name)
    single = base.endswith("f") or name.removeprefix("fast_") != name or base != name and name[0] == "f"
    args = _as("f32", call) if single else [held(call, v) for v in call.args]
    made = Call(call.m, args, {}, call.node, base)
    if base in _TERNARY:
        return numbers.fma(made)
    if base in _OPERATORS and len(args) > 1:
        return call.m.numbers.binary(_OPERATORS[base], args[0], args[1], call.loc)
    if base.removesuffix("f") in ("fmax", "fmin", "max", "min"):
        return numbers.bound(Call(call.m, args, {}, call.node, base))
    for candidate in (base, base.removesuffix("f")):
        found = numbers.elementwise_name(made, candidate)
        if found is not UNKNOWN_V:
            return found
    return call.m.calls.not_read(f"a call of {name}", call)


def half(name: str, call: Call) -> V:
    """The result of calling a function on fp16, such as `hadd`, `hfma` or `hexp`."""
    inner = Call(call.m, _as("f16", call), {}, call.node, name)
    if name == "hfma":
        return numbers.fma(inner)
    if name[1:] in _OPERATORS and len(inner.args) > 1:
        return call.m.numbers.binary(_OPERATORS[name[1:]], inner.args[0], inner.args[1], call.loc)
    return of_numbers(name.removeprefix("h"), inner)


def _number(name: str) -> Builtin:
    def run(call: Call) -> V:
        return of_numbers(name, call)

    return run


FUNCTIONS: dict[str, Builtin] = {
    **dict.fromkeys(("cuda.grid", "cuda.gridsize"), _indices),
    "cuda.shared.array": _array("shared"), "cuda.local.array": _array("local"), "cuda.const.array_like": _constants,
    **dict.fromkeys(
        ("cuda.syncthreads", "cuda.syncwarp", "cuda.threadfence", "cuda.threadfence_block", "cuda.threadfence_system",
         "cuda.nanosleep", "cuda.cg.this_grid"), nothing
    ),
    **dict.fromkeys(
        ("cuda.syncthreads_count", "cuda.syncthreads_and", "cuda.syncthreads_or", "cuda.all_sync", "cuda.any_sync",
         "cuda.eq_sync", "cuda.ballot_sync", "cuda.match_any_sync", "cuda.match_all_sync", "cuda.activemask",
         "cuda.lanemask_lt", "cuda.vote_sync_intrinsic"), _vote
    ),
    **dict.fromkeys(
        ("cuda.shfl_sync", "cuda.shfl_up_sync", "cuda.shfl_down_sync", "cuda.shfl_xor_sync"), _shuffled
    ),
    "cuda.atomic.add": _atomic(2, adds=True), "cuda.atomic.sub": _atomic(2, adds=True),
    **dict.fromkeys(("cuda.atomic.max", "cuda.atomic.min", "cuda.atomic.nanmax", "cuda.atomic.nanmin"), _extreme),
    **dict.fromkeys(
        ("cuda.atomic.exch", "cuda.atomic.inc", "cuda.atomic.dec", "cuda.atomic.and_", "cuda.atomic.or_",
         "cuda.atomic.xor"), _atomic(2)
    ),
    "cuda.atomic.cas": _atomic(3), "cuda.atomic.compare_and_swap": _whole_array_swap,
    "cuda.fma": fma, "cuda.selp": _select,
    **{f"cuda.{name}": _number(name) for name in ("popc", "clz", "ffs", "brev", "cbrt")},
}  # fmt: skip


def _view(base: V, call: Call) -> V:
    """`x.view(type)`: the same bits; of an array, of each element."""
    dtype = call.dtype(0, "dtype")
    return base.with_(dtype=dtype) if base.cells else call.m.numbers.bitcast(base, dtype, call.loc)


def _same(base: V, call: Call) -> V:
    return base


def _as_type(base: V, call: Call) -> V:
    return call.m.numbers.convert(held(call, base), call.dtype(0, "dtype"), call.loc)


METHODS: dict[str, Callable[[V, Call], V]] = {
    "view": _view, "item": _same, "reshape": _same, "ravel": _same, "astype": _as_type, "copy": _same,
    "sync": lambda base, call: constant(None),
}  # fmt: skip
