"""What the first round of a loop surely does: in the first program of a launch, a load there comes before any store.

Programs that go from tile to tile (`for row in range(pid, rows, programs)`) do their work inside a loop. What stands in
it before anything is stored, and in no branch, is executed by each program before it stores anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kbh_lint.base import ir
from kbh_lint.frontends.walk import by_node, children, walk

MAX_DEPTH = 8  # names that stand for conditions, one in another
_NESTED = (ir.If, ir.For, ir.While, ir.CFor, ir.Switch, ir.Try, ir.With)
_APART = (ir.Lambda, ir.Comp, ir.FuncDef, ir.ClassDef)
_ASSIGNING = (ir.Decl, ir.Assign, ir.AugAssign, ir.AssignE, ir.For)
_LEAVES = (ir.Jump, ir.Return)


@by_node
def in_first_round(loop: ir.For | ir.While | ir.CFor) -> frozenset[ir.Loc]:
    """The places of the expressions that the first iteration of `loop` evaluates on any input. A load there may still
    have a mask that excludes that iteration."""
    return _Round(loop).places


class _Round:
    """One walk over the statements that stand in a loop itself."""

    def __init__(self, loop: ir.For | ir.While | ir.CFor) -> None:
        self.changed: set[str] = set()
        self.given: dict[str, list[Any]] = {}
        for node in walk((loop,)):
            if isinstance(node, _ASSIGNING):
                self._assigned(node)
        self.found: set[ir.Loc] = set()
        self._block(loop.body)
        self.places = frozenset(self.found)

    def _assigned(self, node: object) -> None:
        targets, value = [], None
        if isinstance(node, ir.Decl):
            self.changed.add(node.name)
            self.given.setdefault(node.name, []).append(node.init)
        elif isinstance(node, ir.Assign):
            targets, value = list(node.targets), node.value
        elif isinstance(node, (ir.AugAssign, ir.AssignE, ir.For)):
            targets = [node.target]
        for target in targets:
            names = [part.id for part in walk((target,)) if isinstance(part, ir.Name)]
            self.changed.update(names)
            for name in names:
                self.given.setdefault(name, []).append(value if isinstance(target, ir.Name) else None)

    def _block(self, body: Iterable[ir.Stmt]) -> bool:
        """Notes what a body computes; whether control may go elsewhere in it."""
        for stmt in body:
            if isinstance(stmt, _LEAVES):
                return True
            if isinstance(stmt, ir.Block):
                if self._block(stmt.body):
                    return True
            elif isinstance(stmt, _NESTED):
                if isinstance(stmt, ir.If):
                    self._note(stmt.test)
                if any(isinstance(node, _LEAVES) for node in walk((stmt,))):
                    return True
            elif not isinstance(stmt, _APART):
                for part in children(stmt):
                    self._note(part)
        return False

    def _note(self, node: object) -> None:
        if isinstance(node, _APART):
            return
        if isinstance(node, (ir.Cond, ir.Bool)):
            self._note(node.test if isinstance(node, ir.Cond) else node.values[0])
            return
        held = (*node.args[1:], *(value for _, value in node.keywords)) if isinstance(node, ir.Call) else ()
        if isinstance(node, (ir.Call, ir.Index, ir.Unary, ir.Attr)) and all(map(self._sure, held)):
            self.found.add(node.loc)
        for part in children(node):
            self._note(part)

    def _sure(self, node: object, depth: int = 0) -> bool:
        """Whether a condition that some round meets is met by the first one too: what changes from round to round is
        held against an upper bound alone."""
        if self._stays(node):
            return True
        if isinstance(node, ir.Name) and depth < MAX_DEPTH:
            given = self.given.get(node.id, [])
            return len(given) == 1 and given[0] is not None and self._sure(given[0], depth + 1)
        if isinstance(node, ir.Compare) and len(node.ops) == 1:
            bound = node.rights[0] if node.ops[0] in ("<", "<=") else node.left if node.ops[0] in (">", ">=") else None
            return bound is not None and self._stays(bound)
        if isinstance(node, ir.Binary) and node.op in ("&", "|"):
            return self._sure(node.left, depth) and self._sure(node.right, depth)
        if isinstance(node, ir.Bool):
            return all(self._sure(value, depth) for value in node.values)
        return isinstance(node, ir.Index) and self._sure(node.value, depth)

    def _stays(self, node: object) -> bool:
        return not any(isinstance(part, ir.Name) and part.id in self.changed for part in walk((node,)))
