"""Expressions that do not depend on one of their operands, for they equal another whatever it is: a choice by equality
between the very values that it compares, a bound that the other bound takes back, a difference of a value with itself.

Two expressions are the same only where both are written alike, of names, numbers and functions without memory.
"""

from __future__ import annotations

from typing import Any

from kbh_lint.base import ir
from kbh_lint.frontends.walk import all_nodes, children, walk
from kbh_lint.ops.catalogue import BY_POINTERS, spellings

_PURE = frozenset("program_id num_programs arange cdiv minimum maximum min max abs".split())
_EXTREMES = {word: kind for kind in ("min", "max") for word in spellings(kind, f"reduce_{kind}", languages=BY_POINTERS)}
_MAX_NODES = 60


def called(node: object) -> str:
    """The last part of the name of the function that a call calls; empty for other nodes."""
    func = node.func if isinstance(node, ir.Call) else None
    return func.name if isinstance(func, ir.Attr) else func.id if isinstance(func, ir.Name) else ""


class Identities:
    """What holds in one function whatever its arguments are: where its names are assigned, and the expressions of those
    that are assigned once."""

    def __init__(self, func: ir.FuncDef) -> None:
        self.once: dict[str, Any] = {}
        self.places: dict[str, list[Any]] = {param.name: [()] for param in func.params}
        self.loops: list[Any] = []
        for node in all_nodes(func.body or ()):
            plain = isinstance(node, ir.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ir.Name)
            for name in _assigned(node):
                self.places.setdefault(name, []).append(node.loc[3:])
                if plain and isinstance(node, ir.Assign):
                    self.once[name] = node.value
            if isinstance(node, (ir.For, ir.While)):
                self.loops.append(node.loc[1:])

    def meant(self, node: object) -> Any:
        """The expression assigned to the name `node`, if it is assigned only once and nothing that the expression uses
        was assigned since; else `node` itself."""
        if not isinstance(node, ir.Name) or len(self.places.get(node.id, ())) != 1 or node.id not in self.once:
            return node
        value = self.once[node.id]
        since, here = value.loc[3:], node.loc[1:]
        again = any(since < loop < here for loop in self.loops)  # what stands behind may have run before
        for part in walk([value]):
            places = self.places.get(part.id, ()) if isinstance(part, ir.Name) else ()
            if since >= here or any(since < at and (again or at < here) for at in places):
                return node
        return value

    def kept(self, test: object, yes: object, no: object) -> Any:
        """The one of `yes` and `no` that `yes if test else no` always equals; None where the result depends on the
        test."""
        if same(yes, no):
            return no
        test = self.meant(test)
        if not isinstance(test, ir.Compare) or test.ops not in (("==",), ("!=",)):
            return None
        pair = (test.left, test.rights[0])
        if not any(same(one, yes) and same(other, no) for one, other in (pair, pair[::-1])):
            return None
        return no if test.ops == ("==",) else yes

    def bound(self, node: object) -> Any:
        """The operand `a` of `min(max(x, a), a)` or `max(min(x, a), a)`, which equals the whole expression; None for
        other expressions."""
        kind, parts = _extreme(node)
        for inner, other in (parts, parts[::-1]) if len(parts) == 2 else ():
            within, sides = _extreme(self.meant(inner))
            if within and within != kind and any(same(side, other) for side in sides):
                return other
        return None


def nothing_left(node: ir.Binary) -> bool:
    """Whether the operation subtracts an integer from itself, or is the XOR of one with itself: the result is zero."""
    return node.op in ("-", "^") and same(node.left, node.right)


def same(a: object, b: object) -> bool:
    """Whether two expressions are written alike, so that they have the same value if evaluated at the same place."""
    left, right = walk([a]), walk([b])
    if len(left) != len(right) or len(left) > _MAX_NODES:
        return False
    return all(_alike(x, y) for x, y in zip(left, right, strict=True))


def _alike(a: object, b: object) -> bool:
    if type(a) is not type(b) or len(children(a)) != len(children(b)):
        return False
    match a, b:
        case ir.Name(), ir.Name():
            return a.id == b.id
        case ir.Const(), ir.Const():
            return type(a.value) is type(b.value) and bool(a.value == b.value)
        case ir.Binary(), ir.Binary():
            return a.op == b.op
        case ir.Unary(), ir.Unary():
            return a.op == b.op
        case ir.Attr(), ir.Attr():
            return a.name == b.name
        case ir.Call(), ir.Call():
            return called(a) in _PURE and not a.keywords and not b.keywords
    return False


def _extreme(node: object) -> tuple[str, tuple[Any, ...]]:
    kind = _EXTREMES.get(called(node), "")
    plain = isinstance(node, ir.Call) and kind and len(node.args) == 2 and not node.keywords
    return (kind, tuple(node.args)) if plain and isinstance(node, ir.Call) else ("", ())


def _assigned(node: object) -> list[str]:
    if isinstance(node, ir.Assign):
        targets = node.targets
    elif isinstance(node, (ir.AugAssign, ir.AssignE, ir.For)):
        targets = (node.target,)
    else:
        return []
    return [part.id for target in targets for part in walk([target]) if isinstance(part, ir.Name)]
