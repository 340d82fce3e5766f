"""Loops that take what they work on out of a queue, a list, an iterator or a counter, and end with it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TYPE_CHECKING

from kbh_lint.base import ir
from kbh_lint.base.values import Env, Func, Value
from kbh_lint.frontends.walk import by_node, walk
from kbh_lint.host.python import loops
from kbh_lint.host.values.containers import Once
from kbh_lint.host.values.frames import Frame
from kbh_lint.host.values.named_objects import Thread
from kbh_lint.host.values.objects import Bound, Instance, Method

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

MOST_TAKEN = 128  # rounds of one that are followed
MOST_LOOKED_AT = 512  # objects
_DEEP = 4

Held = dict[int, tuple[object, int]]  # containers by their identity, each with its length


def held(node: ir.While, frame: Frame) -> Held:
    """Returns the containers that the names of a loop lead to, of its function and of those around it, with the number
    of items of each."""
    found: Held = {}
    _look(_named(node, frame.env), found, set(), 0)
    return found


def ends(scope: loops.Variables, node: ir.While, before: Held, moved: Mapping[Hashable, int]) -> bool:
    """Whether the round that was followed brought the end of a loop nearer: it took an item out of a container that is
    in `before`, or its number from a call, as `next(counter)` is, by which not too many are left."""
    if not before and not moved:
        return False
    left = held(node, scope.frame)
    if any(at in left and left[at][1] < length for at, (_, length) in before.items()):
        return True
    if any(isinstance(one, Once) and one.source is not None for one, _ in before.values()):
        return True  # an iterator of which nobody knows how many it gives
    return _asked_for(node, moved) and 0 < loops.rounds_left(scope, node, moved) < MOST_TAKEN


def _asked_for(node: ir.While, moved: Mapping[Hashable, int]) -> bool:
    """Whether a number that each round changes alike comes from a call: setting it to another moves nothing on."""
    called = [part for part in walk(node.body) if isinstance(part, ir.Assign) and isinstance(part.value, ir.Call)]
    targets = {one.id for part in called for one in part.targets if isinstance(one, ir.Name)}
    return not targets.isdisjoint(moved)


def goes_on(interp: Run, node: ir.While) -> bool:
    """Whether a thread is in a loop that goes on until somebody says that it is to end: `while not stop.is_set()`."""
    lane = interp.lanes.current[-1:]
    if not lane or not isinstance(lane[0], Thread):
        return False
    return any(isinstance(part, ir.Attr) and part.name == "is_set" for part in walk((node.test, *node.body)))


@by_node
def _names(node: object) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part.id for part in walk(node) if isinstance(part, ir.Name)))


def _named(node: object, env: Env) -> list[Value]:
    """What the names in a loop or a function hold that its functions bind, not its module."""
    found: list[Value] = []
    for name in _names(node):
        scope: Env | None = env
        while scope is not None and name not in scope.vars:
            scope = scope.parent
        if scope is not None:
            found.append(scope.vars[name])
    return found


def _look(values: Iterable[Value], found: Held, seen: set[int], depth: int) -> None:
    for value in values:
        if id(value) in seen or len(seen) > MOST_LOOKED_AT:
            continue
        if isinstance(value, (list, dict, set)):
            seen.add(id(value))
            found[id(value)] = value, len(value)
            inside = list(value.values() if isinstance(value, dict) else value)[:MOST_TAKEN]
        elif isinstance(value, Instance):
            seen.add(id(value))
            inside = list(value.attrs.values())
        elif isinstance(value, (Bound, Method)):
            inside = [value.self]
        elif isinstance(value, Func):
            seen.add(id(value))
            inside = _named(value.node, value.env)
        else:
            continue
        if depth < _DEEP:
            _look(inside, found, seen, depth + 1)
