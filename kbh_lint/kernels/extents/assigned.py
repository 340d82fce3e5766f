"""What a piece of a kernel may change."""

from __future__ import annotations

from typing import Any

from kbh_lint import ir
from kbh_lint.frontends.walk import walk


def assigned_names(nodes: Any, cpp: bool) -> set[str]:
    """The names that are assigned in or below nodes, or given to what may assign them."""
    found: set[str] = set()
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
            found.add(node.name)
        for part in below:
            parts = part.items if isinstance(part, ir.Seq) else (part,)
            found |= {p.id for p in parts if isinstance(p, ir.Name)} | {p.name for p in parts if isinstance(p, ir.Decl)}
    return found


def _pure(func: Any) -> bool:
    name = func.id.rsplit("::", 1)[-1] if isinstance(func, ir.Name) else ""
    return name.startswith("__") or name in ("min", "max")
