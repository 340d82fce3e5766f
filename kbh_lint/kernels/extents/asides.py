"""A kernel without its asides: what it writes to memory that has no part in the result, and the branches around that.

An input that decides nothing but a counter, a log or a check beside the result is read for nothing. What the kernel
itself looks at again, as a lock or a flag, is no aside, whatever happens to it afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from kbh_lint.base import ir
from kbh_lint.base.values import Func
from kbh_lint.frontends.walk import walk
from kbh_lint.ops.catalogue import BY_POINTERS, spellings

_WRITES = spellings(
    "store", "atomic_add", "atomic_max", "atomic_min", "atomic_exchange", "atomic", languages=(*BY_POINTERS, "cuda")
)
_EFFECTS = (ir.AssignE, ir.Asm, ir.Opaque)


def without(kernel: Func, written: Iterable[str], pointers: Iterable[str]) -> tuple[Func, frozenset[str]] | None:
    """`kernel` without its stores through the parameters `written`, and the parameters that are gone with them; None
    when nothing can be removed.

    A parameter of `written` that the kernel also uses otherwise stays. `pointers` are all pointer parameters of the
    kernel.
    """
    gone, given = frozenset(written), frozenset(pointers)
    while gone:
        cut = _Cut(gone, given)
        body = cut.block(kernel.node.body or ())
        still = gone & {node.id for node in walk(body) if isinstance(node, ir.Name)}
        if not still:
            return (replace(kernel, node=replace(kernel.node, body=body)), gone) if cut.found else None
        gone -= still
    return None


class _Cut:
    """Leaves statements out of blocks."""

    def __init__(self, gone: frozenset[str], pointers: frozenset[str]) -> None:
        self.gone, self.pointers = gone, pointers
        self.found = False

    def block(self, body: Iterable[Any]) -> tuple[Any, ...]:
        """The statements of a block without asides."""
        return tuple(kept for stmt in body if (kept := self.statement(stmt)) is not None)

    def statement(self, stmt: ir.Stmt) -> ir.Stmt | None:
        """The statement without the asides in it; None where nothing is left."""
        if self._aside(stmt):
            self.found = True
            return None
        if isinstance(stmt, ir.If):
            body, orelse = self.block(stmt.body), self.block(stmt.orelse)
            if (body, orelse) == (stmt.body, stmt.orelse):
                return stmt
            return replace(stmt, body=body, orelse=orelse) if body or orelse or _acts(stmt.test) else None
        if isinstance(stmt, (ir.For, ir.CFor, ir.While, ir.Block)):
            body = self.block(stmt.body)
            if body == stmt.body:
                return stmt
            return replace(stmt, body=body) if body or isinstance(stmt, ir.While) else None
        return stmt

    def _aside(self, stmt: ir.Stmt) -> bool:
        """Whether a statement does nothing but write through a parameter that has no part in the result: `list[n] = x`
        is an aside then, `list[n++] = x` steps `n` as well."""
        parts = _written(stmt)
        if parts is None or any(map(_acts, parts)):
            return False
        through = {node.id for node in walk(parts[0]) if isinstance(node, ir.Name)} & self.pointers
        return len(through) == 1 and through <= self.gone


def _written(stmt: ir.Stmt) -> tuple[ir.Expr, ...] | None:
    """The place in memory that a statement writes, and what else it evaluates; None where it is no plain write."""
    if isinstance(stmt, ir.ExprS):
        value = stmt.value
        if isinstance(value, ir.Call) and _called(value) in _WRITES and value.args:
            return (*value.args, *(given for _, given in value.keywords))
        if isinstance(value, ir.AssignE) and isinstance(value.target, (ir.Index, ir.Unary)):
            return value.target, value.value
    if isinstance(stmt, ir.Assign) and len(stmt.targets) == 1 and isinstance(stmt.targets[0], (ir.Index, ir.Unary)):
        return stmt.targets[0], stmt.value
    if isinstance(stmt, ir.AugAssign) and isinstance(stmt.target, (ir.Index, ir.Unary)):
        return stmt.target, stmt.value
    return None


def _called(node: ir.Call) -> str:
    func = node.func
    name = func.name if isinstance(func, ir.Attr) else func.id if isinstance(func, ir.Name) else ""
    return name.rpartition("::")[2]


def _acts(node: object) -> bool:
    """Whether an expression does something beside having a value."""
    return any(
        isinstance(part, _EFFECTS) or isinstance(part, ir.Call) and _called(part) in _WRITES for part in walk([node])
    )
