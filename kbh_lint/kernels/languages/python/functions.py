"""What kernels call of Python itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kbh_lint.base import dtypes, ir
from kbh_lint.kernels.core.joins import mix, tuple_of
from kbh_lint.kernels.core.origins import flagged, union
from kbh_lint.kernels.core.value import LITERAL, NOTHING, UNKNOWN_V, V, constant
from kbh_lint.kernels.languages.python import arithmetic as numbers
from kbh_lint.kernels.languages.python.call import Call, first

NUMBER_BITS = 32  # of Python's float in a kernel; one of 64 widens as well


def nothing(call: Call) -> V:
    """Models a call without effect; its result is None."""
    return constant(None)


def _constexpr(call: Call) -> V:
    return first(call)


def whole_range(call: Call) -> V:
    """The value of `range(...)`."""
    named = [call.kwargs[name] for name in ("arg1", "arg2", "step") if name in call.kwargs]
    bounds = [*call.args, *named][:3]
    numbers = [v.const for v in bounds]
    deps: frozenset[str] = frozenset().union(*(v.deps for v in bounds))
    if numbers and all(isinstance(n, int) for n in numbers) and (len(numbers) < 3 or numbers[2] != 0):
        made = range(*numbers[:3])
        if abs(made.start) < 1 << 60 and abs(made.stop) < 1 << 60:
            return V("i32", const=made, deps=deps)
    origins: Any = frozenset()
    for value in bounds:
        origins = union(origins, flagged(value.origins, "index"))
    return V("i32", "i32", origins, shape=())


def _unknown_bool(call: Call) -> V:
    return V("bool", "bool")


def _length(call: Call) -> V:
    value = first(call)
    if isinstance(value.x, tuple):
        return constant(len(value.x))
    return constant(len(value.const)) if isinstance(value.const, (str, range)) else V("i32", "i32")


_NUMBERS: dict[str, Callable[[Any], Any]] = {"int": int, "float": float, "bool": bool, "abs": abs}


def _number(call: Call) -> V:
    value = first(call)
    if isinstance(value.const, (int, float)):
        kind = _NUMBERS.get(call.name)
        if kind is not None:
            try:
                return constant(kind(value.const), value.deps)
            except (OverflowError, ValueError):
                return UNKNOWN_V
    if isinstance(value.const, str) and call.name == "float":
        return V(LITERAL, LITERAL, const=float("inf") if "inf" in value.const else 0.0, shape=())
    if call.name == "float" and dtypes.BITS.get(value.dtype, NUMBER_BITS) < NUMBER_BITS:
        return call.m.numbers.convert(value, "f32", call.loc)
    return value.with_(const=NOTHING)


def _pick(call: Call) -> V:
    """Python's min and max, also on tensors."""
    items = list(call.args[0].x) if len(call.args) == 1 and isinstance(call.args[0].x, tuple) else call.args
    known = [v.const for v in items]
    if known and all(isinstance(n, (int, float)) for n in known):
        pick = max if call.name == "max" else min
        return constant(pick(known), frozenset().union(*(v.deps for v in items)))
    if len(items) == 2 and call.name == "max":
        items = [numbers.at_least(call.m, *items), numbers.at_least(call.m, items[1], items[0])]
    made = mix(items)
    made = made.with_(origins=flagged(made.origins, "max"))
    made = made if made.dtype in dtypes.FLOATS else numbers.only(made, numbers.absorbed(call, items))
    if call.m.ranges.given and len(items) == 2:
        return call.m.ranges.extreme(call.name == "max", items[0], items[1], made)
    return made


def _zip(call: Call) -> V:
    columns: list[tuple[V, ...]] = [v.x for v in call.args if isinstance(v.x, tuple)]
    if len(columns) != len(call.args):
        return mix(call.args)
    return tuple_of([V(x=tuple(row)) for row in zip(*columns, strict=False)])


def _enumerate(call: Call) -> V:
    value = first(call)
    if isinstance(value.x, tuple):
        return tuple_of([V(x=(constant(i), item)) for i, item in enumerate(value.x)])
    return V(x=(V(x=(V("i32", "i32"), value)),))


def _sequence(call: Call) -> V:
    value = first(call) if call.args else V(x=())
    if isinstance(value.const, range) and len(value.const) <= 64:
        return V(x=tuple(constant(i) for i in value.const))
    return value


def _named(call: Call, count: int) -> ir.Attr | None:
    """The attribute that `getattr` or `setattr` with so many arguments names by a text that is known."""
    if not isinstance(call.node, ir.Call) or not len(call.args) == len(call.node.args) == count:
        return None
    name = call.args[1].const
    return ir.Attr(call.node.args[0], name, call.loc) if isinstance(name, str) else None


def _attribute(call: Call) -> V:
    named = _named(call, 2)
    return first(call) if named is None else call.m.expressions.eval(named)


def _set_attribute(call: Call) -> V:
    named = _named(call, 3)
    if named is None:
        call.m.facts.unread("an attribute whose name is not known", call.loc)
    else:
        call.m.names.assign(named, call.args[2])
    return constant(None)


PYTHON: dict[str, Callable[[Call], V]] = {
    "range": whole_range, "min": _pick, "max": _pick, "len": _length, "isinstance": _unknown_bool, "abs": _number,
    "int": _number, "float": _number, "bool": _number, "print": nothing, "tuple": _sequence, "list": _sequence,
    "zip": _zip, "enumerate": _enumerate, "hasattr": _unknown_bool, "str": _constexpr, "getattr": _attribute,
    "setattr": _set_attribute, "reversed": _sequence, "sum": lambda c: mix(c.args),
    "divmod": lambda c: V(x=(mix(c.args), mix(c.args))), "round": _number, "all": _unknown_bool, "any": _unknown_bool,
    "type": _constexpr,
}  # fmt: skip
