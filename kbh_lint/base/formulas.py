"""Arithmetic over shape symbols, as `problem.yaml` writes it: `2*M*N*K`, `max(batch*pages + 8, 64)`.

A formula may hold names, numbers, `+ - * / // % **`, parentheses, `min` and `max`. It is parsed with `ast` and
evaluated by walking; nothing is executed, and length, depth and the size of results are bounded.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from functools import lru_cache
from keyword import iskeyword

Number = int | float
Value = int | float | bool | str | None | tuple[int, ...]
Formula = int | float | str

MAX_LENGTH = 400
MAX_NODES = 120
MAX_EXPONENT = 64
MAX_BITS = 256

_OPERATORS: dict[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_FUNCTIONS: dict[str, Callable[..., Number]] = {"min": min, "max": max}


class FormulaError(ValueError):
    """A formula that cannot be read or has no value; the message is one sentence."""


@lru_cache(maxsize=4096)
def _parse(text: str) -> ast.expr:
    if len(text) > MAX_LENGTH:
        raise FormulaError(f"a formula is longer than {MAX_LENGTH} characters")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise FormulaError(f"`{text}` is not an arithmetic formula") from None
    for count, node in enumerate(ast.walk(tree)):
        if count > MAX_NODES:
            raise FormulaError(f"`{text[:40]}...` has more than {MAX_NODES} parts")
        _check_node(node, text)
    return tree


def _check_node(node: ast.AST, text: str) -> None:
    if isinstance(node, ast.Constant):
        if type(node.value) not in (int, float):
            raise FormulaError(f"`{text}` holds a value that is not a number")
    elif isinstance(node, ast.Call):
        plain = isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS
        if not plain or node.keywords or not node.args:
            raise FormulaError(f"`{text}` calls something other than min or max")
    elif isinstance(node, ast.BinOp):
        if type(node.op) not in _OPERATORS and not isinstance(node.op, ast.Pow):
            raise FormulaError(f"`{text}` uses an operator that formulas do not have")
    elif isinstance(node, ast.UnaryOp):
        if not isinstance(node.op, (ast.USub, ast.UAdd)):
            raise FormulaError(f"`{text}` uses an operator that formulas do not have")
    elif not isinstance(node, (ast.Name, ast.operator, ast.unaryop, ast.expr_context)):
        raise FormulaError(f"`{text}` is not an arithmetic formula")


def names(formula: Formula) -> frozenset[str]:
    """The symbols a formula mentions; raises FormulaError when it cannot be read."""
    if not isinstance(formula, str) or formula.isdigit():
        return frozenset()
    if formula.isidentifier() and formula not in _FUNCTIONS and not iskeyword(formula):
        return frozenset((formula,))
    found = (node.id for node in ast.walk(_parse(formula)) if isinstance(node, ast.Name))
    return frozenset(found) - frozenset(_FUNCTIONS)


def evaluate(formula: Formula, symbols: Mapping[str, Value]) -> Value:
    """The value of a formula; a bare symbol may stand for any value (a list, a flag).

    Raises FormulaError for an unknown symbol, a division by zero or a result out of bounds.
    """
    if not isinstance(formula, str):
        return formula
    if formula in symbols:
        return symbols[formula]
    try:
        return _eval(_parse(formula), symbols, formula)
    except ZeroDivisionError:
        raise FormulaError(f"`{formula}` divides by zero") from None
    except OverflowError:
        raise FormulaError(f"`{formula}` is too large") from None


def evaluate_int(formula: Formula, symbols: Mapping[str, Value]) -> int:
    """Like `evaluate`, for a size: the result must be a whole number of at least 0."""
    value = evaluate(formula, symbols)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise FormulaError(f"`{formula}` is {value!r}, not a size")
    return value


def _number(value: Value, text: str) -> Number:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise FormulaError(f"`{text}` computes with {value!r}, which is not a number")
    return value


def _eval(node: ast.expr, symbols: Mapping[str, Value], text: str) -> Value:
    if isinstance(node, ast.Name):
        if node.id not in symbols:
            raise FormulaError(f"`{text}` mentions `{node.id}`, which the shape does not have")
        return symbols[node.id]
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, (int, float)) else None
    result: Number
    if isinstance(node, ast.UnaryOp):
        value = _number(_eval(node.operand, symbols, text), text)
        result = -value if isinstance(node.op, ast.USub) else value
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        arguments = [_number(_eval(argument, symbols, text), text) for argument in node.args]
        result = _FUNCTIONS[node.func.id](arguments)
    elif isinstance(node, ast.BinOp):
        left = _number(_eval(node.left, symbols, text), text)
        right = _number(_eval(node.right, symbols, text), text)
        result = _power(left, right, text) if isinstance(node.op, ast.Pow) else _OPERATORS[type(node.op)](left, right)
    else:
        raise FormulaError(f"`{text}` is not an arithmetic formula")
    if isinstance(result, int) and result.bit_length() > MAX_BITS:
        raise FormulaError(f"`{text}` is too large")
    return result


def _power(base: Number, exponent: Number, text: str) -> Number:
    if abs(exponent) > MAX_EXPONENT or (isinstance(base, int) and base.bit_length() > MAX_BITS):
        raise FormulaError(f"`{text}` is too large")
    result = base**exponent
    if isinstance(result, complex):
        raise FormulaError(f"`{text}` has no real value")
    return float(result) if isinstance(result, float) else int(result)
