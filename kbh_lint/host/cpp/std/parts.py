"""Parts of pairs, tuples and structs, where they lie: `auto& [a, b]`, `std::tie(a, b)`, `std::get<0>(x)`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbh_lint.base import ir
from kbh_lint.base.values import Env, Value
from kbh_lint.host.cpp import numbers as cpp_numbers
from kbh_lint.host.cpp.std import containers
from kbh_lint.host.datamodel import iteration
from kbh_lint.host.values import keys
from kbh_lint.host.values.cpp_objects import CStruct, Slot
from kbh_lint.host.values.objects import LibObject
from kbh_lint.host.values.tensors import Unknown

if TYPE_CHECKING:
    from kbh_lint.host.cpp.interpreter import Cpp


def items(run: Cpp, node: ir.Expr, owner: list[Value] | tuple[Value, ...], env: Env) -> list[Value] | None:
    """Returns the items of a pair or a tuple, the value of `node`, as a list that can change, in the place where it
    lies; None where it has none."""
    if isinstance(owner, list):
        return owner
    slot = run.place(node, env)
    if slot is None:
        return None
    slot.set(list(owner))
    made: list[Value] = slot.get()
    return made


def is_tie(target: ir.Call) -> bool:
    """Whether a call is one of `std::tie`."""
    return isinstance(target.func, ir.Name) and target.func.id in ("std::tie", "tie")


def spread(run: Cpp, target: ir.Seq | ir.Call, value: Value, env: Env) -> None:
    """Evaluates `auto [a, b] = value`, which makes variables, and `std::tie(a, b) = value`."""
    found = iteration.iterate(run.interp, value, target.loc, 8)
    parts = target.items if isinstance(target, ir.Seq) else target.args
    for part, item in zip(parts, found, strict=False):
        if isinstance(target, ir.Seq) and isinstance(part, ir.Name):
            env.vars[part.id] = item
        else:
            run.assign(part, item, env)


def refer(run: Cpp, target: ir.Seq, node: ir.Expr, env: Env) -> None:
    """Evaluates `auto& [a, b] = value`: the names are the parts of the value where it lies."""
    value = run.eval(node, env)
    value = value.get() if isinstance(value, Slot) else value
    if isinstance(value, tuple) and not isinstance(node, ir.Call):
        value = items(run, node, value, env) or value
    names = list(value.attrs) if isinstance(value, CStruct) else range(len(value)) if isinstance(value, list) else ()
    if len(names) < len(target.items):
        spread(run, target, value, env)
        return
    table = value.attrs if isinstance(value, CStruct) else value
    for part, name in zip(target.items, names, strict=False):
        if isinstance(part, ir.Name):
            env.vars[part.id] = Slot(table, name)


def of_element(target: ir.Seq, owner: Value, at: int, item: Value, env: Env) -> None:
    """Binds the names of `for (auto& [a, b] : owner)`, for the element number `at`, to its parts where they lie: those
    of a pair in a list, the key and the value of a map's entry."""
    if isinstance(owner, list) and isinstance(item, tuple):
        owner[at] = item = list(item)
    names = [part.id for part in target.items if isinstance(part, ir.Name)]
    if isinstance(item, list) and len(item) >= len(names):
        env.vars.update({name: Slot(item, i) for i, name in enumerate(names)})
    elif isinstance(owner, dict) and isinstance(item, tuple):
        env.vars.update(zip(names, (item[0], Slot(owner, item[0])), strict=False))
    elif isinstance(item, (list, tuple)):
        env.vars.update(zip(names, item, strict=False))


def element(run: Cpp, owner: list[Value] | dict[Value, Value], name: str, args: list[Value]) -> Slot | None:
    """Returns where the element lies that a method of a container refers to; None where that is not known."""
    first = args[0].get() if args and isinstance(args[0], Slot) else next(iter(args), None)
    key = cpp_numbers.plain(first) if args else {"front": 0, "back": -1}.get(name)
    if isinstance(owner, dict):
        held = containers.entry(run, owner, key) if name == "at" else keys.MISSING
        return None if held is keys.MISSING else Slot(owner, held)
    known = name in ("at", "front", "back") and isinstance(key, int) and -1 <= key < len(owner) and owner
    return Slot(owner, key % len(owner)) if known and isinstance(key, int) else None


def is_opaque(run: Cpp, target: ir.Expr, env: Env) -> bool:
    """Whether a place that is not known is a part of a library's value, of which nothing is known either."""
    owners: tuple[ir.Expr, ...] = (target.value,) if isinstance(target, (ir.Attr, ir.Index)) else ()
    if isinstance(target, ir.Call):
        owners = (target.func.value,) if isinstance(target.func, ir.Attr) else target.args
    values = [run.eval(owner, env) for owner in owners]
    values = [value.get() if isinstance(value, Slot) else value for value in values]
    return bool(values) and all(
        isinstance(value, (Unknown, LibObject)) and not isinstance(value, CStruct) for value in values
    )
