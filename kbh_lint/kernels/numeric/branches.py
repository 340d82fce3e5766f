"""Branches of a kernel: which way our lane goes, and what lanes that go the other way leave in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import UNKNOWN
from kbh_lint.kernels.numeric import integers as whole
from kbh_lint.kernels.numeric import ops
from kbh_lint.kernels.numeric.state import Frame, Obj

if TYPE_CHECKING:
    from kbh_lint.kernels.numeric.machine import Machine


def if_(m: Machine, stmt: ir.If, frame: Frame) -> str | None:
    """`if`, in our lane and in others that go the other way."""
    m.splits, m.fails = bool(stmt.orelse) and not m.lane, None
    test = m.test(stmt, stmt.test, frame)
    m.splits, fails = False, m.fails if test is True else None
    before: list[dict[str, tuple[Any, Any]]] = _held(frame) if fails is not None else []
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
        ours = {n for s, held in zip(frame.scopes, before, strict=True) for n in s if _was_set(s[n], held.get(n))}
        _in_another(m, fails.lane, stmt.orelse, frame, frozenset(ours))
    return why


def _in_another(
    m: Machine, lane: int, body: tuple[ir.Stmt, ...], frame: Frame, ours: frozenset[str] = frozenset()
) -> str | None:
    """Runs what another lane does, for what it leaves in memory; what our lane holds of data stays data.

    What our lane set meanwhile, when it went another way, is `ours`.
    """
    held = _held(frame)
    for scope in frame.scopes:
        scope.update({name: whole.in_lane(v, lane) for name, v in scope.items() if isinstance(v, whole.Lane)})
    m.unsure += 1
    mine, m.lane = m.lane, lane
    why = m.scoped(body, frame)
    m.lane = mine
    m.unsure -= 1
    for scope, before in zip(frame.scopes, held, strict=True):
        for name, (old, copy) in before.items():
            if isinstance(old, int) or ops.sources(copy) and (name in ours or not ops.sources(scope.get(name))):
                scope[name] = old
                if isinstance(old, Obj):
                    old.fields = copy.fields
    return None if why == "return" else why


def _held(frame: Frame) -> list[dict[str, tuple[Any, Any]]]:
    """What the names of all scopes hold, with copies of structs and vectors: these are set in place."""
    return [{n: (v, v.copy() if isinstance(v, Obj) else v) for n, v in scope.items()} for scope in frame.scopes]


def _was_set(value: object, held: tuple[Any, Any] | None) -> bool:
    """Whether a name, or a part of the struct that it names, holds something else than before."""
    if held is None or value is not held[0]:
        return True
    return isinstance(value, Obj) and any(part is not held[1].fields.get(k) for k, part in value.fields.items())


def switch(m: Machine, stmt: ir.Switch, frame: Frame) -> str | None:
    """`switch`."""
    value = m.expressions.evaluate(stmt.value, frame)
    start = None
    for i, (labels, _) in enumerate(stmt.cases):
        if not labels:
            start = i if start is None else start
        elif any(ops.compare("==", value, m.expressions.evaluate(e, frame), m.numbers) is True for e in labels):
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
