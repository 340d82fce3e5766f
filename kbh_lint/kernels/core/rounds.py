"""What rounds of a loop do, as they are written: what the first surely does, and what comes to the same place again.

In the first program of a launch, a load in the first round comes before any store. Programs that go from tile to tile
(`for row in range(pid, rows, programs)`) do their work inside a loop: what stands in it before anything is stored, and
in no branch, is executed by each program before it stores anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from kbh_lint.base import dtypes, ir, values
from kbh_lint.base.records import dataclass
from kbh_lint.frontends.walk import all_nodes, by_node, children, walk
from kbh_lint.ops import conversions
from kbh_lint.ops.catalogue import OPERATIONS

MAX_DEPTH = 8  # names that stand for conditions, one in another
_NESTED = (ir.If, ir.For, ir.While, ir.CFor, ir.Switch, ir.Try, ir.With)
_APART = (ir.Lambda, ir.Comp, ir.FuncDef, ir.ClassDef)
_ASSIGNING = (ir.Decl, ir.Assign, ir.AugAssign, ir.AssignE, ir.For)
_LEAVES = (ir.Jump, ir.Return)
MAX_ALIASES = 6  # pointers and references, one into what another leads to
_PURE = frozenset(("arithmetic", "function", "extreme", "whole", "test"))
_ONLY_READ = frozenset(word for row in OPERATIONS if row.kind in _PURE for word in row.spellings.get("cuda", ()))
Path = tuple[str, ...]  # a variable, and fields of it


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


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an expression leads to. `same`: the variables and fields that it is an element of; `around`: those that it
    was cut out of by a cast; `names`: the variables that the address is computed from."""

    same: frozenset[Path]
    around: frozenset[Path]
    names: frozenset[str]
    base: str

    def meets(self, other: _Place) -> bool:
        """Whether the two may be elements of one array: what was cut out of one is not what else was."""
        return _touch(self.same, other.same | other.around) or _touch(self.around, other.same)


def _touch(some: frozenset[Path], others: frozenset[Path]) -> bool:
    return any(a[: len(b)] == b[: len(a)] for a in some for b in others)


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


def carrying(
    func: object, around: Sequence[ir.Stmt], stmt: ir.Assign, target: ir.Expr, called: str
) -> tuple[ir.Stmt | None, bool]:
    """The innermost of the loops `around` an assignment to `target` in which it finds what it left in the round before:
    its place moves with none of what the loop changes, and nothing else in the loop writes there. None where there is
    none, and whether that is since the loop begins it anew. The assignment may stand in the function `called`."""
    body = func.node if isinstance(func, values.Func) else None
    if body is None or not around:
        return None, False
    place = _place(body, around, target)
    if place is None:
        return None, False
    for loop in reversed(around):
        if not place.names & _changing(loop):
            begun = any(_begins(body, around, node, stmt, place, called) for node in _inside(body, loop))
            return None if begun else loop, begun
    return None, False


def begins(func: object, around: Sequence[ir.Stmt], stmt: ir.Assign, target: ir.Expr, called: str) -> bool:
    """Whether a function may write to the place `target` without what was there, besides by the assignment `stmt`,
    which may stand in the function `called`."""
    body = func.node if isinstance(func, values.Func) else None
    place = None if body is None else _place(body, around, target)
    if body is None:
        return True
    if place is not None:
        return any(_begins(body, around, node, stmt, place, called) for node in _inside(body, body))
    path = _path(target)  # of a field, or of what a lambda refers to
    for node in [node for node in _nodes(body) if isinstance(node, ir.Assign) and node is not stmt]:
        for other in node.targets:
            found = _path(other)
            again = any(same_place(part, other) for part in walk((node.value,)))
            if path is None or found is None or found[0][0] == path[0][0] and not again:
                return True
    return path is None


def _begins(
    body: ir.FuncDef, around: Sequence[ir.Stmt], node: object, stmt: ir.Assign, place: _Place, called: str
) -> bool:
    """Whether a node in a loop may write to a place without what was there, or makes it anew."""
    if isinstance(node, ir.Decl):
        return node.name == place.base and "__shared__" not in node.storage and not _leads(node)
    found: list[_Place | None] = []
    if isinstance(node, ir.Assign):
        again = any(same_place(part, target) for target in node.targets for part in walk((node.value,)))
        found = [] if node is stmt or again else [_place(body, around, target) for target in node.targets]
    elif isinstance(node, ir.AssignE) and not node.op:
        found = [_place(body, around, node.target)]
    elif isinstance(node, ir.Call) and called and _named(node) == called:
        return False
    elif isinstance(node, (ir.Call, ir.Asm)):
        found = [one for given in _given(node) for one in _reached(body, around, given)]
    return any(one is None or one.meets(place) for one in found)


def _named(node: ir.Call) -> str:
    """The last part of the name of what is called."""
    func = node.func
    return (func.id if isinstance(func, ir.Name) else getattr(func, "name", "")).rpartition("::")[2]


def _given(node: ir.Call | ir.Asm) -> list[ir.Expr]:
    """What a function or assembly may write to of what it is given; functions of numbers write to nothing."""
    if isinstance(node, ir.Asm):
        return [value for _, value in (*node.outputs, *node.inputs)]
    name = node.func.id.rpartition("::")[2] if isinstance(node.func, ir.Name) else ""
    if isinstance(node.func, ir.TypeRef) or name in _ONLY_READ or conversions.named(name) is not None:
        return []
    return [*node.args, *((node.func.value,) if isinstance(node.func, ir.Attr) else ())]


def _reached(body: ir.FuncDef, around: Sequence[ir.Stmt], node: ir.Expr, depth: int = 0) -> Iterator[_Place]:
    """The places that an expression leads to: a pointer, an address that is held as a number, an object that was made
    of one."""
    if depth > MAX_ALIASES or isinstance(node, ir.Lambda) or isinstance(node, ir.Call) and not _given(node):
        return
    place = _place(body, around, node)
    if place is not None:
        yield place
        declared = _declared(body, around, place.base)
        if not isinstance(declared, ir.Decl) or declared.type is None or declared.init is None:
            return
        if dtypes.from_cpp(declared.type.name) not in dtypes.FLOATS:
            yield from _reached(body, around, declared.init, depth + 1)
        return
    for part in children(node):
        yield from _reached(body, around, part, depth + 1)


def _place(body: ir.FuncDef, around: Sequence[ir.Stmt], node: ir.Expr) -> _Place | None:
    """Where an expression leads to, through the pointers and references of the function; None where that is not
    known."""
    same, cut_from = set[Path](), set[Path]()
    names, cut, fields = set[str](), False, Path()
    for _ in range(MAX_ALIASES):
        found = _path(node)
        if found is None:
            return None
        path, used, cast = found
        cut = cut or cast and bool(same)
        names |= used
        (cut_from if cut else same).add((*path, *fields))
        fields = (*path[1:], *fields)
        declared = _declared(body, around, path[0])
        if declared is None:
            return None
        if isinstance(declared.type, ir.TypeRef) and declared.type.reference:
            names.discard(path[0])  # what is assigned to it moves it nowhere
        if not isinstance(declared, ir.Decl) or not _leads(declared) or declared.init is None:
            if isinstance(declared, ir.Decl) and not _leads(declared):
                names.discard(path[0])  # which is there and moves with nothing
            return _Place(frozenset(same), frozenset(cut_from), frozenset(names), path[0])
        node = declared.init
    return None


def _leads(declared: ir.Decl) -> bool:
    """Whether a variable is a pointer or a reference, and no array."""
    kind = declared.type
    if kind is None or kind.dims:
        return False
    return kind.pointers > 0 or kind.reference or kind.name == "auto"


def _path(node: ir.Expr) -> tuple[Path, set[str], bool] | None:
    """The variable and fields that an expression is an element of, the names in it, and whether a cast is on the
    way."""
    names, fields, cast = set[str](), Path(), False
    while not isinstance(node, ir.Name):
        if isinstance(node, ir.Index):
            names |= _names(node.index)
            node = node.value
        elif isinstance(node, ir.Attr):
            fields = (node.name, *fields)
            node = node.value
        elif isinstance(node, ir.Unary) and node.op in ("*", "&"):
            node = node.value
        elif isinstance(node, ir.Binary) and node.op in ("+", "-"):
            names |= _names(node.right)
            node = node.left
        elif isinstance(node, ir.Cast):
            cast, node = True, node.value
        else:
            return None
    return (node.id, *fields), names | {node.id}, cast


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


def _inside(body: ir.FuncDef, loop: ir.Stmt) -> Iterator[object]:
    """The nodes of a loop, and of the lambdas of the function that it calls."""
    seen: set[str] = set()
    stack: list[object] = [loop]
    while stack:
        for node in _nodes(stack.pop()):
            yield node
            if isinstance(node, ir.Call) and isinstance(node.func, ir.Name) and node.func.id not in seen:
                seen.add(node.func.id)
                declared = _declarations(body).get(node.func.id, ())
                stack += [one.init for one in declared if isinstance(one.init, ir.Lambda)]


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
        elif isinstance(node, (ir.AugAssign, ir.AssignE)) or isinstance(node, ir.For) and node is not loop:
            targets = [node.target]
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
