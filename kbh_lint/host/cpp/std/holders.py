"""What holds one value or none (`std::optional`, smart pointers, `std::variant`, `std::any`): methods that put a value
into it or take it out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kbh_lint.base import ir
from kbh_lint.base.values import Env, TypeValue, Value
from kbh_lint.host.cpp import classes as cpp_classes
from kbh_lint.host.cpp import construction as cpp_construction
from kbh_lint.host.cpp import numbers as cpp_numbers
from kbh_lint.host.cpp import types as cpp_types
from kbh_lint.host.cpp.std import removing
from kbh_lint.host.cpp.std.containers import Heap
from kbh_lint.host.values.cpp_objects import CStruct, Slot
from kbh_lint.host.values.objects import LibObject

if TYPE_CHECKING:
    from kbh_lint.host.cpp.interpreter import Cpp


def _reset(run: Cpp, func: ir.Attr, node: ir.Call, env: Env) -> Value:
    """`pointer.reset(new T)`, `optional.reset()`."""
    held = _value(run.eval(func.value, env))
    if isinstance(held, LibObject) and not _passes_on(held, "reset"):
        return NotImplemented
    return _put(run, func.value, run.eval(node.args[0], env) if node.args else None, env)


def _emplace(run: Cpp, func: ir.Attr, node: ir.Call, env: Env) -> Value:
    """`optional.emplace(args...)`, `any.emplace<T>(args...)`: an object that is made of the arguments, or all of them
    where nobody knows of which class."""
    held = _value(run.eval(func.value, env))
    if isinstance(held, (dict, Heap)) or isinstance(held, LibObject) and not _passes_on(held, "emplace"):
        return NotImplemented
    args = [cpp_numbers.plain(_value(one)) for one in run.arguments(node.args, env)]
    if (
        isinstance(held, list) and args and removing.place_in(held, args[0]) is not None
    ):  # `vector.emplace(iterator, args...)`
        return NotImplemented
    kind = _kind(run, func, env)
    if kind is None:
        made: Value = args[0] if len(args) == 1 else args
    else:
        made = made_of(run, kind, args, env, node.loc)
    return _put(run, func.value, made, env, made)


def _swap(run: Cpp, func: ir.Attr, node: ir.Call, env: Env) -> Value:
    """`optional.swap(other)`."""
    left = run.place(func.value, env)
    right = run.place(node.args[0], env) if len(node.args) == 1 else None
    if left is None or right is None:
        return NotImplemented
    held = [one.get() if one.is_filled() else None for one in (left, right)]
    if any(isinstance(one, LibObject) and not _passes_on(one, "swap") for one in held):
        return NotImplemented
    if all(isinstance(one, (list, dict)) for one in held):
        return NotImplemented
    left.set(held[1])
    right.set(held[0])
    return None


def made_of(run: Cpp, kind: TypeValue, args: list[Value], env: Env, loc: ir.Loc | None) -> Value:
    """Makes an object of the type `kind` of arguments; a value of a type that is known by no more than its name is what
    it is made of."""
    if len(args) == 1 and cpp_types.own_class(run, kind.ref, kind.env) is None:
        return cpp_construction.converted(run, kind.ref, args[0], kind.env)
    if len(args) == 1 and isinstance(args[0], CStruct):
        return args[0]
    return run.construct(kind.ref, args, kind.env, loc)


def _kind(run: Cpp, func: ir.Attr, env: Env) -> TypeValue | None:
    """The type of what a holder holds: what `emplace<T>` names, or the argument of its own type."""
    if func.args and isinstance(func.args[0], ir.TypeRef):
        return TypeValue(func.args[0], env)
    return None if func.args else run.types.held_type(func.value, env)


def _passes_on(held: LibObject, name: str) -> bool:
    """Whether a method is one of what holds the object, and none of the object's own."""
    return isinstance(held, CStruct) and cpp_classes.method(held, name) is None


def _put(run: Cpp, owner: ir.Expr, value: Value, env: Env, result: Value = None) -> Value:
    """Puts a value, or nothing, into a place; NotImplemented where there is none."""
    place = run.place(owner, env)
    if place is None:
        return NotImplemented
    place.set(value)
    run.result_place = place
    return result


def _value(value: Value) -> Value:
    return value.get() if isinstance(value, Slot) else value


METHODS: dict[str, Callable[[Cpp, ir.Attr, ir.Call, Env], Value]] = {
    "emplace": _emplace,
    "reset": _reset,
    "swap": _swap,
}
