"""Gotos as structured statements: a forward goto becomes a copy of what follows its label, one back to the start of a
block a loop around it. Others stay as they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kbh_lint.base import ir

MAX_COPIED = 400  # statements that are written again in place of gotos, in one function
MAX_DEPTH = 60
_LOOPS = (ir.While, ir.CFor, ir.For)
_Body = tuple[ir.Stmt, ...]


def structured(body: _Body) -> _Body:
    """The body of a function without labels, its gotos replaced by loops and copies of code where possible."""
    run = _Run()
    return _each(run.block(body, "function"), lambda node: () if _is(node, "label") else (node,))


def _is(node: ir.Stmt, kind: str, label: str | None = None) -> bool:
    return isinstance(node, ir.Jump) and node.kind == kind and label in (None, node.label)


def _each(body: _Body, change: Callable[[ir.Stmt], _Body], loops: bool = True, depth: int = 0) -> _Body:
    """Statements with each leaf changed; what stands in a loop only where `loops`."""
    out: list[ir.Stmt] = []
    for node in body:
        if depth > MAX_DEPTH or isinstance(node, _LOOPS) and not loops:
            out.append(node)
        elif (parts := _parts(node)) is None:
            out += change(node)
        else:
            out.append(_with(node, tuple(_each(part, change, loops, depth + 1) for part in parts)))
    return tuple(out)


def _parts(node: ir.Stmt) -> tuple[_Body, ...] | None:
    """The bodies of a statement; None for one that has none."""
    if isinstance(node, (ir.If, ir.While, ir.For)):
        return node.body, node.orelse
    if isinstance(node, (ir.CFor, ir.Block)):
        return (node.body,)
    if isinstance(node, ir.Switch):
        return tuple(body for _, body in node.cases)
    if isinstance(node, ir.Try):
        return node.body, *(body for _, _, body in node.handlers)
    return None


def _with(node: ir.Stmt, parts: tuple[_Body, ...]) -> ir.Stmt:
    """A statement with other bodies; itself where they are the same."""
    if all(
        len(a) == len(b) and all(map(lambda x, y: x is y, a, b)) for a, b in zip(_parts(node) or (), parts, strict=True)
    ):
        return node
    if isinstance(node, (ir.If, ir.While, ir.For)):
        return replace(node, body=parts[0], orelse=parts[1])
    if isinstance(node, ir.Switch):
        return replace(node, cases=tuple((case[0], body) for case, body in zip(node.cases, parts, strict=True)))
    if isinstance(node, ir.Try):
        handlers = tuple((h[0], h[1], body) for h, body in zip(node.handlers, parts[1:], strict=True))
        return replace(node, body=parts[0], handlers=handlers)
    return replace(node, body=parts[0]) if isinstance(node, (ir.CFor, ir.Block)) else node


def _count(body: _Body) -> int:
    return sum(1 + sum(map(_count, _parts(node) or ())) for node in body)


class _Run:
    def __init__(self) -> None:
        self.left = MAX_COPIED

    def block(self, body: _Body, kind: str, depth: int = 0) -> _Body:
        """A body with the gotos to its own labels replaced; `kind` says what the body belongs to: a function, a loop or
        another statement."""
        if depth > MAX_DEPTH:
            return body
        inner: list[ir.Stmt] = []
        for node in body:
            parts = _parts(node)
            if parts is not None:
                own = "loop" if isinstance(node, _LOOPS) else "other"
                node = _with(node, tuple(self.block(part, own, depth + 1) for part in parts))
            inner.append(node)
        for at in range(len(inner) - 1, -1, -1):
            if _is(inner[at], "label"):
                inner = self._label(inner, at, kind)
        return tuple(inner)

    def _label(self, body: list[ir.Stmt], at: int, kind: str) -> list[ir.Stmt]:
        """Removes one label: a goto after it becomes a loop, a goto before it a copy of what follows the label."""
        name = getattr(body[at], "label", "")
        back = [j for j in range(at + 1, len(body)) if _goes(body[j], name)]
        if back:
            last = body[back[-1]]
            if len(back) > 1 or not isinstance(last, ir.If) or last.orelse or not _only(last.body, name):
                return body
            again = tuple(body[at + 1 : back[0]])
            if any(isinstance(node, ir.Decl) for node in again) or _leaves(again):
                return body  # what it declares is used behind it; a break would be of another loop
            loop = ir.While(last.test, again, (), last.loc, True)
            body = [*body[: at + 1], loop, *body[back[0] + 1 :]]
        if kind == "other":
            return body
        tail = tuple(node for node in body[at + 1 :] if not _is(node, "label"))
        loc = body[at].loc
        leave: ir.Stmt = ir.Return(None, loc) if kind == "function" else ir.Jump("continue", loc)
        rest = tail if tail and isinstance(tail[-1], ir.Return) else (*tail, leave)
        size = _count(rest)

        def change(node: ir.Stmt) -> _Body:
            if not _is(node, "goto", name) or self.left < size:
                return (node,)
            self.left -= size
            return (ir.Block(rest, node.loc),) if len(rest) > 1 else rest

        return [*_each(tuple(body[:at]), change, kind == "function"), *body[at:]]


def _goes(node: ir.Stmt, name: str) -> bool:
    """Whether a goto to a label stands in a statement."""
    found = _is(node, "goto", name)
    return found or any(_goes(inner, name) for part in _parts(node) or () for inner in part)


def _leaves(body: _Body) -> bool:
    """Whether a break or a continue of a loop around stands in statements."""
    inside = [part for node in body if not isinstance(node, _LOOPS) for part in _parts(node) or ()]
    return any(_is(node, "break") or _is(node, "continue") for node in body) or any(map(_leaves, inside))


def _only(body: _Body, name: str) -> bool:
    """Whether a goto to a label is all there is."""
    first = body[0] if len(body) == 1 else None
    return first is not None and (_is(first, "goto", name) or isinstance(first, ir.Block) and _only(first.body, name))
