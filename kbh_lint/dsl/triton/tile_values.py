"""What the compiler knows of the values in a Triton kernel (`axes`), by its expressions."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TypeAlias

from kbh_lint.base import dtypes, ir
from kbh_lint.base.values import Buffer, Func, Scalar, Sym
from kbh_lint.dsl.triton import axes
from kbh_lint.dsl.triton.axes import Tile
from kbh_lint.dsl.triton.staged_loops import HINTS, given_to

Places: TypeAlias = dict[int, tuple[Tile | None, Tile | None]]  # of loads, by the identity of their nodes; their masks
_LANGUAGE = Sym("triton.language")
_SCALARS = ("program_id", "num_programs")
_MIXED = ("sum", "max", "min", "cumsum", "where")
_NUMBERS: Mapping[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": axes.quotient, "&": operator.and_,
    "%": lambda a, b: a - b * axes.quotient(a, b), "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge, "==": operator.eq, "!=": operator.ne, "cdiv": lambda a, b: axes.quotient(a + b - 1, b),
    "minimum": min, "maximum": max, "min": min, "max": max,
}  # fmt: skip


class Values:
    """The values of the names of a kernel at one place in it, and of expressions there."""

    def __init__(self, kernel: Func, binding: Mapping[str, object], aligned: Collection[str]) -> None:
        self.kernel = kernel
        self.places: Places = {}
        self.tiles: dict[str, Tile | None] = {
            name: _argument(name, value, name in aligned) for name, value in binding.items()
        }
        for param in kernel.node.params:
            self.tiles.setdefault(param.name, None)

    def of(self, node: ir.Expr) -> Tile | None:
        """What is known of the value of an expression."""
        if isinstance(node, ir.Const):
            return axes.number(node.value) if type(node.value) is int else None
        if isinstance(node, ir.Name):
            if node.id in self.tiles:
                return self.tiles[node.id]
            found = self.kernel.env.get(node.id, None)
            return axes.number(found) if type(found) is int else None
        if isinstance(node, ir.Binary):
            return self.binary(node.op, self.of(node.left), self.of(node.right))
        if isinstance(node, ir.Compare):
            return self._compare(node)
        if isinstance(node, ir.Index):
            return self._index(node)
        if isinstance(node, ir.Unary) and node.op == "-":
            return self.binary("-", axes.number(0), self.of(node.value))
        return self._call(node) if isinstance(node, ir.Call) else None

    def binary(self, op: str, a: Tile | None, b: Tile | None) -> Tile | None:
        made = self._combined(op, a, b) if a is not None and b is not None else None
        return axes.with_first(made, _NUMBERS[op], a, b) if op in _NUMBERS else made

    def _combined(self, op: str, a: Tile, b: Tile) -> Tile | None:
        if op == "+":
            return axes.added(a, b)
        if op == "*":
            return axes.multiplied(a, b)
        if op == "%":
            return axes.remainder(a, b)
        if a.const is not None and b.const is not None and not a.axes and not b.axes:
            if op == "-":
                return axes.number(a.const - b.const)
            return axes.number(a.const // b.const) if op == "//" and b.const else None
        if op == "-" and not a.dtype and not b.dtype and not b.axes:  # a multiple of the same below another
            return axes.added(a, replace(b, const=None))
        return axes.mixed(a, b) if op in ("-", "//", "&") else None

    def _compare(self, node: ir.Compare) -> Tile | None:
        a, b = self.of(node.left), self.of(node.rights[0])
        if a is None or b is None or len(node.ops) != 1:
            return None
        made = axes.less(a, b) if node.ops[0] in ("<", ">=") else axes.mixed(a, b)
        return axes.with_first(made, _NUMBERS[node.ops[0]], a, b) if node.ops[0] in _NUMBERS else made

    def _index(self, node: ir.Index) -> Tile | None:
        value = self.of(node.value)
        parts = node.index.items if isinstance(node.index, ir.Seq) else (node.index,)
        whole = [isinstance(part, ir.SliceE) and not (part.lower or part.upper or part.step) for part in parts]
        new = [isinstance(part, ir.Const) and part.value is None for part in parts]
        if value is None or not all(one or two for one, two in zip(whole, new, strict=True)):
            return None
        return axes.turned(value, whole)

    def _call(self, node: ir.Call) -> Tile | None:
        func, name = node.func, self.function(node.func)
        if not name:
            return self._plain_call(node, func)
        if name in _SCALARS:
            return Tile(late=True, first=(0,), sure=name == "program_id")
        if name in HINTS:
            return self.of(node.args[0]) if node.args else None
        if name == "load":
            return self._load(node)
        if name == "dot":  # its operands may be loads
            return None if [self.of(arg) for arg in node.args] else None
        if name == "arange":
            return self._arange(node)
        if name in _MIXED:
            return self._mixed(node, name)
        return self._pair(node) if name in ("cdiv", "minimum", "maximum") else None

    def _load(self, node: ir.Call) -> Tile | None:
        mask, other = given_to(node, 1, "mask"), given_to(node, 2, "other")
        at = self.of(node.args[0]) if node.args else None
        inside = self.of(mask) if mask is not None else None
        self.places[id(node)] = at, inside
        made = axes.loaded(at) if at is not None and at.dtype else None
        if mask is None or made is None:
            return made
        return axes.with_first(made, _chosen, inside, made, self.of(other) if other is not None else made)

    def _plain_call(self, node: ir.Call, func: ir.Expr) -> Tile | None:
        """`value.to(type)`, `min(a, b)` and `max(a, b)`."""
        method = isinstance(func, ir.Attr) and func.name == "to" and not self._is_module(func.value)
        value = self.of(func.value) if method and isinstance(func, ir.Attr) else None
        if value is not None:
            return None if value.dtype else value
        if isinstance(func, ir.Name) and func.id in ("min", "max") and func.id not in self.tiles:
            return self._pair(node)
        return None

    def _mixed(self, node: ir.Call, name: str) -> Tile | None:
        """A sum or extreme of a row, which is one number that is not known, a running sum, or a choice by elements."""
        found = [self.of(arg) for arg in node.args[1 if name == "where" else 0 :]]
        one = found[0] if found else None
        if one is None or one.dtype or any(key != "axis" for key, _ in node.keywords):
            return None
        if name == "where":
            other = found[1] if len(found) == 2 else None
            made = axes.mixed(one, other) if other is not None and not other.dtype else None
            return axes.with_first(made, _chosen, self.of(node.args[0]), one, other)
        if len(one.axes) != 1:
            return None
        return axes.mixed(one, one) if name == "cumsum" else Tile(late=True)

    def _is_module(self, node: ir.Expr) -> bool:
        return isinstance(node, ir.Name) and node.id not in self.tiles

    def _pair(self, node: ir.Call) -> Tile | None:
        """The value of a function of two numbers."""
        found = [self.of(arg) for arg in node.args]
        if len(found) != 2 or node.keywords or found[0] is None or found[1] is None:
            return None
        a, b = found[0], found[1]
        name = node.func.id if isinstance(node.func, ir.Name) else self.function(node.func)
        if a.const is not None and b.const is not None and not a.axes and not b.axes:
            return axes.number(-(-a.const // b.const)) if name == "cdiv" and b.const else None
        return axes.with_first(axes.mixed(a, b), _NUMBERS[name], a, b)

    def _arange(self, node: ir.Call) -> Tile | None:
        found = [self.of(arg) for arg in node.args]
        first, last = [one.const if one is not None else None for one in found] if len(found) == 2 else (None, None)
        if first is None or last is None or node.keywords or last <= first:
            return None
        return axes.rising(first, last - first)

    def function(self, node: ir.Expr) -> str:
        """The name of a function of the language; empty for any other."""
        if not isinstance(node, ir.Attr) or not isinstance(node.value, ir.Name) or node.value.id in self.tiles:
            return ""
        found = self.kernel.env.get(node.value.id, None)
        return node.name if found == _LANGUAGE else ""


def _argument(name: str, value: object, aligned: bool) -> Tile | None:
    """What the compiler knows of an argument: one that is 1 is a constant, else whether 16 divides it."""
    if type(value) is int:
        return axes.number(value)
    if isinstance(value, Buffer):
        bits = dtypes.STORED.get(value.dtype)
        return Tile(
            by=128 // bits if aligned and bits else 1, late=True, dtype=value.dtype, root=name, first=(0,), sure=True
        )
    if isinstance(value, Scalar) and type(value.value) is int:
        by = 16 if value.value % 16 == 0 else 1
        return axes.number(1) if value.value == 1 else Tile(by=by, late=True, first=(value.value,), sure=True)
    return None


def _chosen(test: int, one: int, other: int) -> int:
    return one if test else other
