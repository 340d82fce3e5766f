"""Operations on numbers that are known: what they come to, or NOTHING where they come to nothing or to too much."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Container
from typing import Any

from kbh_lint.base import dtypes
from kbh_lint.kernels.core.value import NOTHING, V

_FOLD: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow, "<<": operator.lshift, ">>": operator.rshift, "&": operator.and_,
    "|": operator.or_, "^": operator.xor,
}  # fmt: skip
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "is": operator.is_, "is not": operator.is_not,
}  # fmt: skip
_MAX_FOLDED_BITS = 256
_MAX_OPERAND_BITS = 4096


def fold(op: str, a: object, b: object, *, c_division: bool) -> Any:
    """The result of `a op b` for two known values; NOTHING where it fails, is undefined or is too large. With
    `c_division`, integers are divided as in C."""
    function = _FOLD.get(op)
    if function is None:
        return NOTHING
    if op in ("**", "<<") and isinstance(b, (int, float)) and not -64 <= b <= 64:
        return NOTHING
    if isinstance(a, str) and isinstance(b, str) or isinstance(a, bytes) and isinstance(b, bytes):
        return function(a, b) if op == "+" and type(a) is type(b) and len(a) + len(b) < 4096 else NOTHING
    if not isinstance(a, (int, float)) or not isinstance(b, (int, float)) or _costly(op, a, b):
        return NOTHING
    try:
        if c_division and op in _C_DIVISIONS and isinstance(a, int) and isinstance(b, int):
            return _C_DIVISIONS[op](a, b)
        result = function(a, b)
    except (ArithmeticError, TypeError, ValueError):
        return NOTHING
    if isinstance(result, int) and result.bit_length() > _MAX_FOLDED_BITS:
        return NOTHING
    return NOTHING if isinstance(result, complex) else result


def _quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_C_DIVISIONS: dict[str, Callable[[int, int], int]] = {"/": _quotient, "%": lambda a, b: a - b * _quotient(a, b)}


def _costly(op: str, a: int | float, b: int | float) -> bool:
    """Whether an operation on integers takes or makes numbers so long that no clock could stop it in time."""
    if not isinstance(a, int) or not isinstance(b, int):
        return False
    bits = max(a.bit_length(), b.bit_length())
    return bits > _MAX_OPERAND_BITS or (op == "**" and bits * b > _MAX_OPERAND_BITS)


def compared(op: str, a: object, b: object) -> bool | None:
    """The truth of the comparison `a op b` of known values; None where it fails."""
    function = _COMPARE.get(op)
    try:
        if function is not None:
            return bool(function(a, b))
        if op in ("in", "not in") and isinstance(b, Container):
            return (a in b) is (op == "in")
    except TypeError:
        pass
    return None


def as_type(value: object, target: str) -> object:
    """A known number converted to the element type `target`, integers modulo 2 to its width; NOTHING where that
    fails."""
    if value is NOTHING or isinstance(value, bool):
        return value
    try:
        if isinstance(value, float) and target in dtypes.INTS:
            return int(value)
        if isinstance(value, int) and target in dtypes.FLOATS:
            return float(value)
    except (OverflowError, ValueError):
        return NOTHING
    if isinstance(value, int) and target in dtypes.INTS and target != "bool":
        bits = dtypes.BITS[target]
        value &= (1 << bits) - 1
        if target.startswith("i") and value >> (bits - 1):
            value -= 1 << bits
    return value


def is_zero(value: V) -> bool:
    """Whether a value is known to be zero."""
    return isinstance(value.const, (int, float)) and value.const == 0


def is_edge(const: object) -> bool:
    """Whether a number is zero or an infinity. A comparison with these tests for emptiness or validity, not for a
    size."""
    return isinstance(const, (int, float)) and not isinstance(const, bool) and (const == 0 or abs(const) == math.inf)
