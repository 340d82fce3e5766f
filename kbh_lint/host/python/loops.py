"""Loops: which iterations are followed, and which one stands for those that are left.

A `for` loop that works on tensors is followed for some iterations (`each`); of a loop without a list of items, counters
that each iteration moves by one step say how many are left (`to_the_last`, of C++ too).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sized
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

from kbh_lint.base import ir
from kbh_lint.base.values import Value
from kbh_lint.cpp import integers
from kbh_lint.frontends.walk import walk
from kbh_lint.host.datamodel import holding, names, operators
from kbh_lint.host.values.containers import Once, Tensors
from kbh_lint.host.values.frames import BREAK, FULL_ITERATIONS, Frame, Raised, Returned
from kbh_lint.host.values.tensors import Event, Tensor, Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

MOST_ITERATIONS = 1 << 20
MOST_ITEMS = 4096  # of a list that a loop fills
MOST_TAKEN = 128  # rounds of a loop that empties something
MOST_LOOKED_AT = 1024  # iterations that are left out, looked at for branches that go another way


def each(
    interp: Run,
    items: Iterable[Any],
    bind: Callable[[Any], None],
    body: tuple[ir.Stmt, ...],
    orelse: tuple[ir.Stmt, ...],
    frame: Frame,
) -> Any:
    """Runs a loop body for each item; once a few iterations have worked on tensors, goes on with the last item. Returns
    the signal (a return) that ended the loop, or None."""
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
                differing, left = Differing(Variables(interp, frame), body), total - index
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
                lengths, last = lists(frame.env.vars), len(interp.trace.events)
                signal = interp.block(body, frame)
                stands(interp.trace.events, before, last)
                if signal is BREAK:
                    return None
                if isinstance(signal, Returned):
                    return signal
                fill(frame.env.vars, lengths, left - 1)
                break
    finally:
        interp.weight = outer
    return interp.block(orelse, frame)


class Scope(Protocol):
    """The variables that a loop works with, of Python or C++."""

    interp: Run

    def numbers(self) -> dict[Hashable, int]:
        """Returns the variables that hold whole numbers, by a key that identifies the variable."""
        ...

    def put(self, numbers: Mapping[Hashable, int]) -> None:
        """Sets variables to other numbers."""
        ...

    def value(self, node: ir.Expr) -> Value:
        """Evaluates an expression without side effects."""
        ...

    def store(self, name: str, value: float) -> None:
        """Assigns a number to a variable of the loop's own function."""
        ...

    def saved(self) -> Callable[[], None]:
        """Returns a function that restores all variables to their present values."""
        ...


class Variables:
    """The variables of a call of a Python function."""

    def __init__(self, interp: Run, frame: Frame) -> None:
        self.interp, self.frame = interp, frame

    def numbers(self) -> dict[Hashable, int]:
        """Returns the variables that hold whole numbers (`Scope.numbers`)."""
        return {name: value for name, value in self.frame.env.vars.items() if type(value) is int}

    def put(self, numbers: Mapping[Hashable, int]) -> None:
        """Sets variables to other numbers (`Scope.put`)."""
        self.frame.env.vars.update({str(name): number for name, number in numbers.items()})

    def value(self, node: ir.Expr) -> Value:
        """Evaluates an expression without side effects (`Scope.value`)."""
        return self.interp.eval(node, self.frame)

    def store(self, name: str, value: float) -> None:
        """Assigns a number to a variable (`Scope.store`)."""
        if name not in self.frame.outer:
            names.store(name, value, self.frame)

    def saved(self) -> Callable[[], None]:
        """Returns a function that restores all variables (`Scope.saved`)."""
        variables = self.frame.env.vars
        before = dict(variables)

        def back() -> None:
            variables.clear()
            variables.update(before)

        return back


def steps(scope: Scope, before: Mapping[Hashable, int]) -> dict[Hashable, int]:
    """Returns the differences of whole-number variables from their values in `before`, for those that changed."""
    return {name: value - before[name] for name, value in scope.numbers().items() if before.get(name, value) != value}


def to_the_last(
    scope: Scope, node: ir.While | ir.CFor, moved: Mapping[Hashable, int], follow: Callable[[], Value]
) -> tuple[int, Value]:
    """Skips to the last iteration of a loop in which each iteration changes the variables by `moved`. Returns how many
    iterations the last one stands for (0 where none is left out), and the signal of a `break` or `return` in an
    iteration that takes another branch, which `follow` runs."""
    left = rounds_left(scope, node, moved)
    differing, alike = Differing(scope, node.body), 1
    while left > 1 and differing.left:
        left, before_round = left - 1, scope.numbers()
        if not differing.next():
            scope.put(before_round)
            _move(scope, moved, 1)
            alike += 1
            continue
        signal = follow()
        if signal is BREAK or isinstance(signal, Returned):
            return 0, signal
    if left <= 1 and alike == 1:
        return 0, None
    _move(scope, moved, left - 1)
    return left - 1 + alike, None


def rounds_left(scope: Scope, node: ir.While | ir.CFor, moved: Mapping[Hashable, int]) -> int:
    """Returns how many iterations follow if each moves variables as the last one `moved` them; 0 where nobody knows."""
    exits = [item.test for item in node.body if isinstance(item, ir.If) and _breaks(item)]
    asked = [node.test, *exits] if node.test is not None else exits
    tests = [(test, test is not node.test) for test in asked if _is_plain(test)]
    now = scope.numbers()
    start = {name: now[name] for name in moved}
    first = [_distance(scope, test) for test, _ in tests]

    def ended(iterations: int) -> bool:
        _move(scope, moved, iterations)
        try:
            return any(_met(scope, test, stops, distance) for (test, stops), distance in zip(tests, first, strict=True))
        finally:
            scope.put(start)

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


def _move(scope: Scope, moved: Mapping[Hashable, int], iterations: int) -> None:
    """Sets the variables to what they are after so many iterations."""
    now = scope.numbers()
    scope.put({name: now[name] + step * iterations for name, step in moved.items()})


def lists(variables: Mapping[str, object]) -> dict[str, int]:
    """Returns the lengths of the lists among variables."""
    return {name: len(value) for name, value in variables.items() if isinstance(value, list) and _plain(value)}


def fill(variables: Mapping[str, Any], before: Mapping[str, int], iterations: int) -> None:
    """Extends the lists that one iteration made longer by the items that `iterations` more would add: copies of its
    own."""
    for name, length in before.items():
        value = variables.get(name)
        if not isinstance(value, list) or not _plain(value):
            continue
        if 0 < len(value) - length <= MOST_ITEMS and len(value) + iterations <= MOST_ITEMS:
            value += value[length:] * iterations


def _plain(value: object) -> bool:
    """Whether a list holds what was put into it and nothing else."""
    return type(value) in (list, Tensors)


def stands(events: list[Event], before: int, last: int) -> None:
    """Links each event of the iteration that began at `before` to the same event of the iteration from `last` on,
    which stands for all iterations left out. What only a later iteration reads counts as used in all but the very
    last one."""
    one, other = events[before:last], events[last:]
    if len(one) == len(other) and all(a.name == b.name and a.loc == b.loc for a, b in zip(one, other, strict=True)):
        for event, after in zip(one, other, strict=True):
            event.attrs["after"] = after


class Differing:
    """Finds, among the iterations that are left out, those that take another branch on plain numbers, such as the
    counter. Only plain statements of an iteration are evaluated: assignments and tests of numbers."""

    def __init__(self, scope: Scope, body: tuple[ir.Stmt, ...]) -> None:
        self.scope, self.interp, self.body = scope, scope.interp, body
        self.seen: set[tuple[bool, ...]] = set()
        self.left = MOST_LOOKED_AT if _branches(body) else 0

    def next(self) -> bool:
        """Advances one iteration. Returns whether it takes a branch that no iteration before it took; if not, the
        variables have been changed as it changes them."""
        if self.left == 0:
            return False
        self.left -= 1
        self.interp.burn(1 + len(self.body))
        back, unread = self.scope.saved(), len(self.interp.trace.unread)
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
        back()
        return True

    def _walk(self, body: tuple[ir.Stmt, ...], way: list[bool]) -> bool:
        """Follows plain statements; False once a jump ends the iteration."""
        for node in body:
            if isinstance(node, (ir.Jump, ir.Return)):
                return False
            if isinstance(node, ir.If) and _is_plain(node.test):
                value = self.scope.value(node.test)
                if isinstance(value, (bool, int, float, str)):
                    way.append(bool(value))
                    if not self._walk(node.body if value else node.orelse, way):
                        return False
            elif isinstance(node, ir.ExprS) and isinstance(node.value, ir.AssignE):
                self._assign(node.value.target, node.value.op, node.value.value, node.loc)
            elif isinstance(node, ir.Decl) and node.init is not None and _is_plain(node.init):
                self._put(node.name, self.scope.value(node.init))
            elif isinstance(node, ir.Assign):
                for target in node.targets:
                    self._assign(target, "", node.value, node.loc)
            elif isinstance(node, ir.AugAssign):
                self._assign(node.target, node.op, node.value, node.loc)
        return True

    def _assign(self, target: ir.Expr, op: str, by: ir.Expr, loc: ir.Loc) -> None:
        if not isinstance(target, ir.Name) or not _is_plain(by):
            return
        value = self.scope.value(by)
        if op and _is_number(value):
            old = self.scope.value(target)
            value = operators.binary(self.interp, op, old, value, loc) if _is_number(old) else None
        self._put(target.id, value)

    def _put(self, name: str, value: object) -> None:
        if _is_number(value):
            self.scope.store(name, value)


def _is_number(value: object) -> TypeGuard[float]:
    return type(value) in (bool, float) or integers.is_plain(value)


def _branches(body: tuple[ir.Stmt, ...]) -> bool:
    """Whether a plain test stands in a body."""
    return any(
        isinstance(node, ir.If) and (_is_plain(node.test) or _branches((*node.body, *node.orelse))) for node in body
    )


def _met(scope: Scope, test: ir.Expr, stops: bool, first: int | None) -> bool:
    """Whether a test says that the loop ends. One of equality is met once the sides have passed each other."""
    value = scope.value(test)
    if isinstance(value, (Unknown, Tensor)):
        return False
    now = _distance(scope, test)
    if isinstance(test, ir.Compare) and first is not None and now is not None and stops is (test.ops == ("==",)):
        return first * now <= 0
    return bool(value) is stops


def _distance(scope: Scope, test: ir.Expr) -> int | None:
    """How far apart the sides of `a == b` and `a != b` are."""
    if not isinstance(test, ir.Compare) or test.ops not in (("==",), ("!=",)):
        return None
    left, right = scope.value(test.left), scope.value(test.rights[0])
    return int(left) - int(right) if integers.is_plain(left) and integers.is_plain(right) else None


def _breaks(node: ir.If) -> bool:
    last = node.body[-1] if node.body else None
    return isinstance(last, ir.Return) or isinstance(last, ir.Jump) and last.kind == "break"


def _is_plain(node: ir.Expr) -> bool:
    """Whether evaluating an expression only reads names and numbers."""
    if isinstance(node, (ir.Name, ir.Const)):
        return True
    if isinstance(node, ir.Attr):
        return _is_plain(node.value)
    if isinstance(node, ir.Index):  # `x.shape[0]`
        return isinstance(node.value, ir.Attr) and node.value.name == "shape" and isinstance(node.index, ir.Const)
    if isinstance(node, ir.Unary):
        return _is_plain(node.value)
    if isinstance(node, ir.Binary):
        return _is_plain(node.left) and _is_plain(node.right)
    if isinstance(node, ir.Bool):
        return all(map(_is_plain, node.values))
    if isinstance(node, ir.Compare):
        return _is_plain(node.left) and all(map(_is_plain, node.rights))
    return isinstance(node, ir.Cond) and _is_plain(node.test) and _is_plain(node.yes) and _is_plain(node.no)


def drained(scope: Variables, node: ir.While, done: int) -> holding.Held:
    """Returns the containers that a loop may take its work from, before a round that is not one of its first."""
    return holding.held(node, scope.frame.env) if done >= FULL_ITERATIONS - 1 else {}


def nears_its_end(
    scope: Variables, node: ir.While, done: int, before: holding.Held, numbers: Mapping[Hashable, int]
) -> bool:
    """Whether the round that was followed brought the end of a loop nearer: it took an item out of a container that is
    in `before`, or its number from a call, as `next(counter)` is, by which not too many are left."""
    if not FULL_ITERATIONS <= done < MOST_TAKEN:
        return False
    left = holding.held(node, scope.frame.env) if before else {}
    if any(at in left and left[at][1] < length for at, (_, length) in before.items()):
        return True
    if any(isinstance(one, Once) and one.source is not None for one, _ in before.values()):
        return True  # an iterator of which nobody knows how many it gives
    moved = steps(scope, numbers)
    return _asked_for(node, moved) and 0 < rounds_left(scope, node, moved) < MOST_TAKEN


def _asked_for(node: ir.While, moved: Mapping[Hashable, int]) -> bool:
    """Whether a number that each round changes alike comes from a call: setting it to another moves nothing on."""
    called = [part for part in walk(node.body) if isinstance(part, ir.Assign) and isinstance(part.value, ir.Call)]
    targets = {one.id for part in called for one in part.targets if isinstance(one, ir.Name)}
    return not targets.isdisjoint(moved)
