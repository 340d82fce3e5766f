"""Loops of a kernel, which run a few times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import UNKNOWN
from kbh_lint.kernels.numeric import ops
from kbh_lint.kernels.numeric.state import Frame, Ptr, Range

if TYPE_CHECKING:
    from kbh_lint.kernels.numeric.machine import Machine

CAPS = (4, 4, 3, 3)  # iterations of a loop, by how deep it is nested
LONG = 400  # iterations of a loop that is waited in for a test to go the other way
TURNS = 6  # how often it must: an error comes in at the second and counts at the third, and some are zero by chance


def c_for(m: Machine, stmt: ir.CFor, frame: Frame) -> str | None:
    """`for (init; test; step)`."""
    frame.scopes.append({})
    try:
        m.run(stmt.init, frame)
        return _loop(m, frame, stmt, stmt.step, once=False)
    finally:
        frame.scopes.pop()


def while_(m: Machine, stmt: ir.While, frame: Frame) -> str | None:
    """Runs a `while` loop on numbers; a `do` loop runs its body once before the first test."""
    return _loop(m, frame, stmt, None, once=stmt.once)


def _enter(m: Machine, stmt: ir.Stmt) -> int:
    """Begins a loop; gives how often it may run."""
    cap = LONG if m.waits is not None and m.waits[0] == id(stmt) else CAPS[min(m.depth, len(CAPS) - 1)]
    m.depth += 1
    m.inside.append(id(stmt))
    return cap


def _leave(m: Machine) -> None:
    m.depth -= 1
    m.inside.pop()


def _enough(m: Machine, n: int) -> bool:
    """Whether a long loop has run often enough: something that it waits for went both ways, or nothing will."""
    if m.waits is None or n < CAPS[0] or m.inside[-1] != m.waits[0]:
        return False
    turned = [min(m.tests.get((m.waits[0], test), (0,))) for test in m.waits[1]]
    return max(turned, default=0) >= TURNS or n > LONG // 2 and not any(turned)


def _loop(m: Machine, frame: Frame, stmt: ir.CFor | ir.While, step: ir.Expr | None, once: bool) -> str | None:
    test = stmt.test
    first: list[dict[str, Any]] | None = None
    cap = _enter(m, stmt)
    try:
        for n in range(cap):
            if _enough(m, n):
                break
            if test is not None and not (once and n == 0):
                go = ops.truth(m.expressions.evaluate(test, frame))
                if go is False:
                    m.short = True
                    if not m.many:
                        return None
                    _restore(frame, first)
            if first is None:
                first = _positions(frame)
            why = m.scoped(stmt.body, frame)
            if why == "break":
                m.short = True
                if not m.many:
                    return None
            elif why == "return":
                return why
            if step is not None:
                m.expressions.evaluate(step, frame)
    finally:
        _leave(m)
    return None


def for_each(m: Machine, stmt: ir.For, frame: Frame) -> str | None:
    """`for target in iterable`."""
    iterable = m.expressions.evaluate(stmt.iterable, frame)
    cap = _enter(m, stmt)
    try:
        items = _items(m, iterable, max(cap, CAPS[0]))
        if len(items) < cap:
            m.short = True
            if m.many:
                items = items + [items[0] if items else 0] * (cap - len(items))
        for n, item in enumerate(items[:cap]):
            if _enough(m, n):
                break
            if frame.cpp:
                frame.scopes.append({})
            try:
                m.places.bind(stmt.target, item, frame)
                why = m.run(stmt.body, frame)
            finally:
                if frame.cpp:
                    frame.scopes.pop()
            if why == "break":
                m.short = True
                break
            if why == "return":
                return why
    finally:
        _leave(m)
    return None


def _items(m: Machine, iterable: object, most: int) -> list[Any]:
    """The first values a loop takes, at most so many."""
    if isinstance(iterable, tuple):
        return list(iterable[:most])
    if isinstance(iterable, Ptr):
        return [m.read(iterable, 0) for _ in range(most)]
    if not isinstance(iterable, Range):
        return [UNKNOWN] * most
    start, stop, step = iterable.start, iterable.stop, iterable.step
    if isinstance(start, int) and isinstance(step, int):
        found = [start + i * step for i in range(most)]
        if isinstance(stop, int) and step:
            found = [v for v in found if (v < stop if step > 0 else v > stop)]
        return list(found)
    return [start] + [UNKNOWN] * (most - 1)


def _positions(frame: Frame) -> list[dict[str, Any]]:
    """The integers and pointers of a frame: where its loops stand."""
    return [{k: v for k, v in s.items() if isinstance(v, int | Ptr) and v is not True} for s in frame.scopes]


def _restore(frame: Frame, positions: list[dict[str, Any]] | None) -> None:
    """Puts a loop back to its first iteration, so that its masks hold again."""
    for scope, known in zip(frame.scopes, positions or [], strict=False):
        scope.update(known)
