"""Walks over the IR, whatever it was lowered from."""

from __future__ import annotations

from typing import Any

from kbh_lint import ir


def children(node: Any) -> list[Any]:
    """The IR nodes directly below an IR node, in order."""
    found: list[Any] = []
    kind = type(node)
    for name in _SLOTS.get(kind) or _slots(kind):
        value = getattr(node, name)
        if type(value) in _NODES:
            found.append(value)
        elif value and isinstance(value, (tuple, list)):
            _collect(value, found)
    return found


def walk(nodes: Any) -> list[Any]:
    """All IR nodes in or below `nodes`, in order, without recursion."""
    order: list[Any] = []
    stack = list(reversed(nodes)) if isinstance(nodes, (tuple, list)) else [nodes]
    while stack:
        node = stack.pop()
        order.append(node)
        below = children(node)
        below.reverse()
        stack += below
    return order


def free_names(func: ir.FuncDef) -> dict[str, ir.Loc]:
    """The names that a C++ lambda uses and that are no parameters of it, with where each is first; those of functions
    and types too. A lambda inside stands for what it captures."""
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
_SLOTS: dict[type, tuple[str, ...]] = {}


def _slots(kind: type) -> tuple[str, ...]:
    fields = getattr(kind, "__dataclass_fields__", {})
    names = _SLOTS[kind] = tuple(name for name in fields if name not in ("loc", "unit"))
    return names


def _collect(values: Any, found: list[Any]) -> None:
    for value in values:
        if type(value) in _NODES:
            found.append(value)
        elif value and isinstance(value, (tuple, list)):
            _collect(value, found)
