"""What the text of a kernel alone says of loops whose stages keep copies of operands (`stages`)."""

from __future__ import annotations

from kbh_lint.base import ir
from kbh_lint.dsl.triton.shared_memory import given
from kbh_lint.frontends.walk import all_nodes, by_node, walk

PLAIN = ("load", "dot", "arange", "cdiv", "exp", "multiple_of", "max_contiguous", "minimum", "maximum", "sum", "max",
          "where", "zeros", "full", "cast")  # fmt: skip
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


def assigned(node: object) -> set[str]:
    """The names that are assigned to in `node`."""
    found: set[str] = set()
    for part in walk(node):
        targets: tuple[ir.Expr, ...] = part.targets if isinstance(part, ir.Assign) else ()
        if isinstance(part, (ir.AugAssign, ir.AssignE, ir.For)):
            targets = (part.target,)
        found |= {one.id for one in walk(targets) if isinstance(one, ir.Name)}
    return found


def made_of(body: tuple[ir.Stmt, ...], loads: list[ir.Call]) -> set[str]:
    """The names that get what is loaded in a loop, or what is made of it."""
    found: set[str] = set()
    while True:
        before = len(found)
        for node in body:
            if any(part.id in found if isinstance(part, ir.Name) else part in loads for part in _asked(node)):
                found |= assigned(node)
        if len(found) == before:
            return found


def _asked(node: object) -> list[ir.Name | ir.Call]:
    return [part for part in walk(node) if isinstance(part, (ir.Name, ir.Call))]


def meets(load: ir.Call, loads: list[ir.Call], late: set[str]) -> bool:
    """Whether what a load is given comes from a load in the same loop."""
    given_ = (*load.args, *(value for _, value in load.keywords))
    return any(part.id in late if isinstance(part, ir.Name) else part in loads for part in _asked(given_))


def keeps(load: ir.Call) -> bool:
    """Whether a load is a plain one: zeros where its mask is false, and no words on caches."""
    named = dict(load.keywords)
    other = load.args[2] if len(load.args) > 2 else named.get("other")
    zero = other is None or isinstance(other, ir.Const) and other.value == 0
    return bool(load.args) and len(load.args) < 4 and zero and named.keys() <= {"mask", "other", "eviction_policy"}
