"""Numbers in CuTe DSL kernels: sizes and indices, values of registers, reductions, conversions by name."""

from __future__ import annotations

from kbh_lint.dsl.tensors.memory import held
from kbh_lint.kernels.core.joins import join, tuple_of
from kbh_lint.kernels.core.origins import flagged, union
from kbh_lint.kernels.core.value import LITERAL, NOTHING, UNKNOWN_V, V, constant, leaves
from kbh_lint.kernels.languages.python import arithmetic as numbers
from kbh_lint.kernels.languages.python.call import Builtin, Call, first

_INTRINSICS = frozenset(("i8", "i4", "u8", "f4e2m1", "f8e4m3"))


def size(call: Call) -> V:
    """The value of `size(x)`, `rank(x)`, `ceil_div(a, b)` and the like: an integer, known if all arguments are."""
    consts = [v.const for v in call.args]
    name = call.name
    if len(consts) == 2 and all(isinstance(n, int) for n in consts) and consts[1] > 0 and "div" in name:
        return constant(-(-consts[0] // consts[1]))
    if name == "size" and len(consts) == 1 and isinstance(consts[0], int):
        return call.args[0]
    origins = UNKNOWN_V.origins
    for value in call.args:
        for leaf in leaves(value):
            if not leaf.cells:
                origins = union(origins, leaf.origins)
    return V("i32", "i32", origins, shape=())


def three(call: Call) -> V:
    """The value of `thread_idx()` and similar functions: three integers."""
    return V(x=(V("i32", "i32", shape=()),) * 3)


def truth(call: Call) -> V:
    """The value of `elem_less(a, b)`, `any_(x)`, `all_(x)` or `isinstance(x, T)`: an unknown truth that depends on the
    arguments' data."""
    origins = UNKNOWN_V.origins
    for value in call.args:
        for leaf in leaves(value):
            origins = union(origins, held(call, leaf).origins if leaf.cells else leaf.origins)
    return V("bool", "bool", origins)


def filled(call: Call) -> V:
    """The value of `full(shape, value, type)` or `full_like(tensor, value, type)`: registers that all hold one
    number."""
    like, value = first(call), call.get(1, "fill_value") or constant(0)
    dtype = call.dtype(2, "dtype", like.dtype if like.dtype not in ("?", LITERAL) else value.dtype)
    made = call.m.numbers.convert(value, dtype, call.loc)
    return V(dtype, dtype, made.origins, made.casts)


def emptied(call: Call) -> V:
    """The value of `zeros_like(tensor, type)`."""
    dtype = call.dtype(1, "dtype", first(call).dtype)
    return V(dtype, dtype)


def warp_reduction(call: Call) -> V:
    """The value of `warp_reduction(value, operation)` or `warp_reduction_sum(value)`."""
    name = call.name
    wanted = call.get(1, "op")
    path = str(getattr(wanted.const, "path", "")) if wanted is not None else ""
    return _reduced(call, first(call), path or name)


def reduce(base: V, call: Call) -> V:
    """The value of `values.reduce(ReductionOp.ADD, initial value, profile)`."""
    wanted = call.get(0, "op")
    initial = call.get(1, "init_val") or UNKNOWN_V
    made = _reduced(call, held(call, base), str(getattr(wanted.const, "path", "")) if wanted is not None else "")
    return join(made, initial.with_(const=NOTHING, x=None)) if initial.origins else made


def _reduced(call: Call, value: V, operation: str) -> V:
    how = operation.rpartition(".")[2].lower()
    if any(word in how for word in ("max", "min")):
        return value.with_(origins=flagged(value.origins, "max"), x=None, shape=())
    if not any(word in how for word in ("add", "sum", "mul")):
        call.m.facts.unread(f"a reduction by {how or 'an unknown function'}", call.loc)
    return call.m.products.accumulate(UNKNOWN_V, value, value.dtype, call.loc, True).with_(shape=(), const=NOTHING)


def packed(operation: str) -> Builtin:
    """The handler of `add_packed_f32x2((a, b), (c, d))` and similar functions, which apply `operation` to each pair."""

    def run(call: Call) -> V:
        columns = [v.x if isinstance(v.x, tuple) else (v, v) for v in call.args[:3]]
        made = []
        for items in zip(*columns, strict=False):
            one = Call(call.m, list(items), {}, call.node)
            binary = operation != "fma" and len(items) > 1
            made.append(call.m.numbers.binary(operation, items[0], items[1], call.loc) if binary else numbers.fma(one))
        return tuple_of(made)

    return run


def atomic(call: Call) -> V:
    """Models `atomic_add(pointer, value)` and similar functions; returns what the memory may hold."""
    pointer, value = call.get(0, "ptr") or UNKNOWN_V, call.get(1, "val") or UNKNOWN_V
    if "add" in call.name:
        value = call.m.products.add_in_memory(value, pointer.dtype, call.loc)
    call.m.memory.store(pointer, value, call.loc)
    return held(call, pointer)


def converted(path: str, call: Call) -> V | None:
    """The value of `cvt_i8_bf16_intrinsic(values, count)` and similar conversions, whose names say the types; None for
    other functions."""
    words = path.rpartition(".")[2].split("_")
    if len(words) < 3 or words[0] != "cvt" or words[1] not in _INTRINSICS:
        return None
    value = held(call, first(call))
    if words[1] == "i4":
        value = call.m.facts.add_unpack(value, call.loc)
    target = {"bf16": "bf16", "f16": "f16", "f32": "f32", "f16x2": "f16", "bf16x2": "bf16"}.get(words[2])
    return call.m.numbers.convert(value, target, call.loc) if target is not None else None


def to(base: V, call: Call) -> V:
    """The value of `values.to(type)`."""
    return numbers.to(held(call, base), call)


def bitcast(base: V, call: Call) -> V:
    """The value of `values.bitcast(type)`."""
    return call.m.numbers.bitcast(held(call, base), call.dtype(0, "dtype"), call.loc)
