"""Pointers of a CUDA kernel whose elements are loaded and reach nothing: no store, address, condition or call.

A name holds an element where some assignment gives it one, wherever it stands. An element counts for nothing in a
product with zero, in a difference with itself, and in the larger of it and a number that no element exceeds; and of
elements that rise, in a test whether one is less than the one before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from typing import Any

from kbh_lint.base import ir, values
from kbh_lint.frontends.walk import all_nodes, children, walk

MAX_ROUNDS = 20
_READS = ("__ldg", "__ldca", "__ldcg", "__ldcs", "__ldlu", "__ldcv")
_BUILT_IN = ("blockIdx", "threadIdx", "blockDim", "gridDim")
_LARGER = ("max", "std::max", "cuda::std::max", "::max")


def unused(
    kernel: values.Func, args: Mapping[str, object], pointer: str, most: int | None, rising: bool = False
) -> bool:
    """Whether the integers behind the parameter `pointer`, none greater than `most`, are never used for anything:
    loaded without effect, or not loaded.

    `rising`: each is at least as large as the one before, and none is negative.
    """
    nodes = all_nodes(kernel.node.body or ())
    if any(isinstance(node, (ir.Lambda, ir.FuncDef, ir.ClassDef, ir.Opaque, ir.Asm)) for node in nodes):
        return False
    return _Elements(args, pointer, most, rising).reach_nothing(tuple(kernel.node.body or ()), nodes)


class _Elements:
    """The names that hold elements, and what uses them."""

    def __init__(self, args: Mapping[str, Any], pointer: str, most: int | None, rising: bool) -> None:
        self.args, self.pointer, self.most, self.rising = args, pointer, most, rising
        self.holding: set[str] = set()
        self.once: dict[str, Any] = {}  # names that are given one value in the whole kernel
        self.unchanged: Set[str] = frozenset()  # arguments

    def reach_nothing(self, body: tuple[object, ...], nodes: Sequence[object]) -> bool:
        """Whether the elements that `nodes` load are only assigned from variable to variable, and used for nothing
        else."""
        given = [(node, target, value) for node in nodes for target, value in _given(node)]
        targets = Counter(target for _, target, _ in given)
        self.unchanged = self.args.keys() - targets.keys()
        for node, target, value in given if self.rising else ():
            if targets[target] == 1 and isinstance(node, ir.Decl) and value is not None:
                self.once[target] = value
        for _ in range(MAX_ROUNDS):
            more = {target for _, target, value in given if self.holds(value)} - self.holding
            if not more:
                break
            self.holding |= more
        return not any(self.used(stmt) for stmt in body)

    def used(self, stmt: object) -> bool:
        """Whether a statement does anything with an element except assign it to a variable."""
        if isinstance(stmt, ir.Decl):
            bound = stmt.type is not None and (stmt.type.reference or stmt.type.pointers)
            return self._effects(stmt.init) or bool(bound) and self.holds(stmt.init)
        if isinstance(stmt, ir.Assign) and all(isinstance(target, ir.Name) for target in stmt.targets):
            return self._effects(stmt.value)
        if isinstance(stmt, ir.AugAssign) and isinstance(stmt.target, ir.Name):
            return self._effects(stmt.value)
        if isinstance(stmt, ir.ExprS):
            value = stmt.value
            while isinstance(value, ir.Cast):
                value = value.value
            return self._effects(value)
        if isinstance(stmt, ir.Block):
            return any(map(self.used, stmt.body))
        if isinstance(stmt, ir.If):
            return self.holds(stmt.test) or any(map(self.used, (*stmt.body, *stmt.orelse)))
        if isinstance(stmt, ir.CFor):
            inside = any(map(self.used, (*stmt.init, *stmt.body)))
            return inside or self.holds(stmt.test) or self._effects(stmt.step)
        if isinstance(stmt, ir.While):
            return self.holds(stmt.test) or any(map(self.used, stmt.body))
        return self.holds(stmt)

    def _effects(self, node: object) -> bool:
        """Whether an expression, whose own value goes to a name or nowhere, uses an element on the way."""
        if isinstance(node, ir.AssignE) and isinstance(node.target, ir.Name):
            return self._effects(node.value)
        calls = (ir.Call, ir.AssignE, ir.Cond, ir.Launch)
        for part in walk((node,)):
            if isinstance(part, ir.Call) and getattr(part.func, "id", "") in (*_READS, *_LARGER, "min"):
                continue
            address = isinstance(part, ir.Unary) and part.op == "&"
            if isinstance(part, ir.Cond) and not self.holds(part):
                continue
            if isinstance(part, ir.Index) and self.holds(part.index):
                return True
            if (isinstance(part, calls) or address) and self.holds(part):
                return True
        return False

    def holds(self, node: object) -> bool:
        """Whether the value of an expression may depend on an element."""
        if isinstance(node, ir.Name):
            return node.id in self.holding or node.id == self.pointer
        if isinstance(node, ir.Binary):
            if node.op in ("*", "&") and (self._number(node.left) == 0 or self._number(node.right) == 0):
                return False
            if node.op == "-" and _same(node.left, node.right):
                return False
        if isinstance(node, ir.Call) and getattr(node.func, "id", "") in _LARGER and len(node.args) == 2:
            if any(self._exceeds(self._number(arg)) for arg in node.args):
                return False
        if isinstance(node, ir.Cond) and isinstance(node.test, ir.Compare) and self._larger(node, node.test):
            return False
        if self.rising and isinstance(node, ir.Compare) and self._settled(node):
            return False
        return any(map(self.holds, node if isinstance(node, (tuple, list)) else children(node)))

    def _larger(self, node: ir.Cond, test: ir.Compare) -> bool:
        """Whether `a < b ? b : a` is the larger of an element and a number that none exceeds."""
        if len(test.ops) != 1 or test.ops[0] not in ("<", "<=", ">", ">="):
            return False
        small, large = (test.left, test.rights[0]) if test.ops[0] in ("<", "<=") else (test.rights[0], test.left)
        if not (_same(node.yes, large) and _same(node.no, small)):
            return False
        return self._exceeds(self._number(small)) or self._exceeds(self._number(large))

    def _settled(self, test: ir.Compare) -> bool:
        """Whether a comparison comes out one way for all elements that rise."""
        if len(test.ops) != 1 or test.ops[0] not in ("<", "<=", ">", ">="):
            return False
        small, large = (test.left, test.rights[0]) if test.ops[0] in ("<", "<=") else (test.rights[0], test.left)
        strict = test.ops[0] in ("<", ">")
        if self._apart(small, large, 1 if strict else 0):  # it always holds
            return True
        return self._apart(large, small, 0 if strict else 1)  # it never does

    def _apart(self, small: object, large: object, by: int) -> bool:
        """Whether `large` is known to be at least `by` more than `small`."""
        number, least = self._number(small), self._least(large)
        if number is not None and least is not None and least - number >= by:
            return True
        return by == 0 and self._behind(large, small)

    def _least(self, node: object) -> int | None:
        """The least that a value can be."""
        node = self._value(node)
        if isinstance(node, ir.Binary) and node.op == "-" and self._behind(node.left, node.right):
            return 0
        if isinstance(node, ir.Index) and isinstance(node.value, ir.Name) and node.value.id == self.pointer:
            return 0
        return self._number(node)

    def _behind(self, later: object, earlier: object) -> bool:
        """Whether two values are elements, the first of which stands at or behind the place of the second."""
        beside = isinstance(later, ir.Index) and isinstance(earlier, ir.Index)  # in one expression: nothing is between
        later, earlier = self._value(later), self._value(earlier)
        places = []
        for node in (later, earlier):
            if not isinstance(node, ir.Index) or not isinstance(node.value, ir.Name) or node.value.id != self.pointer:
                return False
            places.append(self._place(node.index))
        (one, step), (other, before) = places
        names = [part.id for part in walk((one,)) if isinstance(part, ir.Name)]
        steady = beside or all(name in self.once or name in _BUILT_IN or name in self.unchanged for name in names)
        return _same(one, other) and steady and step >= before

    def _place(self, node: ir.Expr) -> tuple[ir.Expr, int]:
        """An index as something and a number that is added to it."""
        if isinstance(node, ir.Binary) and node.op in "+-":
            number = node.right.value if isinstance(node.right, ir.Const) else None
            if isinstance(number, int):
                return node.left, number if node.op == "+" else -number
        return node, 0

    def _value(self, node: object) -> object:
        """What a name stands for that is given one value in the whole kernel."""
        for _ in range(MAX_ROUNDS):
            if isinstance(node, ir.Cast):
                node = node.value
            elif isinstance(node, ir.Name) and node.id in self.once:
                node = self.once[node.id]
            else:
                break
        return node

    def _exceeds(self, number: int | None) -> bool:
        return number is not None and self.most is not None and number == self.most

    def _number(self, node: object) -> int | None:
        if isinstance(node, ir.Cast):
            return self._number(node.value)
        found = node.value if isinstance(node, ir.Const) else None
        if isinstance(node, ir.Name):
            found = self.args.get(node.id)
            found = found.value if isinstance(found, values.Scalar) else found
        return found if isinstance(found, int) and not isinstance(found, bool) else None


def _given(node: object) -> list[tuple[str, Any]]:
    """The names that a node gives values to, each with the value."""
    if isinstance(node, ir.Decl):
        return [(node.name, node.init)]
    if isinstance(node, ir.Assign):
        return [(target.id, node.value) for target in node.targets if isinstance(target, ir.Name)]
    if isinstance(node, (ir.AssignE, ir.AugAssign)) and isinstance(node.target, ir.Name):
        return [(node.target.id, node.value)]
    return []


def _same(a: object, b: object) -> bool:
    """Whether two expressions are written alike and call nothing."""
    if isinstance(a, (ir.Call, ir.AssignE)) or type(a) is not type(b):
        return False
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        return len(a) == len(b) and all(map(_same, a, b))
    if is_dataclass(a):
        return all(_same(getattr(a, f.name), getattr(b, f.name)) for f in fields(a) if f.name != "loc")
    return a == b
