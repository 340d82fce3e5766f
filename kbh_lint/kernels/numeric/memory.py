"""Loads and stores of an evaluated kernel: memory as one lane sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbh_lint.base.values import UNKNOWN, Value
from kbh_lint.kernels.numeric import ctypes, layouts, ops
from kbh_lint.kernels.numeric.numbers import Num
from kbh_lint.kernels.numeric.state import MAX_CELLS, Chained, CType, Memory, Obj, Ptr

if TYPE_CHECKING:
    from kbh_lint.kernels.numeric.machine import Machine

_NOTHING = object()  # what is held by memory that nobody wrote


class Access:
    """Loads and stores of one lane."""

    def __init__(self, m: Machine) -> None:
        self.m = m

    def read(self, ptr: Ptr, site: int) -> Any:
        """The value that a pointer points to."""
        mem, off, kind = ptr.mem, ptr.off, ptr.type
        if kind.kind == "vec":
            inner = ctypes.scalar(kind.dt)
            parts = {
                ctypes.LANES[i]: self.read(Ptr(mem, off + i if isinstance(off, int) else off, inner), site + i)
                for i in range(min(kind.lanes, 4))
            }
            return Obj(parts, kind)
        if kind.parts and isinstance(off, int) and not (isinstance(mem, Chained) and mem.unplaced):
            fields = {name: self.read(layouts.part(ptr, at, inner), site + at % 8) for name, at, inner in kind.parts}
            return Obj(fields, kind)
        value = self._held_by_chain(mem, off, site) if isinstance(mem, Chained) else self._held(mem, off, site)
        if value is _NOTHING:
            return self.fresh(kind, site)
        if isinstance(mem, Chained):
            mem.doubtful = mem.doubtful or isinstance(value, Obj) != (kind.kind == "struct")
        if kind.kind == "float" and not isinstance(value, Num):
            return self.m.ctypes.convert(value, kind, site)
        return value

    def _held_by_chain(self, mem: Chained, off: object, site: int) -> object:
        """What memory holds that launches hand on; `_NOTHING` where none of them put anything there."""
        if not mem.unplaced and isinstance(off, int) and off in mem.cells:
            return mem.read(off, site)
        return ops.perturbed(mem.found(off, site), self.m.numbers, site) if mem.puts else _NOTHING

    def _held(self, mem: Memory, off: object, site: int) -> object:
        """What memory holds: what was put there, or something like what was put elsewhere; else `_NOTHING`."""
        if isinstance(off, int) and off in mem.cells:
            return mem.cells[off]
        registers = self.m.dialect.elements and mem.kind == "local" and isinstance(off, int)
        if registers and mem.default is not None:
            return mem.default
        if mem.kind == "shared" and mem.default is None and not mem.written():
            mem.before.add((site, self.m.phase))
        if (site, self.m.phase) in mem.before or mem.brought and mem.untouched(off, self.m.phase):
            return _NOTHING
        if mem.written():
            value = ops.perturbed(mem.nearest(off), self.m.numbers, site)
            if registers and isinstance(off, int) and len(mem.cells) < MAX_CELLS:
                mem.cells[off] = value  # they hold the same when they are read again
            return value
        if mem.default is not None and isinstance(off, int):
            return mem.default.copy() if isinstance(mem.default, Obj) else mem.default
        return _NOTHING

    def fresh(self, kind: CType, site: int) -> Value:
        """A new value for memory that this kernel has not written."""
        numbers = self.m.numbers
        if kind.kind == "float":
            return numbers.data(site, kind.dt, numbers.bit(site))
        if kind.kind == "other":
            return numbers.data(site, "f32", numbers.bit(site))
        if kind.kind == "vec":
            inner = ctypes.scalar(kind.dt)
            return Obj({ctypes.LANES[i]: self.fresh(inner, site + i) for i in range(min(kind.lanes, 4))}, kind)
        if kind.kind == "struct":
            made = self.m.ctypes.zero(kind)
            if isinstance(made, Obj):
                for i, (name, value) in enumerate(list(made.fields.items())):
                    if isinstance(value, Num):
                        made.fields[name] = numbers.data(site + i % 8, value.dt, numbers.bit(site + i % 8))
            return made
        return UNKNOWN

    def shared(self, name: str, kind: CType, site: int) -> Memory:
        """New memory for a variable in shared memory; the arrays of a struct are shared with it."""
        made = Memory(name, "shared", kind)
        if kind.kind == "struct":
            held = self.fresh(kind, site)
            if isinstance(held, Obj):
                _share_arrays(held)
                made.cells[0] = held
        return made

    def write(self, ptr: Ptr, value: object) -> None:
        """Stores a value where a pointer points to; vectors fill one cell for each component."""
        off, kind = ptr.off, ptr.type
        if ptr.mem.brought:
            ptr.mem.touch(off, self.m.phase)
        if isinstance(value, Obj) and value.type.kind == "vec":
            for i, part in enumerate(value.fields.values()):
                ptr.mem.put(off + i if isinstance(off, int) else off, part)
            ptr.mem.last = value
            return
        if kind.parts and isinstance(off, int) and isinstance(value, Obj):
            puts = ptr.mem.puts if isinstance(ptr.mem, Chained) else 0
            for name, at, inner in kind.parts:
                self.write(layouts.part(ptr, at, inner), value.fields.get(name, UNKNOWN))
            ptr.mem.last = value
            if isinstance(ptr.mem, Chained):
                ptr.mem.puts = puts + 1
            return
        ptr.mem.put(off, self.m.ctypes.convert(value, kind) if kind.kind in ("float", "int", "bool") else value)

    def target(self, ptr: Ptr, site: int) -> Value:
        """The struct behind a pointer, so that writing to its fields writes to memory."""
        if ptr.type.parts and isinstance(ptr.off, int) and not (isinstance(ptr.mem, Chained) and ptr.mem.unplaced):
            return layouts.in_place(ptr)
        if isinstance(ptr.off, int) and isinstance(ptr.mem.cells.get(ptr.off), Obj):
            return ptr.mem.cells[ptr.off]
        value = self.read(ptr, site)
        if isinstance(value, Obj) and ptr.type.kind == "struct" and ptr.mem.kind != "param":
            ptr.mem.put(ptr.off, value)
        return value


def _share_arrays(held: Obj) -> None:
    for part in held.fields.values():
        if isinstance(part, Obj):
            _share_arrays(part)
        elif isinstance(part, Ptr) and part.mem.kind == "local":
            part.mem.kind, part.mem.default = "shared", None


def lane(ptr: Ptr, name: str) -> Ptr | None:
    """The place in memory of the field `name` of a CUDA vector, or of a struct with a known layout; None for others."""
    for field, at, inner in ptr.type.parts:
        if field == name:
            return layouts.part(ptr, at, inner)
    if ptr.type.kind != "vec" or name not in ctypes.LANES:
        return None
    off = ptr.off + ctypes.LANES.index(name) if isinstance(ptr.off, int) else ptr.off
    return Ptr(ptr.mem, off, ctypes.scalar(ptr.type.dt))
