"""C++ types of an evaluated kernel: declarations, conversions, parameters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from kbh_lint.base import dtypes, ir
from kbh_lint.base.values import UNKNOWN, CppType, DType, Env, Sym, TypeValue, Value
from kbh_lint.cpp.members import Class, Member
from kbh_lint.kernels.numeric import integers as whole
from kbh_lint.kernels.numeric import layouts, ops
from kbh_lint.kernels.numeric.numbers import Num
from kbh_lint.kernels.numeric.state import (
    MAX_CELLS,
    OTHER,
    Bits,
    CType,
    Frame,
    Memory,
    Method,
    Obj,
    Ptr,
    Reference,
)

if TYPE_CHECKING:
    from kbh_lint.kernels.numeric.machine import Machine

LANES = ("x", "y", "z", "w")
MAX_DEPTH = 12
MAX_FIELDS = 64
ROW = 1 << 12  # elements of a dimension whose size is not known
_BARE = ("", "auto", "decltype", "void")


class CTypes:
    """Resolves C++ types, and makes values of them: declared, converted, zero-initialised."""

    def __init__(self, m: Machine) -> None:
        self.m = m

    def resolve(self, ref: ir.TypeRef, frame: Frame) -> CType:
        """The type that `ref` names in this frame; `OTHER` for unknown names."""
        base = self._named_type(ref, frame)
        for _ in range(min(ref.pointers, 3)):
            base = CType("pointer", inner=base)
        return base

    def _named_type(self, ref: ir.TypeRef, frame: Frame) -> CType:
        if ref.name in _BARE:
            return self._of_value(ref, frame) if ref.name == "decltype" else OTHER
        plain = _plain(ref.name) if frame.find(ref.name) is None else None
        if plain is not None:
            return plain
        self.m.spend()
        return self.m.types.classes.written(ref, frame) or OTHER

    def _of_value(self, ref: ir.TypeRef, frame: Frame) -> CType:
        """`decltype(x)`: the type of a variable or a field, of which nothing is computed."""
        if ref.member or len(ref.args) != 1 or not isinstance(ref.args[0], (ir.Name, ir.Attr)):
            return OTHER
        kind: CType | None = self.m.types.type_of(self.m.expressions.evaluate(ref.args[0], frame))
        return kind or OTHER

    def of_value(self, value: object) -> CType:
        """The type that `value`, a template argument or type name, stands for."""
        self.m.spend()
        if isinstance(value, CType):
            return value
        if isinstance(value, DType):
            return scalar(value.name)
        if isinstance(value, TypeValue):
            return self.resolve(value.ref, Frame([{}], value.env, True, 0))
        if not isinstance(value, CppType):
            return OTHER
        ref = ir.TypeRef(value.node.name, (), value.node.loc)
        return self.m.types.classes.meant(value, ref, Frame([{}], value.env, True, 0)) or OTHER

    def template_argument(self, node: object, frame: Frame) -> Value:
        """The type or constant that a template argument stands for."""
        if isinstance(node, ir.TypeRef):
            found = self.resolve(node, frame)
            if found is not OTHER:
                return found
        return self.m.expressions.evaluate(node, frame)

    def scoped(self, name: str, frame: Frame) -> Value:
        """The constant, type or function that `Alias::member`, `T::value` or `T::f` names; None for other names."""
        member = self.m.types.classes.scoped(name, (), frame)
        if member is None:
            return None
        if member.constant:
            return self.constant(member)
        if not member.funcs:
            return self.m.types.classes.type_of(member, name.rpartition("::")[2], frame)
        owner = self.m.types.made(member.owner.kind, member.owner.args)
        return Method(self.zero(owner), name.rpartition("::")[2])

    def static_member(self, owner: CType, path: tuple[str, ...], frame: Frame) -> Value:
        """The static constant or the type that `path` names in a struct or its bases; None for other names."""
        member = self.m.types.classes.member(owner, path, frame)
        if member is None:
            return None
        return self.constant(member) if member.constant else self.m.types.classes.type_of(member, path[-1], frame)

    def constant(self, member: Member) -> Value:
        """The value of a static constant or an enumerator."""
        assert isinstance(member.node, ir.Decl)
        return self.declared(member.node, Frame([{}], member.owner.env, True, 0))

    def field_type(self, owner: CType, name: str) -> CType | None:
        """The declared type of a field of a struct; None for arrays."""
        member = self.m.types.classes.named(owner, name)
        node = None if member is None else member.node
        if member is None or not isinstance(node, ir.Decl) or node.type is None or node.type.dims:
            return None
        return self.resolve(node.type, Frame([{}], member.owner.env, True, 0))

    # --- values of types --------

    def zero(self, kind: CType, depth: int = 0) -> Any:
        """The value of a variable of type `kind` that is zero-initialised, or not initialised."""
        if kind.kind == "float":
            return Num(0, 0.0, kind.dt)
        if kind.kind == "vec":
            inner = scalar(kind.dt)
            return Obj({LANES[i]: self.zero(inner) for i in range(min(kind.lanes, 4))}, kind)
        if kind.kind != "struct" or depth > MAX_DEPTH:
            return UNKNOWN
        fields: dict[str, Any] = {}
        made = self.m.types.classes.of(kind)
        if made is not None and made.union:
            return self._union(kind, made)
        for member in self.m.types.classes.fields(kind)[:MAX_FIELDS]:
            if isinstance(member.node, ir.Decl):
                fields[member.node.name] = self.declared(member.node, Frame([{}], member.owner.env, True, 0), depth + 1)
        return Obj(fields, kind)

    def _union(self, kind: CType, made: Class) -> Obj:
        """A union: all its fields lie in one memory, those of a struct without a name one after the other."""
        shared = Memory(made.node.name, "local", OTHER)
        fields: dict[str, Any] = {}
        at, inside = 0, made
        for member in made.own:
            if member.owner is not inside or inside is made:
                at, inside = 0, member.owner
            node = member.node
            if not isinstance(node, ir.Decl) or node.type is None:
                continue
            self.m.spend()
            held = self.resolve(node.type, Frame([{}], member.owner.env, True, 0))
            if node.type.dims:
                fields[node.name] = Ptr(shared, at, held, (1,) * len(node.type.dims))
            else:
                fields[node.name] = Reference(Ptr(shared, at, held))
            at += held.lanes
        return Obj(fields, kind)

    def convert(self, value: object, kind: CType, site: int = 0) -> Any:
        """`value` converted to the type `kind`."""
        if kind.kind == "float":
            if isinstance(value, Obj):
                made = self.m.structs.conversion(value, kind.dt)
                value = next(iter(value.fields.values()), UNKNOWN) if made is None else made
            if isinstance(value, Bits):
                return UNKNOWN
            number = ops.number(value, self.m.numbers, site)
            return UNKNOWN if number is None else self.m.numbers.cast(number, kind.dt)
        if kind.kind in ("int", "bool"):
            return self._as_whole(value, kind)
        if kind.kind == "vec" and not isinstance(value, Obj):
            items = value if isinstance(value, tuple) else (value,)
            inner = scalar(kind.dt)
            parts = {LANES[i]: self.convert(items[i], inner, site) for i in range(min(kind.lanes, 4, len(items)))}
            return Obj({**self.zero(kind).fields, **parts}, kind)
        if kind.kind == "struct" and isinstance(value, tuple):
            return self.m.structs.construct(
                kind, list(value), kind.struct.node, Frame([{}], kind.struct.env, True, 0), braces=True
            )
        if kind.kind == "struct" and isinstance(value, Num | int) and self.m.structs.way(kind, [value]).makers:
            return self.m.structs.construct(kind, [value], kind.struct.node, Frame([{}], kind.struct.env, True, 0))
        return value.copy() if isinstance(value, Obj) else value

    def _as_whole(self, value: object, kind: CType) -> object:
        """A whole number or a truth; what is neither stays what it is."""
        if isinstance(value, Obj) and kind.dt in dtypes.INTS:
            made = self.m.structs.conversion(value, kind.dt)
            value = value if made is None else made
        if isinstance(value, Num):
            if value.src or not math.isfinite(value.f) or abs(value.f) >= 1e15:
                return UNKNOWN
            return whole.saturated(value.f, kind.dt) if kind.kind == "int" else value.f != 0.0
        if isinstance(value, int):
            if isinstance(value, whole.Elsewhere):
                return value
            return whole.converted(value, kind.dt) if kind.kind == "int" else value != 0
        if isinstance(value, Bits) and kind.kind == "int":
            return ops.lowest(value, dtypes.BITS.get(kind.dt, 32))
        return value

    def aggregate(self, kind: CType, items: Sequence[Value], site: int) -> Value:
        """A struct of type `kind` whose fields get `items` in order. Fields without an item have their default, or
        zero."""
        made = self.zero(kind)
        if isinstance(made, Obj):
            for (name, old), item in zip(list(made.fields.items()), items, strict=False):
                held = self.field_type(kind, name) if old is UNKNOWN else None
                if isinstance(item, Reference) and not item.address:
                    made.fields[name] = item
                    continue
                if isinstance(old, Ptr) and isinstance(item, tuple):
                    self._filled(old.mem, old.type, old.rest, item, 0)
                    continue
                made.fields[name] = self.like(old, item) if held is None else self.convert(item, held, site)
            for name in list(made.fields)[len(items) :]:
                held = self.field_type(kind, name) if made.fields[name] is UNKNOWN else None
                if held is not None and held.kind in ("int", "bool"):
                    made.fields[name] = self.convert(0, held)
        return made

    def like(self, old: object, new: object) -> Value:
        """`new`, converted for assignment to a variable that holds `old`."""
        if isinstance(old, Num) and old.dt != "lit":
            return self.convert(new, CType("float", old.dt))
        if isinstance(old, int):
            return self.convert(new, scalar("bool" if isinstance(old, bool) else whole.type_of(old)))
        if isinstance(old, Obj) and not isinstance(new, Obj):
            return self.convert(new, old.type)
        return new.copy() if isinstance(new, Obj) else new

    def declared(self, decl: ir.Decl, frame: Frame, depth: int = 0) -> Any:
        """The initial value of a declared variable, field or array."""
        self.m.spend()
        if decl.type is None:
            return UNKNOWN if decl.init is None else self.m.expressions.evaluate(decl.init, frame)
        kind = self.resolve(decl.type, frame)
        if decl.type.dims:
            return self._array(decl, decl.type, kind, frame)
        init = decl.init
        if decl.type.reference and init is not None and not isinstance(init, ir.Seq):
            where = self.m.places.place(init, frame)
            if where is not None:
                return Reference(where)
        if "__shared__" in decl.storage:
            return Reference(Ptr(self.m.memory.shared(decl.name, kind, self.m.site(frame, decl)), 0, kind))
        if init is None:
            return self.m.structs.construct(kind, [], decl, frame) if kind.kind == "struct" else self.zero(kind, depth)
        if isinstance(init, ir.Seq):
            named = [i for i in init.items if isinstance(i, ir.AssignE)]
            if named and kind.kind == "struct":
                made = self.zero(kind, depth)
                for item in named:
                    if isinstance(item.target, ir.Name) and isinstance(made, Obj):
                        old = made.fields.get(item.target.id)
                        made.fields[item.target.id] = self.like(old, self.m.expressions.evaluate(item.value, frame))
                return made
            braces = init.kind == "init"
            items = [self.m.expressions.evaluate(i, frame) for i in init.items]
            items = self.m.structs.by_place(kind, items, init.items, frame)
            return self.m.structs.construct(kind, items, decl, frame, braces=braces)
        value = self.m.expressions.evaluate(init, frame)
        if isinstance(value, Sym) and isinstance(init, ir.Unary):  # `T S::*p = &S::field`
            return value
        return self.convert(value, kind, self.m.site(frame, decl))

    def _array(self, decl: ir.Decl, ref: ir.TypeRef, kind: CType, frame: Frame) -> Ptr:
        sizes = [self.m.expressions.evaluate(d, frame) for d in ref.dims]
        dims = tuple(s if isinstance(s, int) and 0 < s < 1 << 24 else ROW for s in sizes)
        if decl.init is not None and not isinstance(decl.init, ir.Seq):  # `T (*p)[N] = a`, `T (&r)[N] = a`
            there = self.m.expressions.evaluate(decl.init, frame)
            if isinstance(there, Ptr):
                return Ptr(there.mem, there.off, there.type, dims)
        made = Memory(decl.name, "shared" if "__shared__" in decl.storage else "local", kind, {}, dims)
        if made.kind == "local":
            made.default = self.zero(kind) if kind.kind in ("float", "vec", "struct") else None
        if isinstance(decl.init, ir.Seq):
            if made.default is None and kind.kind in ("int", "bool"):
                made.default = self.convert(0, kind)
            self._fill(made, kind, dims, decl.init, 0, frame)
            if made.default is not None and kind.kind in ("int", "bool"):
                for cell in range(min(math.prod(dims), MAX_CELLS)):
                    made.cells.setdefault(cell, made.default)
        return Ptr(made, 0, kind, dims)

    def _fill(self, made: Memory, kind: CType, dims: tuple[int, ...], given: ir.Seq, at: int, frame: Frame) -> None:
        """The elements of an array from what stands in braces, from an offset on."""
        step = math.prod(dims[1:]) * kind.lanes
        for i, item in enumerate(given.items[:64]):
            if isinstance(item, ir.Seq) and len(dims) > 1:
                self._fill(made, kind, dims[1:], item, at + i * step, frame)
            elif len(dims) == 1:
                made.put(at + i * step, self.convert(self.m.expressions.evaluate(item, frame), kind))

    def _filled(self, made: Memory, kind: CType, dims: tuple[int, ...], given: tuple[object, ...], at: int) -> None:
        """The elements of an array in an object, as braces list them; zero where they list none."""
        step = math.prod(dims[1:]) * kind.lanes
        rest = (0,) * ((dims[0] if dims else 0) - len(given)) if kind.kind in ("int", "bool") else ()
        for i, item in enumerate((*given, *rest)[:MAX_CELLS]):
            if len(dims) > 1:
                self._filled(made, kind, dims[1:], item if isinstance(item, tuple) else (), at + i * step)
            else:
                made.put(at + i * step, self.convert(item, kind))

    # --- parameters --------

    def passed(self, ref: ir.TypeRef, value: object, frame: Frame) -> Value:
        """The value that a parameter of type `ref` gets for the argument `value`: a reference stays one, everything
        else is converted and copied."""
        if isinstance(value, Reference) and not value.address:
            if ref.reference:
                return value
            value = self.m.places.load(value.place, ref, frame)
        if ref.pointers or ref.dims:
            return value
        return self.convert(value, self.resolve(ref, frame))

    def cast(self, node: ir.Cast, value: object, frame: Frame) -> Value:
        """The value of `(T)value`, `static_cast<T>(value)` or `reinterpret_cast<T*>(value)`."""
        kind = self.resolve(node.type, frame)
        if kind.kind == "pointer":
            inner = kind.inner or OTHER
            if isinstance(value, Ptr):
                inner = layouts.laid(self.m, inner) if value.mem.kind == "param" else inner
                return Ptr(value.mem, value.off, value.type if inner is OTHER else inner)
            return value
        if node.kind == "reinterpret" and node.type.reference:
            return value
        return self.convert(value, kind, self.m.site(frame, node))


def scope_env(frame: Frame) -> Env:
    """The names that the code in `frame` can see, as one nested environment."""
    env = frame.env
    for scope in frame.scopes:
        if scope:
            env = Env(scope, env)
    return env


def scalar(dt: str) -> CType:
    """The type of a single element of type `dt`."""
    if dt in dtypes.FLOATS:
        return CType("float", dt)
    return CType("bool" if dt == "bool" else "int", dt)


@lru_cache(maxsize=512)
def _plain(name: str) -> CType | None:
    """A built-in number or vector type."""
    vector = dtypes.vector_from_cpp(name)
    if vector is not None:
        return CType("vec", vector[0], vector[1])
    dt = dtypes.from_cpp(name)
    return None if dt is None else scalar(dt)
