"""What a kernel's variables hold while it is evaluated for one lane: memory, pointers, structs and scopes."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import field
from operator import eq
from typing import Any

from kbh_lint.base import ir
from kbh_lint.base.records import dataclass
from kbh_lint.base.values import UNKNOWN, Env, Value
from kbh_lint.kernels.numeric.numbers import Num

MAX_CELLS = 512
MODES = (1, 61, 3001, 100_003)  # distances that keep the coordinates of small tiles apart, in languages with such
_APART = 32


@dataclass(slots=True, eq=False)
class CType:
    """A resolved C++ type. kind: float, int, bool, vec (of `lanes` times `inner`), struct, pointer, other.

    `dt` is the element type of float, int, bool and vec; `inner` what a pointer points to. Of an array `sizes` are
    those of its dimensions. A struct in memory that launches hand on has `parts` where it is made of numbers of one
    size, `unit` bytes: its fields, each with the cell in which it begins; `lanes` are the cells of the whole.
    """

    kind: str
    dt: str = "?"
    lanes: int = 1
    struct: Any = None  # values.CppType
    inner: CType | None = None
    args: dict[str, Any] = field(default_factory=dict)  # template arguments of a struct
    sizes: tuple[int, ...] = ()
    parts: tuple[tuple[str, int, CType], ...] = ()
    unit: int = 0


OTHER = CType("other")
F32 = CType("float", "f32")


@dataclass(slots=True, eq=False)
class Memory:
    """Cells by element offset. kind: param, shared, local. Reads of a cell nobody wrote give another lane's value.

    `brought` are the cells that copies filled, each with the phase (between barriers) in which this lane wrote to some
    of them first: until that phase ends the others still hold what was copied. `before` are the places in the code that
    read in a phase before anything was written: in that phase they see nothing of what this lane writes elsewhere.
    """

    name: str
    kind: str
    type: CType
    cells: dict[int, Any] = field(default_factory=dict)
    dims: tuple[int, ...] = ()
    default: Any = None
    last: Any = None
    regions: dict[int, Memory] = field(default_factory=dict)
    parent: Memory | None = None
    brought: dict[range, int | None] = field(default_factory=dict)
    before: set[tuple[int, int]] = field(default_factory=set)

    def bring(self, cells: range) -> None:
        """A copy replaces what is in `cells` by data that nobody computed here."""
        if len(self.brought) < MAX_CELLS or cells in self.brought:
            self.cells = {at: value for at, value in self.cells.items() if at not in cells}
            self.brought[cells] = None

    def untouched(self, offset: object, phase: int) -> bool:
        """Whether a cell that was not written holds what was copied there."""
        return any(offset in cells and since in (None, phase) for cells, since in self.brought.items())

    def touch(self, offset: object, phase: int) -> None:
        """Notes that this lane writes to a cell."""
        for cells, since in self.brought.items():
            if since is None and offset in cells:
                self.brought[cells] = phase

    def put(self, offset: object, value: object) -> None:
        """Stores a value at `offset`, or somewhere if that is unknown."""
        self.last = value
        if self.parent is not None:
            self.parent.last = value
        if isinstance(offset, int) and (len(self.cells) < MAX_CELLS or offset in self.cells):
            self.cells[offset] = value

    def region(self, site: int) -> Memory:
        """The part of this memory at an unknown offset that is computed at `site`: one region for each site,
        and this memory itself once there are `MAX_CELLS` of them."""
        found = self.regions.get(site)
        if found is None:
            if len(self.regions) >= MAX_CELLS:
                return self
            found = self.regions[site] = Memory(self.name, self.kind, self.type, {}, (), self.default, None, {}, self)
        return found

    def _alike(self, near: int, at: int) -> int:
        """The cell of a stretch of written ones that another lane's stretch has at `at`: of pairs, the same half."""
        first = last = near
        while first - 1 in self.cells:
            first -= 1
        while last + 1 in self.cells:
            last += 1
        return first + (at - first) % (last - first + 1)

    def written(self, offset: object = UNKNOWN) -> bool:
        """Whether anything was stored in this memory, or, in a tensor with several views, in the view that contains
        `offset`."""
        return self.last is not None or (self.parent is not None and self.parent.written())

    def nearest(self, offset: object) -> Value:
        """A value for a read at an offset that nothing was written to: the one at the most similar offset that was
        written, or for an unknown offset the last one written."""
        if isinstance(offset, int) and self.cells:
            at = offset
            return self.cells[self._alike(min(self.cells, key=lambda c: (abs(c - at), c)), at)]
        if self.last is None and self.parent is not None:
            return self.parent.nearest(UNKNOWN)
        return self.last


@dataclass(slots=True, eq=False)
class Chained(Memory):
    """A tensor that several launches use: what one stores is what the next finds there.

    Cells count elements from the start of the storage, and `starts` are where views of it begin, in bytes. `doubtful`
    says that something was read which may have come from another store than the one that was taken.
    """

    starts: tuple[int, ...] = (0,)
    unit: Any = None  # what a cell is: a struct by its definition, else its bytes
    puts: int = 0
    unplaced: bool = False
    doubtful: bool = False
    hits: dict[int, set[int]] = field(default_factory=dict)  # the cells that a place in the code read, as they were put
    once: set[int] | None = None  # cells of this launch, where one cell stands for all of a view
    modes: tuple[int, ...] = ()  # distances of coordinates, where cells are counted by them from the start of a view

    @staticmethod
    def of(ident: int, starts: tuple[int, ...]) -> Chained:
        """The memory of the storage `ident`, whose views begin at the bytes `starts`."""
        return Chained(f"storage {ident}", "param", OTHER, starts=starts)

    def put(self, offset: object, value: object) -> None:
        """Stores a value at `offset`, and notes where one value may have been overwritten."""
        self.puts += 1
        self.unplaced = self.unplaced or not isinstance(offset, int) or len(self.cells) >= MAX_CELLS
        if self.once is not None and isinstance(offset, int):
            self.doubtful = self.doubtful or offset in self.once
            self.once.add(offset)
        Memory.put(self, offset, value)

    def fill(self) -> None:
        """Sets all cells to a constant, as the host does between launches."""
        for cell in self.cells:
            self.cells[cell] = Num(0, 0.0, "f32")
        self.last = None if self.last is None else Num(0, 0.0, "f32")

    def at(self, start: int) -> int:
        """The cell at which a view begins, given its element. With coordinates, views have separate ranges of cells."""
        return start << _APART if self.modes else start

    def byte(self, cell: int) -> int:
        """The byte of the storage at which a cell begins; with coordinates, the byte at which its view begins."""
        return (cell >> _APART if self.modes else cell) * (self.unit if isinstance(self.unit, int) else 1)

    def _beside(self, offset: int) -> list[int]:
        """The cells of the view that an offset is in."""
        here = self.byte(offset)
        at = bisect_right(self.starts, here) - 1
        first = self.starts[at] if at >= 0 else 0
        last = self.starts[at + 1] if at + 1 < len(self.starts) else None
        return [c for c in self.cells if first <= self.byte(c) and (last is None or self.byte(c) < last)]

    def _coordinates(self, cell: int) -> list[int]:
        found, rest = [], cell & (1 << _APART) - 1
        for step in reversed(self.modes):
            found.append(rest // step)
            rest %= step
        return found

    def written(self, offset: object = UNKNOWN) -> bool:
        if not isinstance(offset, int) or self.unplaced:
            return self.puts > 0
        return bool(self._beside(offset))

    def read(self, offset: int, site: int) -> Any:
        """The value stored in a cell; notes that `site` read it."""
        self.hits.setdefault(site, set()).add(offset)
        return self.cells[offset]

    def found(self, offset: object, site: int) -> Any:
        """The value at `offset` that another lane or block stored.

        A place in the code that reads in several iterations reads what it read in the first; otherwise it is the last
        value of the view that was written before `offset`.
        """
        if not isinstance(offset, int) or self.unplaced:
            self.doubtful = self.doubtful or self.puts > 1
            return self.last
        inside = self._beside(offset)
        if not inside:
            self.doubtful = True
            return self.last
        hit = self.hits.get(site, set())
        if len(hit) == 1 and hit <= set(inside):
            return self.cells[next(iter(hit))]
        if self.modes:
            wanted = self._coordinates(offset)
            return self.cells[max(inside, key=lambda c: sum(map(eq, self._coordinates(c), wanted)))]
        before = [cell for cell in inside if cell <= offset]
        return self.cells[self._alike(max(before) if before else min(inside), offset)]


@dataclass(slots=True, eq=False)
class Ptr:
    """A pointer to elements of a memory. `rest` holds the dimensions of an array that are not indexed yet."""

    mem: Memory
    off: Any
    type: CType
    rest: tuple[int, ...] = ()


@dataclass(slots=True, eq=False)
class Obj:
    """A struct or vector value by fields; `methods` of a struct are found through `type`."""

    fields: dict[str, Any]
    type: CType = OTHER

    def copy(self, made: dict[int, Memory] | None = None) -> Obj:
        """A copy with copies of the arrays inside; pointers still point to the same memory. `made` maps memories to the
        copies made so far."""
        made = {} if made is None else made
        return Obj({k: copied(v, made) for k, v in self.fields.items()}, self.type)


@dataclass(slots=True, eq=False)
class Bits:
    """The bit pattern of a float as an integer, as `__float_as_uint` gives it, or of several packed into one integer.

    `value` is the float whose pattern begins at bit 0 (None: no float does), `above` has the others by the bit at which
    they begin.
    """

    value: Any
    above: dict[int, Any] = field(default_factory=dict)

    def parts(self) -> dict[int, Any]:
        """The floats in the pattern by the bit at which each begins."""
        return self.above if self.value is None else {0: self.value, **self.above}

    @staticmethod
    def of(parts: dict[int, Any]) -> Bits | None:
        """The bit pattern with the floats `parts`, by the bit at which each begins; None if there are none."""
        above = {at: value for at, value in parts.items() if at > 0}
        return Bits(parts.get(0), above) if above or 0 in parts else None


@dataclass(slots=True, eq=False)
class VarRef:
    """A place: a variable of a scope or a field of a struct; `type` is that of a field that holds nothing yet."""

    table: dict[str, Any]
    name: str
    type: CType | None = None


Place = Ptr | VarRef


@dataclass(slots=True, eq=False)
class Reference:
    """A C++ reference variable, or (`address`) the address of a variable."""

    place: Place
    address: bool = False


@dataclass(slots=True, eq=False)
class Range:
    """`range(start, stop, step)`; each may be unknown."""

    start: Any
    stop: Any
    step: Any


def copied(value: object, made: dict[int, Memory]) -> Any:
    """A copy of a value that shares no variables with it; `made` maps memories to the copies made so far."""
    if isinstance(value, Obj):
        return value.copy(made)
    if isinstance(value, Reference) and isinstance(value.place, Ptr) and not value.address:
        return Reference(_own(value.place, made))
    return _own(value, made) if isinstance(value, Ptr) and value.rest else value


def _own(ptr: Ptr, copied: dict[int, Memory]) -> Ptr:
    mem = ptr.mem
    if mem.kind != "local":
        return ptr
    own = copied.get(id(mem))
    if own is None:
        own = copied[id(mem)] = Memory(mem.name, mem.kind, mem.type, dict(mem.cells), mem.dims, mem.default, mem.last)
    return Ptr(own, ptr.off, ptr.type, ptr.rest)


@dataclass(slots=True, eq=False)
class Closure:
    """A lambda with the scopes it can see, and what it holds itself."""

    node: ir.FuncDef
    frame: Frame
    held: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Method:
    """A named method of a value: of a tensor, a pointer, a struct, a library object."""

    value: Any
    name: str
    place: Place | None = None


@dataclass(slots=True, eq=False)
class Frame:
    """One activation of a function. `ctx` numbers the chain of calls that led here."""

    scopes: list[dict[str, Any]]
    env: Env
    cpp: bool
    ctx: int
    this: Obj | None = None
    result: Any = None
    by_place: bool = False  # whether the function gives a reference

    def find(self, name: str) -> dict[str, Any] | None:
        """The innermost scope that binds `name`; None if there is none."""
        scope: dict[str, Any]
        for scope in reversed(self.scopes):
            if name in scope:
                return scope
        return None
