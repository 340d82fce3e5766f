"""What C++ copies where a value is given to a variable, and what it refers to."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import Env, Func, Value
from kbh_lint.host.cpp.std import containers
from kbh_lint.host.values import bounds
from kbh_lint.host.values.containers import Tensors
from kbh_lint.host.values.cpp_objects import CStruct, Slot
from kbh_lint.host.values.objects import LibObject

if TYPE_CHECKING:
    from kbh_lint.host.cpp.interpreter import Cpp
    from kbh_lint.host.run import Run

MAX_NESTED = 4  # containers in containers that a copy goes down


def copied(interp: Run, value: Value, depth: int = 0) -> Any:
    """Returns a copy of a vector, map or struct, as C++ makes when it is passed or assigned by value."""
    if isinstance(value, list) and depth < MAX_NESTED:
        items = [copied(interp, item, depth + 1) for item in bounds.visited(interp, value)]
        if isinstance(value, containers.Objects):
            return containers.objects(items, value.made)
        return Tensors(items) if isinstance(value, Tensors) else items
    if isinstance(value, dict) and depth < MAX_NESTED:
        made = type(value)()
        if isinstance(value, containers.Entries) and isinstance(made, containers.Entries):
            made.fresh, made.rising = value.fresh, value.rising
        elif isinstance(value, containers.Keys) and isinstance(made, containers.Keys):
            made.rising = value.rising
        made.update((key, copied(interp, item, depth + 1)) for key, item in bounds.visited(interp, value).items())
        return made
    if isinstance(value, CStruct) and depth < MAX_NESTED:
        attrs = {name: copied(interp, item, depth + 1) for name, item in bounds.visited(interp, value.attrs).items()}
        return LibObject.by_path(value.path, attrs, value.args, value.kwargs)
    if isinstance(value, Func):
        return _lambda(interp, value, depth)
    if isinstance(value, LibObject) and "kind" in value.attrs:  # a CUTLASS operator holds its arguments
        return LibObject.by_path(value.path, dict(value.attrs), value.args, value.kwargs)
    return value


def _lambda(interp: Run, func: Func, depth: int) -> Func:
    """A copy of a lambda, with what it has captured."""
    held = func.captured() if depth < MAX_NESTED else None
    if held is None:
        return func
    own = {name: copied(interp, item, depth + 1) for name, item in held.vars.items()}
    return replace(func, env=Env(own, held.parent))


def fresh(run: Cpp, node: object, value: Value, env: Env) -> Value:
    """Returns `value`, the value of `node`, for a new variable: a copy when `node` names what another variable
    holds."""
    if not isinstance(value, (list, dict, LibObject, Func)) or not isinstance(node, (ir.Name, ir.Attr, ir.Index)):
        return value
    if isinstance(value, Func):  # a lambda, whose address is a place
        return copied(run.interp, value)
    try:
        held = env.lookup(node.id) if isinstance(node, ir.Name) else None
    except KeyError:
        held = None
    return value if isinstance(held, Slot) else copied(run.interp, value)  # a place may be a pointer
