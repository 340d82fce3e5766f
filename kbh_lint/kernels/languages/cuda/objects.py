"""Objects of CUDA C++: what declarations hold, constructors, casts and references."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kbh_lint.base import dtypes, ir
from kbh_lint.cpp import construction, integers, overloads
from kbh_lint.cpp.domain import Type
from kbh_lint.kernels.core.joins import mix
from kbh_lint.kernels.core.value import NOTHING, CType, Offset, Struct, Unbound, V
from kbh_lint.kernels.languages.cuda.fields import is_union
from kbh_lint.kernels.languages.cuda.places import IN_MEMORY, Ref
from kbh_lint.kernels.languages.cuda.types import element, is_pointer, pointer_to
from kbh_lint.kernels.languages.ptx import cache_policy

if TYPE_CHECKING:
    from kbh_lint.kernels.languages.cuda.run import CudaRun


class CudaObjects:
    """Makes and converts objects."""

    def __init__(self, run: CudaRun) -> None:
        self.run = run

    def to_type(self, value: V, ct: CType, loc: ir.Loc) -> V:
        """`value` implicitly converted to the type `ct`; vectors and structs keep their bits."""
        if ct.dtype in ("?", "") or is_pointer(ct) or isinstance(value.x, (Struct, tuple)):
            return value
        if value.cells and ct.dtype in dtypes.INTS:
            return value.with_(ct=None)
        kept = value.const if ct.lanes > 1 else integers.held(value.const, ct.dtype)
        if ct.dtype in dtypes.INTS and kept is not value.const:
            value = value.with_(const=int(kept) if isinstance(kept, integers.Typed) else kept)
        if value.dtype == ct.dtype:
            if value.content in dtypes.FLOATS and value.content != ct.dtype and ct.dtype in dtypes.FLOATS:
                return self.run.numbers.convert(value, ct.dtype, loc)
            return value
        return self.run.numbers.convert(value, ct.dtype, loc)

    def converted(self, value: V, ct: CType, loc: ir.Loc) -> V:
        """What C++ makes of the object `value`, unasked, where the type `ct` is wanted: a number by its conversion
        operator, an object of another class by a constructor of that; otherwise `value` itself."""
        kind = value.ct
        if ct.decl is not None and not is_pointer(ct):
            return self._of_another_class(value, ct, loc)
        if ct.dtype not in dtypes.BITS or ct.lanes > 1 or is_pointer(ct):
            return value
        if kind is None or kind.decl is None or is_pointer(kind) or isinstance(value.const, CType):
            return value
        types = self.run.types.cpp
        func = construction.converter(types, types.classes.conversions(V(const=kind)), ct.dtype)
        if func is None:
            return value
        return self.to_type(self.run.calls.call_method(value, func.node.name, [], (), None, loc), ct, loc)

    def _of_another_class(self, value: V, ct: CType, loc: ir.Loc) -> V:
        """The object of the class `ct` that one of its constructors makes of an object of another class; `value` itself
        where none does."""
        types = self.run.types.cpp
        kind = types.type_of(value)
        if kind is None or is_pointer(value.ct):
            return value
        wanted = types.key(V(const=ct))
        if not isinstance(wanted, Type) or types.key(kind) == wanted or overloads.derived(types, kind, wanted):
            return value
        makers = [func for func in types.classes.constructors(V(const=ct)) if func.node.body is not None]
        if not overloads.takes(types, makers, [kind], (), types.here(), overloads.OWN):
            return value
        return self.construct(ct, [value], loc, loc, "", [None])

    def default_value(self, ct: CType, key: object) -> V:
        """The value of `T x;` before any assignment."""
        if ct.dims:
            cell = self.run.memory.cell((self.run.frame.key, key), "local", "array", ct.dtype)
            self.run.memory.begun(cell)
            return V(ct.dtype, ct.dtype, cells=frozenset((cell,)), ct=ct)
        if ct.pointers:
            return V(ct.dtype, ct.dtype, ct=ct)
        if ct.decl is not None and isinstance(ct.decl.node, ir.ClassDef):
            if is_union(ct.decl.node):
                cell = self.run.memory.cell((self.run.frame.key, key), "local", "union")
                return V(cells=frozenset((cell,)), ct=ct, x=IN_MEMORY)
            return V(x=Struct({}, replace(ct, role=f"{key}")), ct=ct)
        kept = ct if ct.lanes > 1 or ct.role or ct.name else None
        return V(ct.dtype, ct.dtype, ct=kept)

    def cast_to(self, value: V, ct: CType, loc: ir.Loc, *, bits: bool = False) -> V:
        """The value of `(T)value`; with `bits` the bits of `value` read as that type."""
        if is_pointer(ct):
            return self.pointer_cast(value, ct)
        if isinstance(value.x, Struct) or value.x is IN_MEMORY:
            value = self.converted(value, ct, loc)
        if is_pointer(value.ct) or (value.cells and ct.dtype in dtypes.INTS):  # an address as a number
            return value.with_(ct=None, dtype=ct.dtype if ct.dtype != "?" else value.dtype)
        if ct.dtype in ("?", ""):
            if ct.decl is not None and not isinstance(value.x, (Struct, Unbound)):
                return V(x=Struct({}, ct), ct=ct) if not value.origins else value.with_(ct=ct)
            return value
        made = self.run.numbers.bitcast(value, ct.dtype, loc) if bits else self.to_type(value, ct, loc)
        if made.const is not NOTHING and made.dtype != ct.dtype:
            made = self.run.numbers.convert(made, ct.dtype, loc)
        if ct.lanes > 1 or (made.ct is not None and made.ct.lanes > 1):
            made = made.with_(ct=ct if ct.lanes > 1 else None)
        return made

    def pointer_cast(self, value: V, ct: CType) -> V:
        """The pointer `value` cast to the pointer type `ct`; the memory behind it keeps its element types."""
        dtype = ct.dtype
        if dtype in ("?", "") and ct.decl is None:
            dtype = value.dtype
        if isinstance(value.x, Unbound) and not value.cells:
            cell = self.run.memory.param_cell(value.x.path, -1, ct.dtype, ct.dtype)
            return V(dtype, dtype, value.origins, cells=frozenset((cell,)), ct=ct)
        return value.with_(ct=ct, dtype=dtype, x=None if value.x is IN_MEMORY else value.x)

    def reference(self, init: ir.Expr, ct: CType) -> V:
        """A reference to the place of `init`, or its value where it has no place."""
        if isinstance(init, (ir.Name, ir.Index, ir.Attr, ir.Unary, ir.Cast)):
            pointer = self.run.memory.address_of(init)
            if pointer.cells and (ct.dims or (pointer.ct is not None and pointer.ct.dims)):
                return pointer
            if pointer.cells and is_pointer(pointer.ct):
                return V(x=Ref(pointer))
        calls = self.run.calls
        calls.place = None
        made = self.run.expressions.eval(init)
        given = calls.place if isinstance(init, ir.Call) else None
        return made if given is None else V(x=Ref(calls.taken(given, init.loc)))

    def rows(self, node: ir.Decl, init: ir.Expr, ct: CType) -> V:
        """The array of `T (*p)[N] = a` or `T (&r)[N] = a`: the same memory as `a` where that is an address, else a new
        array."""
        there = self.run.expressions.eval(init)
        rows = replace(ct, dims=ct.dims + ct.pointers, pointers=0)
        return self.pointer_cast(there, rows) if there.cells and is_pointer(there.ct) else self.array(node, ct)

    def array(self, node: ir.Decl, ct: CType) -> V:
        """A new local array, as an address, with its initial values."""
        cell = self.run.memory.cell((self.run.frame.key, id(node)), "local", node.name, ct.dtype)
        self.run.memory.begun(cell)
        pointer = V(ct.dtype, ct.dtype, cells=frozenset((cell,)), ct=ct)
        if node.init is not None:
            inner = ct
            while inner.dims:
                inner = element(inner)
            flat = CType(inner.dtype, inner.lanes, 1 + inner.pointers, 0, inner.name, inner.decl, inner.args)
            stack = [node.init]
            while stack:
                item = stack.pop()
                if isinstance(item, ir.Seq):
                    stack.extend(item.items[:64])
                else:
                    self.run.memory.write_through(pointer.with_(ct=flat), self.run.expressions.eval(item), node.loc)
        return pointer

    def initialized(self, name: str, ct: CType, init: ir.Expr, node: ir.Decl) -> V:
        """The initial value of the variable `name` of type `ct`, declared with `init`."""
        if isinstance(init, ir.Seq) and init.kind in ("init", "ctor"):
            return self.construct(
                ct, self.run.expressions.items(init.items), node.loc, id(node), name, list(init.items)
            )
        value = self.run.expressions.eval(init)
        if ct.name == "auto" and ct.dtype == "?":
            if is_pointer(ct) and value.ct is None:
                return value.with_(ct=CType(value.dtype, pointers=1))
            return value
        if isinstance(value.x, tuple):
            return self.construct(ct, list(value.x), node.loc, id(node), name, [None] * len(value.x))
        if is_pointer(ct):
            return self.pointer_cast(value, ct)
        if isinstance(value.x, Struct) or value.x is IN_MEMORY and ct.decl is not None:
            return self.converted(value, ct, node.loc)
        return self.cast_to(value, ct, node.loc)

    def construct(self, ct: CType, items: list[V], loc: ir.Loc, key: object, name: str, nodes: Sequence[object]) -> V:
        """The object made by `T x(a, b)`, `T x{a, b}` or `T(a)`."""
        if is_pointer(ct) or ct.dtype not in ("?", ""):
            if not items:
                made = self.default_value(ct, key)
                return made if ct.lanes > 1 or ct.role else made.with_(const=0, ct=None)
            if len(items) == 1:
                return self.cast_to(items[0], ct, loc)
            return mix([self.to_type(item, ct, loc) for item in items]).with_(ct=ct, dtype=ct.dtype)
        if ct.decl is None or not isinstance(ct.decl.node, ir.ClassDef):
            cache_policy.constructed(self.run, ct, items, loc)
            return V(ct=ct) if not items else mix(items).with_(ct=ct)
        types = self.run.types.cpp
        makers = types.classes.constructors(V(const=ct))
        way = construction.way(types, V(const=ct), makers, [types.type_of(item) for item in items])
        if way.by == "copy":
            return items[0]
        fresh = self.default_value(ct, key)
        if way.by == "constructor":
            slot = name or f"$made{id(key)}"
            self.run.frame.env[slot] = fresh
            this = V(
                cells=frozenset((self.run.memory.variable_cell(self.run.frame, slot),)), ct=replace(ct, pointers=1)
            )
            self.run.calls.call_overloads(list(way.makers), items, (), nodes, loc, this=this)
            return self.run.frame.env[slot]
        return self.aggregate(fresh, ct, items, loc, key, nodes)

    def aggregate(self, fresh: V, ct: CType, items: list[V], loc: ir.Loc, key: object, nodes: Sequence[Any] = ()) -> V:
        """The object `fresh` with its fields set to `items` in order; further fields have their default, or zero."""
        for at, member in enumerate(self.run.types.cpp.classes.fields(V(const=ct))):
            field = member.node
            if not isinstance(field, ir.Decl):
                continue
            kind = self.run.fields.field_type(ct, field.name)
            if at < len(items):
                item = items[at]
                if field.type is not None and field.type.reference and at < len(nodes) and nodes[at] is not None:
                    item = self.reference(nodes[at], kind)
                if isinstance(item.x, tuple) and kind.dims:
                    item = self._filled(self.run.fields.field_of(fresh, field.name, loc), item.x, loc)
                elif isinstance(item.x, tuple) and kind.decl is not None and not is_pointer(kind):
                    item = self.construct(kind, list(item.x), loc, (key, at), "", [None] * len(item.x))
            elif field.init is None and kind.dtype in dtypes.BITS and kind.lanes == 1 and not is_pointer(kind):
                item = V(kind.dtype, kind.dtype, const=0)
            else:
                continue
            fresh = self.run.fields.with_field(fresh, (field.name,), item, loc)
        return fresh

    def _filled(self, array: V, items: tuple[V, ...], loc: ir.Loc) -> V:
        """An array, with what braces list in it."""
        row, stack = array, list(items)
        while row.ct is not None and element(row.ct).dims:
            row = row.with_(ct=element(row.ct))
        while stack:
            item = stack.pop()
            if isinstance(item.x, tuple):
                stack.extend(item.x)
            else:
                self.run.memory.write_through(row, item, loc)
        return array

    def shared(self, node: ir.Decl, ct: CType) -> V:
        """A variable in shared memory: an array as its address, anything else as a reference."""
        key = "extern" if "extern" in node.storage else (self.run.frame.key, id(node))
        cell = self.run.memory.cell(key, "shared", node.name, ct.dtype)
        pointed = ct if ct.dims else pointer_to(ct)
        pointer = V(ct.dtype, ct.dtype, cells=frozenset((cell,)), ct=pointed, x=Offset(0))
        return pointer if ct.dims else V(ct.dtype, ct.dtype, x=Ref(pointer))
