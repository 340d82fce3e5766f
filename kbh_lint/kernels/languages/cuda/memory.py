"""Memory of CUDA C++: variables and arrays that have an address, read and written through pointers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kbh_lint.base import dtypes, ir
from kbh_lint.kernels.core.frames import Frame
from kbh_lint.kernels.core.joins import join, mix
from kbh_lint.kernels.core.memory import LED, Memory
from kbh_lint.kernels.core.origins import flagged, union, union_casts
from kbh_lint.kernels.core.totals import NOWHERE
from kbh_lint.kernels.core.value import (
    NOTHING,
    UNKNOWN_V,
    Cell,
    Cells,
    CType,
    Place,
    Struct,
    Unbound,
    V,
    in_order,
)
from kbh_lint.kernels.languages.cuda.callers import still
from kbh_lint.kernels.languages.cuda.places import GIVEN, IN_MEMORY, TENSOR_MAP, Ref, VarCell
from kbh_lint.kernels.languages.cuda.types import element, is_pointer, pointer_to

if TYPE_CHECKING:
    from kbh_lint.kernels.languages.cuda.run import CudaRun


MAX_NESTED = 4  # structs in structs that are read or copied field by field


class CudaMemory(Memory):
    """Reads and writes C++ objects by their address."""

    run: CudaRun

    def __init__(self, run: CudaRun) -> None:
        super().__init__(run)
        self.cells: dict[Any, Cell] = {}
        self.var_cells: dict[tuple[int, str], VarCell] = {}
        self.frames: list[Frame] = []  # keeps frames alive whose ids are keys above

    def cell(self, key: object, kind: str, name: str, dtype: str = "?") -> Cell:
        """The memory of the variable or array that `key` stands for, one declaration in one chain of calls."""
        found = self.cells.get(key)
        if found is None:
            found = self.cells[key] = Cell(kind, name, -1, dtype)
        return found

    def variable_cell(self, frame: Frame, name: str) -> VarCell:
        """The memory of a local variable."""
        key = (id(frame), name)
        found = self.var_cells.get(key)
        if found is None:
            self.frames.append(frame)
            found = self.var_cells[key] = VarCell(frame, name)
        return found

    def variables_of(self, value: V, found: dict[tuple[int, str], tuple[Frame, str]]) -> None:
        cells = value.x.pointer.cells if isinstance(value.x, Ref) else value.cells
        for cell in cells:
            if isinstance(cell, VarCell) and (id(cell.frame), cell.variable) not in found:
                found[(id(cell.frame), cell.variable)] = (cell.frame, cell.variable)
                inner = cell.frame.env.get(cell.variable)
                if inner is not None and (inner.cells or isinstance(inner.x, Ref)):
                    self.variables_of(inner, found)

    def read_cell(self, cell: Cell, dtype: str, loc: ir.Loc, at: int | None = None) -> V | None:
        if not isinstance(cell, VarCell):
            return super().read_cell(cell, dtype, loc, at)
        value = cell.frame.env.get(cell.variable)
        for name in cell.path:
            if value is None:
                return None
            value = self.run.fields.field_of(value, name, loc)
        if value is None:
            return None
        if isinstance(value.x, Struct) and dtype in dtypes.BITS:
            return self.bytes_of(value, dtype, loc)
        if value.dtype != dtype and dtype not in ("?", "") and not value.cells and value.x is not IN_MEMORY:
            return self.run.numbers.bitcast(value, dtype, loc)
        return value

    def pointed(self, value: V) -> Iterator[tuple[str, Cells]]:
        if isinstance(value.x, Struct):
            for name, item in value.x.fields.items():
                for inner, cells in self.pointed(item):
                    yield f"{name}.{inner}".strip("."), cells
        elif value.cells and value.x is not IN_MEMORY and (value.ct is None or is_pointer(value.ct)):
            yield "", value.cells

    def bytes_of(self, value: V, dtype: str, loc: ir.Loc, depth: int = 0) -> V | None:
        """The value of a struct that is read through a pointer to numbers of type `dtype`: it may be any field. None
        where no field fits."""
        parts: list[V] = []
        for item in value.x.fields.values() if isinstance(value.x, Struct) else ():
            if isinstance(item.x, Struct):
                found = self.bytes_of(item, dtype, loc, depth + 1) if depth < MAX_NESTED else None
                parts += [found] if found is not None else []
            elif item.cells and is_pointer(item.ct):
                read = [self.read_cell(cell, dtype, loc) for cell in in_order(item.cells)]
                parts += [r for r in read if r is not None]
            else:
                parts.append(item if item.dtype == dtype else self.run.numbers.bitcast(item, dtype, loc))
        return mix(parts) if parts else None

    def write_cell(self, cell: Cell, value: V, loc: ir.Loc, dtype: str = "?", at: int | None = None) -> None:
        if not isinstance(cell, VarCell):
            super().write_cell(cell, value, loc, dtype, at)
            return
        old = cell.frame.env.get(cell.variable)
        if old is not None and isinstance(old.x, Ref):
            self.store(old.x.pointer, value, loc, raw=True)
            return
        if cell.path:
            base = old if old is not None else UNKNOWN_V
            cell.frame.env[cell.variable] = self.run.fields.with_field(base, cell.path, value, loc)
            return
        if old is not None and isinstance(old.x, Struct) and value.x is None and value.dtype in dtypes.BITS:
            cell.frame.env[cell.variable] = self.bytes_into(old, value, loc)
            return
        made = self.updated(old, value, loc)
        self.noted(cell, ("", "", None), value.totals, read=cell.frame is not self.run.frame)
        cell.frame.env[cell.variable] = made if made.totals == value.totals else made.with_(totals=value.totals)

    def bytes_into(self, old: V, value: V, loc: ir.Loc, depth: int = 0) -> V:
        """The struct `old` after a number was written over it through a pointer to numbers: any field may have
        changed."""
        declared = self.run.types.cpp.classes.fields(V(const=old.ct)) if old.ct is not None else ()
        if not declared or depth > MAX_NESTED:
            return self.updated(old, value, loc)
        for member in declared:
            part = member.node
            item = self.run.fields.field_of(old, part.name, loc) if isinstance(part, ir.Decl) else UNKNOWN_V
            if item.cells and item.ct is not None and item.ct.dims:
                inner = pointer_to(value.ct or CType(value.dtype))
                self.store(item.with_(ct=inner, dtype=value.dtype), value, loc, raw=True)
            elif isinstance(item.x, Struct):
                old = self.run.fields.with_field(old, (part.name,), self.bytes_into(item, value, loc, depth + 1), loc)
            elif isinstance(part, ir.Decl) and not is_pointer(item.ct):
                old = self.run.fields.with_field(old, (part.name,), self.updated(item, value, loc), loc)
        return old

    def still(self) -> frozenset[int]:
        return still(self.run.frame, self.target) if self.target is not None else NOWHERE

    def stride(self, pointer: V) -> int:
        ct = pointer.ct
        if ct is None or not is_pointer(ct):
            return 1
        inner = element(ct)
        size = self.run.types.size_of(inner).const
        return size if isinstance(size, int) else 1

    def updated(self, old: V | None, value: V, loc: ir.Loc) -> V:
        """The join of the variable's old value and `value`, in the variable's own type."""
        if old is None:
            return value
        if old.dtype != value.dtype and old.dtype not in ("?", "") and not value.cells:
            value = self.run.numbers.bitcast(value, old.dtype, loc)
        if not old.origins and not old.cells and old.x is None:
            return value.with_(ct=old.ct or value.ct, const=NOTHING)
        return join(old, value)

    def read_through(self, pointer: V, loc: ir.Loc, *, index: V | None = None) -> V:
        """The value of `*pointer` or `pointer[index]`."""
        ct = pointer.ct
        if index is not None and index.origins:
            pointer = pointer.with_(
                origins=union(pointer.origins, index.origins), casts=union_casts(pointer.casts, index.casts)
            )
        at = None if index is None else index.const
        if isinstance(pointer.x, Place) and index is not None:
            pointer = pointer.with_(x=self.run.numbers.moved("+", pointer, index))
        if isinstance(pointer.x, tuple) and isinstance(at, int) and 0 <= at < len(pointer.x):  # of a constant array
            item: V = pointer.x[at]
            return item
        if ct is None and not pointer.cells and not isinstance(pointer.x, Unbound):
            return pointer.with_(const=NOTHING, x=None)  # a lane or bit of a value: v[i]
        inner = element(ct)
        if isinstance(pointer.x, tuple):
            return mix(list(pointer.x))
        if inner.dims:
            return pointer.with_(ct=inner)
        if inner.decl is not None and not inner.pointers:
            stored = self._stored_structs(pointer, loc, at)
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

    def _stored_structs(self, pointer: V, loc: ir.Loc, index: object) -> V | None:
        """Whole structs written to these cells, joined, or the one at `index` of an argument; None without any."""
        found: V | None = None
        for cell in in_order(pointer.cells):
            if isinstance(cell, VarCell):
                value = self.read_cell(cell, "?", loc)
                if value is not None and (isinstance(value.x, (Struct, Unbound)) or value.x is IN_MEMORY):
                    found = value if found is None else join(found, value)
            else:
                at = (GIVEN, GIVEN, index) if type(index) is int else None
                for entry in [cell.entries[at]] if at in cell.entries else cell.entries.values():
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
            if cell.kind == "param" and cell.leads:
                made = self._found(cell, "i64", loc)
                if made is not None:
                    made = made.with_(dtype=inner.dtype, content=inner.dtype, origins=flagged(made.origins, "index"))
                    found = made if found is None else join(found, made)
            elif cell.kind == "param" and not cell.entries:
                target = self.param_cell(cell.name + LED, -1, inner.dtype, inner.dtype)
                made = V(inner.dtype, inner.dtype, cells=frozenset((target,)), ct=inner)
                found = made if found is None else join(found, made)
        if found is None:
            return V(inner.dtype, inner.dtype, ct=inner)
        return found.with_(ct=inner, origins=union(found.origins, flagged(pointer.origins, "index")))

    def write_through(self, pointer: V, value: V, loc: ir.Loc, *, index: V | None = None) -> None:
        """Executes `*pointer = value` or `pointer[index] = value`."""
        inner = element(pointer.ct)
        if inner.pointers == 0 and not inner.dims and inner.dtype != "?" and not isinstance(value.x, Struct):
            value = self.run.objects.to_type(value, inner, loc)
        if pointer.dtype != inner.dtype and inner.dtype != "?":
            pointer = pointer.with_(dtype=inner.dtype)
        if inner.decl is not None and not inner.pointers:
            value = self.run.fields.given_struct(value)
        if inner.decl is not None and not inner.pointers and isinstance(value.x, Struct):
            for name, item in value.x.fields.items():
                if item.cells and item.ct is not None and item.ct.dims:  # what lies in an array goes along
                    while element(item.ct).dims:
                        item = item.with_(ct=element(item.ct))
                    item = self.read_through(item, loc)
                if not is_pointer(item.ct) or not item.cells:
                    self.write_through(self.run.fields.sub_pointer(pointer.with_(ct=inner), name), item, loc)
        if inner.decl is not None and not inner.pointers and value.x is IN_MEMORY and value.ct is not None:
            self._copy_fields(pointer.with_(ct=inner), value, inner, loc, 0)
        self.store(pointer, value, loc, raw=True)

    def _copy_fields(self, to: V, value: V, ct: CType, loc: ir.Loc, depth: int) -> None:
        """`*to = value` for a struct in memory: what its fields hold goes over, field by field."""
        fields = self.run.types.cpp.classes.fields(V(const=ct)) if ct.decl is not None and depth <= MAX_NESTED else ()
        for member in fields:
            part = member.node
            if not isinstance(part, ir.Decl):
                continue
            target, source = self.run.fields.sub_pointer(to, part.name), self.run.fields.sub_pointer(value, part.name)
            inner = element(source.ct)
            if inner.decl is not None and not inner.pointers and not inner.dims:
                self._copy_fields(target.with_(ct=inner), source.with_(ct=inner), inner, loc, depth + 1)
            elif not inner.pointers and not inner.dims:
                self.write_through(target, self.read_through(source, loc), loc)

    def address_of(self, node: ir.Expr) -> V:
        """The value of `&expression`, also for binding a reference to the expression."""
        if isinstance(node, ir.Name):
            return self._variable_address(node)
        if isinstance(node, ir.Index):
            return self._element_address(node)
        if isinstance(node, ir.Unary) and node.op == "*":
            pointer = self.run.expressions.eval(node.value)
            if pointer.ct is None or is_pointer(pointer.ct) or not self.run.names.methods(pointer.ct, "operator*"):
                return pointer
            return self._given_by("operator*", pointer, [], node)
        if isinstance(node, ir.Attr):
            return self._field_address(node)
        if isinstance(node, ir.Cast):
            place = self.address_of(node.value)
            ct = self.run.types.resolve_type(node.type)
            return place.with_(ct=pointer_to(ct), dtype=ct.dtype if ct.dtype != "?" else place.dtype)
        self.run.calls.place = None
        value = self.run.expressions.eval(node)
        if isinstance(node, ir.Call) and self.run.calls.place is not None:
            return self.run.calls.taken(self.run.calls.place, node.loc)
        if value.cells and (is_pointer(value.ct) or value.x is IN_MEMORY):
            return value
        return self.temporary(value, id(node))

    def _variable_address(self, node: ir.Name) -> V:
        value = self.run.frame.env.get(node.id)
        if value is None:
            place = self.run.names.place_outside(node.id)
            return place if place is not None else self.run.expressions.eval(node)
        if isinstance(value.x, Ref):
            return value.x.pointer
        if value.ct is TENSOR_MAP:  # a descriptor and its address lead to the same tensor
            return value
        if is_pointer(value.ct) and value.ct is not None and value.ct.dims:
            return value
        ct = value.ct or CType(value.dtype)
        cell = self.variable_cell(self.run.frame, node.id)
        dtype = value.dtype if not isinstance(value.x, Struct) else "?"
        return V(dtype, dtype, cells=frozenset((cell,)), ct=pointer_to(ct))

    def _element_address(self, node: ir.Index) -> V:
        base, index = self.run.expressions.eval(node.value), self.run.expressions.eval(node.index)
        if base.ct is None and not base.cells:
            return self.address_of(node.value)
        if base.ct is not None and base.ct.decl is not None and not is_pointer(base.ct):
            return self._given_by("operator[]", base, [index], node)
        inner = element(base.ct)
        pointed = inner if inner.dims else pointer_to(inner)
        return base.with_(ct=pointed, origins=union(base.origins, index.origins), const=NOTHING)

    def _given_by(self, operator: str, base: V, args: list[V], node: ir.Index | ir.Unary) -> V:
        """The address of what an operator of an object gives."""
        self.run.calls.place = None
        made = self.run.calls.call_method(base, operator, args, (), node.value, node.loc)
        place = self.run.calls.place
        return self.temporary(made, id(node)) if place is None else self.run.calls.taken(place, node.loc)

    def temporary(self, value: V, key: int) -> V:
        """The address of a value without a name, stored in a new variable."""
        name = f"$temporary{key}"
        self.run.frame.env[name] = value
        cell = self.variable_cell(self.run.frame, name)
        ct = value.ct or CType(value.dtype)
        return V(value.dtype, value.dtype, cells=frozenset((cell,)), ct=pointer_to(ct))

    def _field_address(self, node: ir.Attr) -> V:
        facts, loaded = self.run.facts, len(self.run.facts.made)
        base = self.run.expressions.eval(node.value)
        if base.ct is not None and base.ct.pointers == 1 and not base.ct.dims:  # p->field
            pointed = element(base.ct)
            value = base.with_(ct=pointed)
            return self.run.fields.sub_pointer(value, node.name)
        if base.x is IN_MEMORY:
            return self.run.fields.sub_pointer(base, node.name)
        if isinstance(base.x, Unbound):
            found = self.run.fields.field_of(base, node.name, node.loc)
            return found
        facts.not_loaded(facts.loaded_at(node.value.loc, loaded))
        outer = self.address_of(node.value)
        if isinstance(base.x, Struct):
            shared = self.run.fields.anonymous_union(base, node.name)
            if shared is not None:
                return self.run.fields.sub_pointer(shared, node.name)
            field = base.x.fields.get(node.name)
            if field is not None and field.ct is not None and field.ct.dims:
                return field
            return self.run.fields.sub_pointer(outer.with_(ct=base.ct), node.name)
        lane = CType(base.dtype, pointers=1)  # a lane of a vector shares the vector's memory
        return outer.with_(ct=lane, dtype=base.dtype)
