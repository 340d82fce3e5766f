"""Expressions of a kernel, evaluated for one lane."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir, values
from kbh_lint.base.values import UNKNOWN, DType, Sym
from kbh_lint.cpp import traits
from kbh_lint.kernels.numeric import builtins, ctypes, memory, ops, own, places
from kbh_lint.kernels.numeric import integers as whole
from kbh_lint.kernels.numeric.numbers import Num
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

_MAX_ITEMS = 256

if TYPE_CHECKING:
    from kbh_lint.kernels.numeric.machine import Machine


def evaluate(m: Machine, node: object, frame: Frame) -> Any:
    """The value of an expression; UNKNOWN when it cannot be followed."""
    m.spend()
    handler = _EXPRESSIONS.get(type(node))
    return UNKNOWN if handler is None else handler(m, node, frame)


# --- names, fields, elements -----------------------------------------------------------------------------------


def _const(m: Machine, node: ir.Const, frame: Frame) -> Any:
    return whole.typed(node.value, node.dt) if node.dt else ops.wrapped(node.value)


def _name(m: Machine, node: ir.Name, frame: Frame) -> Any:
    name = node.id
    scope = frame.find(name)
    if scope is not None:
        value = scope[name]
        return places.load(m, value.place, node, frame) if type(value) is Reference and not value.address else value
    if frame.this is not None:
        if name in frame.this.fields:
            return places.load(m, VarRef(frame.this.fields, name), node, frame)
        member = ctypes.static_member(m, frame.this.type, name)
        if member is not None:
            return member
        if name == "this":
            return Reference(VarRef({"this": frame.this}, "this"), address=True)
    return named(m, name, frame)


def named(m: Machine, name: str, frame: Frame) -> Any:
    """A name that no scope of the kernel binds."""
    try:
        value = frame.env.lookup(name)
    except KeyError:
        if frame.cpp and "::" in name:
            member = ctypes.scoped(m, name, frame)
            if member is not None:
                return member
        return builtins.constant(name) if frame.cpp else Sym(name)
    if isinstance(value, ir.Decl):
        known = m.globals.get(id(value))
        if known is None:
            m.globals[id(value)] = UNKNOWN
            known = m.globals[id(value)] = ctypes.declared(m, value, Frame([{}], frame.env, True, 0))
        return known
    dt = frame.env.type_of(name) if frame.cpp and type(value) is int else ""
    return whole.typed(value, dt) if dt else seen(m, value)


def seen(m: Machine, value: object) -> Any:
    """A value of the surrounding program; objects of the host as kernels written in Python see them."""
    plain = isinstance(value, (int, float, str, tuple, list, Sym, DType, values.Func))
    if m.outer is not None and not plain and values.module_names(value) is None:
        found = m.outer(value)
        return value if found is UNKNOWN else found
    return ops.wrapped(value)


def _attr(m: Machine, node: ir.Attr, frame: Frame) -> Any:
    known = m.sites.symbols.get(id(node))
    if known is not None:
        return known
    value = evaluate(m, node.value, frame)
    found = field(m, value, node, frame)
    if type(value) is Sym and type(found) in (Sym, DType) and _outside(node.value, frame):
        m.sites.symbols[id(node)] = found
    return found


def _outside(node: object, frame: Frame) -> bool:
    """Whether `a.b.c` starts at a name that the kernel does not bind: it means the same every time."""
    while type(node) is ir.Attr:
        node = node.value
    return type(node) is ir.Name and frame.find(node.id) is None


def field(m: Machine, value: object, node: ir.Attr, frame: Frame) -> Any:
    """`value.name`."""
    name = node.name
    special = m.dialect.attribute(m, value, name, frame)
    if special is not None:
        return special
    if isinstance(value, Sym):
        if frame.cpp:
            return builtins.launch_dim(m, value.path, name)
        return Sym(f"{value.path}.{name}")
    if isinstance(value, Reference):
        value = places.load(m, value.place, node, frame)
    if isinstance(value, Ptr) and frame.cpp:
        value = memory.target(m, value, m.site(frame, node))
    if isinstance(value, Obj):
        if name in value.fields:
            return places.load(m, VarRef(value.fields, name), node, frame)
        constant = ctypes.static_member(m, value.type, name)
        return Method(value, name) if constant is None else constant
    if isinstance(value, values.CppType | values.TypeValue):
        constant = ctypes.static_member(m, ctypes.of_value(m, value), name)
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


def _index(m: Machine, node: ir.Index, frame: Frame) -> Any:
    value = evaluate(m, node.value, frame)
    if not frame.cpp:
        index = evaluate(m, node.index, frame)
        if isinstance(value, tuple):
            return value[index] if isinstance(index, int) and -len(value) <= index < len(value) else UNKNOWN
        if m.dialect.elements and isinstance(value, Ptr | values.Made):
            return m.dialect.read(m, value, index, m.site(frame, node))
        return value if isinstance(value, Num | Ptr | int) else UNKNOWN
    if isinstance(value, Obj):
        index = evaluate(m, node.index, frame)
        called = own.operator(m, "operator[]", [value, index], node, frame)
        if called is not None:
            return called
    found = places.element(m, value, node, frame)
    if found is None:
        return memory.fresh(m, OTHER, m.site(frame, node)) if value is UNKNOWN else UNKNOWN
    return places.load(m, found, node, frame)


def _slice(m: Machine, node: ir.SliceE, frame: Frame) -> Any:
    return UNKNOWN


def _assign_e(m: Machine, node: ir.AssignE, frame: Frame) -> Any:
    value = evaluate(m, node.value, frame)
    if not node.op:
        places.assign(m, node.target, value, frame)
        return value
    if node.post:
        where = places.place(m, node.target, frame)
        old = UNKNOWN if where is None else places.load(m, where, node, frame)
        places.update(m, node.target, node.op, value, node, frame)
        return old
    return places.update(m, node.target, node.op, value, node, frame)


# --- operators -------------------------------------------------------------------------------------------------


def binary(m: Machine, op: str, a: object, b: object, node: object, frame: Frame) -> Any:
    """`a op b`, with the operators a submission defines for its own structs."""
    if isinstance(a, Obj) or isinstance(b, Obj):
        called = own.operator(m, f"operator{op}", [a, b], node, frame)
        if called is not None:
            return called
        left, right = own.conversion(m, a), own.conversion(m, b)
        a, b = a if left is None else left, b if right is None else right
    return ops.arithmetic(op, a, b, m.numbers, m.site(frame, node), frame.cpp)


def _binary(m: Machine, node: ir.Binary, frame: Frame) -> Any:
    chain = [node]
    while type(chain[-1].left) is ir.Binary:
        chain.append(chain[-1].left)
    value = evaluate(m, chain[-1].left, frame)
    for link in reversed(chain):
        right = evaluate(m, link.right, frame)
        value = right if link.op == "," else binary(m, link.op, value, right, link, frame)
    return value


def _unary(m: Machine, node: ir.Unary, frame: Frame) -> Any:
    if node.op == "&":
        where = places.place(m, node.value, frame)
        if isinstance(where, Ptr):
            return where
        if where is None:
            return evaluate(m, node.value, frame)
        held = where.table.get(where.name)
        if isinstance(held, Ptr) and held.mem.kind != "param" and held.off == 0:
            return held
        return Reference(where, address=True)
    if node.op == "*":
        value = evaluate(m, node.value, frame)
        where = places.pointed(value)
        if where is None:
            return memory.fresh(m, OTHER, m.site(frame, node)) if value is UNKNOWN else UNKNOWN
        return places.load(m, where, node, frame)
    if node.op == "not":
        return _not(m, node, frame)
    value = evaluate(m, node.value, frame)
    if node.op == "-":
        return ops.negated(value, m.numbers)
    if node.op == "~":
        if isinstance(value, bool) and not frame.cpp:
            return not value
        return whole.negated(value, "~") if isinstance(value, int) else UNKNOWN
    return whole.typed(value, whole.promoted(value)) if node.op == "+" and isinstance(value, int) else value


def _not(m: Machine, node: ir.Unary, frame: Frame) -> Any:
    """`not value`; where the value holds in our lane, whether it fails in another."""
    before = m.splits, m.fails
    m.splits, m.fails = not m.lane, None
    known = ops.truth(evaluate(m, node.value, frame))
    fails = m.fails
    m.splits, m.fails = before
    if known is True and fails is not None:
        return fails
    return UNKNOWN if known is UNKNOWN else not known


def _bool(m: Machine, node: ir.Bool, frame: Frame) -> Any:
    stop = node.op == "or"
    unknown = False
    elsewhere: Any = None
    value: Any = not stop
    for part in node.values:
        value = evaluate(m, part, frame)
        known = ops.truth(value)
        if isinstance(value, whole.Elsewhere):
            elsewhere = value
        elif known is UNKNOWN:
            unknown = True
        elif known is stop:
            return value
    return UNKNOWN if unknown else value if elsewhere is None else elsewhere


def _compare(m: Machine, node: ir.Compare, frame: Frame) -> Any:
    left = evaluate(m, node.left, frame)
    result: Any = True
    for op, right_node in zip(node.ops, node.rights, strict=True):
        right = evaluate(m, right_node, frame)
        one = ops.compare(op, left, right, m.numbers)
        if m.splits and one is True:
            m.fails = m.fails or ops.failing(op, left, right)
        if one is False or isinstance(one, whole.Elsewhere):
            return one
        if one is UNKNOWN:
            result = UNKNOWN
        left = right
    return result


def _cond(m: Machine, node: ir.Cond, frame: Frame) -> Any:
    test = m.test(node, node.test, frame)
    if m.beside is not None:
        yes, no = evaluate(m, node.yes, frame), evaluate(m, node.no, frame)
        return yes if ops.sources(yes) and not ops.sources(no) else no
    if test is UNKNOWN:
        m.guess(node.test, frame)
        return builtins.either(evaluate(m, node.yes, frame), evaluate(m, node.no, frame))
    return evaluate(m, node.yes if test else node.no, frame)


def _seq(m: Machine, node: ir.Seq, frame: Frame) -> Any:
    out: list[Any] = []
    for item in node.items:
        value = evaluate(m, item.value if isinstance(item, ir.Star) else item, frame)
        if isinstance(item, ir.Star) and isinstance(value, tuple):
            out.extend(value)
        else:
            out.append(value)
    return tuple(out[:_MAX_ITEMS])


def _comp(m: Machine, node: ir.Comp, frame: Frame) -> Any:
    """A comprehension, as a tuple; its names are gone when it ends."""
    made: list[Any] = []
    held = dict(frame.scopes[-1])

    def clause(depth: int) -> None:
        if depth == len(node.clauses):
            made.append(evaluate(m, node.item, frame))
            return
        target, iterable, tests = node.clauses[depth]
        for item in _every(evaluate(m, iterable, frame)):
            m.spend()
            places.bind(m, target, item, frame)
            if all(ops.truth(evaluate(m, test, frame)) is not False for test in tests) and len(made) < _MAX_ITEMS:
                clause(depth + 1)

    if node.item is not None:
        clause(0)
    frame.scopes[-1].clear()
    frame.scopes[-1].update(held)
    return tuple(made)


def _every(iterable: object) -> list[Any]:
    """All that a comprehension goes through, where that is known."""
    if isinstance(iterable, tuple):
        return list(iterable)
    bounds = (iterable.start, iterable.stop, iterable.step) if isinstance(iterable, Range) else ()
    if bounds and all(isinstance(b, int) for b in bounds) and bounds[2]:
        return list(range(*bounds)[:_MAX_ITEMS])
    return [UNKNOWN]


def _cast(m: Machine, node: ir.Cast, frame: Frame) -> Any:
    return ctypes.cast(m, node, evaluate(m, node.value, frame), frame)


def _lambda(m: Machine, node: ir.Lambda, frame: Frame) -> Any:
    return Closure(node.func, frame, captured(m, node.func, frame))


def captured(m: Machine, func: ir.FuncDef, frame: Frame) -> dict[str, Any]:
    """What a lambda of C++ holds itself: copies, and references that it gives a name."""
    held: dict[str, Any] = {}
    for capture in func.captures:
        if capture.init is not None:
            where = places.place(m, capture.init, frame) if capture.reference else None
            held[capture.name] = evaluate(m, capture.init, frame) if where is None else Reference(where)
        elif not capture.reference and (scope := frame.find(capture.name)) is not None:
            value = scope[capture.name]
            if type(value) is Reference and not value.address:
                value = places.load(m, value.place, func, frame)
            held[capture.name] = copied(value, {})
    return held


def _type_ref(m: Machine, node: ir.TypeRef, frame: Frame) -> Any:
    if frame.cpp and traits.asked(node):
        known = traits.value(m.types, node, frame)
        return UNKNOWN if known is None else known
    if node.member:
        constant = ctypes.static_member(m, ctypes.resolve(m, _owner(node), frame), node.member[-1])
        if constant is not None:
            return constant
    return values.TypeValue(node, ctypes.scope_env(frame))


def _owner(node: ir.TypeRef) -> ir.TypeRef:
    return ir.TypeRef(node.name, node.args, node.loc, node.member[:-1])


def _opaque(m: Machine, node: ir.Opaque, frame: Frame) -> Any:
    m.note(f"not read: {node.reason}", node)
    return UNKNOWN


def _call(m: Machine, node: ir.Call, frame: Frame) -> Any:
    value = builtins.call(m, node, frame)
    if type(value) is Reference and not value.address and frame.cpp:
        return places.load(m, value.place, node, frame)
    return value


_EXPRESSIONS: dict[type, Callable[[Machine, Any, Frame], Any]] = {
    ir.Const: _const,
    ir.Name: _name,
    ir.Attr: _attr,
    ir.Index: _index,
    ir.SliceE: _slice,
    ir.AssignE: _assign_e,
    ir.Binary: _binary,
    ir.Unary: _unary,
    ir.Bool: _bool,
    ir.Compare: _compare,
    ir.Cond: _cond,
    ir.Seq: _seq,
    ir.Comp: _comp,
    ir.Cast: _cast,
    ir.Lambda: _lambda,
    ir.TypeRef: _type_ref,
    ir.Opaque: _opaque,
    ir.Call: _call,
}
