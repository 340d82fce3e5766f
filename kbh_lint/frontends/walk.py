"""Walks over the IR, whatever it was lowered from."""

from __future__ import annotations

from typing import Any

from kbh_lint import ir


def children(node: Any) -> tuple[Any, ...]:
    """The IR nodes directly below an IR node, in order."""
    found: list[Any] = []
    _collect([getattr(node, name) for name in _slots(type(node))], found)
    return tuple(found)


def walk(nodes: Any) -> list[Any]:
    """All IR nodes in or below `nodes`, in order, without recursion."""
    order: list[Any] = []
    stack = list(reversed(nodes)) if isinstance(nodes, (tuple, list)) else [nodes]
    while stack:
        node = stack.pop()
        order.append(node)
        stack.extend(reversed(children(node)))
    return order


_SLOTS: dict[type, tuple[str, ...]] = {}


def _slots(kind: type) -> tuple[str, ...]:
    names = _SLOTS.get(kind)
    if names is None:
        fields = getattr(kind, "__dataclass_fields__", {})
        names = _SLOTS[kind] = tuple(name for name in fields if name not in ("loc", "unit"))
    return names


def _collect(values: list[Any], found: list[Any]) -> None:
    for value in values:
        if isinstance(value, (tuple, list)):
            _collect(list(value), found)
        elif type(value).__module__ == ir.__name__:
            found.append(value)
