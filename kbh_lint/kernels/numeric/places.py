"""Places in an evaluated kernel: what an assignment writes to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import UNKNOWN, Sym, Value
from kbh_lint.kernels.numeric import memory, ops
from kbh_lint.kernels.numeric.numbers import Num
from kbh_lint.kernels.numeric.state import Frame, Method, Obj, Place, Ptr, Reference, VarRef

if TYPE_CHECKING:
    from kbh_lint.kernels.numeric.machine import Machine

TYPE = "type of "  # and a variable's name: what it was declared as, where it holds nothing yet that tells


class Places:
    """Finds the places that expressions denote, and reads and writes them."""

    def __init__(self, m: Machine) -> None:
        self.m = m

    def load(self, where: Place, node: ir.Expr | ir.Stmt, frame: Frame) -> Any:
        """The value at a place."""
        if isinstance(where, VarRef):
            value = where.table.get(where.name, UNKNOWN)
            return self.load(value.place, node, frame) if type(value) is Reference and not value.address else value
        return where if where.rest else self.m.read(where, self.m.site(frame, node))

    def place(self, node: ir.Expr, frame: Frame) -> Place | None:
        """The place (variable, field or memory cell) that an expression denotes; None for one that only has a value."""
        if isinstance(node, ir.Name):
            scope = frame.find(node.id)
            if scope is None:
                return self._place_outside(node.id, frame)
            value = scope[node.id]
            return value.place if type(value) is Reference and not value.address else VarRef(scope, node.id)
        if isinstance(node, ir.Attr):
            return self._field_place(node, frame)
        if isinstance(node, ir.Index) or isinstance(node, ir.Unary) and node.op == "*":
            value = self.m.expressions.evaluate(node.value, frame)
            if isinstance(value, Obj):
                return self._given_by(value, node, frame)
            return self.element(value, node, frame) if isinstance(node, ir.Index) else pointed(value)
        if isinstance(node, ir.AssignE):
            self.m.expressions.evaluate(node, frame)
            return self.place(node.target, frame)
        if isinstance(node, ir.Cond):
            test = ops.truth(self.m.expressions.evaluate(node.test, frame))
            return self.place(node.no if test is False else node.yes, frame)
        if isinstance(node, ir.Cast):
            return self.place(node.value, frame)
        if isinstance(node, ir.Call) and frame.cpp:
            value = self.m.calls.call(node, frame)
            return value.place if type(value) is Reference and not value.address else None
        return None

    def _given_by(self, value: Obj, node: ir.Index | ir.Unary, frame: Frame) -> Place | None:
        """What the operator of an object, `[]` or `*`, returns a reference to."""
        args = [self.m.expressions.evaluate(node.index, frame)] if isinstance(node, ir.Index) else []
        called = self.m.structs.operator(f"operator{'[]' if args else '*'}", [value, *args], node, frame)
        return called.place if isinstance(called, Reference) and not called.address else None

    def member(self, value: Obj, node: ir.Attr, frame: Frame) -> Any:
        """The value of a field of an object, of a constant of its class, or the method of that name."""
        name = node.name
        if name in value.fields:
            return self.load(VarRef(value.fields, name), node, frame)
        scope = frame.find(name) if frame.cpp else None
        field = member_named(scope[name]) if scope is not None else ""
        if field in value.fields:  # `object.*field`
            return self.load(VarRef(value.fields, field), node, frame)
        constant = self.m.ctypes.static_member(value.type, (name,), frame)
        return Method(value, name) if constant is None else constant

    def _place_outside(self, name: str, frame: Frame) -> Place | None:
        """Where a name lives that no variable here has: in a field of the object, or in memory of the file."""
        if frame.this is not None and name in frame.this.fields:
            return VarRef(frame.this.fields, name)
        value = self.m.expressions.named(name, frame) if frame.cpp else UNKNOWN
        return value if isinstance(value, Ptr) else None

    def address(self, node: ir.Expr, frame: Frame) -> Value:
        """The value of `&expression`."""
        where = self.place(node, frame)
        if isinstance(where, Ptr):
            return where
        if where is None:
            value = self.m.expressions.evaluate(node, frame)
            if frame.cpp and isinstance(node, ir.Name) and "::" in node.id and value is UNKNOWN:
                return Sym(node.id)  # `&S::field`
            return value
        held = where.table.get(where.name)
        if isinstance(held, Ptr) and held.mem.kind != "param" and held.off == 0:
            return held
        return Reference(where, address=True)

    def _field_place(self, node: ir.Attr, frame: Frame) -> Place | None:
        """`value.name` and `value->name`, so that a store changes the struct where it lies."""
        placed = isinstance(node.value, ir.Index | ir.Unary | ir.Attr)
        where = self.place(node.value, frame) if placed or isinstance(node.value, ir.Name) else None
        taken = isinstance(where, Ptr) and not where.rest and (placed or bool(where.type.parts))
        value = where if taken else self.m.expressions.evaluate(node.value, frame)
        if isinstance(value, Ptr) and value.type.kind == "pointer":
            value = self.load(value, node, frame)
        if isinstance(value, Reference):
            value = self.load(value.place, node, frame)
        if isinstance(value, Ptr):
            lane = memory.lane(value, node.name)
            if lane is not None:
                return lane
            value = self.m.memory.target(value, self.m.site(frame, node))
        if not isinstance(value, Obj):
            return None
        if node.name not in value.fields and frame.cpp and (scope := frame.find(node.name)) is not None:
            field = member_named(scope[node.name])  # `object.*field`
            return VarRef(value.fields, field) if field in value.fields else None
        empty = value.fields.get(node.name) is UNKNOWN
        return VarRef(value.fields, node.name, self.m.ctypes.field_type(value.type, node.name) if empty else None)

    def element(self, value: object, node: ir.Index, frame: Frame) -> Place | None:
        """The place of `value[index]`; None where there is none."""
        index = self.m.expressions.evaluate(node.index, frame)
        value = self.m.dialect.indexed(value)
        if self.m.dialect.elements and isinstance(value, Ptr):
            return self.m.dialect.place(value, index, self.m.site(frame, node))
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
            return ops.moved(value, index, self.m.site(frame, node))
        return Ptr(value.mem, UNKNOWN, value.type, value.rest[1:])

    def store(self, where: Place, value: object) -> None:
        """Assigns a value to a place."""
        if isinstance(value, Obj):
            value = value.copy()
        if isinstance(where, Ptr):
            self.m.write(where, value)
            return
        old = where.table.get(where.name)
        if type(old) is Reference and not old.address:
            self.store(old.place, value)
            return
        kind = where.table.get(TYPE + where.name, where.type) if old is UNKNOWN else None
        new = self.m.ctypes.like(old, value) if kind is None or value is UNKNOWN else self.m.ctypes.convert(value, kind)
        if isinstance(old, Obj) and isinstance(new, Obj) and old.fields.keys() == new.fields.keys():
            if old.type.parts:  # of one that lies in memory the fields are places there
                for name, part in new.fields.items():
                    self.store(VarRef(old.fields, name), part)
                return
            old.fields = new.fields  # in place, for whoever holds a reference to it or runs a method of it
            return
        where.table[where.name] = new

    def assign(self, target: ir.Expr, value: object, frame: Frame) -> None:
        """Executes `target = value`."""
        if isinstance(target, ir.Seq):
            self._unpack(target, value, frame)
        elif frame.cpp:
            where = self.place(target, frame)
            if where is not None:
                self.store(where, value)
            elif ops.sources(value):
                self.m.note("a store through something unknown", target)
                self.m.stores.append(("?", value.f if isinstance(value, Num) else None))
        elif isinstance(target, ir.Name):
            frame.scopes[-1][target.id] = value
        elif self.m.dialect.elements and isinstance(target, ir.Index):
            where = self.place(target, frame)
            if isinstance(where, Ptr):
                self.m.write(where, value)
            elif ops.sources(value):
                self.m.note("a store through something unknown", target)
        elif self.m.dialect.elements and ops.sources(value):
            self.m.note("an attribute that is assigned", target)

    def bind(self, target: ir.Expr | ir.Decl, value: object, frame: Frame) -> None:
        """Assigns a value to a loop variable."""
        if isinstance(target, ir.Name):
            frame.scopes[-1][target.id] = value
        elif isinstance(target, ir.Decl):
            frame.scopes[-1][target.name] = value
        else:
            self.assign(target, value, frame)

    def _unpack(self, target: ir.Seq, value: object, frame: Frame) -> None:
        items: Any = (
            value if isinstance(value, tuple) else tuple(value.fields.values()) if isinstance(value, Obj) else ()
        )
        for i, part in enumerate(target.items):
            item = items[i] if i < len(items) else UNKNOWN
            if isinstance(part, ir.Name):
                frame.scopes[-1][part.id] = item
            else:
                self.assign(part, item, frame)

    def update(self, target: ir.Expr, op: str, value: object, node: ir.Expr | ir.Stmt, frame: Frame) -> Any:
        """Executes `target op= value`; returns the new value."""
        if not frame.cpp and isinstance(target, ir.Name):
            new = self.m.expressions.binary(op, self.m.expressions.evaluate(target, frame), value, node, frame)
            frame.scopes[-1][target.id] = new
            return new
        where = self.place(target, frame)
        if where is None:
            made = self.m.expressions.evaluate(target, frame) if frame.cpp else UNKNOWN
            if isinstance(made, Obj):  # an object without a name, of which the operator may change what it refers to
                self.m.structs.operator(f"operator{op}=", [made, value], node, frame)
            elif ops.sources(value):
                self.m.note("a store through something unknown", target)
            return UNKNOWN
        if isinstance(where, Ptr) and where.type.parts and not where.rest:
            old = self.m.memory.target(where, self.m.site(frame, node))
        else:
            old = self.load(where, node, frame)
        if isinstance(old, Obj):
            called = self.m.structs.operator(f"operator{op}=", [old, value], node, frame)
            if called is not None:
                return old
        new = self.m.expressions.binary(op, old, value, node, frame)
        self.store(where, new)
        return self.load(where, node, frame) if isinstance(where, VarRef) else new


def member_named(value: object) -> str:
    """The name of the field that a pointer to member such as `&S::field` stands for; empty for other values."""
    owner, _, name = value.path.rpartition("::") if isinstance(value, Sym) else ("", "", "")
    return name if owner else ""


def pointed(value: object) -> Place | None:
    """The place that a pointer points to; None for other values."""
    if isinstance(value, Ptr):
        return Ptr(value.mem, value.off, value.type, value.rest[1:]) if value.rest else value
    return value.place if isinstance(value, Reference) else None
