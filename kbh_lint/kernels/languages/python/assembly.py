"""Inline assembly in kernels that are written in Python."""

from __future__ import annotations

from kbh_lint.base.regexes import regex
from kbh_lint.kernels.core.joins import mix
from kbh_lint.kernels.core.value import NOTHING, TWIDDLED, UNKNOWN_V, Shape, V
from kbh_lint.kernels.languages.ptx.ptx import execute
from kbh_lint.kernels.languages.ptx.ptx_products import Registers
from kbh_lint.kernels.languages.python.call import Call

_OPERAND = regex(r"\$(?:\{(\d+)(?::\w+)?\}|(\d+))")  # `$0` or `${0:h}`; the brace after `{$0, $1}` is the text's


def inline(call: Call) -> V:
    """Models `tl.inline_asm_elementwise(asm, constraints, args, dtype, is_pure, pack)`; returns the outputs."""
    m = call.m
    text, constraints, wanted = call.get(0, "asm"), call.get(1, "constraints"), call.get(3, "dtype")
    args = _items(call.get(2, "args"))
    names = [getattr(v.const, "name", "?") for v in _items(wanted)]
    if text is None or not isinstance(text.const, str) or constraints is None or not isinstance(constraints.const, str):
        m.facts.unread("assembly whose text is not known", call.loc)
        made = m.memory.havoc(args, "?", call.loc)
        return _together([made.with_(dtype=name) for name in names])
    parts = [part.strip() for part in constraints.const.split(",") if part.strip()]
    outputs = len([part for part in parts if part.startswith(("=", "+"))])
    registers = Registers(m, [UNKNOWN_V] * outputs + _spread(args, len(parts) - outputs), call.loc)
    execute(registers, _OPERAND.sub(lambda found: f"%{found[1] or found[2]}", text.const.replace("$$", "")))
    shape = args[0].shape if args else None
    return _together(_results(call, registers.operands, outputs, names, shape))


def _results(call: Call, operands: list[V], outputs: int, names: list[str], shape: Shape | None) -> list[V]:
    """What registers hold in the end, as values of the types that are asked for."""
    made = mix(operands[:outputs]) if outputs else UNKNOWN_V
    per = max(1, outputs // max(1, len(names)))
    results = []
    for position, name in enumerate(names):
        group = operands[position * per : (position + 1) * per]
        value = mix(group) if group else made
        if any(v.x is TWIDDLED for v in group):
            value = value.with_(x=TWIDDLED)
        value = call.m.numbers.bitcast(value, name, call.loc) if name != "?" else value
        results.append(value.with_(shape=shape, const=NOTHING))
    return results


def _items(value: V | None) -> list[V]:
    """A tuple's items; any other value alone."""
    if value is None:
        return []
    return list(value.x) if isinstance(value.x, tuple) else [value]


def _together(results: list[V]) -> V:
    return V(x=tuple(results)) if len(results) > 1 else results[0]


def _spread(values_: list[V], count: int) -> list[V]:
    """Arguments by asm operand: a packed argument fills several."""
    if not values_:
        return [UNKNOWN_V] * count
    per = max(1, count // len(values_))
    return [value for value in values_ for _ in range(per)][:count] or values_
