"""Places in an evaluated kernel: what an assignment writes to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import UNKNOWN
from kbh_lint.kernels.numeric import builtins, ctypes, expr, memory, ops, own
from kbh_lint.kernels.numeric.numbers import Num
from kbh_lint.kernels.numeric.state import Frame, Obj, Place, Ptr, Reference, VarRef

if TYPE_CHECKING:
    from kbh_lint.kernels.numeric.machine import Machine

TYPE = "type of "  # and a variable's name: what it was declared as, where it holds nothing yet that tells


def load(m: Machine, where: Place, node: object, frame: Frame) -> Any:
    """What a place holds."""
    if isinstance(where, VarRef):
        value = where.table.get(where.name, UNKNOWN)
        return load(m, value.place, node, frame) if type(value) is Reference and not value.address else value
    return where if where.rest else m.read(where, m.site(frame, node))


def place(m: Machine, node: Any, frame: Frame) -> Place | None:
    """Where an expression lives, or None when it is no place."""
    kind = type(node)
    if kind is ir.Name:
        scope = frame.find(node.id)
        if scope is None:
            if frame.this is not None and node.id in frame.this.fields:
                return VarRef(frame.this.fields, node.id)
            value = expr.named(m, node.id, frame) if frame.cpp else UNKNOWN
            return value if isinstance(value, Ptr) else None
        value = scope[node.id]
        return value.place if type(value) is Reference and not value.address else VarRef(scope, node.id)
    if kind is ir.Attr:
        return _field_place(m, node, frame)
    if kind is ir.Index:
        return element(m, expr.evaluate(m, node.value, frame), node, frame)
    if kind is ir.Unary and node.op == "*":
        return pointed(expr.evaluate(m, node.value, frame))
    if kind is ir.AssignE:
        expr.evaluate(m, node, frame)
        return place(m, node.target, frame)
    if kind is ir.Cond:
        test = ops.truth(expr.evaluate(m, node.test, frame))
        return place(m, node.no if test is False else node.yes, frame)
    if kind is ir.Cast:
        return place(m, node.value, frame)
    if kind is ir.Call and frame.cpp:
        value = builtins.call(m, node, frame)
        return value.place if type(value) is Reference and not value.address else None
    return None


def _field_place(m: Machine, node: ir.Attr, frame: Frame) -> Place | None:
    """`value.name` and `value->name`, so that a store changes the struct where it lies."""
    where = place(m, node.value, frame) if isinstance(node.value, ir.Index | ir.Unary | ir.Attr) else None
    value = where if isinstance(where, Ptr) and not where.rest else expr.evaluate(m, node.value, frame)
    if isinstance(value, Ptr) and value.type.kind == "pointer":
        value = load(m, value, node, frame)
    if isinstance(value, Reference):
        value = load(m, value.place, node, frame)
    if isinstance(value, Ptr):
        lane = memory.lane(value, node.name)
        if lane is not None:
            return lane
        value = memory.target(m, value, m.site(frame, node))
    if not isinstance(value, Obj):
        return None
    empty = value.fields.get(node.name) is UNKNOWN
    return VarRef(value.fields, node.name, ctypes.field_type(m, value.type, node.name) if empty else None)


def element(m: Machine, value: object, node: ir.Index, frame: Frame) -> Place | None:
    """Where `value[index]` lives."""
    index = expr.evaluate(m, node.index, frame)
    if m.dialect.elements and isinstance(value, Ptr):
        return m.dialect.place(value, index, m.site(frame, node))
    if isinstance(value, Reference):
        held = value.place.table.get(value.place.name) if isinstance(value.place, VarRef) else None
        if isinstance(held, Obj) and held.fields:
            names = list(held.fields)
            return VarRef(held.fields, names[index % len(names)] if isinstance(index, int) else names[0])
        return value.place
    if not isinstance(value, Ptr):
        return None
    if isinstance(index, Num):
        index = UNKNOWN
    if isinstance(index, int):
        return ops.moved(value, index, m.site(frame, node))
    return Ptr(value.mem, UNKNOWN, value.type, value.rest[1:])


def pointed(value: Any) -> Place | None:
    """Where a pointer points to."""
    if isinstance(value, Ptr):
        return Ptr(value.mem, value.off, value.type, value.rest[1:]) if value.rest else value
    return value.place if isinstance(value, Reference) else None


def store(m: Machine, where: Place, value: object) -> None:
    """Puts a value into a place."""
    if isinstance(value, Obj):
        value = value.copy()
    if isinstance(where, Ptr):
        m.write(where, value)
        return
    old = where.table.get(where.name)
    if type(old) is Reference and not old.address:
        store(m, old.place, value)
        return
    kind = where.table.get(TYPE + where.name, where.type) if old is UNKNOWN else None
    new = ctypes.like(m, old, value) if kind is None or value is UNKNOWN else ctypes.convert(m, value, kind)
    if isinstance(old, Obj) and isinstance(new, Obj) and old.fields.keys() == new.fields.keys():
        old.fields = new.fields  # in place, for whoever holds a reference to it or runs a method of it
        return
    where.table[where.name] = new


def assign(m: Machine, target: object, value: object, frame: Frame) -> None:
    """`target = value`."""
    if isinstance(target, ir.Seq):
        _unpack(m, target, value, frame)
    elif frame.cpp:
        where = place(m, target, frame)
        if where is not None:
            store(m, where, value)
        elif ops.sources(value):
            m.note("a store through something unknown", target)
            m.stores.append(("?", value.f if isinstance(value, Num) else None))
    elif isinstance(target, ir.Name):
        frame.scopes[-1][target.id] = value
    elif m.dialect.elements and isinstance(target, ir.Index):
        where = place(m, target, frame)
        if isinstance(where, Ptr):
            m.write(where, value)
        elif ops.sources(value):
            m.note("a store through something unknown", target)
    elif m.dialect.elements and ops.sources(value):
        m.note("an attribute that is assigned", target)


def bind(m: Machine, target: object, value: object, frame: Frame) -> None:
    """Gives a loop variable its value."""
    if isinstance(target, ir.Name):
        frame.scopes[-1][target.id] = value
    elif isinstance(target, ir.Decl):
        frame.scopes[-1][target.name] = value
    else:
        assign(m, target, value, frame)


def _unpack(m: Machine, target: ir.Seq, value: object, frame: Frame) -> None:
    items: Any = value if isinstance(value, tuple) else tuple(value.fields.values()) if isinstance(value, Obj) else ()
    for i, part in enumerate(target.items):
        item = items[i] if i < len(items) else UNKNOWN
        if isinstance(part, ir.Name):
            frame.scopes[-1][part.id] = item
        else:
            assign(m, part, item, frame)


def update(m: Machine, target: object, op: str, value: object, node: object, frame: Frame) -> Any:
    """`target op= value`; returns the new value."""
    if not frame.cpp and isinstance(target, ir.Name):
        new = expr.binary(m, op, expr.evaluate(m, target, frame), value, node, frame)
        frame.scopes[-1][target.id] = new
        return new
    where = place(m, target, frame)
    if where is None:
        return UNKNOWN
    old = load(m, where, node, frame)
    if isinstance(old, Obj):
        called = own.operator(m, f"operator{op}=", [old, value], node, frame)
        if called is not None:
            return old
    new = expr.binary(m, op, old, value, node, frame)
    store(m, where, new)
    return load(m, where, node, frame) if isinstance(where, VarRef) else new
