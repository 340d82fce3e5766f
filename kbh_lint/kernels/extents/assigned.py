"""What a piece of a kernel may change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kbh_lint import ir
from kbh_lint.frontends.walk import walk


def assigned_names(nodes: Any, cpp: bool) -> set[str]:
    """The names that are assigned in or below nodes, or given to what may assign them."""
    return set(assigned_everywhere(nodes, cpp))


def assigned_everywhere(nodes: Any, cpp: bool) -> Iterator[str]:
    """The same names, each as often as it is assigned."""
    for node in walk(nodes):
        below: tuple[Any, ...] = ()
        if isinstance(node, (ir.AssignE, ir.AugAssign, ir.For)):
            below = (node.target,)
        elif isinstance(node, ir.Assign):
            below = node.targets
        elif isinstance(node, ir.Asm):
            below = tuple(value for _, value in node.outputs)
        elif isinstance(node, ir.Unary) and node.op == "&":
            below = (node.value,)
        elif cpp and isinstance(node, ir.Call) and not _pure(node.func):
            below = node.args
        elif isinstance(node, ir.Decl):
            yield node.name
        for part in below:
            parts = part.items if isinstance(part, ir.Seq) else (part,)
            yield from (p.id for p in parts if isinstance(p, ir.Name))
            yield from (p.name for p in parts if isinstance(p, ir.Decl))


def _pure(func: Any) -> bool:
    name = func.id.rsplit("::", 1)[-1] if isinstance(func, ir.Name) else ""
    return name.startswith("__") or name in ("min", "max")
