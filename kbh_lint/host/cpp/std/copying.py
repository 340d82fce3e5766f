"""What C++ copies where a value is given to a variable, and what it refers to."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import CppType, Env, Func, TypeValue, Value
from kbh_lint.frontends.walk import by_node
from kbh_lint.host.cpp.std import containers, endings
from kbh_lint.host.values import bounds
from kbh_lint.host.values.containers import Tensors
from kbh_lint.host.values.cpp_objects import CStruct, Slot
from kbh_lint.host.values.objects import LibObject

if TYPE_CHECKING:
    from kbh_lint.host.cpp.interpreter import Cpp
    from kbh_lint.host.run import Run

MAX_NESTED = 4  # containers in containers that a copy goes down


def copied(interp: Run, value: Value, depth: int = 0, *, plainly: bool = False) -> Any:
    """Returns a copy of a vector, map or struct, as C++ makes when it is passed or assigned by value; `plainly` asks no
    constructor of its class."""
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
        return _object(interp, value, depth, plainly)
    if isinstance(value, Func):
        return _lambda(interp, value, depth)
    if isinstance(value, LibObject) and "kind" in value.attrs:  # a CUTLASS operator holds its arguments
        return LibObject.by_path(value.path, dict(value.attrs), value.args, value.kwargs)
    return value


def _object(interp: Run, value: CStruct, depth: int, plainly: bool) -> Any:
    """A copy of an object: by a constructor of its class, or field by field; it ends by itself."""
    kind = value.kwargs.get("type")
    if not plainly and isinstance(kind, TypeValue) and copies_itself(value):
        return interp.cpp.construct(kind.ref, [value], kind.env, None)
    attrs = {name: copied(interp, item, depth + 1) for name, item in bounds.visited(interp, value.attrs).items()}
    if endings.of(value) is None:
        return LibObject.by_path(value.path, attrs, value.args, value.kwargs)
    same = CStruct(value.path, attrs, value.args, {**value.kwargs})
    endings.begin(interp.cpp, same)
    return same


def copies_itself(value: CStruct) -> bool:
    """Whether the class of an object has a constructor that copies or moves."""
    kind = value.kwargs.get("kind")
    return isinstance(kind, CppType) and isinstance(kind.node, ir.ClassDef) and _copies(kind.node)


@by_node
def _copies(node: ir.ClassDef) -> bool:
    made = [part for part in node.body if isinstance(part, ir.FuncDef) and part.name == node.name and part.body]
    kinds = [func.params[0].type for func in made if len(func.params) == 1]
    return any(isinstance(kind, ir.TypeRef) and kind.name == node.name and not kind.pointers for kind in kinds)


def _lambda(interp: Run, func: Func, depth: int) -> Func:
    """A copy of a lambda, with what it has captured."""
    held = func.captured() if depth < MAX_NESTED else None
    if held is None:
        return func
    own = {name: copied(interp, item, depth + 1) for name, item in held.vars.items()}
    return replace(func, env=Env(own, held.parent))


def _moves(func: ir.Expr) -> bool:
    """Whether what is called only says that a value is moved."""
    return (func.id if isinstance(func, ir.Name) else getattr(func, "name", "")) in ("std::move", "std::forward")


def fresh(run: Cpp, node: object, value: Value, env: Env) -> Value:
    """Returns `value`, the value of `node`, for a new variable: a copy when `node` names what another variable
    holds."""
    if isinstance(node, ir.Call) and isinstance(value, CStruct) and _moves(node.func) and copies_itself(value):
        return copied(run.interp, value)
    if not isinstance(value, (list, dict, LibObject, Func)) or not isinstance(node, (ir.Name, ir.Attr, ir.Index)):
        return value
    if isinstance(value, Func):  # a lambda, whose address is a place
        return copied(run.interp, value)
    try:
        held = env.lookup(node.id) if isinstance(node, ir.Name) else None
    except KeyError:
        held = None
    return value if isinstance(held, Slot) else copied(run.interp, value)  # a place may be a pointer
