"""Constant expressions of C++: the number that one comes to, wherever C++ is read.

Numbers know their types (`cpp.integers`), so that they wrap around and divide as C++ has it. What a name, a type and a
size are is asked of whoever reads: the scope of a file (`frontends.cuda.constants`), where only names and plain types
are known yet, or a domain that knows classes and template arguments (`kernels.extents.types`).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, Protocol

from kbh_lint.base import dtypes, ir
from kbh_lint.cpp import integers

Number = int | float  # a truth, too

MAX_DEPTH = 60
_FLOATING: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
}  # fmt: skip
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_EXTREMES: dict[str, Callable[[Number, Number], Number]] = {"max": max, "std::max": max, "min": min, "std::min": min}


class Names(Protocol):
    """What a constant expression asks of its scope: the values of names, and types and their sizes."""

    def number(self, node: ir.Name | ir.TypeRef, depth: int) -> Number | None:
        """The number of a named constant, or of a static constant of a class; None for other names."""

    def element(self, ref: ir.TypeRef) -> str | None:
        """The element type that `ref` names; None for other types."""

    def size(self, node: ir.Expr, aligned: bool) -> int | None:
        """The size in bytes of a type or an expression or, if `aligned`, its alignment; None where unknown."""

    def spend(self, steps: int) -> None:
        """Called for work that grows with the text, so that it can be bounded."""


def value(names: Names, node: object, depth: int = 0) -> Number | None:
    """The number that a constant expression has; None where it is not constant, or unknown."""
    names.spend(1)
    handler = _VALUES.get(type(node))
    if handler is None or depth > MAX_DEPTH:
        return None
    try:
        return handler(names, node, depth + 1)
    except (ArithmeticError, ValueError):  # an infinity as an integer, an integer that no float holds
        return None


def converted(names: Names, ref: ir.TypeRef, number: Number | None) -> Number | None:
    """`number` converted to the element type that `ref` names; None for other types."""
    dt = names.element(ref)
    if number is None or dt is None or ref.pointers:
        return None
    if dt in dtypes.FLOATS:
        return float(number)
    return None if isinstance(number, float) and not math.isfinite(number) else _held(number, dt)


def _held(number: Number, dt: str) -> Number:
    made: Number = integers.held(number, dt)
    return made


def _const(names: Names, node: ir.Const, depth: int) -> Number | None:
    if type(node.value) is int and node.dt:
        typed = integers.typed(node.value, node.dt)
        return typed if typed == node.value else None  # else no type of C++ holds the literal
    return node.value if isinstance(node.value, int | float) else None


def _name(names: Names, node: ir.Name | ir.TypeRef, depth: int) -> Number | None:
    return names.number(node, depth)


def _unary(names: Names, node: ir.Unary, depth: int) -> Number | None:
    number = value(names, node.value, depth)
    if number is None or node.op == "not":
        return None if number is None else not number
    if isinstance(number, float):
        return -number if node.op == "-" else number if node.op == "+" else None
    return integers.negated(number, node.op) if node.op in "-~" else +number if node.op == "+" else None


def _binary(names: Names, node: ir.Binary, depth: int) -> Number | None:
    left, right = value(names, node.left, depth), value(names, node.right, depth)
    if left is None or right is None:
        return None
    if isinstance(left, float) or isinstance(right, float):
        function = _FLOATING.get(node.op)
        made: Number | None = None if function is None else function(left, right)
        return made
    return integers.binary(node.op, _whole(left), _whole(right))


def _whole(number: int) -> int:
    """A whole number; a truth is one, too."""
    return int(number) if isinstance(number, bool) else number


def _compare(names: Names, node: ir.Compare, depth: int) -> bool | None:
    if len(node.ops) != 1 or node.ops[0] not in _COMPARE:
        return None
    left, right = value(names, node.left, depth), value(names, node.rights[0], depth)
    if left is None or right is None:
        return None
    if isinstance(left, int) and isinstance(right, int):
        left, right = integers.alike(left, right)
    return _COMPARE[node.ops[0]](left, right)


def _bool(names: Names, node: ir.Bool, depth: int) -> bool | None:
    for part in node.values:
        found = value(names, part, depth)
        if found is None:
            return None
        if bool(found) == (node.op == "or"):
            return bool(found)
    return node.op == "and"


def _cond(names: Names, node: ir.Cond, depth: int) -> Number | None:
    test = value(names, node.test, depth)
    return None if test is None else value(names, node.yes if test else node.no, depth)


def _cast(names: Names, node: ir.Cast, depth: int) -> Number | None:
    return converted(names, node.type, value(names, node.value, depth))


def _call(names: Names, node: ir.Call, depth: int) -> Number | None:
    func = node.func
    name = func.id if isinstance(func, ir.Name) else func.name if isinstance(func, ir.TypeRef) else ""
    if name in ("sizeof", "alignof") and len(node.args) == 1:
        return names.size(node.args[0], name == "alignof")
    numbers = [value(names, arg, depth) for arg in node.args]
    one, other = numbers if len(numbers) == 2 else (None, None)
    if name in _EXTREMES and one is not None and other is not None:
        return _EXTREMES[name](one, other)
    return converted(names, ir.TypeRef(name, (), node.loc), numbers[0]) if name and len(numbers) == 1 else None


_VALUES: dict[type, Callable[[Names, Any, int], Number | None]] = {
    ir.Const: _const, ir.Name: _name, ir.TypeRef: _name, ir.Unary: _unary, ir.Binary: _binary, ir.Compare: _compare,
    ir.Bool: _bool, ir.Cond: _cond, ir.Cast: _cast, ir.Call: _call,
}  # fmt: skip
