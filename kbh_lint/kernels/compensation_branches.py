"""Branches of a kernel: which way our lane goes, and what lanes that go the other way leave in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbh_lint import ir
from kbh_lint.kernels import compensation_expr as expr
from kbh_lint.kernels import compensation_integers as whole
from kbh_lint.kernels import compensation_ops as ops
from kbh_lint.kernels.compensation_state import Frame
from kbh_lint.values import UNKNOWN

if TYPE_CHECKING:
    from kbh_lint.kernels.compensation_machine import Machine


def if_(m: Machine, stmt: ir.If, frame: Frame) -> str | None:
    """`if`, in our lane and in others that go the other way."""
    m.splits, m.fails = bool(stmt.orelse) and not m.lane, None
    test = m.test(stmt, stmt.test, frame)
    m.splits, fails = False, m.fails if test is True else None
    before: list[dict[str, Any]] = [dict(scope) for scope in frame.scopes] if fails is not None else []
    if m.beside is not None and not stmt.orelse and not _leaves(stmt.body):
        return _in_another(m, m.beside.lane, stmt.body, frame)
    known = test is not UNKNOWN
    if not known:
        m.guess(stmt.test, frame)
        if _leaves(stmt.body) and not _leaves(stmt.orelse):
            test = False
        elif stmt.orelse and not _leaves(stmt.orelse):
            test = m.numbers.seed % 2 == 0
            m.guessed = True
        else:
            test = True
    m.unsure += not known
    why = m.scoped(stmt.body if test else stmt.orelse, frame)
    m.unsure -= not known
    if fails is not None and why is None and not _leaves(stmt.orelse):
        ours = {name for s, old in zip(frame.scopes, before, strict=True) for name in s if s[name] is not old.get(name)}
        _in_another(m, fails.lane, stmt.orelse, frame, frozenset(ours))
    return why


def _in_another(
    m: Machine, lane: int, body: tuple[ir.Stmt, ...], frame: Frame, ours: frozenset[str] = frozenset()
) -> str | None:
    """Runs what another lane does, for what it leaves in memory; what our lane holds of data stays data.

    What our lane set meanwhile, when it went another way, is `ours`.
    """
    held = [dict(scope) for scope in frame.scopes]
    for scope in frame.scopes:
        scope.update({name: whole.in_lane(v, lane) for name, v in scope.items() if isinstance(v, whole.Lane)})
    m.unsure += 1
    mine, m.lane = m.lane, lane
    why = m.scoped(body, frame)
    m.lane = mine
    m.unsure -= 1
    for scope, before in zip(frame.scopes, held, strict=True):
        for name, old in before.items():
            if isinstance(old, int) or ops.sources(old) and (name in ours or not ops.sources(scope.get(name))):
                scope[name] = old
    return None if why == "return" else why


def switch(m: Machine, stmt: ir.Switch, frame: Frame) -> str | None:
    """`switch`."""
    value = expr.evaluate(m, stmt.value, frame)
    start = None
    for i, (labels, _) in enumerate(stmt.cases):
        if not labels:
            start = i if start is None else start
        elif any(ops.compare("==", value, expr.evaluate(m, e, frame), m.numbers) is True for e in labels):
            start = i
            break
    if start is None:
        start = 0 if value is UNKNOWN else len(stmt.cases)
    for _, body in stmt.cases[start:]:
        why = m.scoped(body, frame)
        if why is not None:
            return None if why == "break" else why
    return None


def _leaves(body: tuple[ir.Stmt, ...]) -> bool:
    """Whether a branch gives up: ends in return, continue, break or raise."""
    return bool(body) and isinstance(body[-1], ir.Return | ir.Jump | ir.Raise)
