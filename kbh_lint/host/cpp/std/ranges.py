"""What a range-based loop gets of an object of the submission: by its `begin` and `end`, and by their operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbh_lint.base import ir
from kbh_lint.base.values import Value
from kbh_lint.host.cpp import classes as cpp_classes
from kbh_lint.host.values.cpp_objects import CStruct, Slot

if TYPE_CHECKING:
    from kbh_lint.host.cpp.interpreter import Cpp

MAX_DRAWN = 64  # items of one loop


def items(run: Cpp, value: Value, loc: ir.Loc | None) -> Value:
    """Returns what a loop goes over: the items of an object that says where they begin and end, any other value as it
    is."""
    if not isinstance(value, CStruct):
        return value
    at, end = (_asked(run, value, name, loc) for name in ("begin", "end"))
    if at is NotImplemented or end is NotImplemented:
        return value
    if not isinstance(at, CStruct):
        return at if isinstance(at, (list, dict)) else value
    found: list[Value] = []
    while run.truth(_differ(run, at, end, loc), loc):
        item = cpp_classes.unary(run, "*", at, loc)
        if item is NotImplemented or len(found) >= MAX_DRAWN:
            run.interp.lost("a loop over an object is not followed to its end", loc)
            break
        found.append(item.get() if isinstance(item, Slot) else item)
        cpp_classes.unary(run, "++", at, loc)
    return found


def _asked(run: Cpp, value: CStruct, name: str, loc: ir.Loc | None) -> Value:
    """What a method without arguments gives; NotImplemented where the class has none."""
    own = cpp_classes.method(value, name)
    funcs = [func for func in own.funcs if not func.node.params and func.node.body is not None] if own else []
    return run.call(funcs[0], [], loc, this=value) if funcs else NotImplemented


def _differ(run: Cpp, at: CStruct, end: Value, loc: ir.Loc | None) -> Value:
    """`at != end`, also by `operator==`; true where the class has neither."""
    made = cpp_classes.operator(run, "!=", at, end, loc)
    if made is NotImplemented:
        same = cpp_classes.operator(run, "==", at, end, loc)
        return True if same is NotImplemented else not run.truth(same, loc)
    return made
