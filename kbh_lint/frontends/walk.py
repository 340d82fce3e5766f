"""Walks over the IR, whatever it was lowered from."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any, TypeVar

from kbh_lint.base import ir

MAX_KNOWN = 10_000  # nodes of which one answer is kept
MAX_BELOW = 100_000  # nodes of which it is kept what is below them
_T = TypeVar("_T")


_ANSWERS: list[dict[int, Any]] = []


def forget_nodes() -> None:
    """Clears all results stored by functions under `by_node`, so that the nodes are freed; called when a file is
    done."""
    for known in _ANSWERS:
        known.clear()


def by_node(ask: Callable[[Any], _T]) -> Callable[[Any], _T]:
    """A decorator for a function of one IR node, or of a tuple of nodes that is part of one: its result is computed
    once for each node.

    Kernels are analysed for each shape, call and path, and lowered nodes never change. Results are stored by the
    identity of the node, which is kept alive, as nodes compare by their contents.
    """
    known: dict[int, tuple[Any, _T]] = {}
    _ANSWERS.append(known)

    def answer(node: object) -> _T:
        found = known.get(id(node))
        if found is None or found[0] is not node:
            if len(known) >= MAX_KNOWN:
                known.clear()
            found = known[id(node)] = node, ask(node)
        return found[1]

    return answer


# What is directly below a node, by its identity: many walk the same few statements.
_BELOW: dict[int, tuple[object, tuple[Any, ...]]] = {}
_ANSWERS.append(_BELOW)


def children(node: object) -> tuple[Any, ...]:
    """The IR nodes directly below an IR node, in order."""
    found = _BELOW.get(id(node))
    if found is not None and found[0] is node:
        return found[1]
    held = _HELD[type(node)]
    if held is None:
        return ()
    below: list[object] = []
    _collect(held(node), below)
    if len(_BELOW) >= MAX_BELOW:
        _BELOW.clear()
    _BELOW[id(node)] = node, tuple(below)
    return _BELOW[id(node)][1]


def walk(nodes: object) -> list[Any]:
    """All IR nodes in or below `nodes`, in order, without recursion."""
    order: list[Any] = []
    stack = list(reversed(nodes)) if isinstance(nodes, (tuple, list)) else [nodes]
    known, held = _BELOW, _HELD
    while stack:
        node = stack.pop()
        order.append(node)
        if held[type(node)] is not None:
            found = known.get(id(node))
            stack += (found[1] if found is not None and found[0] is node else children(node))[::-1]
    return order


def changed(node: object) -> None:
    """Called where a node is given other fields than it was made with, which few are."""
    _BELOW.pop(id(node), None)


# As `walk`, once for what many ask about, such as the body of a kernel. Nobody changes it.
all_nodes = by_node(walk)


def free_names(func: ir.FuncDef) -> dict[str, ir.Loc]:
    """The names that a C++ lambda uses and does not declare as parameters, also those of functions and types, with the
    location of the first use. A lambda inside counts as uses of what it captures."""
    own = {param.name for param in func.params}
    found: dict[str, ir.Loc] = {}
    stack: list[Any] = list(reversed(func.body or ()))
    while stack:
        node = stack.pop()
        if isinstance(node, ir.FuncDef):
            stack += [capture.init or ir.Name(capture.name, capture.loc) for capture in reversed(node.captures)]
            continue
        if isinstance(node, ir.Name) and node.id not in own:
            found.setdefault(node.id, node.loc)
        stack += reversed(children(node))
    return found


_NODES = frozenset(kind for kind in vars(ir).values() if isinstance(kind, type) and kind.__module__ == ir.__name__)
_PLAIN = re.compile(r"(Loc|str|bool|int|frozenset\[str\]|tuple\[str, \.\.\.\])( \| None)?")


class _Held(dict[type, Callable[[Any], Iterable[Any]] | None]):
    """What gives the fields of a kind of node that may hold nodes: neither its place nor what is declared as words and
    numbers, of which most leaves have nothing else."""

    def __missing__(self, kind: type) -> Callable[[Any], Iterable[Any]] | None:
        fields = getattr(kind, "__dataclass_fields__", {}) if kind is not ir.Const else {}
        names = [name for name, field in fields.items() if name != "unit" and not _PLAIN.fullmatch(field.type)]
        one = attrgetter(*names) if names else None
        found = one if one is None or len(names) > 1 else lambda node: (one(node),)
        self[kind] = found
        return found


_HELD = _Held()


def _collect(values: Iterable[Any], found: list[Any]) -> None:
    for value in values:
        if type(value) in _NODES:
            found.append(value)
        elif value and isinstance(value, (tuple, list)):
            _collect(value, found)
