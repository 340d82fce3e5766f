"""Control flow on numbers: our lane goes one way, and loops run a few times.

What lanes that go the other way leave in memory is run too; what our lane holds of data meanwhile stays as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kbh_lint.base import ir
from kbh_lint.base.values import UNKNOWN, Value
from kbh_lint.kernels.core.walker import Control, Exit
from kbh_lint.kernels.numeric import integers as whole
from kbh_lint.kernels.numeric import ops
from kbh_lint.kernels.numeric.state import Frame, Obj, Ptr, Range

if TYPE_CHECKING:
    from kbh_lint.kernels.numeric.machine import Machine

CAPS = (4, 4, 3, 3)  # iterations of a loop, by how deep it is nested
LONG = 400  # iterations of a loop that is waited in for a test to go the other way
TURNS = 6  # how often it must: an error comes in at the second and counts at the third, and some are zero by chance


class Truth(NamedTuple):
    """The truth of a condition in our lane (UNKNOWN where it is not known), and another lane in which it is the
    opposite."""

    here: Any
    elsewhere: int | None = None


class OneLane(Control[Truth]):
    """The control flow of the evaluation on numbers: it executes what one lane does."""

    def __init__(self, m: Machine) -> None:
        self.m = m

    def unread(self, what: str, node: ir.Stmt) -> None:
        self.m.note(f"{what} is not followed", node)

    # --- branches ---

    def test(self, node: ir.If) -> tuple[Truth, bool | None]:
        """Evaluates a condition: its truth in our lane and maybe in another one, and its truth alone if all lanes
        agree, else None."""
        m = self.m
        m.splits, m.fails = bool(node.orelse) and not m.lane, None
        here = m.test(node, node.test, m.frame)
        m.splits, fails = False, m.fails if here is True else None
        if m.beside is not None and not node.orelse and not _leaves(node.body):
            return Truth(False, m.beside.lane), None
        if fails is not None:
            return Truth(True, fails.lane), None
        return Truth(here), None if here is UNKNOWN else here

    def either(self, node: ir.If, test: Truth) -> Exit:
        """Executes a branch whose condition is unknown, or differs between our lane and another one: the other side is
        executed for that lane."""
        m = self.m
        if test.elsewhere is None:
            return self._guessed(node)
        if test.here is False:
            return self._in_another(test.elsewhere, node.body)
        frame, before = m.frame, _held(m.frame)
        why = m.statements.side(node.body)
        if why is None and not _leaves(node.orelse):
            ours = {n for s, held in zip(frame.scopes, before, strict=True) for n in s if _was_set(s[n], held.get(n))}
            self._in_another(test.elsewhere, node.orelse, frozenset(ours))
        return why

    def _guessed(self, node: ir.If) -> Exit:
        """One side of a branch of which nothing tells the way: the one that does not give up, or either by chance."""
        m = self.m
        m.guess(node.test, m.frame)
        taken = node.body
        if _leaves(node.body) and not _leaves(node.orelse):
            taken = node.orelse
        elif node.orelse and not _leaves(node.orelse):
            taken = node.body if m.numbers.seed % 2 == 0 else node.orelse
            m.guessed = True
        m.unsure += 1
        why = m.statements.side(taken)
        m.unsure -= 1
        return why

    def _in_another(self, lane: int, body: tuple[ir.Stmt, ...], ours: frozenset[str] = frozenset()) -> Exit:
        """Runs what another lane does, for what it leaves in memory; what our lane holds of data stays data.

        What our lane set meanwhile, when it went another way, is `ours`.
        """
        m, frame = self.m, self.m.frame
        held = _held(frame)
        for scope in frame.scopes:
            scope.update({name: whole.in_lane(v, lane) for name, v in scope.items() if isinstance(v, whole.Lane)})
        m.unsure += 1
        mine, m.lane = m.lane, lane
        why = m.statements.side(body)
        m.lane = mine
        m.unsure -= 1
        for scope, before in zip(frame.scopes, held, strict=True):
            for name, (old, copy) in before.items():
                if isinstance(old, int) or ops.sources(copy) and (name in ours or not ops.sources(scope.get(name))):
                    scope[name] = old
                    if isinstance(old, Obj):
                        old.fields = copy.fields
        return None if why == "return" else why

    def cases(self, node: ir.Switch) -> Exit:
        """Executes a switch from the case that matches, or from its first where the value is unknown."""
        statements = self.m.statements
        value = statements.evaluate(node.value)
        start = None
        for i, (labels, _) in enumerate(node.cases):
            if not labels:
                start = i if start is None else start
            elif any(ops.compare("==", value, statements.evaluate(label), self.m.numbers) is True for label in labels):
                start = i
                break
        if start is None:
            start = 0 if value is UNKNOWN else len(node.cases)
        for body in statements.falling(node, start):
            why = statements.side(body)
            if why is not None:
                return None if why == "break" else why
        return None

    # --- loops ---

    def next(self, node: ir.For | ir.While | ir.CFor, why: Exit) -> Exit:
        """Where control goes after an iteration: a `break` ends the loop, unless all loops are to run a fixed number of
        times."""
        if why != "break":
            return super().next(node, why)
        self.m.short = True
        return None if self.m.many and not isinstance(node, ir.For) else why

    def iterations(self, node: ir.While | ir.CFor) -> Exit:
        """Executes a loop with a test, a limited number of times."""
        m, frame = self.m, self.m.frame
        test, once = node.test, isinstance(node, ir.While) and node.once
        first: list[dict[str, Any]] | None = None
        cap = self._enter(node)
        try:
            for n in range(cap):
                if self._enough(n):
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
                why = m.statements.round(node)
                if why is not None:
                    return None if why == "break" else why
        finally:
            self._leave()
        return None

    def each(self, node: ir.For) -> Exit:
        """Executes a loop over an iterable, a limited number of times."""
        m, frame = self.m, self.m.frame
        iterable = m.expressions.evaluate(node.iterable, frame)
        cap = self._enter(node)
        try:
            items = self._items(iterable, max(cap, CAPS[0]))
            if len(items) < cap:
                m.short = True
                if m.many:
                    items = items + [items[0] if items else 0] * (cap - len(items))
            for n, item in enumerate(items[:cap]):
                if self._enough(n):
                    break
                if frame.cpp:
                    frame.scopes.append({})
                try:
                    m.places.bind(node.target, item, frame)
                    why = m.statements.round(node)
                finally:
                    if frame.cpp:
                        frame.scopes.pop()
                if why is not None:
                    return None if why == "break" else why
        finally:
            self._leave()
        return m.statements.block(node.orelse)

    def _enter(self, node: ir.Stmt) -> int:
        """Begins a loop; gives how often it may run."""
        m = self.m
        cap = LONG if m.waits is not None and m.waits[0] == id(node) else CAPS[min(m.depth, len(CAPS) - 1)]
        m.depth += 1
        m.inside.append(id(node))
        return cap

    def _leave(self) -> None:
        self.m.depth -= 1
        self.m.inside.pop()

    def _enough(self, n: int) -> bool:
        """Whether a long loop has run often enough: something that it waits for went both ways, or nothing will."""
        m = self.m
        if m.waits is None or n < CAPS[0] or m.inside[-1] != m.waits[0]:
            return False
        turned = [min(m.tests.get((m.waits[0], test), (0,))) for test in m.waits[1]]
        return max(turned, default=0) >= TURNS or n > LONG // 2 and not any(turned)

    def _items(self, iterable: object, most: int) -> list[Value]:
        """The first values a loop takes, at most so many."""
        if isinstance(iterable, tuple):
            return list(iterable[:most])
        if isinstance(iterable, Ptr):
            return [self.m.read(iterable, 0) for _ in range(most)]
        if not isinstance(iterable, Range):
            return [UNKNOWN] * most
        start, stop, step = iterable.start, iterable.stop, iterable.step
        if isinstance(start, int) and isinstance(step, int):
            found = [start + i * step for i in range(most)]
            if isinstance(stop, int) and step:
                found = [v for v in found if (v < stop if step > 0 else v > stop)]
            return list(found)
        return [start] + [UNKNOWN] * (most - 1)


def _held(frame: Frame) -> list[dict[str, tuple[Any, Any]]]:
    """What the names of all scopes hold, with copies of structs and vectors: these are set in place."""
    return [{n: (v, v.copy() if isinstance(v, Obj) else v) for n, v in scope.items()} for scope in frame.scopes]


def _was_set(value: object, held: tuple[Any, Any] | None) -> bool:
    """Whether a name, or a part of the struct that it names, holds something else than before."""
    if held is None or value is not held[0]:
        return True
    return isinstance(value, Obj) and any(part is not held[1].fields.get(k) for k, part in value.fields.items())


def _leaves(body: tuple[ir.Stmt, ...]) -> bool:
    """Whether a branch gives up: ends in return, continue, break or raise."""
    return bool(body) and isinstance(body[-1], ir.Return | ir.Jump | ir.Raise)


def _positions(frame: Frame) -> list[dict[str, Any]]:
    """The integers and pointers of a frame: where its loops stand."""
    return [{k: v for k, v in s.items() if isinstance(v, int | Ptr) and v is not True} for s in frame.scopes]


def _restore(frame: Frame, positions: list[dict[str, Any]] | None) -> None:
    """Puts a loop back to its first iteration, so that its masks hold again."""
    for scope, known in zip(frame.scopes, positions or [], strict=False):
        scope.update(known)
