"""What the text of a kernel alone says of loops whose stages keep copies of operands (`stages`)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from kbh_lint.base import ir
from kbh_lint.dsl.triton.shared_memory import given
from kbh_lint.frontends.walk import all_nodes, by_node, children, walk

PLAIN = ("load", "dot", "arange", "cdiv", "exp", "multiple_of", "max_contiguous", "minimum", "maximum", "sum", "max",
          "where", "zeros", "full", "cast")  # fmt: skip
HINTS = ("multiple_of", "max_contiguous", "max_constancy")
LOOPS = (ir.For, ir.While)
BREAKS = (*LOOPS, ir.If, ir.Cond, ir.Bool, ir.Return, ir.Jump, ir.With, ir.FuncDef, ir.Lambda, ir.Comp, ir.AssignE)


@by_node
def may_keep(kernel: ir.FuncDef) -> bool:
    """Whether any loop looks, by its text alone, as if it kept copies. Most have something in them that rules it out
    whatever the arguments are."""
    for loop in all_nodes(kernel.body or ()):
        if not isinstance(loop, ir.For):
            continue
        nodes = walk(loop.body)
        if any(isinstance(node, BREAKS) for node in nodes):
            continue
        calls = [(node, _named(node)) for node in nodes if isinstance(node, ir.Call)]
        if all(name in PLAIN or name == "to" for _, name in calls):
            loads = {id(call) for call, name in calls if name == "load"}
            if any(name == "dot" and _of_loads(call, loads, kernel) for call, name in calls):
                return True
    return False


def _named(call: ir.Call) -> str:
    return call.func.name if isinstance(call.func, ir.Attr) else ""


def _of_loads(dot: ir.Call, loads: set[int], kernel: ir.FuncDef) -> bool:
    """Whether both operands of a product are what one of the `loads` gave."""
    made = [given(kernel).get(arg.id, ()) if isinstance(arg, ir.Name) else (arg,) for arg in dot.args[:2]]
    return len(made) == 2 and all(len(one) == 1 and id(one[0]) in loads for one in made)


@by_node
def assigned(node: object) -> set[str]:
    """The names that are assigned to in a node, or in a tuple of nodes that is part of one; not to be changed."""
    found: set[str] = set()
    for part in walk(node):
        targets: tuple[ir.Expr, ...] = part.targets if isinstance(part, ir.Assign) else ()
        if isinstance(part, (ir.AugAssign, ir.AssignE, ir.For)):
            targets = (part.target,)
        found |= {one.id for one in walk(targets) if isinstance(one, ir.Name)}
    return found


@by_node
def made_in(body: tuple[ir.Stmt, ...]) -> set[str]:
    """The names that hold at the end of an iteration what it has loaded or multiplied, or what it made of that."""
    found: set[str] = set()
    for node in body:
        plain = isinstance(node, ir.AugAssign) or isinstance(node, ir.Assign) and isinstance(node.targets[0], ir.Name)
        parts = walk(node.value) if isinstance(node, (ir.Assign, ir.AugAssign)) else []
        new = any(isinstance(part, ir.Call) and _named(part) in ("load", "dot") for part in parts)
        if isinstance(node, ir.AugAssign):
            parts.append(node.target)
        new = new or any(isinstance(part, ir.Name) and part.id in found for part in parts)
        found = found | assigned(node) if plain and new else found - assigned(node)
    return found


@by_node
def returns(node: object) -> bool:
    """Whether a `return` stands in a node, or in a tuple of nodes that is part of one."""
    return any(isinstance(part, ir.Return) for part in walk(node))


@by_node
def nests(body: tuple[ir.Stmt, ...]) -> bool:
    """Whether a loop stands in the body of one."""
    return any(isinstance(part, LOOPS) for part in walk(body))


@by_node
def assigns_inside(node: ir.Stmt) -> bool:
    """Whether an expression in a statement assigns."""
    return any(isinstance(part, ir.AssignE) for part in walk(node))


@by_node
def hinted(kernel: ir.FuncDef) -> bool:
    """Whether the compiler is told of numbers what it could not know."""
    return any(isinstance(node, ir.Attr) and node.name in HINTS for node in all_nodes(kernel.body or ()))


def in_a_row(body: tuple[ir.Stmt, ...], roots: Iterable[ir.Call], loads: Collection[int], ends: Collection[int]) -> int:
    """How many loads one after another lead to one of `roots`, with itself; 0 where there is no end. `loads` and `ends`
    are loads by the identity of their nodes; what leads to those among `ends` is not asked, and they are none."""
    led: dict[str, int] = {}
    before: dict[str, int] = {"": 0}
    while led != before:
        before = dict(led)
        for node in body:
            found = _row(node, led, loads, ends)
            if found > len(loads):
                return 0
            led.update((name, max(led.get(name, 0), found)) for name in assigned(node))
    return max((_row(root, led, loads, ends) for root in roots), default=0)


def _row(node: object, led: Mapping[str, int], loads: Collection[int], ends: Collection[int]) -> int:
    if isinstance(node, ir.Name):
        return led.get(node.id, 0)
    if id(node) in ends:
        return 0
    return max((_row(part, led, loads, ends) for part in children(node)), default=0) + (id(node) in loads)


def given_to(load: ir.Call, position: int, name: str) -> ir.Expr | None:
    """An argument of a load; None where it has none of that name."""
    return load.args[position] if len(load.args) > position else dict(load.keywords).get(name)


def keeps(load: ir.Call) -> bool:
    """Whether a load is a plain one: zeros where its mask is false, and no words on caches."""
    other, named = given_to(load, 2, "other"), dict(load.keywords)
    zero = other is None or isinstance(other, ir.Const) and other.value == 0
    return bool(load.args) and len(load.args) < 4 and zero and named.keys() <= {"mask", "other", "eviction_policy"}
