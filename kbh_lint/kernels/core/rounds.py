"""What rounds of a loop do, as they are written: what the first surely does, and what comes to the same place again.

In the first program of a launch, a load in the first round comes before any store. Programs that go from tile to tile
(`for row in range(pid, rows, programs)`) do their work inside a loop: what stands in it before anything is stored, and
in no branch, is executed by each program before it stores anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from kbh_lint.base import ir, values
from kbh_lint.frontends.walk import all_nodes, by_node, children, walk

MAX_DEPTH = 8  # names that stand for conditions, one in another
_NESTED = (ir.If, ir.For, ir.While, ir.CFor, ir.Switch, ir.Try, ir.With)
_APART = (ir.Lambda, ir.Comp, ir.FuncDef, ir.ClassDef)
_ASSIGNING = (ir.Decl, ir.Assign, ir.AugAssign, ir.AssignE, ir.For)
_LEAVES = (ir.Jump, ir.Return)
MAX_ALIASES = 6  # pointers and references, one into what another leads to


@by_node
def in_first_round(loop: ir.For | ir.While | ir.CFor) -> frozenset[ir.Loc]:
    """The places of the expressions that the first iteration of `loop` evaluates on any input. A load there may still
    have a mask that excludes that iteration."""
    return _Round(loop).places


class _Round:
    """One walk over the statements that stand in a loop itself."""

    def __init__(self, loop: ir.For | ir.While | ir.CFor) -> None:
        self.changed: set[str] = set()
        self.given: dict[str, list[Any]] = {}
        for node in all_nodes(loop):
            if isinstance(node, _ASSIGNING):
                self._assigned(node)
        self.found: set[ir.Loc] = set()
        self._block(loop.body)
        self.places = frozenset(self.found)

    def _assigned(self, node: object) -> None:
        targets, value = [], None
        if isinstance(node, ir.Decl):
            self.changed.add(node.name)
            self.given.setdefault(node.name, []).append(node.init)
        elif isinstance(node, ir.Assign):
            targets, value = list(node.targets), node.value
        elif isinstance(node, (ir.AugAssign, ir.AssignE, ir.For)):
            targets = [node.target]
        for target in targets:
            names = [part.id for part in walk((target,)) if isinstance(part, ir.Name)]
            self.changed.update(names)
            for name in names:
                self.given.setdefault(name, []).append(value if isinstance(target, ir.Name) else None)

    def _block(self, body: Iterable[ir.Stmt]) -> bool:
        """Notes what a body computes; whether control may go elsewhere in it."""
        for stmt in body:
            if isinstance(stmt, _LEAVES):
                return True
            if isinstance(stmt, ir.Block):
                if self._block(stmt.body):
                    return True
            elif isinstance(stmt, _NESTED):
                if isinstance(stmt, ir.If):
                    self._note(stmt.test)
                if any(isinstance(node, _LEAVES) for node in walk((stmt,))):
                    return True
            elif not isinstance(stmt, _APART):
                for part in children(stmt):
                    self._note(part)
        return False

    def _note(self, node: object) -> None:
        if isinstance(node, _APART):
            return
        if isinstance(node, (ir.Cond, ir.Bool)):
            self._note(node.test if isinstance(node, ir.Cond) else node.values[0])
            return
        held = (*node.args[1:], *(value for _, value in node.keywords)) if isinstance(node, ir.Call) else ()
        if isinstance(node, (ir.Call, ir.Index, ir.Unary, ir.Attr)) and all(map(self._sure, held)):
            self.found.add(node.loc)
        for part in children(node):
            self._note(part)

    def _sure(self, node: object, depth: int = 0) -> bool:
        """Whether a condition that some round meets is met by the first one too: what changes from round to round is
        held against an upper bound alone."""
        if self._stays(node):
            return True
        if isinstance(node, ir.Name) and depth < MAX_DEPTH:
            given = self.given.get(node.id, [])
            return len(given) == 1 and given[0] is not None and self._sure(given[0], depth + 1)
        if isinstance(node, ir.Compare) and len(node.ops) == 1:
            bound = node.rights[0] if node.ops[0] in ("<", "<=") else node.left if node.ops[0] in (">", ">=") else None
            return bound is not None and self._stays(bound)
        if isinstance(node, ir.Binary) and node.op in ("&", "|"):
            return self._sure(node.left, depth) and self._sure(node.right, depth)
        if isinstance(node, ir.Bool):
            return all(self._sure(value, depth) for value in node.values)
        return isinstance(node, ir.Index) and self._sure(node.value, depth)

    def _stays(self, node: object) -> bool:
        return not any(isinstance(part, ir.Name) and part.id in self.changed for part in walk((node,)))


def same_place(a: object, b: object) -> bool:
    """Whether two expressions of names, elements and numbers are written the same way, but for casts."""
    if isinstance(a, ir.Cast) and isinstance(b, ir.Cast):
        return same_place(a.value, b.value)
    if isinstance(a, ir.Name) and isinstance(b, ir.Name):
        return a.id == b.id
    if isinstance(a, ir.Const) and isinstance(b, ir.Const):
        return bool(a.value == b.value)
    if isinstance(a, ir.Index) and isinstance(b, ir.Index):
        return same_place(a.value, b.value) and same_place(a.index, b.index)
    if isinstance(a, ir.Attr) and isinstance(b, ir.Attr):
        return a.name == b.name and same_place(a.value, b.value)
    if isinstance(a, ir.Binary) and isinstance(b, ir.Binary):
        return a.op == b.op and same_place(a.left, b.left) and same_place(a.right, b.right)
    if isinstance(a, ir.Unary) and isinstance(b, ir.Unary):
        return a.op == b.op and same_place(a.value, b.value)
    return False


def unmoved(func: object, around: Sequence[ir.Stmt], target: ir.Expr, *, undeclared: bool = False) -> list[ir.Stmt]:
    """The loops `around` in which a place moves with none of what they change. `undeclared`: variables of the language
    are not declared."""
    body = func.node if isinstance(func, values.Func) else None
    if undeclared:
        found = _path(target)
        names = None if found is None else found[1]
    else:
        names = _made_of(body, around, target) if body is not None and around else None
    return [] if names is None else [loop for loop in around if not names & _changing(loop)]


def moves(loop: ir.Stmt, node: ir.Expr) -> bool:
    """Whether an expression may come to something else in the next round of a loop."""
    return not _changing(loop).isdisjoint(_names(node))


def _made_of(body: ir.FuncDef, around: Sequence[ir.Stmt], node: ir.Expr) -> set[str] | None:
    """The variables that an address is computed from, through the pointers and references of the function; None where
    that is not known."""
    names = set[str]()
    for _ in range(MAX_ALIASES):
        found = _path(node)
        if found is None:
            return None
        base, used = found
        names |= used
        declared = _declared(body, around, base)
        if declared is None:
            return None
        if isinstance(declared.type, ir.TypeRef) and declared.type.reference:
            names.discard(base)  # what is assigned to it moves it nowhere
        if not isinstance(declared, ir.Decl) or not _leads(declared) or declared.init is None:
            if isinstance(declared, ir.Decl) and not _leads(declared):
                names.discard(base)  # which is there and moves with nothing
            return names
        node = declared.init
    return None


def _leads(declared: ir.Decl) -> bool:
    """Whether a variable is a pointer or a reference, and no array."""
    kind = declared.type
    if kind is None or kind.dims:
        return False
    return kind.pointers > 0 or kind.reference or kind.name == "auto"


def _path(node: ir.Expr) -> tuple[str, set[str]] | None:
    """The variable that an expression is an element or a field of, and the names in it."""
    names = set[str]()
    while not isinstance(node, ir.Name):
        if isinstance(node, ir.Index):
            names |= _names(node.index)
            node = node.value
        elif isinstance(node, (ir.Attr, ir.Cast)) or isinstance(node, ir.Unary) and node.op in ("*", "&"):
            node = node.value
        elif isinstance(node, ir.Binary) and node.op in ("+", "-"):
            names |= _names(node.right)
            node = node.left
        else:
            return None
    return node.id, names | {node.id}


def _declared(body: ir.FuncDef, around: Sequence[ir.Stmt], name: str) -> ir.Decl | ir.Param | None:
    """What declares a variable of a function: the one in the innermost of the loops around that has one."""
    for loop in (*reversed(around), body):
        found = _declarations(loop).get(name, [])
        if found:
            return found[0] if len(found) == 1 else None
    return next((param for param in body.params if param.name == name), None)


@by_node
def _declarations(node: ir.Stmt) -> dict[str, list[ir.Decl]]:
    found: dict[str, list[ir.Decl]] = {}
    for each in all_nodes(node):
        if isinstance(each, ir.Decl):
            found.setdefault(each.name, []).append(each)
    return found


@by_node
def _nodes(node: object) -> list[object]:
    return walk((node,))


@by_node
def _names(node: object) -> set[str]:
    """The names in or below a node."""
    return {each.id for each in walk((node,)) if isinstance(each, ir.Name)}


@by_node
def _changing(loop: ir.Stmt) -> set[str]:
    """The variables that may be others in the next round of a loop, when it begins."""
    nodes, own = _nodes(loop), {node.name for part in getattr(loop, "body", ()) for node in _decls(part)}
    moved = {
        node.id for part in (getattr(loop, "target", None),) for node in walk((part,)) if isinstance(node, ir.Name)
    }
    given: list[tuple[set[str], set[str]]] = []  # what is assigned, and of what
    for node in nodes:
        targets: list[ir.Expr] = []
        if isinstance(node, ir.Decl) and node.init is not None:
            given.append(({node.name}, _names(node.init)))
        elif isinstance(node, ir.Assign):
            targets = list(node.targets)
        elif isinstance(node, (ir.AugAssign, ir.AssignE)):
            targets = [node.target]
        elif isinstance(node, ir.For) and node is not loop:  # which begins anew each time
            given.append((_names(node.target), _names(node.iterable)))
        value = getattr(node, "iterable", getattr(node, "value", None))
        for target in targets:
            if isinstance(target, ir.Name):
                given.append(({target.id}, _names(value)))
                moved |= {target.id} - own
    grown = True
    while grown:
        grown = False
        for names, of in given:
            if of & moved and not names <= moved:
                moved |= names
                grown = True
    return moved


def _decls(part: object) -> Iterator[ir.Decl]:
    yield from (node for node in walk((part,)) if isinstance(node, ir.Decl))
