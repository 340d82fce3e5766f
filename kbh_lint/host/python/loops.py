"""Loops: which iterations are followed, and which one stands for those that are left.

A `for` loop that works on tensors is followed for some iterations (`each`); of a loop without a list of items, counters
that each iteration moves by one step say how many are left (`left`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sized
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.host.datamodel import names, operators
from kbh_lint.host.values.frames import BREAK, FULL_ITERATIONS, Frame, Raised, Returned
from kbh_lint.host.values.tensors import Event, Tensor, Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

MOST_ITERATIONS = 1 << 20
MOST_ITEMS = 4096  # of a list that a loop fills
MOST_LOOKED_AT = 1024  # iterations that are left out, looked at for branches that go another way


def each(
    interp: Run,
    items: Iterable[Any],
    bind: Callable[[Any], None],
    body: tuple[ir.Stmt, ...],
    orelse: tuple[ir.Stmt, ...],
    frame: Frame,
) -> Any:
    """Runs a loop body for each item; once a few iterations have worked on tensors, go on with the last item."""
    total = len(items) if isinstance(items, Sized) else None
    worked, index, outer = 0, 0, interp.weight
    it = iter(items)
    try:
        for item in it:
            before = len(interp.trace.events)
            bind(item)
            signal = interp.block(body, frame)
            if signal is BREAK:
                return None
            if isinstance(signal, Returned):
                return signal
            interp.burn(2)
            index += 1
            worked += len(interp.trace.events) > before
            if worked >= FULL_ITERATIONS and total is not None and total - index > 1 and hasattr(items, "__getitem__"):
                differing, left = Differing(interp, body, frame), total - index
                while differing.left and index < total - 1:
                    bind(items[index])
                    index += 1
                    if not differing.next():
                        continue
                    left -= 1
                    signal = interp.block(body, frame)
                    if signal is BREAK:
                        return None
                    if isinstance(signal, Returned):
                        return signal
                interp.weight = outer * left
                bind(items[-1])
                lengths, last = lists(frame), len(interp.trace.events)
                signal = interp.block(body, frame)
                stands(interp.trace.events, before, last)
                if signal is BREAK:
                    return None
                if isinstance(signal, Returned):
                    return signal
                fill(frame, lengths, left - 1)
                break
    finally:
        interp.weight = outer
    return interp.block(orelse, frame)


def numbers(frame: Frame) -> dict[str, int]:
    """The whole numbers among a call's variables."""
    return {name: value for name, value in frame.env.vars.items() if type(value) is int}


def steps(frame: Frame, before: dict[str, int]) -> dict[str, int]:
    """By how much variables moved since `before`."""
    now = numbers(frame)
    return {name: value - before[name] for name, value in now.items() if before.get(name, value) != value}


def left(interp: Run, node: ir.While, frame: Frame, moved: dict[str, int]) -> int:
    """How many iterations follow if each moves the variables as the last one `moved` them; 0 when that is not known."""
    exits = [item.test for item in node.body if isinstance(item, ir.If) and _breaks(item)]
    tests = [(test, test is not node.test) for test in (node.test, *exits) if _is_plain(test)]
    start = {name: frame.env.vars[name] for name in moved}
    first = [_distance(interp, test, frame) for test, _ in tests]

    def ended(iterations: int) -> bool:
        move(frame, moved, iterations)
        try:
            return any(
                _met(interp, test, frame, stops, distance) for (test, stops), distance in zip(tests, first, strict=True)
            )
        finally:
            frame.env.vars.update(start)

    if not moved or not tests:
        return 0
    high = 1
    while not ended(high):
        high *= 2
        if high > MOST_ITERATIONS:
            return 0
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if ended(middle) else (middle, high)
    return high


def move(frame: Frame, moved: dict[str, int], iterations: int) -> None:
    """Sets the variables to what they are after so many iterations."""
    for name, step in moved.items():
        frame.env.vars[name] += step * iterations


def lists(frame: Frame) -> dict[str, int]:
    """How long the lists among a call's variables are."""
    return {name: len(value) for name, value in frame.env.vars.items() if type(value) is list}


def fill(frame: Frame, before: dict[str, int], iterations: int) -> None:
    """Gives the lists that one iteration made longer what so many more would have made: items like its own."""
    for name, length in before.items():
        value = frame.env.vars.get(name)
        if type(value) is list and 0 < len(value) - length <= MOST_ITEMS and len(value) + iterations <= MOST_ITEMS:
            value += value[length:] * iterations


def stands(events: list[Event], before: int, last: int) -> None:
    """Notes which event of the iteration that began at `before` does what one of the `last` does, which stands for all
    that were left out. What only the iteration after reads is used of all but the very last."""
    one, other = events[before:last], events[last:]
    if len(one) == len(other) and all(a.name == b.name and a.loc == b.loc for a, b in zip(one, other, strict=True)):
        for event, after in zip(one, other, strict=True):
            event.attrs["after"] = after


class Differing:
    """Which of the iterations that are left out go another way at a branch on plain numbers, such as the counter.

    An iteration is looked at by its plain statements alone: numbers that are assigned, and tests of numbers.
    """

    def __init__(self, interp: Run, body: tuple[ir.Stmt, ...], frame: Frame) -> None:
        self.interp, self.body, self.frame = interp, body, frame
        self.seen: set[tuple[bool, ...]] = set()
        self.left = MOST_LOOKED_AT if _branches(body) else 0

    def next(self) -> bool:
        """Whether the iteration that would follow is unlike all before it; else its numbers have moved on."""
        if self.left == 0:
            return False
        self.left -= 1
        self.interp.burn(1 + len(self.body))
        variables = self.frame.env.vars
        before, unread = dict(variables), len(self.interp.trace.unread)
        way: list[bool] = []
        try:
            self._walk(self.body, way)
            if tuple(way) in self.seen:
                return False
        except Raised:  # the iteration itself shows why
            pass
        finally:
            del self.interp.trace.unread[unread:]
        self.seen.add(tuple(way))
        variables.clear()
        variables.update(before)
        return True

    def _walk(self, body: tuple[ir.Stmt, ...], way: list[bool]) -> bool:
        """Follows plain statements; False once a jump ends the iteration."""
        for node in body:
            if isinstance(node, (ir.Jump, ir.Return)):
                return False
            if isinstance(node, ir.If) and _is_plain(node.test):
                value = self.interp.eval(node.test, self.frame)
                if isinstance(value, (bool, int, float, str)):
                    way.append(bool(value))
                    if not self._walk(node.body if value else node.orelse, way):
                        return False
            elif isinstance(node, (ir.Assign, ir.AugAssign)) and _is_plain(node.value):
                self._assign(node)
        return True

    def _assign(self, node: ir.Assign | ir.AugAssign) -> None:
        targets = node.targets if isinstance(node, ir.Assign) else (node.target,)
        value = self.interp.eval(node.value, self.frame)
        for target in targets:
            if not isinstance(target, ir.Name) or type(value) not in (bool, int, float):
                continue
            if target.id in self.frame.outer:
                continue
            if isinstance(node, ir.Assign):
                names.store(target.id, value, self.frame)
                continue
            old = self.interp.eval(target, self.frame)
            if type(old) in (bool, int, float):
                names.store(target.id, operators.binary(self.interp, node.op, old, value, node.loc), self.frame)


def _branches(body: tuple[ir.Stmt, ...]) -> bool:
    """Whether a plain test stands in a body."""
    return any(
        isinstance(node, ir.If) and (_is_plain(node.test) or _branches((*node.body, *node.orelse))) for node in body
    )


def _met(interp: Run, test: ir.Expr, frame: Frame, stops: bool, first: int | None) -> bool:
    """Whether a test says that the loop ends. One of equality is met once the sides have passed each other."""
    value = interp.eval(test, frame)
    if isinstance(value, (Unknown, Tensor)):
        return False
    now = _distance(interp, test, frame)
    if isinstance(test, ir.Compare) and first is not None and now is not None and stops is (test.ops == ("==",)):
        return first * now <= 0
    return bool(value) is stops


def _distance(interp: Run, test: ir.Expr, frame: Frame) -> int | None:
    """How far apart the sides of `a == b` and `a != b` are."""
    if not isinstance(test, ir.Compare) or test.ops not in (("==",), ("!=",)):
        return None
    sides = interp.eval(test.left, frame), interp.eval(test.rights[0], frame)
    return sides[0] - sides[1] if type(sides[0]) is int and type(sides[1]) is int else None


def _breaks(node: ir.If) -> bool:
    last = node.body[-1] if node.body else None
    return isinstance(last, ir.Jump) and last.kind == "break"


def _is_plain(node: ir.Expr) -> bool:
    """Whether evaluating an expression only reads names and numbers."""
    if isinstance(node, (ir.Name, ir.Const)):
        return True
    if isinstance(node, ir.Attr):
        return _is_plain(node.value)
    if isinstance(node, ir.Unary):
        return _is_plain(node.value)
    if isinstance(node, ir.Binary):
        return _is_plain(node.left) and _is_plain(node.right)
    if isinstance(node, ir.Bool):
        return all(map(_is_plain, node.values))
    if isinstance(node, ir.Compare):
        return _is_plain(node.left) and all(map(_is_plain, node.rights))
    return isinstance(node, ir.Cond) and _is_plain(node.test) and _is_plain(node.yes) and _is_plain(node.no)
