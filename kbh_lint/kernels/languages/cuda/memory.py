"""Structs and pointers of CUDA C++: fields, and places that can be read and written through an address."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kbh_lint.base import dtypes, ir
from kbh_lint.cpp import conversions
from kbh_lint.kernels.core.joins import join, mix
from kbh_lint.kernels.core.origins import union, union_casts
from kbh_lint.kernels.core.value import NOTHING, CType, Struct, Unbound, V, in_order
from kbh_lint.kernels.languages.cuda.cells import MAX_NESTED, CudaCells
from kbh_lint.kernels.languages.cuda.places import IN_MEMORY, LANES, TENSOR_MAP, Ref, VarCell
from kbh_lint.kernels.languages.cuda.types import element, is_pointer, pointer_to


class CudaMemory(CudaCells):
    """Reads and writes C++ objects."""

    c_rules = True

    def __init__(self, name: str, fuel: int) -> None:
        super().__init__(name, fuel)
        self.given: dict[str, Any] = {}  # fields of struct arguments, by path

    def bind_argument(self, name: str, value: Any, ct: CType) -> V:
        """A kernel argument as an abstract value of the declared type."""
        raise NotImplementedError

    def global_place(self, name: str) -> V | None:
        """The address of a variable in device memory."""
        raise NotImplementedError

    # --- fields ---

    def field_decl(self, ct: CType | None, name: str) -> ir.Decl | None:
        """The declaration of a field, also in bases."""
        if ct is None or ct.decl is None or not isinstance(ct.decl.node, ir.ClassDef):
            return None
        for node in ct.decl.node.body:
            if isinstance(node, ir.Decl) and node.name == name:
                return node
            if isinstance(node, ir.Decl) and not node.name and node.type is not None:  # anonymous union
                inner = self.field_decl(self.inner_type(ct, node.type), name)
                if inner is not None:
                    return inner
        for base in ct.decl.node.bases:
            self.step()  # a base may be reached along many ways
            if isinstance(base, ir.TypeRef):
                inner = self.field_decl(self.resolve_type(base), name)
                if inner is not None:
                    return inner
        return None

    def field_type(self, ct: CType | None, name: str) -> CType:
        """The type of a field of a struct type."""
        node = self.field_decl(ct, name)
        if node is None or node.type is None or ct is None:
            return CType()
        return self.inner_type(ct, node.type)

    def inner_type(self, ct: CType, ref: ir.TypeRef) -> CType:
        """A type as the body of a class means it: its own nested types come first."""
        nested = self.member_type(ct, ref.name) if not ref.args else None
        if nested is None:
            return self.under(dict(ct.args), ct.decl.env, ref, 0)
        return replace(nested, pointers=nested.pointers + ref.pointers, dims=nested.dims + len(ref.dims))

    def field_of(self, value: V, name: str, loc: ir.Loc) -> V:
        """`value.name`. A bit field of four bits is a nibble of what its struct was loaded from."""
        if isinstance(value.x, Ref):
            value = self.load(value.x.pointer, "?", loc)
        made = self._field_of(value, name, loc)
        ct = value.ct
        if made.origins and ct is not None and ct.decl is not None:
            node = self.field_decl(ct, name)
            if node is not None and node.bits is not None and self.eval(node.bits).const == 4:
                return self.add_unpack(made, loc)
        return made

    def _field_of(self, value: V, name: str, loc: ir.Loc) -> V:
        ct = value.ct
        if isinstance(value.x, Struct):
            shared = self.anonymous_union(value, name)
            if shared is not None:
                return self.read_through(self.sub_pointer(shared, name), loc)
            found: V | None = value.x.fields.get(name)
            if found is None:
                found = self.default_value(self.field_type(ct, name), (value.x.type.role, name))
                value.x.fields[name] = found
            return found
        if isinstance(value.x, Unbound):
            return self.unbound_field(value.x.path + "." + name, self.field_type(ct, name))
        if ct is not None and (ct.decl is not None or value.x is IN_MEMORY) and value.cells:
            place = self.sub_pointer(value, name)
            return place if place.ct is not None and place.ct.dims else self.read_through(place, loc)
        if name in ("__x", "storage") and value.dtype in dtypes.FLOATS:
            return self.bitcast(value, "u8" if dtypes.BITS[value.dtype] == 8 else "u16", loc)
        if ct is not None and ct.lanes > 1 or name in LANES or name.startswith("__"):
            return value.with_(ct=None, const=NOTHING)
        if name in ("x",) and ct is not None and ct.role:
            return value
        return value.with_(const=NOTHING)

    def anonymous_union(self, value: V, name: str) -> V | None:
        """The memory of the nameless union inside a struct value that declares field `name`."""
        node = value.ct.decl.node if value.ct is not None and value.ct.decl is not None else None
        if not isinstance(node, ir.ClassDef) or not isinstance(value.x, Struct) or value.ct is None:
            return None
        for part in node.body:
            if isinstance(part, ir.Decl) and not part.name and part.type is not None:
                ct = self.inner_type(value.ct, part.type)
                if self.field_decl(ct, name) is not None:
                    key = f"$union {part.type.name}"
                    found = value.x.fields.get(key)
                    if found is None:
                        found = value.x.fields[key] = self.default_value(ct, (value.x.type.role, key))
                    return found
        return None

    def sub_pointer(self, value: V, name: str) -> V:
        """The address of a field of a struct in memory."""
        ct = value.ct
        inner = replace(ct, pointers=0, dims=0) if ct is not None else None
        field = self.field_type(inner, name)
        node = self.field_decl(inner, name)
        in_union = inner is not None and inner.decl is not None and _is_union(inner.decl.node)
        cells = value.cells if in_union else frozenset(cell.sub(name) for cell in value.cells)
        pointed = field if field.dims else pointer_to(field)
        dtype = field.dtype
        if node is None and dtype == "?":
            pointed = CType(pointers=1)
        return V(dtype, dtype, value.origins, value.casts, cells=cells, ct=pointed)

    def unbound_field(self, path: str, field: CType) -> V:
        """A field of a kernel argument: what the launch put into it, where that is known."""
        if path in self.given:
            return self.bind_argument(path, self.given[path], field)
        if field.pointers or field.dims:
            cell = self.param_cell(path, -1, field.dtype, field.dtype)
            return V(field.dtype, field.dtype, cells=frozenset((cell,)), ct=field)
        if field.dtype != "?":
            return V(field.dtype, field.dtype, ct=field if field.lanes > 1 else None)
        return V(x=Unbound(path), ct=field if field.decl is not None else None)

    def with_field(self, base: V, path: tuple[str, ...], value: V, loc: ir.Loc) -> V:
        """`base` after `base.path = value`."""
        name = path[0]
        if len(path) > 1:
            value = self.with_field(self.field_of(base, name, loc), path[1:], value, loc)
        ct = base.ct
        if isinstance(base.x, Struct):
            shared = self.anonymous_union(base, name)
            if shared is not None:
                self.write_through(self.sub_pointer(shared, name), value, loc)
                return base
            fields = dict(base.x.fields)
            field = self.field_type(ct, name)
            if field.dtype != "?" and not is_pointer(field) and not value.cells and not isinstance(value.x, Struct):
                value = self.to_type(value, field, loc)
            fields[name] = value
            return V(deps=base.deps, x=Struct(fields, base.x.type), ct=ct)
        if name in ("__x", "storage") and base.dtype in dtypes.FLOATS:
            made = self.bitcast(value, base.dtype, loc)
            return made.with_(ct=ct)
        if base.dtype in dtypes.BITS:
            if ct is None or ct.decl is None:
                value = self.to_type(value, CType(base.dtype), loc)
            if not base.origins and not base.cells:
                return value.with_(ct=ct, const=NOTHING)
            return join(base, value.with_(ct=ct, const=NOTHING))
        if ct is not None and ct.decl is not None or base.x is None and not base.origins:
            return V(x=Struct({name: value}, ct or CType()), ct=ct)
        return join(base, value)

    # --- pointers ---

    def read_through(self, pointer: V, loc: ir.Loc, *, index: V | None = None) -> V:
        """`*pointer` or `pointer[index]`."""
        ct = pointer.ct
        if index is not None and index.origins:
            pointer = pointer.with_(
                origins=union(pointer.origins, index.origins), casts=union_casts(pointer.casts, index.casts)
            )
        if ct is None and not pointer.cells and not isinstance(pointer.x, Unbound):
            return pointer.with_(const=NOTHING, x=None)  # a lane or bit of a value: v[i]
        inner = element(ct)
        if isinstance(pointer.x, tuple):
            return mix(list(pointer.x))
        if inner.dims:
            return pointer.with_(ct=inner)
        if inner.decl is not None and not inner.pointers:
            stored = self._stored_structs(pointer, loc)
            if stored is not None:
                return stored
            if isinstance(pointer.x, Unbound):
                return V(x=pointer.x, ct=inner)
            return V(origins=pointer.origins, casts=pointer.casts, cells=pointer.cells, ct=inner, x=IN_MEMORY)
        if inner.pointers:
            return self._read_pointer(pointer, inner, loc)
        made = self.load(pointer, inner.dtype, loc)
        if made.ct is not inner and not isinstance(made.x, Struct):
            made = made.with_(ct=inner if inner.lanes > 1 or inner.role else None, shape=None)
        return made

    def _stored_structs(self, pointer: V, loc: ir.Loc) -> V | None:
        """Whole structs written to these cells, joined; None when there are none."""
        found: V | None = None
        for cell in in_order(pointer.cells):
            if isinstance(cell, VarCell):
                value = self.read_cell(cell, "?", loc)
                if value is not None and (isinstance(value.x, (Struct, Unbound)) or value.x is IN_MEMORY):
                    found = value if found is None else join(found, value)
            else:
                for entry in cell.entries.values():
                    if isinstance(entry.x, Struct):
                        found = entry if found is None else join(found, entry)
        return found

    def _read_pointer(self, pointer: V, inner: CType, loc: ir.Loc) -> V:
        """Reads a pointer out of memory: an array of pointers, a pointer to a pointer."""
        found: V | None = None
        for cell in in_order(pointer.cells):
            if isinstance(cell, VarCell):
                value = self.read_cell(cell, "?", loc)
                found = value if found is None or value is None else join(found, value)
                continue
            for entry in cell.entries.values():
                found = entry if found is None else join(found, entry)
            if cell.kind == "param" and not cell.entries:
                target = self.param_cell(cell.name + "[]", -1, inner.dtype, inner.dtype)
                made = V(inner.dtype, inner.dtype, cells=frozenset((target,)), ct=inner)
                found = made if found is None else join(found, made)
        return found.with_(ct=inner) if found is not None else V(inner.dtype, inner.dtype, ct=inner)

    def write_through(self, pointer: V, value: V, loc: ir.Loc, *, index: V | None = None) -> None:
        """`*pointer = value` or `pointer[index] = value`."""
        inner = element(pointer.ct)
        if inner.pointers == 0 and not inner.dims and inner.dtype != "?" and not isinstance(value.x, Struct):
            value = self.to_type(value, inner, loc)
        if pointer.dtype != inner.dtype and inner.dtype != "?":
            pointer = pointer.with_(dtype=inner.dtype)
        if inner.decl is not None and not inner.pointers and isinstance(value.x, Struct):
            for name, item in value.x.fields.items():
                if not is_pointer(item.ct) or not item.cells:
                    self.write_through(self.sub_pointer(pointer.with_(ct=inner), name), item, loc)
        if inner.decl is not None and not inner.pointers and value.x is IN_MEMORY and value.ct is not None:
            self._copy_fields(pointer.with_(ct=inner), value, inner, loc, 0)
        self.store(pointer, value, loc, raw=True)

    def _copy_fields(self, to: V, value: V, ct: CType, loc: ir.Loc, depth: int) -> None:
        """`*to = value` for a struct in memory: what its fields hold goes over, field by field."""
        node = ct.decl.node if ct.decl is not None else None
        if not isinstance(node, ir.ClassDef) or depth > MAX_NESTED:
            return
        for part in node.body:
            if not isinstance(part, ir.Decl) or not part.name:
                continue
            target, source = self.sub_pointer(to, part.name), self.sub_pointer(value, part.name)
            inner = element(source.ct)
            if inner.decl is not None and not inner.pointers and not inner.dims:
                self._copy_fields(target.with_(ct=inner), source.with_(ct=inner), inner, loc, depth + 1)
            elif not inner.pointers and not inner.dims:
                self.write_through(target, self.read_through(source, loc), loc)

    def to_type(self, value: V, ct: CType, loc: ir.Loc) -> V:
        """An implicit conversion: numbers convert, vectors and structs of the same bits keep theirs."""
        if ct.dtype in ("?", "") or is_pointer(ct) or isinstance(value.x, (Struct, tuple)):
            return value
        if value.cells and ct.dtype in dtypes.INTS:
            return value.with_(ct=None)
        kept = value.const if ct.lanes > 1 else conversions.held(value.const, ct.dtype)
        if kept is not value.const and ct.dtype in dtypes.INTS:
            value = value.with_(const=kept)
        if value.dtype == ct.dtype:
            if value.content in dtypes.FLOATS and value.content != ct.dtype and ct.dtype in dtypes.FLOATS:
                return self.convert(value, ct.dtype, loc)
            return value
        return self.convert(value, ct.dtype, loc)

    # --- values of declarations ---

    def default_value(self, ct: CType, key: Any) -> V:
        """What `T x;` holds before anything is assigned."""
        if ct.dims:
            cell = self.cell((self.frame.key, key), "local", "array", ct.dtype)
            return V(ct.dtype, ct.dtype, cells=frozenset((cell,)), ct=ct)
        if ct.pointers:
            return V(ct.dtype, ct.dtype, ct=ct)
        if ct.decl is not None and isinstance(ct.decl.node, ir.ClassDef):
            if _is_union(ct.decl.node):
                cell = self.cell((self.frame.key, key), "local", "union")
                return V(cells=frozenset((cell,)), ct=ct, x=IN_MEMORY)
            return V(x=Struct({}, replace(ct, role=f"{key}")), ct=ct)
        kept = ct if ct.lanes > 1 or ct.role or ct.name else None
        return V(ct.dtype, ct.dtype, ct=kept)

    def address_of(self, node: Any) -> V:
        """`&expression`, also for binding references."""
        if isinstance(node, ir.Name):
            value = self.frame.env.get(node.id)
            if value is None:
                place = self.global_place(node.id)
                return place if place is not None else self.eval(node)
            if isinstance(value.x, Ref):
                return value.x.pointer
            if value.ct is TENSOR_MAP:  # a descriptor and its address lead to the same tensor
                return value
            if is_pointer(value.ct) and value.ct is not None and value.ct.dims:
                return value
            ct = value.ct or CType(value.dtype)
            cell = self.variable_cell(self.frame, node.id)
            dtype = value.dtype if not isinstance(value.x, Struct) else "?"
            return V(dtype, dtype, cells=frozenset((cell,)), ct=pointer_to(ct))
        if isinstance(node, ir.Index):
            base, index = self.eval(node.value), self.eval(node.index)
            if base.ct is None and not base.cells:
                return self.address_of(node.value)
            inner = element(base.ct)
            pointed = inner if inner.dims else pointer_to(inner)
            return base.with_(ct=pointed, origins=union(base.origins, index.origins), const=NOTHING)
        if isinstance(node, ir.Unary) and node.op == "*":
            return self.eval(node.value)
        if isinstance(node, ir.Attr):
            return self._field_address(node)
        if isinstance(node, ir.Cast):
            place = self.address_of(node.value)
            ct = self.resolve_type(node.type)
            return place.with_(ct=pointer_to(ct), dtype=ct.dtype if ct.dtype != "?" else place.dtype)
        value = self.eval(node)
        if value.cells and (is_pointer(value.ct) or value.x is IN_MEMORY):
            return value
        name = f"$temporary{id(node)}"
        self.frame.env[name] = value
        cell = self.variable_cell(self.frame, name)
        ct = value.ct or CType(value.dtype)
        return V(value.dtype, value.dtype, cells=frozenset((cell,)), ct=pointer_to(ct))

    def _field_address(self, node: ir.Attr) -> V:
        base = self.eval(node.value)
        if base.ct is not None and base.ct.pointers == 1 and not base.ct.dims:  # p->field
            pointed = element(base.ct)
            value = base.with_(ct=pointed)
            return self.sub_pointer(value, node.name)
        if base.x is IN_MEMORY:
            return self.sub_pointer(base, node.name)
        if isinstance(base.x, Unbound):
            found = self.field_of(base, node.name, node.loc)
            return found
        outer = self.address_of(node.value)
        if isinstance(base.x, Struct):
            shared = self.anonymous_union(base, node.name)
            if shared is not None:
                return self.sub_pointer(shared, node.name)
            field = base.x.fields.get(node.name)
            if field is not None and field.ct is not None and field.ct.dims:
                return field
            return self.sub_pointer(outer.with_(ct=base.ct), node.name)
        lane = CType(base.dtype, pointers=1)  # a lane of a vector shares the vector's memory
        return outer.with_(ct=lane, dtype=base.dtype)


def _is_union(node: Any) -> bool:
    return isinstance(node, ir.ClassDef) and any(name == "union" for name, _ in node.keywords)
