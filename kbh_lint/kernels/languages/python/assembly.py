"""Inline assembly in kernels that are written in Python."""

from __future__ import annotations

from kbh_lint.base.regexes import regex
from kbh_lint.kernels.core.joins import mix
from kbh_lint.kernels.core.value import NOTHING, TWIDDLED, UNKNOWN_V, V
from kbh_lint.kernels.languages.ptx.ptx import execute
from kbh_lint.kernels.languages.ptx.ptx_products import Registers
from kbh_lint.kernels.languages.python.call import Call

_OPERAND = regex(r"\$(?:\{(\d+)(?::\w+)?\}|(\d+))")  # `$0` or `${0:h}`; the brace after `{$0, $1}` is the text's


def inline(call: Call) -> V:
    """tl.inline_asm_elementwise(asm, constraints, args, dtype, is_pure, pack)."""
    m = call.m
    text, constraints, args = call.get(0, "asm"), call.get(1, "constraints"), call.get(2, "args")
    wanted = call.get(3, "dtype")
    types = [v for v in (wanted.x if wanted is not None and isinstance(wanted.x, tuple) else [wanted]) if v is not None]
    names = [getattr(v.const, "name", "?") for v in types]
    values_ = list(args.x) if args is not None and isinstance(args.x, tuple) else [args] if args is not None else []
    if text is None or not isinstance(text.const, str) or constraints is None or not isinstance(constraints.const, str):
        m.facts.unread("assembly whose text is not known", call.loc)
        made = m.memory.havoc(values_, "?", call.loc)
        results = [made.with_(dtype=name) for name in names]
        return V(x=tuple(results)) if len(results) > 1 else results[0]
    parts = [part.strip() for part in constraints.const.split(",") if part.strip()]
    outputs = [part for part in parts if part.startswith(("=", "+"))]
    count = len(parts) - len(outputs)
    spread = _spread(values_, count)
    registers = Registers(m, [UNKNOWN_V] * len(outputs) + spread, call.loc)
    execute(registers, _OPERAND.sub(lambda found: f"%{found[1] or found[2]}", text.const.replace("$$", "")))
    made = mix(registers.operands[: len(outputs)]) if outputs else UNKNOWN_V
    shape = values_[0].shape if values_ else None
    per = max(1, len(outputs) // max(1, len(names)))
    results = []
    for position, name in enumerate(names):
        group = registers.operands[position * per : (position + 1) * per]
        value = mix(group) if group else made
        if any(v.x is TWIDDLED for v in group):
            value = value.with_(x=TWIDDLED)
        value = m.numbers.bitcast(value, name, call.loc) if name != "?" else value
        results.append(value.with_(shape=shape, const=NOTHING))
    return V(x=tuple(results)) if len(results) > 1 else results[0]


def _spread(values_: list[V], count: int) -> list[V]:
    """Arguments by asm operand: a packed argument fills several."""
    if not values_:
        return [UNKNOWN_V] * count
    per = max(1, count // len(values_))
    return [value for value in values_ for _ in range(per)][:count] or values_
