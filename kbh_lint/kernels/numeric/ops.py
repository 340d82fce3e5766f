"""Operators on the values of an evaluated kernel."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from kbh_lint.base.values import UNKNOWN, DType, Scalar, Value
from kbh_lint.kernels.numeric import integers as whole
from kbh_lint.kernels.numeric.integers import Typed
from kbh_lint.kernels.numeric.numbers import Num, Numbers, literal
from kbh_lint.kernels.numeric.state import Bits, Obj, Ptr, Reference

_MAX_INT = 1 << 80
_WORD = (1 << 32) - 1
_VECTOR_FIELDS = ("x", "y", "z", "w")


def wrapped(value: object) -> Any:
    """A value of the surrounding program as this evaluation holds it."""
    if isinstance(value, float):
        return literal(value)
    if type(value) is int:
        return value if -_MAX_INT < value < _MAX_INT else UNKNOWN
    if isinstance(value, Scalar):
        return wrapped(value.value)
    if isinstance(value, list):
        return tuple(value)
    return value


def truth(value: object) -> Any:
    """The truth of a value: True, False or UNKNOWN."""
    if value is True or value is False or value is UNKNOWN:
        return value
    if isinstance(value, int):
        return value != 0
    if isinstance(value, Num):
        return value.f != 0.0
    if value is None:
        return False
    if isinstance(value, Bits):
        return UNKNOWN
    return bool(value) if isinstance(value, str | tuple) else True


def number(value: object, numbers: Numbers, site: int) -> Num | None:
    """`value` as a number; some constant for an unknown one, None for what cannot be a number."""
    if isinstance(value, Num):
        return value
    if isinstance(value, bool | int):
        return literal(value)
    if value is UNKNOWN:
        some = numbers.data(site, "f32", 0)
        some.dt = "lit"
        return some
    if isinstance(value, float):
        return literal(value)
    return None


def arithmetic(op: str, a: object, b: object, numbers: Numbers, site: int, cpp: bool) -> Any:
    """The value of `a op b`; UNKNOWN where it cannot be computed."""
    if not (type(a) is Num and type(b) is Num):
        if isinstance(a, int) and isinstance(b, int):
            return integers(op, a, b, cpp)
        if isinstance(a, Ptr) or isinstance(b, Ptr):
            return pointers(op, a, b, site)
        if isinstance(a, Obj) or isinstance(b, Obj):
            return vectors(op, a, b, numbers, site, cpp)
        if isinstance(a, tuple) and isinstance(b, tuple) and op == "+" and len(a) + len(b) <= 64:
            return a + b
        if isinstance(a, Bits) or isinstance(b, Bits):
            return packed(op, a, b)
        if not (isinstance(a, Num) or isinstance(b, Num)):
            return _part_known(op, a, b)
        left, right = number(a, numbers, site), number(b, numbers, site)
        if left is None or right is None:
            return UNKNOWN
        a, b = left, right
    if op in ("+", "-"):
        return numbers.add(a, b, site, plus=op == "+")
    if op == "*":
        return numbers.mul(a, b)
    if op == "/":
        return numbers.div(a, b)
    return _power_of(a, b, numbers) if op == "**" else UNKNOWN


def _power_of(a: Num, b: Num, numbers: Numbers) -> Num:
    if b.f == 2.0:
        return numbers.mul(a, a)
    return numbers.function("pow", numbers.mul(a, b), a.dt, a.src | b.src)


def integers(op: str, a: int, b: int, cpp: bool) -> Any:
    """The value of `a op b` on integers, by the rules of C or of Python; UNKNOWN for results of Python beyond 80
    bits."""
    if cpp or isinstance(a, Typed) or isinstance(b, Typed):
        return whole.binary(op, a, b)
    row = _PLAIN.get(op)
    made = row(a, b) if row is not None else None
    return UNKNOWN if made is None or isinstance(made, int) and abs(made) >= _MAX_INT else made


def _shifted(a: int, b: int) -> int | None:
    return a << b if 0 <= b < 80 and abs(a) < _MAX_INT else None


def _power(a: int, b: int) -> int | None:
    return int(a**b) if 0 <= b < 80 and abs(a) < 1 << 16 else None


def _ratio(a: int, b: int) -> Num | None:
    return literal(a / b) if b != 0 and abs(a) < _MAX_INT and abs(b) < _MAX_INT else None


_PLAIN: dict[str, Callable[[int, int], int | Num | None]] = {  # None: too large, or not defined
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _ratio,
    "//": lambda a, b: a // b if b != 0 else None,
    "%": lambda a, b: a % b if b != 0 else None,
    "<<": _shifted,
    ">>": lambda a, b: a >> b if 0 <= b < 256 else None,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "**": _power,
}


def packed(op: str, a: object, b: object) -> Any:
    """The value of a bit operation on bit patterns of floats, which packs several into one integer or takes them out of
    one."""
    if op in ("|", "+", "^") and isinstance(a, Bits | int) and isinstance(b, Bits | int):
        left, right = (v.parts() if isinstance(v, Bits) else {} for v in (a, b))
        plain = [v for v in (a, b) if not isinstance(v, Bits)]
        return UNKNOWN if left.keys() & right.keys() or any(plain) else Bits.of({**left, **right})
    if not isinstance(a, Bits):
        a, b = b, a
    if not isinstance(a, Bits) or not isinstance(b, int) or op not in ("<<", ">>", "&"):
        return UNKNOWN
    if op == "&":
        kept = {at: part for at, part in a.parts().items() if b >> at & _WORD == _WORD}
    else:
        kept = {at + (b if op == "<<" else -b): part for at, part in a.parts().items()}
    found = Bits.of({at: part for at, part in kept.items() if at >= 0})
    return 0 if found is None else found


def lowest(value: Bits, bits: int) -> Value:
    """The bit patterns that begin in the lowest `bits` bits, as an integer type of that width holds them."""
    found = Bits.of({at: part for at, part in value.parts().items() if at < bits})
    return 0 if found is None else found


def _part_known(op: str, a: object, b: object) -> Value:
    """We are the first lane of the first block: zero times an unknown stride is zero."""
    if a is UNKNOWN and isinstance(b, int):
        return 0 if b == 0 and op in ("*", "&") else a if b == 0 and op in ("+", "-", "|", "<<", ">>") else UNKNOWN
    if b is UNKNOWN and isinstance(a, int):
        return 0 if a == 0 and op in ("*", "&", "/", "//", "%", "<<", ">>") else UNKNOWN
    return UNKNOWN


def pointers(op: str, a: object, b: object, site: int) -> Value:
    """The value of pointer arithmetic. An unknown offset leads to a separate region of the memory."""
    if isinstance(a, Ptr) and isinstance(b, Ptr):
        if op == "-" and isinstance(a.off, int) and isinstance(b.off, int):
            return a.off - b.off
        return UNKNOWN
    pointer, offset = (a, b) if isinstance(a, Ptr) else (b, a)
    if op not in ("+", "-") or not isinstance(pointer, Ptr):
        return UNKNOWN
    return moved(pointer, offset, site, 1 if op == "+" else -1)


def moved(pointer: Ptr, offset: object, site: int, sign: int = 1) -> Ptr:
    """`pointer + sign * offset`, in elements of what it points to."""
    if isinstance(offset, int) and isinstance(pointer.off, int):
        stride = pointer.type.lanes * math.prod(pointer.rest[1:])
        return Ptr(pointer.mem, pointer.off + sign * offset * stride, pointer.type, pointer.rest[1:])
    if pointer.mem.kind == "param":
        return Ptr(pointer.mem, UNKNOWN, pointer.type, pointer.rest[1:])
    return Ptr(pointer.mem.region(site), 0, pointer.type, pointer.rest[1:])


def vectors(op: str, a: object, b: object, numbers: Numbers, site: int, cpp: bool) -> Value:
    """The value of `a op b` on CUDA vectors, component by component."""
    vector = a if isinstance(a, Obj) else b
    if not isinstance(vector, Obj):
        return UNKNOWN
    left = a.fields if isinstance(a, Obj) else {}
    right = b.fields if isinstance(b, Obj) else {}
    names = [n for n in (left or right) if n in _VECTOR_FIELDS]
    if not names:
        return UNKNOWN
    fields: dict[str, Any] = {}
    for i, name in enumerate(names):
        x = left.get(name, UNKNOWN) if left else a
        y = right.get(name, UNKNOWN) if right else b
        fields[name] = arithmetic(op, x, y, numbers, site + i, cpp)
    return Obj(fields, vector.type)


def compare(op: str, a: object, b: object, numbers: Numbers) -> Value:
    """The truth of a comparison: True, False or UNKNOWN, or an `Elsewhere` for one that holds in another lane only."""
    if isinstance(a, bool | int) and isinstance(b, bool | int):
        found = _ordered(op, *whole.alike(a, b))
        other = whole.elsewhere(lambda x, y: _ordered(op, *whole.alike(x, y)), a, b) if found is False else None
        return found if other is None else other
    if op in ("is", "is not", "==", "!=") and (a is None or b is None):
        if a is UNKNOWN or b is UNKNOWN:
            return UNKNOWN
        return ((a is None) == (b is None)) == (op in ("is", "=="))
    if isinstance(a, Num) or isinstance(b, Num):
        x = a.f if isinstance(a, Num) else a
        y = b.f if isinstance(b, Num) else b
        if isinstance(x, int | float) and isinstance(y, int | float):
            return numbers.settle(_ordered(op, x, y))
        return UNKNOWN
    return _compare_others(op, a, b)


def _compare_others(op: str, a: object, b: object) -> Any:
    """Places in one memory, types and texts, and whether one of those is among others."""
    if isinstance(a, Ptr) and isinstance(b, Ptr):
        if a.mem is b.mem and isinstance(a.off, int) and isinstance(b.off, int):
            return _ordered(op, a.off, b.off)
        return UNKNOWN
    if isinstance(a, DType | str) and isinstance(b, DType | str) and op in ("==", "!=", "is", "is not"):
        return (a == b) == (op in ("==", "is"))
    if op in ("in", "not in") and isinstance(b, tuple):
        known = all(isinstance(x, DType | str | int) for x in (a, *b))
        return (a in b) == (op == "in") if known else UNKNOWN
    return UNKNOWN


def failing(op: str, a: object, b: object) -> whole.Elsewhere | None:
    """Another lane in which the comparison fails that holds in ours; None if there is none."""
    if not (isinstance(a, int) and isinstance(b, int)):
        return None
    return whole.elsewhere(lambda x, y: _ordered(op, *whole.alike(x, y)) is False, a, b)


def _ordered(op: str, a: float, b: float) -> Value:
    if op in ("==", "is"):
        return a == b
    if op in ("!=", "is not"):
        return a != b
    if op == "<":
        return a < b
    if op == "<=":
        return a <= b
    if op == ">":
        return a > b
    return a >= b if op == ">=" else UNKNOWN


def negated(value: object, numbers: Numbers) -> Value:
    """The value of `-value`; UNKNOWN where it cannot be computed."""
    if isinstance(value, Num):
        return numbers.neg(value)
    if isinstance(value, int):
        return whole.negated(value)
    if isinstance(value, Obj):
        return Obj({k: negated(v, numbers) for k, v in value.fields.items()}, value.type)
    return UNKNOWN


def perturbed(value: object, numbers: Numbers, site: int) -> Value:
    """The value that another lane has where ours has `value`; integers and conditions are the same in all lanes."""
    if isinstance(value, Num):
        return numbers.perturbed(value, site)
    if isinstance(value, Obj):
        return Obj({k: perturbed(v, numbers, site + i) for i, (k, v) in enumerate(value.fields.items())}, value.type)
    if isinstance(value, Bits):
        return Bits.of({at: perturbed(part, numbers, site + at) for at, part in value.parts().items()})
    if isinstance(value, tuple):
        return tuple(perturbed(v, numbers, site + i) for i, v in enumerate(value))
    if isinstance(value, Reference):
        return UNKNOWN
    return value


def sources(value: object) -> int:
    """The source bits of all data that a value depends on."""
    if isinstance(value, Num):
        return value.src
    if isinstance(value, Obj):
        parts: Any = value.fields.values()
    elif isinstance(value, Bits):
        parts = value.parts().values()
    elif isinstance(value, tuple):
        parts = value
    else:
        return 0
    src = 0
    for part in parts:
        src |= sources(part)
    return src
