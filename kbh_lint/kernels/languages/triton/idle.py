"""Calls in a Triton function whose value goes nowhere: the compiler drops them, so such a load reads nothing.

Backwards over the statements with the names that are needed later. A value is needed when a store, a branch, a loop's
bound, a return value, an assertion or a call that may have effects depends on it, and not where it is multiplied by a
literal zero. What is not known to be without effects is needed, with all that it is given.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kbh_lint import ir
from kbh_lint.frontends.walk import walk

_PURE = frozenset(
    "load where minimum maximum max min sum cumsum arange zeros zeros_like full cdiv program_id num_programs to cast "
    "abs exp exp2 log log2 sqrt rsqrt multiple_of max_contiguous broadcast_to expand_dims reshape trans int float "
    "next_power_of_2".split()
)
_PLAIN = (ir.Const, ir.Name, ir.Attr, ir.Index, ir.SliceE, ir.Binary, ir.Unary, ir.Bool, ir.Compare, ir.Cond, ir.Seq)
_MAX_ROUNDS = 24


def idle_calls(func: ir.FuncDef) -> frozenset[ir.Loc]:
    """The places of calls whose value nothing needs."""
    calls = {node.loc for node in walk(func.body) if isinstance(node, ir.Call)}
    needs = _Needs()
    try:
        needs.block(func.body or (), frozenset(), frozenset())
    except _NotFollowed:
        return frozenset()
    return frozenset(calls - needs.calls)


class _NotFollowed(Exception):
    """A statement that is not modelled: then all of the function is needed."""


class _Needs:
    """The calls found to be needed so far; they only grow while loops go round."""

    def __init__(self) -> None:
        self.calls: set[ir.Loc] = set()

    def block(self, body: Iterable[object], after: frozenset[str], jump: frozenset[str]) -> frozenset[str]:
        """The names needed before `body`; `jump` are those needed where a break or continue leads."""
        for statement in reversed(tuple(body)):
            after = self._statement(statement, after, jump)
        return after

    def _statement(self, node: object, after: frozenset[str], jump: frozenset[str]) -> frozenset[str]:
        if isinstance(node, ir.Assign):
            return self._assign(node, after)
        if isinstance(node, ir.AugAssign):
            if isinstance(node.target, ir.Name) and node.target.id not in after and _pure(node.value):
                return after
            return after | self._used(node.target, node.value)
        if isinstance(node, ir.ExprS):
            return after if _pure(node.value) else after | self._used(node.value)
        if isinstance(node, ir.If):
            either = self.block(node.body, after, jump) | self.block(node.orelse, after, jump)
            return either | self._used(node.test)
        if isinstance(node, (ir.For, ir.While)):
            return self._loop(node, after, jump)
        if isinstance(node, ir.Return):
            return self._used(node.value)
        if isinstance(node, ir.Jump):
            return jump
        if isinstance(node, ir.Assert):
            return after | self._used(node.test)
        if isinstance(node, ir.Block):
            return self.block(node.body, after, jump)
        if isinstance(node, ir.Decl) and node.init is None:
            return after
        raise _NotFollowed

    def _assign(self, node: ir.Assign, after: frozenset[str]) -> frozenset[str]:
        names: set[str] = set()
        others: list[ir.Expr] = []
        for target in node.targets:
            for part in target.items if isinstance(target, ir.Seq) else (target,):
                if isinstance(part, ir.Name):
                    names.add(part.id)
                else:
                    others.append(part)
        if not others and not names & after and _pure(node.value):
            return after
        return (after - names) | self._used(node.value, *others)

    def _loop(self, node: ir.For | ir.While, after: frozenset[str], jump: frozenset[str]) -> frozenset[str]:
        after = after | self.block(node.orelse, after, jump)
        head = after | self._used(node.iterable if isinstance(node, ir.For) else node.test)
        for _ in range(_MAX_ROUNDS):
            grown = head | self.block(node.body, head, head)
            if grown == head:
                return head
            head = grown
        raise _NotFollowed

    def _used(self, *values: ir.Expr | None) -> frozenset[str]:
        """The names that expressions need; their calls are noted."""
        names: set[str] = set()
        stack: list[Any] = [value for value in values if value is not None]
        while stack:
            node = stack.pop()
            if isinstance(node, ir.Name):
                names.add(node.id)
            elif isinstance(node, ir.Binary):
                if not (node.op in ("*", "&") and (_zero(node.left) or _zero(node.right)) and _pure(node)):
                    stack += (node.left, node.right)
            elif isinstance(node, ir.Call):
                self.calls.add(node.loc)
                stack += (node.func, *node.args, *(value for _, value in node.keywords))
            elif isinstance(node, ir.Attr):
                stack.append(node.value)
            elif isinstance(node, ir.Index):
                stack += (node.value, node.index)
            elif isinstance(node, ir.SliceE):
                stack += [part for part in (node.lower, node.upper, node.step) if part is not None]
            elif isinstance(node, ir.Unary):
                stack.append(node.value)
            elif isinstance(node, ir.Bool):
                stack += node.values
            elif isinstance(node, ir.Compare):
                stack += (node.left, *node.rights)
            elif isinstance(node, ir.Cond):
                stack += (node.test, node.yes, node.no)
            elif isinstance(node, ir.Seq):
                stack += node.items
            elif isinstance(node, ir.Star):
                stack.append(node.value)
            elif not isinstance(node, ir.Const):
                raise _NotFollowed
        return frozenset(names)


def _zero(node: object) -> bool:
    return isinstance(node, ir.Const) and type(node.value) in (int, float) and node.value == 0


def _pure(value: object) -> bool:
    """Whether evaluating an expression has no effect but its value."""
    for node in walk(value):
        if isinstance(node, ir.Call):
            name = node.func.name if isinstance(node.func, ir.Attr) else getattr(node.func, "id", "")
            if name not in _PURE or any(key in (None, "volatile") for key, _ in node.keywords):
                return False
        elif not isinstance(node, _PLAIN):
            return False
    return True
