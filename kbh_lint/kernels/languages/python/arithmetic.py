"""Numbers in kernels that are written in Python: conversions, choices, bounds, functions by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kbh_lint.base import dtypes, ir
from kbh_lint.kernels.core.joins import broadcast, join, mix
from kbh_lint.kernels.core.memory import LED
from kbh_lint.kernels.core.origins import FLOOR, choosing, data_origins, flagged, testing, union, union_casts
from kbh_lint.kernels.core.value import LITERAL, NOTHING, UNKNOWN_V, Mul, Unbound, V, constant
from kbh_lint.kernels.languages.python.call import Call, first
from kbh_lint.ops.catalogue import OPERATIONS
from kbh_lint.ops.operation import spelled

if TYPE_CHECKING:
    from kbh_lint.kernels.languages.python.run import PythonRun


def to(base: V, call: Call) -> V:
    """The value of `x.to(dtype)`."""
    target = call.dtype(0, "dtype")
    if target == "?":
        wanted = call.get(0, "dtype")
        if wanted is not None and wanted.cells:  # a pointer type made from loaded integers
            return base.with_(dtype=wanted.dtype)
        if wanted is None or wanted.known:
            return base
        call.m.facts.unread("a conversion to an unknown type", call.loc)
        return base.with_(dtype="?", const=NOTHING)
    bits = call.get(2, "bitcast")
    if bits is not None and bits.const is True:
        return call.m.numbers.bitcast(base, target, call.loc)
    pointer = call.get(0, "dtype")
    if pointer is not None and pointer.ct is not None:
        if base.cells:  # a pointer seen as one to another type
            return base.with_(dtype=target, const=NOTHING)
        return V(target, target, origins=base.origins, x=Unbound(pointer_name(base)), shape=base.shape)
    return call.m.numbers.convert(base, target, call.loc)


def pointer_name(value: V) -> str:
    """A name for the memory behind an address that was computed from loaded data."""
    names = sorted(o.param for o in data_origins(value.origins))
    return (names[0] if names else "pointer") + LED


def where(call: Call) -> V:
    """The value of `where(condition, x, y)`."""
    condition, yes, no = (call.get(i, n) or UNKNOWN_V for i, n in enumerate(("condition", "x", "y")))
    m = call.m
    target = m.numbers.promote("+", yes, no)
    if target == LITERAL:
        target = "f32" if isinstance(yes.const, float) or isinstance(no.const, float) else "i32"
        yes, no = (v.with_(dtype=target, content=target) for v in (yes, no))
    if target in dtypes.FLOATS and not yes.cells and not no.cells:
        yes, no = m.numbers.convert(yes, target, call.loc), m.numbers.convert(no, target, call.loc)
    mark = yes.x if isinstance(yes.x, Mul) else no.x if isinstance(no.x, Mul) else None
    made = join(yes.with_(shape=None, x=None), no.with_(shape=None, x=None))
    shape = broadcast(broadcast(condition.shape, yes.shape), no.shape)
    chose = choosing(testing(condition.origins)) if yes.free and no.free else frozenset()
    origins = union(made.origins, chose or flagged(condition.origins, "index"))
    if mark is not None and data_origins(yes.origins) and data_origins(no.origins):
        mark = None
    made = made.with_(shape=shape, origins=origins, const=NOTHING, x=mark if mark is not None else made.x)
    made = only(made, _kept(call, yes, no))
    return m.ranges.chosen(condition, yes, no, made) if m.ranges.given else made


def only(made: V, side: V | None) -> V:
    """`made` with the origins of `side`, the operand that it always equals; unchanged if `side` is None."""
    return made if side is None else made.with_(origins=side.origins, casts=side.casts)


def _kept(call: Call, yes: V, no: V) -> V | None:
    """The side that a choice always equals."""
    nodes = [*call.node.args, *(value for _, value in call.node.keywords)] if isinstance(call.node, ir.Call) else []
    if len(nodes) != 3 or list(call.kwargs) not in ([], ["y"], ["x", "y"], ["condition", "x", "y"]):
        return None
    kept = call.m.expressions.identities().kept(*nodes)
    return None if kept is None else yes if kept is nodes[1] else no


def absorbed(call: Call, operands: Sequence[V]) -> V | None:
    """The operand that a minimum of a maximum (or the reverse) always equals; None where there is none."""
    kept = call.m.expressions.identities().bound(call.node)
    if not kept or not isinstance(call.node, ir.Call):
        return None
    return next((v for v, node in zip(operands, call.node.args, strict=True) if node is kept), None)


def at_least(m: PythonRun, value: V, least: V) -> V:
    """`value`, marked as an integer that is at least the known number `least`."""
    if not isinstance(least.const, int) or not value.origins:
        return value
    m.facts.decide(least)
    return value.with_(origins=flagged(value.origins, f"{FLOOR}{least.const}"))


def bound(call: Call) -> V:
    """The value of `minimum(x, y)` or `maximum(x, y)`."""
    m, a = call.m, first(call)
    b = call.get(1, "y") or UNKNOWN_V
    if isinstance(a.const, (int, float)) and isinstance(b.const, (int, float)):
        pick = max if "max" in call.name else min
        return constant(pick(a.const, b.const), a.deps | b.deps)
    target = m.numbers.promote("+", a, b)
    if target in dtypes.FLOATS:
        a, b = m.numbers.convert(a, target, call.loc), m.numbers.convert(b, target, call.loc)
    elif "max" in call.name:
        a, b = at_least(m, a, b), at_least(m, b, a)
    origins = flagged(union(a.origins, b.origins), "max")
    made = V(target, target, origins, union_casts(a.casts, b.casts), deps=a.deps | b.deps,
             shape=broadcast(a.shape, b.shape))  # fmt: skip
    made = made if target in dtypes.FLOATS else only(made, absorbed(call, (a, b)))
    return m.ranges.extreme("max" in call.name, a, b, made) if m.ranges.given else made


def fma(call: Call) -> V:
    """The value of `fma(a, b, c)`."""
    m = call.m
    a, b, c = (call.args + [UNKNOWN_V] * 3)[:3]
    product = m.numbers.binary("*", a, b, call.loc)
    fresh = all(o.flags & {"product", "reduce", "index"} for o in c.origins) and not isinstance(c.x, Mul)
    if fresh and isinstance(product.x, Mul):
        product = m.products.accumulate(c, product, product.dtype, call.loc, m.frame.loops > 0)
    return m.numbers.binary("+", product, c, call.loc)


_FUNCTIONS = spelled(OPERATIONS, "python", {row.name: row for row in OPERATIONS})


def elementwise_name(call: Call, name: str) -> V:
    """The result of calling the mathematical function `name`; UNKNOWN_V for unknown functions."""
    base = name.lstrip("_")
    row = _FUNCTIONS.get(base)
    if row is None:
        return UNKNOWN_V
    m, flag = call.m, row.flag
    if row.kind != "move":
        m.facts.arithmetic = m.facts.arithmetic or any(
            v.dtype in dtypes.FLOATS and data_origins(v.origins) for v in call.args
        )
    if row.name == "pow" and call.args and isinstance(call.args[0].const, (int, float)):
        flag = "exp"  # a power of a constant
    if row.kind == "arithmetic" and len(call.args) > 1:
        return m.numbers.binary(row.symbol, call.args[0], call.args[1], call.loc)
    values_ = [v for v in call.args if data_origins(v.origins)] or call.args[:1]
    made = mix(values_)
    if row.name == "gather":
        index = call.args[1].origins if len(call.args) > 1 else frozenset()
        return call.args[0].with_(
            origins=union(call.args[0].origins, flagged(index, "index")), x=None,
            shape=call.args[1].shape if len(call.args) > 1 else None,
        )  # fmt: skip
    shape = call.args[0].shape if call.args else None
    origins = flagged(made.origins, flag) if flag else made.origins
    dtype = row.result if row.result != "operand" and made.dtype in dtypes.INTS else made.dtype
    if made.dtype in dtypes.INTS or made.dtype == LITERAL:
        content = made.content
    else:
        content = dtype
    extra = made.x if made.dtype in dtypes.INTS else None
    return V(dtype, content, origins, made.casts, shape=shape, x=extra)
