"""Fields of C++ structs: their types, their places in memory, and structs with another value in one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kbh_lint.base import dtypes, ir, values
from kbh_lint.cpp.members import Member
from kbh_lint.kernels.core.joins import join
from kbh_lint.kernels.core.value import NOTHING, CType, Struct, Unbound, V
from kbh_lint.kernels.languages.cuda.places import GIVEN, IN_MEMORY, LANES, Ref
from kbh_lint.kernels.languages.cuda.types import is_pointer, pointer_to

if TYPE_CHECKING:
    from kbh_lint.kernels.languages.cuda.run import CudaRun


class CudaFields:
    """Reads and writes fields of structs, and finds their addresses."""

    def __init__(self, run: CudaRun) -> None:
        self.run = run
        self.given: dict[str, Any] = {}  # fields of struct arguments, by path

    def member(self, ct: CType | None, name: str) -> Member | None:
        """The member `name` of a struct type or of one of its bases; None for other types and names."""
        return None if ct is None or ct.decl is None else self.run.types.cpp.classes.named(V(const=ct), name)

    def field_decl(self, ct: CType | None, name: str) -> ir.Decl | None:
        """The declaration of the field `name` of a struct type; None where there is none."""
        member = self.member(ct, name)
        return member.node if member is not None and isinstance(member.node, ir.Decl) else None

    def field_type(self, ct: CType | None, name: str) -> CType:
        """The type of the field `name` of a struct type; an unknown type where there is none."""
        member = self.member(ct, name)
        made = self.run.types.cpp.classes.declared(member) if member is not None else None
        kind: CType = CType() if made is None else made.const
        return kind

    def field_of(self, value: V, name: str, loc: ir.Loc) -> V:
        """The value of `value.name`. A bit field of four bits counts as a nibble taken out of the struct's data."""
        if isinstance(value.x, Ref):
            value = self.run.memory.load(value.x.pointer, "?", loc)
        made = self._field_of(value, name, loc)
        if isinstance(made.x, Ref):
            made = self.run.memory.read_through(made.x.pointer, loc)
        ct = value.ct
        if made.origins and ct is not None and ct.decl is not None:
            node = self.field_decl(ct, name)
            if node is not None and node.bits is not None and self.run.expressions.eval(node.bits).const == 4:
                return self.run.facts.add_unpack(made, loc)
        return made

    def _field_of(self, value: V, name: str, loc: ir.Loc) -> V:
        ct = value.ct
        if isinstance(value.x, Struct):
            return self._of_struct(value, value.x, name, loc)
        if isinstance(value.x, Unbound):
            return self.unbound_field(value.x.path + "." + name, self.field_type(ct, name))
        if ct is not None and (ct.decl is not None or value.x is IN_MEMORY) and value.cells:
            place = self.sub_pointer(value, name)
            return place if place.ct is not None and place.ct.dims else self.run.memory.read_through(place, loc)
        if name in ("__x", "storage") and value.dtype in dtypes.FLOATS:
            return self.run.numbers.bitcast(value, "u8" if dtypes.BITS[value.dtype] == 8 else "u16", loc)
        if ct is not None and ct.lanes > 1 or name in LANES or name.startswith("__"):
            return value.with_(ct=None, const=NOTHING)
        if name in ("x",) and ct is not None and ct.role:
            return value
        return value.with_(const=NOTHING)

    def _of_struct(self, value: V, held: Struct, name: str, loc: ir.Loc) -> V:
        shared = self.anonymous_union(value, name)
        if shared is not None:
            place = self.sub_pointer(shared, name)
            return place if place.ct is not None and place.ct.dims else self.run.memory.read_through(place, loc)
        found: V | None = held.fields.get(name)
        if found is None:
            found = held.fields[name] = self._first(value.ct, name, held.type.role, loc)
        if value.cells:  # on another way it was copied from there
            found = join(found, self._field_of(value.with_(x=IN_MEMORY), name, loc))
        return found

    def _first(self, ct: CType | None, name: str, role: str, loc: ir.Loc) -> V:
        """What a field holds that nothing was assigned to: its own value, if it is declared with one."""
        kind, member = self.field_type(ct, name), self.member(ct, name)
        node = None if member is None else member.node
        if member is None or not isinstance(node, ir.Decl) or node.init is None or kind.dims or kind.decl is not None:
            return self.run.objects.default_value(kind, (role, name))
        one = node.init.items[0] if isinstance(node.init, ir.Seq) and len(node.init.items) == 1 else node.init
        with self.run.types.inside(self.run.types.cpp.scope(member.owner.env, {})):
            value = self.run.expressions.eval(one)
        return value if is_pointer(kind) else self.run.objects.to_type(value, kind, loc)

    def anonymous_union(self, value: V, name: str) -> V | None:
        """The unnamed union inside a struct value that declares the field `name`, as a value in memory; None where
        there is none."""
        if value.ct is None or value.ct.decl is None or not isinstance(value.x, Struct):
            return None
        part = self._union_with(value.ct, name)
        if part is None:
            return None
        key, ct = part
        found = value.x.fields.get(key)
        if found is None:
            found = value.x.fields[key] = self.run.objects.default_value(ct, (value.x.type.role, key))
        return found

    def _union_with(self, ct: CType, name: str) -> tuple[str, CType] | None:
        """The key and the type of the unnamed union or struct inside a struct type that declares the field `name`; None
        where there is none."""
        cpp = self.run.types.cpp
        owner = cpp.classes.of(V(const=ct))
        for part in owner.parts if owner is not None else ():
            made = cpp.made(part, {}).const
            if self.field_decl(made, name) is not None:
                return f"$union {part.node.name}", made
        return None

    def sub_pointer(self, value: V, name: str) -> V:
        """The address of the field `name` of the struct that `value` points to."""
        ct = value.ct
        inner = replace(ct, pointers=0, dims=0) if ct is not None else None
        field = self.field_type(inner, name)
        node = self.field_decl(inner, name)
        in_union = inner is not None and inner.decl is not None and is_union(inner.decl.node)
        part = self._union_with(inner, name) if inner is not None and inner.decl is not None else None
        if part is not None:
            cells = value.cells if in_union else frozenset(cell.sub(part[0]) for cell in value.cells)
            return self.sub_pointer(value.with_(cells=cells, ct=part[1]), name)
        cells = value.cells if in_union else frozenset(cell.sub(name) for cell in value.cells)
        pointed = field if field.dims else pointer_to(field)
        dtype = field.dtype
        if node is None and dtype == "?":
            pointed = CType(pointers=1)
        return V(dtype, dtype, value.origins, value.casts, cells=cells, ct=pointed)

    def unbound_field(self, path: str, field: CType) -> V:
        """The value of a field of a kernel argument: what the launch passed, where that is known."""
        if path in self.given:
            return self.run.calls.bind_argument(path, self.given[path], field)
        if field.pointers or field.dims:
            cell = self.run.memory.param_cell(path, -1, field.dtype, field.dtype)
            return V(field.dtype, field.dtype, cells=frozenset((cell,)), ct=field)
        if field.dtype != "?":
            return V(field.dtype, field.dtype, ct=field if field.lanes > 1 else None)
        return V(x=Unbound(path), ct=field if field.decl is not None else None)

    def given_struct(self, value: V) -> V:
        """A kernel's argument of a struct's type with the fields that the launch passed, for places where it is one of
        several; what is no such argument as it is."""
        if not isinstance(value.x, Unbound) or value.ct is None or value.ct.decl is None:
            return value
        inside = f"{value.x.path}."
        names = dict.fromkeys(path[len(inside) :].partition(".")[0] for path in self.given if path.startswith(inside))
        held = {name: self.field_of(value, name, value.ct.decl.node.loc) for name in names}
        return V(x=Struct(held, value.ct), ct=value.ct) if held else value

    def given_structs(self, name: str, items: Sequence[object], one: CType, ct: CType) -> V:
        """The address of an array of structs inside a kernel argument, which holds the structs that the launch
        passed."""
        cell = self.run.memory.cell(("given", name), "local", name, ct.dtype)
        for i, item in enumerate(items):
            fields = item.fields if isinstance(item, values.StructArg) else ()
            held = {f: self.unbound_field(f"{name}[{i}].{f}", self.field_type(one, f)) for f, _ in fields}
            cell.entries.setdefault((GIVEN, GIVEN, i), V(x=Struct(held, one), ct=one))
        return V(ct.dtype, ct.dtype, cells=frozenset((cell,)), ct=ct)

    def with_field(self, base: V, path: tuple[str, ...], value: V, loc: ir.Loc) -> V:
        """The struct `base` after the assignment `base.path = value`."""
        name = path[0]
        if len(path) > 1:
            value = self.with_field(self.field_of(base, name, loc), path[1:], value, loc)
        ct = base.ct
        if isinstance(base.x, Struct):
            shared = self.anonymous_union(base, name)
            if shared is not None:
                self.run.memory.write_through(self.sub_pointer(shared, name), value, loc)
                return base
            held = base.x.fields.get(name)
            if held is not None and isinstance(held.x, Ref) and not isinstance(value.x, Ref):
                self.run.memory.write_through(held.x.pointer, value, loc)  # it refers to what lies elsewhere
                return base
            fields = dict(base.x.fields)
            field = self.field_type(ct, name)
            number = field.dtype != "?" and not is_pointer(field)
            if number and not value.cells and not isinstance(value.x, (Struct, Ref)):
                value = self.run.objects.to_type(value, field, loc)
            fields[name] = value
            return V(deps=base.deps, cells=base.cells, x=Struct(fields, base.x.type), ct=ct)
        if name in ("__x", "storage") and base.dtype in dtypes.FLOATS:
            made = self.run.numbers.bitcast(value, base.dtype, loc)
            return made.with_(ct=ct)
        if base.dtype in dtypes.BITS:
            if ct is None or ct.decl is None:
                value = self.run.objects.to_type(value, CType(base.dtype), loc)
            if not base.origins and not base.cells:
                return value.with_(ct=ct, const=NOTHING)
            return join(base, value.with_(ct=ct, const=NOTHING))
        if ct is not None and ct.decl is not None or base.x is None and not base.origins:
            return V(x=Struct({name: value}, ct or CType()), ct=ct)
        return join(base, value)


def is_union(node: object) -> bool:
    """Whether a node is the definition of a union."""
    return isinstance(node, ir.ClassDef) and any(name == "union" for name, _ in node.keywords)
