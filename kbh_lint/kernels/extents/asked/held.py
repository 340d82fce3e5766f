"""What names hold where it is followed which inputs are read on the word of one element."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kbh_lint.base import ir, values
from kbh_lint.base.records import dataclass
from kbh_lint.frontends.walk import all_nodes, walk

Sides = frozenset[tuple[int, bool]]  # tests, each with how it comes out
NONE: Sides = frozenset()


@dataclass(frozen=True, slots=True)
class Held:
    """What is known of the value of a name.

    `at` are the storages that it may point to, each with the tests under which it does; `varies` says whether it
    differs inside a block; `of` are the inputs of which one element was used to compute it; `yes` and `no` are the
    tests that are known to hold where it is true or false.
    """

    at: tuple[tuple[int, Sides], ...] = ()
    varies: bool = False
    of: frozenset[int] = frozenset()
    yes: Sides = NONE
    no: Sides = NONE
    fields: tuple[tuple[str, Any], ...] = ()


PLAIN = Held()


def met(one: Held | None, other: Held | None) -> Held:
    """What a name holds after two paths meet, given what it holds on each."""
    if one is None or other is None or one == other:
        return one or other or PLAIN
    sides = dict(one.at)
    for at, chosen in other.at:
        sides[at] = sides[at] & chosen if at in sides else chosen
    fields = one.fields if one.fields == other.fields else ()
    yes, no = one.yes & other.yes, one.no & other.no
    return Held(tuple(sides.items()), one.varies or other.varies, one.of & other.of, yes, no, fields)


def carried(loop: ir.For | ir.CFor | ir.While) -> frozenset[str]:
    """The names that a loop counts or updates, so that they differ from one iteration to the next."""
    found: set[str] = set()
    for node in walk((loop,)):
        counts = isinstance(node, (ir.AugAssign, ir.For)) or isinstance(node, ir.AssignE) and bool(node.op)
        if counts and isinstance(node, (ir.AugAssign, ir.For, ir.AssignE)):
            found |= {part.id for part in walk((node.target,)) if isinstance(part, ir.Name)}
        elif isinstance(node, (ir.Assign, ir.AssignE)):
            targets = node.targets if isinstance(node, ir.Assign) else (node.target,)
            names = {part.id for part in walk(targets) if isinstance(part, ir.Name)}
            found |= names & {part.id for part in walk((node.value,)) if isinstance(part, ir.Name)}
    return frozenset(found)


def refers(param: ir.Param) -> bool:
    """Whether a parameter is a C++ reference through which the function may assign to its argument."""
    return isinstance(param.type, ir.TypeRef) and param.type.reference and not param.type.const


def decisive(args: Mapping[str, object], inputs: frozenset[int]) -> tuple[object, ...]:
    """What `asked_once` says hangs on of the arguments of a launch: which lead to the inputs, and which are one."""
    return tuple([(name, _decisive(value, inputs)) for name, value in args.items()])


def _decisive(value: object, inputs: frozenset[int]) -> object:
    if isinstance(value, values.StructArg):
        return tuple([(name, _decisive(part, inputs)) for name, part in value.fields])
    if isinstance(value, values.Buffer):
        return ("at", value.storage) if value.storage in inputs else None
    return bool((value.value if isinstance(value, values.Scalar) else value) == 1)


def compares(kernel: values.Func) -> bool:
    """Whether a kernel, or a function that it calls, compares two computed values for equality. False where something
    in them cannot be followed."""
    funcs, found = [kernel], False
    for func in funcs:
        nodes = all_nodes(func.node.body or ())
        if any(isinstance(node, (ir.Lambda, ir.FuncDef, ir.Opaque)) for node in nodes):
            return False
        found = found or any(map(_equality, nodes))
        calls = [node.func for node in nodes if isinstance(node, ir.Call)]
        for name in {getattr(part, "id", getattr(part, "name", "")) for part in calls}:
            one = func.env.get(name)
            several = one.funcs if isinstance(one, values.Overloads) else [getattr(one, "func", one)]
            funcs += [more for more in several if isinstance(more, values.Func) and all(more is not f for f in funcs)]
    return found


def _equality(node: object) -> bool:
    if not isinstance(node, ir.Compare) or node.ops[0] not in ("==", "!="):
        return False
    return not isinstance(node.left, ir.Const) and not isinstance(node.rights[0], ir.Const)
