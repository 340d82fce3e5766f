"""Which containers the names of a statement lead to, and how many items each holds."""

from __future__ import annotations

from collections.abc import Iterable

from kbh_lint.base import ir
from kbh_lint.base.values import Env, Func, Value
from kbh_lint.frontends.walk import by_node, walk
from kbh_lint.host.values.objects import Bound, Instance, Method

MOST_ITEMS = 128  # of a container that are looked into
MOST_LOOKED_AT = 512  # objects
_DEEP = 4

Held = dict[int, tuple[object, int]]  # containers by their identity, each with its length


def held(node: ir.Stmt, env: Env) -> Held:
    """Returns the containers that the names in a statement lead to, of its function and of those around it, with the
    number of items of each."""
    found: Held = {}
    _look(_named(node, env), found, set(), 0)
    return found


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
            inside = list(value.values() if isinstance(value, dict) else value)[:MOST_ITEMS]
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
