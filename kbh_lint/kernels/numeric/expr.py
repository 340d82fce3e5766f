"""Expressions of a kernel, evaluated for one lane."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir, values
from kbh_lint.base.values import UNKNOWN, DType, Sym, Value
from kbh_lint.cpp import traits
from kbh_lint.cpp.members import Member
from kbh_lint.kernels.core.walker import OutOfFuel
from kbh_lint.kernels.numeric import builtins, ctypes, ops, places
from kbh_lint.kernels.numeric import integers as whole
from kbh_lint.kernels.numeric.numbers import LITERAL, Num
from kbh_lint.kernels.numeric.state import (
    OTHER,
    Closure,
    Frame,
    Method,
    Obj,
    Ptr,
    Range,
    Reference,
    VarRef,
    copied,
)

_NOWHERE = object()
_MAX_ITEMS = 256

if TYPE_CHECKING:
    from kbh_lint.kernels.numeric.machine import Machine


class Expressions:
    """Evaluates expressions for one lane; `m` is the machine of the run, as in all its parts."""

    def __init__(self, m: Machine) -> None:
        self.m = m

    def evaluate(self, node: object, frame: Frame) -> Any:
        """The value of an expression; UNKNOWN where it cannot be evaluated."""
        m = self.m
        m.fuel -= 1  # as `m.spend()`, of which most calls would be made here
        if m.fuel < 0:
            raise OutOfFuel
        handler = _EXPRESSIONS.get(type(node))
        return UNKNOWN if handler is None else handler(self, node, frame)

    # --- names, fields, elements --------

    def _const(self, node: ir.Const, frame: Frame) -> Value:
        return whole.typed(node.value, node.dt) if node.dt else ops.wrapped(node.value)

    def _name(self, node: ir.Name, frame: Frame) -> Any:
        name = node.id
        for scope in reversed(frame.scopes):  # as `frame.find`
            if name in scope:
                value = scope[name]
                aliased = type(value) is Reference and not value.address
                return self.m.places.load(value.place, node, frame) if aliased else value
        if frame.this is not None:
            if name in frame.this.fields:
                return self.m.places.load(VarRef(frame.this.fields, name), node, frame)
            inherited = _NOWHERE is frame.env.get(name, _NOWHERE)  # of a base that only arguments tell
            member = self.m.ctypes.static_member(frame.this.type, (name,), frame) if inherited else None
            if member is not None:
                return member
            if name == "this":
                return Reference(VarRef({"this": frame.this}, "this"), address=True)
        return self.named(name, frame)

    def named(self, name: str, frame: Frame) -> Any:
        """The value of a name that no scope inside the kernel binds."""
        try:
            value = frame.env.lookup(name)
        except KeyError:
            if frame.cpp and "::" in name:
                member = self.m.ctypes.scoped(name, frame)
                if member is not None:
                    return member
            return builtins.constant(name) if frame.cpp else Sym(name)
        if isinstance(value, Member):
            return self.m.ctypes.constant(value)
        if isinstance(value, ir.Decl):
            known = self.m.globals.get(id(value))
            if known is None:
                self.m.globals[id(value)] = UNKNOWN
                known = self.m.globals[id(value)] = self.m.ctypes.declared(value, Frame([{}], frame.env, True, 0))
            return known
        dt = frame.env.type_of(name) if frame.cpp and type(value) is int else ""
        return whole.typed(value, dt) if dt else self.seen(value)

    def seen(self, value: object) -> Any:
        """A value of the surrounding program as this evaluation holds it; host objects are converted for kernels
        written in Python."""
        plain = isinstance(value, (int, float, str, tuple, list, Sym, DType, values.Func))
        if self.m.outer is not None and not plain and values.module_names(value) is None:
            found = self.m.outer(value)
            return value if found is UNKNOWN else found
        if isinstance(value, values.Single) and self.m.dialect.constants != LITERAL:
            return self.m.ctypes.convert(float(value), ctypes.scalar(value.dtype))
        return ops.wrapped(value)

    def _attr(self, node: ir.Attr, frame: Frame) -> Value:
        known = self.m.sites.symbols.get(id(node))
        if known is not None:
            return known
        value = self.evaluate(node.value, frame)
        found = self.field(value, node, frame)
        if type(value) is Sym and type(found) in (Sym, DType) and _outside(node.value, frame):
            self.m.sites.symbols[id(node)] = found
        return found

    def field(self, value: object, node: ir.Attr, frame: Frame) -> Value:
        """The value of `value.name`."""
        name = node.name
        special = self.m.dialect.attribute(self.m, value, name, frame)
        if special is not None:
            return special
        if isinstance(value, Sym):
            if frame.cpp:
                return builtins.launch_dim(self.m, value.path, name)
            return Sym(f"{value.path}.{name}")
        if isinstance(value, Reference):
            value = self.m.places.load(value.place, node, frame)
        if isinstance(value, Ptr) and frame.cpp:
            value = self.m.memory.target(value, self.m.site(frame, node))
        if isinstance(value, Obj):
            return self.m.places.member(value, node, frame)
        if isinstance(value, values.CppType | values.TypeValue):
            constant = self.m.ctypes.static_member(self.m.ctypes.of_value(value), (name,), frame)
            return Method(value, name) if constant is None else constant
        beside = values.module_names(value)
        if beside is not None:
            return ops.wrapped(beside.get(name, UNKNOWN))
        if name == "dtype":
            return DType(value.dt if isinstance(value, Num) else value.type.dt if isinstance(value, Ptr) else "?")
        if name == "element_ty" and isinstance(value, DType):
            return value
        if name in ("T", "value") and not isinstance(value, Ptr):
            return value
        if name == "shape" or (frame.cpp and value is UNKNOWN):
            return UNKNOWN
        return Method(value, name)

    def _index(self, node: ir.Index, frame: Frame) -> Value:
        value = self.evaluate(node.value, frame)
        if not frame.cpp:
            value, index = self.m.dialect.indexed(value), self.evaluate(node.index, frame)
            if isinstance(value, tuple):
                return value[index] if isinstance(index, int) and -len(value) <= index < len(value) else UNKNOWN
            if self.m.dialect.elements and isinstance(value, Ptr | values.Made):
                return self.m.dialect.read(self.m, value, index, self.m.site(frame, node))
            return value if isinstance(value, Num | Ptr | int) else UNKNOWN
        if isinstance(value, Obj):
            index = self.evaluate(node.index, frame)
            called = self.m.structs.operator("operator[]", [value, index], node, frame)
            if type(called) is Reference and not called.address:
                return self.m.places.load(called.place, node, frame)
            if called is not None:
                return called
        found = self.m.places.element(value, node, frame)
        if found is None:
            return self.m.memory.fresh(OTHER, self.m.site(frame, node)) if value is UNKNOWN else UNKNOWN
        return self.m.places.load(found, node, frame)

    def _slice(self, node: ir.SliceE, frame: Frame) -> Value:
        return UNKNOWN

    def _assign_e(self, node: ir.AssignE, frame: Frame) -> Value:
        value = self.evaluate(node.value, frame)
        if not node.op:
            self.m.places.assign(node.target, value, frame)
            return value
        if node.post:
            where = self.m.places.place(node.target, frame)
            old = UNKNOWN if where is None else self.m.places.load(where, node, frame)
            self.m.places.update(node.target, node.op, value, node, frame)
            return old
        return self.m.places.update(node.target, node.op, value, node, frame)

    # --- operators --------

    def binary(self, op: str, a: object, b: object, node: ir.Expr | ir.Stmt, frame: Frame) -> Any:
        """The value of `a op b`, by an operator that the submission defines for its structs, or by arithmetic."""
        if isinstance(a, Obj) or isinstance(b, Obj):
            called = self.m.structs.operator(f"operator{op}", [a, b], node, frame)
            if called is not None:
                return called
            left, right = self.m.structs.conversion(a), self.m.structs.conversion(b)
            a, b = a if left is None else left, b if right is None else right
        return ops.arithmetic(op, a, b, self.m.numbers, self.m.site(frame, node), frame.cpp)

    def _binary(self, node: ir.Binary, frame: Frame) -> Any:
        chain = [node]
        while type(chain[-1].left) is ir.Binary:
            chain.append(chain[-1].left)
        value = self.evaluate(chain[-1].left, frame)
        for link in reversed(chain):
            right = self.evaluate(link.right, frame)
            value = right if link.op == "," else self.binary(link.op, value, right, link, frame)
        return value

    def _unary(self, node: ir.Unary, frame: Frame) -> Value:
        if node.op == "&":
            return self.m.places.address(node.value, frame)
        if node.op == "*":
            value = self.evaluate(node.value, frame)
            where = places.pointed(value)
            if where is None:
                return self.m.memory.fresh(OTHER, self.m.site(frame, node)) if value is UNKNOWN else UNKNOWN
            return self.m.places.load(where, node, frame)
        if node.op == "not":
            return self._not(node, frame)
        value = self.evaluate(node.value, frame)
        if node.op == "-":
            return ops.negated(value, self.m.numbers)
        if node.op == "~":
            if isinstance(value, bool) and not frame.cpp:
                return not value
            return whole.negated(value, "~") if isinstance(value, int) else UNKNOWN
        return whole.typed(value, whole.promoted(value)) if node.op == "+" and isinstance(value, int) else value

    def _not(self, node: ir.Unary, frame: Frame) -> Value:
        """`not value`; where the value holds in our lane, whether it fails in another."""
        before = self.m.splits, self.m.fails
        self.m.splits, self.m.fails = not self.m.lane, None
        known = ops.truth(self.evaluate(node.value, frame))
        fails = self.m.fails
        self.m.splits, self.m.fails = before
        if known is True and fails is not None:
            return fails
        return UNKNOWN if known is UNKNOWN else not known

    def _bool(self, node: ir.Bool, frame: Frame) -> Value:
        stop = node.op == "or"
        unknown = False
        elsewhere: Any = None
        value: Any = not stop
        for part in node.values:
            value = self.evaluate(part, frame)
            known = ops.truth(value)
            if isinstance(value, whole.Elsewhere):
                elsewhere = value
            elif known is UNKNOWN:
                unknown = True
            elif known is stop:
                return value
        return UNKNOWN if unknown else value if elsewhere is None else elsewhere

    def _compare(self, node: ir.Compare, frame: Frame) -> Value:
        left = self.evaluate(node.left, frame)
        result: Any = True
        for op, right_node in zip(node.ops, node.rights, strict=True):
            right = self.evaluate(right_node, frame)
            own = isinstance(left, Obj) or isinstance(right, Obj)
            one = self.m.structs.operator(f"operator{op}", [left, right], node, frame) if own else None
            one = ops.compare(op, left, right, self.m.numbers) if one is None else one
            if self.m.splits and one is True:
                self.m.fails = self.m.fails or ops.failing(op, left, right)
            if one is False or isinstance(one, whole.Elsewhere):
                return one
            if one is UNKNOWN:
                result = UNKNOWN
            left = right
        return result

    def _cond(self, node: ir.Cond, frame: Frame) -> Value:
        test = self.m.test(node, node.test, frame)
        if self.m.beside is not None:
            yes, no = self.evaluate(node.yes, frame), self.evaluate(node.no, frame)
            return yes if ops.sources(yes) and not ops.sources(no) else no
        if test is UNKNOWN:
            self.m.guess(node.test, frame)
            return builtins.either(self.evaluate(node.yes, frame), self.evaluate(node.no, frame))
        return self.evaluate(node.yes if test else node.no, frame)

    def _seq(self, node: ir.Seq, frame: Frame) -> Value:
        out: list[Any] = []
        for item in node.items:
            value = self.evaluate(item.value if isinstance(item, ir.Star) else item, frame)
            if isinstance(item, ir.Star) and isinstance(value, tuple):
                out.extend(value)
            else:
                out.append(value)
        return tuple(out[:_MAX_ITEMS])

    def _comp(self, node: ir.Comp, frame: Frame) -> Value:
        """A comprehension, as a tuple; its names are gone when it ends."""
        made: list[Any] = []
        held = dict(frame.scopes[-1])

        def clause(depth: int) -> None:
            """Evaluates the clauses of a comprehension from number `depth` on."""
            if depth == len(node.clauses):
                made.append(self.evaluate(node.item, frame))
                return
            target, iterable, tests = node.clauses[depth]
            for item in _every(self.evaluate(iterable, frame)):
                self.m.spend()
                self.m.places.bind(target, item, frame)
                if all(ops.truth(self.evaluate(test, frame)) is not False for test in tests) and len(made) < _MAX_ITEMS:
                    clause(depth + 1)

        if node.item is not None:
            clause(0)
        frame.scopes[-1].clear()
        frame.scopes[-1].update(held)
        return tuple(made)

    def _cast(self, node: ir.Cast, frame: Frame) -> Value:
        return self.m.ctypes.cast(node, self.evaluate(node.value, frame), frame)

    def _lambda(self, node: ir.Lambda, frame: Frame) -> Value:
        return Closure(node.func, frame, self.captured(node.func, frame))

    def captured(self, func: ir.FuncDef, frame: Frame) -> dict[str, Value]:
        """The variables that a C++ lambda captures by copy, or under a new name by reference, with their values."""
        held: dict[str, Any] = {}
        for capture in func.captures:
            if capture.init is not None:
                where = self.m.places.place(capture.init, frame) if capture.reference else None
                held[capture.name] = self.evaluate(capture.init, frame) if where is None else Reference(where)
            elif not capture.reference and (scope := frame.find(capture.name)) is not None:
                value = scope[capture.name]
                if type(value) is Reference and not value.address:
                    value = self.m.places.load(value.place, func, frame)
                held[capture.name] = copied(value, {})
        return held

    def _type_ref(self, node: ir.TypeRef, frame: Frame) -> Value:
        if frame.cpp and traits.asked(node):
            known = traits.value(self.m.types, node, frame)
            return UNKNOWN if known is None else known
        if node.member:
            constant = self.m.ctypes.static_member(self.m.ctypes.resolve(_owner(node), frame), node.member, frame)
            if constant is not None:
                return constant
        variable = self.m.types.classes.variable(node, frame) if frame.cpp else None
        if variable is not None:
            return self.m.ctypes.constant(variable)
        return values.TypeValue(node, ctypes.scope_env(frame))

    def _opaque(self, node: ir.Opaque, frame: Frame) -> Value:
        self.m.note(f"not read: {node.reason}", node)
        return UNKNOWN

    def _call(self, node: ir.Call, frame: Frame) -> Value:
        value = self.m.calls.call(node, frame)
        if type(value) is Reference and not value.address and frame.cpp:
            return self.m.places.load(value.place, node, frame)
        return value


def _outside(node: object, frame: Frame) -> bool:
    """Whether `a.b.c` starts at a name that the kernel does not bind: it means the same every time."""
    while type(node) is ir.Attr:
        node = node.value
    return type(node) is ir.Name and frame.find(node.id) is None


def _every(iterable: object) -> list[Value]:
    """All that a comprehension goes through, where that is known."""
    if isinstance(iterable, tuple):
        return list(iterable)
    bounds = (iterable.start, iterable.stop, iterable.step) if isinstance(iterable, Range) else ()
    if bounds and all(isinstance(b, int) for b in bounds) and bounds[2]:
        return list(range(*bounds)[:_MAX_ITEMS])
    return [UNKNOWN]


def _owner(node: ir.TypeRef) -> ir.TypeRef:
    return ir.TypeRef(node.name, node.args, node.loc)


_EXPRESSIONS: dict[type, Callable[[Expressions, Any, Frame], Any]] = {
    ir.Const: Expressions._const,
    ir.Name: Expressions._name,
    ir.Attr: Expressions._attr,
    ir.Index: Expressions._index,
    ir.SliceE: Expressions._slice,
    ir.AssignE: Expressions._assign_e,
    ir.Binary: Expressions._binary,
    ir.Unary: Expressions._unary,
    ir.Bool: Expressions._bool,
    ir.Compare: Expressions._compare,
    ir.Cond: Expressions._cond,
    ir.Seq: Expressions._seq,
    ir.Comp: Expressions._comp,
    ir.Cast: Expressions._cast,
    ir.Lambda: Expressions._lambda,
    ir.TypeRef: Expressions._type_ref,
    ir.Opaque: Expressions._opaque,
    ir.Call: Expressions._call,
}
