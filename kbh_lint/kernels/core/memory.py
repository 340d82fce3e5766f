"""Memory of a kernel: what is read through an address, and what is written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kbh_lint.base import dtypes, ir, values
from kbh_lint.base.ir import Loc
from kbh_lint.kernels.core import facts as F
from kbh_lint.kernels.core.frames import Frame
from kbh_lint.kernels.core.joins import join, wider
from kbh_lint.kernels.core.origins import NO_ORIGINS, flagged, union, union_casts
from kbh_lint.kernels.core.totals import NO_TOTALS, NOWHERE, Place, Totals, together
from kbh_lint.kernels.core.value import (
    LITERAL,
    NOTHING,
    UNKNOWN_V,
    Cell,
    Cells,
    Struct,
    Unbound,
    V,
    in_order,
    leaves,
    offset_of,
)

if TYPE_CHECKING:
    from kbh_lint.kernels.core.run import Run


_VAGUE = ("?", LITERAL)
_Entry = tuple[str, str, "int | None"]
LED = "[]"  # the end of the name of memory that an address in an argument's memory leads to
ADDRESSES = ("i64", "u64")  # what addresses are loaded as


_Marks = dict[tuple[Cell, _Entry], Totals]


def _read_of(cells: list[Cell]) -> list[Cell]:
    """Where an address that may be any of a table's is read: not where nothing was written."""
    return [cell for cell in cells if cell.role != "empty" or cell.entries] or cells


def _written_of(cells: list[Cell]) -> list[Cell]:
    """Where an address that may be any of a table's is written: where nothing was, else at least not what is given."""
    empty = [cell for cell in cells if cell.role == "empty"]
    return empty or [cell for cell in cells if cell.role != "given"] or cells


def _is_flag(entries: list[tuple[str, str, V]], exact: list[V], dtype: str) -> bool:
    """Whether `exact` is an integer of no loaded data in memory that else holds floats.

    Nobody reads those as integers. A fill with an integer looks the same here, and hides them.
    """
    if dtype not in dtypes.INTS or not exact or any(v.known for v in exact):
        return False
    return all(d in dtypes.FLOATS for d, c, _ in entries if dtype not in (d, c))


class Memory:
    """The memory cells of a run, with reading and writing through values that point to them."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.param_cells: dict[str, Cell] = {}
        self.memory_version = 0
        self.alone = True  # nothing that another program of the launch wrote can have been waited for
        self.repeats = 0  # loops around what is executed
        self.first: frozenset[Loc] = frozenset()  # what the first round of the outermost of them surely computes
        self.late_write = False  # memory was read before anything wrote it: a loop around both must go round again
        self.dirty = False  # shared memory was read before anything wrote it: the kernel must be run again
        self.written: set[tuple[str, str]] = set()  # the memory written so far, by kind and name
        self.target: ir.Expr | None = None  # what names the place that is written to, where that is known
        self.marked: list[tuple[Cell, _Entry, Totals]] = []  # where totals were put or begun anew, and what was there
        self.known: set[tuple[Cell, _Entry, Place, str, bool]] = set()  # the totals that each was seen to hold
        self.new_total = False  # one was first written to what was read before: a loop must go round again

    def param_cell(self, path: str, storage: int = -1, dtype: str = "?", content: str = "?") -> Cell:
        """The memory behind the kernel argument called `path`, the same object on each call."""
        cell = self.param_cells.get(path)
        if cell is None:
            cell = self.param_cells[path] = Cell("param", path, storage, dtype, content)
        return cell

    def argument_cell(self, path: str, given: values.Buffer | values.Descriptor) -> Cell:
        """The memory behind the kernel argument `path` as the launch gives it, with the memory that addresses stored in
        it lead to."""
        cell = self.param_cell(path, given.storage, given.dtype, given.content)
        leads = given.leads if isinstance(given, values.Buffer) else ()
        if leads and not cell.leads:
            found: dict[str, set[Cell]] = {}
            for at, (name, one) in enumerate(leads):
                inner = f"{path}.{name}" if name else path
                target = self.argument_cell(f"{inner}{LED}{at}" if len(leads) > 1 else f"{inner}{LED}", one)
                target.role = one.role
                found.setdefault(name, set()).add(target)
            cell.leads = {name: frozenset(cells) for name, cells in found.items()}
        return cell

    def pointed(self, value: V) -> Iterator[tuple[str, Cells]]:
        """Yields the memory that `value` points to and, for a struct, that its fields point to, each with the name of
        the field."""
        if value.cells:
            yield "", value.cells

    def load(self, pointer: V, dtype: str, loc: Loc) -> V:
        """The value read through `pointer` as elements of `dtype` ("?": the pointer's own type)."""
        if dtype in _VAGUE:
            dtype = pointer.dtype
        cells = in_order(pointer.cells)
        if not cells:
            if isinstance(pointer.x, Unbound):
                cells = [self.param_cell(pointer.x.path)]
            else:
                return V(dtype, origins=flagged(pointer.origins, "index"), shape=pointer.shape)
        result: V | None = None
        for cell in _read_of(cells) if len(cells) > 1 else cells:
            found = self.read_cell(cell, dtype, loc, offset_of(pointer))
            if found is not None:
                result = found if result is None else join(result, found)
        if result is None:
            result = V(dtype, dtype)
        if self.run.ranges.given:
            result = self.run.ranges.loaded(cells, result)
            result = self.run.ranges.placed(cells, result, pointer, self.stride(pointer))
        if pointer.origins:
            result = self._indexed(result, pointer, loc)
        shape = pointer.shape if pointer.shape is not None else result.shape
        return result if shape == result.shape else result.with_(shape=shape)

    def read_cell(self, cell: Cell, dtype: str, loc: Loc, at: int | None = None) -> V | None:
        """The value of a cell read as `dtype` at byte offset `at`; None if it is local memory that nothing was written
        to."""
        made = self._found(cell, dtype, loc, at)
        return self.run.flags.seen(cell, made) if made is not None and cell.name in self.run.flags.initial else made

    def _found(self, cell: Cell, dtype: str, loc: Loc, at: int | None = None) -> V | None:
        """The joined value of a cell seen as `dtype`; None when nothing was written to local memory."""
        result = None
        cell.was_read = True
        if not cell.entries:
            cell.read_empty = True
        else:
            result = self._entries(cell.written(at), dtype, loc)
        if cell.kind != "param":
            return result
        seen = dtype if dtype not in _VAGUE else (cell.dtype if cell.dtype != "?" else cell.content)
        content = cell.content if cell.content not in _VAGUE else seen
        if seen in dtypes.FLOATS and content in dtypes.INTS:
            content = seen
        name = content if seen in dtypes.INTS and content in dtypes.FLOATS else seen
        key = (cell.name, name, loc)
        made = self.run.facts.loads.get(key)
        if made is None:
            early = self.alone and (not self.repeats or loc in self.first)
            made = F.Load(cell.name, cell.storage, name, loc, early)
        self.run.facts.loaded([(key, made)])
        own = V(seen, content, frozenset((F.Origin(cell.name, cell.storage, name),)))
        if cell.leads and seen in ADDRESSES:
            own = own.with_(cells=cell.led())
        return own if result is None else join(own, result)

    def _entries(self, entries: list[tuple[str, str, V]], dtype: str, loc: Loc) -> V:
        exact = [v for d, c, v in entries if dtype in (d, c)]
        if not any(v.origins or v.cells for v in exact) and not _is_flag(entries, exact, dtype):
            exact = [v for _, _, v in entries]  # a fill with constants does not hide the data beside it
        result: V | None = None
        for value in exact:
            result = value if result is None else join(result, value)
        assert result is not None
        if result.dtype != dtype and dtype not in _VAGUE:
            result = self.run.numbers.bitcast(result, dtype, loc)
        return result

    def _indexed(self, result: V, pointer: V, loc: Loc) -> V:
        """Adds where the address came from; a table looked up by narrow data is a conversion of that data."""
        narrow = frozenset(
            o for o in pointer.origins
            if "index" not in o.flags and (o.dtype in dtypes.NARROW or o.dtype in ("u8", "i8") or "unpack" in o.flags)
        )  # fmt: skip
        if narrow and result.dtype in dtypes.FLOATS:
            source = wider("?", min(o.dtype for o in narrow))
            self.run.facts.add_cast(source, result.dtype, narrow, loc)
            origins = union(union(result.origins, flagged(narrow, "cast")), flagged(pointer.origins - narrow, "index"))
            casts = union_casts(result.casts, frozenset((loc,)))
            return result.with_(origins=origins, casts=casts, const=NOTHING, x=None)  # no product of its entries' parts
        if narrow and result.dtype in ("u16", "i16", "u32", "i32"):  # the bits of wider numbers
            origins = union(union(result.origins, flagged(narrow, "cast")), flagged(pointer.origins - narrow, "index"))
            return result.with_(origins=origins, casts=union_casts(result.casts, frozenset((loc,))), const=NOTHING)
        return result.with_(origins=union(result.origins, flagged(pointer.origins, "index")), const=NOTHING)

    def store(self, pointer: V, value: V, loc: Loc, *, raw: bool = False) -> None:
        """Writes `value` through `pointer`, converted to the pointer's type unless `raw`."""
        self.run.facts.add_choice(pointer, loc)
        cells = in_order(pointer.cells)
        if not cells and isinstance(pointer.x, Unbound):
            cells = [self.param_cell(pointer.x.path)]
        elif not cells:  # an address that nothing is known of: it may be one of a result
            cells = [self.param_cell("an unknown address", -1, pointer.dtype, pointer.dtype)]
        if not raw and pointer.dtype not in _VAGUE and not isinstance(value.x, Struct) and not value.cells:
            value = self.run.numbers.convert(value, pointer.dtype, loc)
        for cell in _written_of(cells) if len(cells) > 1 else cells:
            if cell.storage == -1 and cell.name.endswith(LED):
                self.run.facts.unread("a store through an address that was read from memory", loc)
            self.write_cell(cell, value, loc, pointer.dtype, offset_of(pointer))

    def write_cell(self, cell: Cell, value: V, loc: Loc, dtype: str = "?", at: int | None = None) -> None:
        """Adds `value` to what a cell may hold; values that were written before remain possible."""
        self._put(cell, value, loc, dtype, at)
        self.written.add((cell.kind, cell.name))
        if cell.name in self.run.flags.initial:
            self.run.flags.left(cell, value)

    def _put(self, cell: Cell, value: V, loc: Loc, dtype: str = "?", at: int | None = None) -> None:
        kept = value if value.shape is None else value.with_(shape=None)
        if kept.const is not NOTHING:
            kept = kept.with_(const=NOTHING)
        if kept.dtype == LITERAL and dtype not in _VAGUE:
            kept = kept.with_(dtype=dtype, content=dtype)
        if cell.kind == "param":
            seen = dtype if dtype not in _VAGUE else (cell.dtype if cell.dtype != "?" else value.dtype)
            for name, to in self.pointed(value):
                self.run.facts.add_lead(cell, f"{cell.field}.{name}".strip("."), to, loc)
                seen = "i64"
            if seen in dtypes.INTS and value.content in dtypes.FLOATS and cell.content not in ("i32", "i64"):
                seen = value.content
            key = (cell.name, seen, loc)
            old_store = self.run.facts.stores.get(key)
            origins = union(old_store.origins, value.origins) if old_store else value.origins
            self.run.facts.stores[key] = F.Store(
                cell.name, cell.storage, seen, origins, loc, bool(old_store and old_store.added)
            )  # fmt: skip
            self.run.sides.store(cell.name, cell.storage)
            self.alone = False
        entry = (kept.dtype, kept.content, at)
        old = cell.entries.get(entry)
        if old is None and len(cell.entries) >= 16:
            entry, old = next(iter(cell.entries.items()))
        new = kept if old is None else join(old, kept)
        if kept.totals or old is not None and old.totals:
            cell.entries[entry] = new = self._total(cell, entry, new, kept.totals)
        elif not kept.origins and cell.kind != "param":
            self.begun(cell, at)
        if new is not old:
            cell.entries[entry] = new
            self.memory_version += 1
            if cell.read_empty and cell.kind != "param" and (kept.origins or kept.cells):
                cell.read_empty = False
                self.late_write = True
                self.dirty = self.dirty or cell.kind != "local"

    def _total(self, cell: Cell, entry: _Entry, made: V, totals: Totals) -> V:
        """What memory holds once a total was written there: that alone, in contrast to all else, so that one which is
        begun anew goes on from none."""
        totals = self.run.products.loops.stored(totals, self.still)
        old = cell.entries.get(entry)
        self.marked.append((cell, entry, NO_TOTALS if old is None else old.totals))
        self.noted(cell, entry, totals, read=cell.was_read)
        return made.with_(totals=totals)

    def noted(self, cell: Cell, entry: _Entry, totals: Totals, *, read: bool, met: bool = False) -> None:
        """Notes that there are totals in memory: where one is there for the first time that was rounded, and `read`
        already, a loop must go round again; `met`: where sides of a branch met, of which one may have read it."""
        for one in totals:
            key = (cell, entry, one.place, one.kind, met)
            if key not in self.known:
                self.known.add(key)
                self.memory_version += 1
                self.new_total = self.new_total or read and bool(one.kind)

    def begun(self, cell: Cell, at: int | None = None) -> None:
        """Numbers of no data are written to memory, and no totals are left."""
        for entry, value in cell.entries.items():
            if value.totals and (at is None or entry[2] in (at, None)):
                self.marked.append((cell, entry, value.totals))
                cell.entries[entry] = value.with_(totals=NO_TOTALS)

    def marked_since(self, start: int) -> list[tuple[Cell, _Entry, V]]:
        """Where totals were written, or begun anew, since there were `start` of these writes, with what is there."""
        places = dict.fromkeys((cell, entry) for cell, entry, _ in self.marked[start:])
        return [(cell, entry, cell.entries[entry]) for cell, entry in places]

    def written_again(self, found: list[tuple[Cell, _Entry, V]]) -> None:
        """Writes the totals that `marked_since` gave."""
        for cell, entry, value in found:
            self._set(cell, entry, value.totals)

    def turned_back(self, start: int) -> _Marks:
        """Takes the totals back that were written since there were `start` of these writes: those of one side of a
        branch, before another side is followed. Gives what they were at its end."""
        before: _Marks = {}
        for cell, entry, totals in self.marked[start:]:
            before.setdefault((cell, entry), totals)
        ends = {(cell, entry): cell.entries[entry].totals for cell, entry in before}
        for (cell, entry), totals in before.items():
            cell.entries[entry] = cell.entries[entry].with_(totals=totals)
        del self.marked[start:]
        return ends

    def met(self, ends: list[_Marks], *, whole: bool) -> None:
        """Joins the totals that sides of a branch left in memory, which `turned_back` gave, and unless these are the
        `whole` of it, those of before."""
        for place in dict.fromkeys(place for end in ends for place in end):
            left = [end[place] for end in ends if place in end]
            made = NO_TOTALS if whole else place[0].entries[place[1]].totals
            for totals in left:
                made = together(made, totals)
            self._set(*place, made)
            self.noted(*place, made, read=place[0].was_read, met=True)

    def _set(self, cell: Cell, entry: _Entry, totals: Totals) -> None:
        held = cell.entries.get(entry)
        if held is not None:
            self.marked.append((cell, entry, held.totals))
            cell.entries[entry] = held.with_(totals=totals)

    def still(self) -> frozenset[int]:
        """The loops around the running statement in which the place that is written to is the same in each round."""
        return NOWHERE

    def stride(self, pointer: V) -> int:
        """How many bytes lie between neighbouring elements behind `pointer`."""
        return 1

    def variables_of(self, value: V, found: dict[tuple[int, str], tuple[Frame, str]]) -> None:
        """Adds to `found` the local variables that `value` points to, each as a frame and a name."""

    def havoc(self, args: list[V], dtype: str, loc: Loc) -> V:
        """The result of an unknown operation: it may hold anything from its arguments and from the memory that they
        point to."""
        found = [leaf for arg in args for leaf in leaves(arg)]
        for value in list(found):
            for cell in in_order(value.cells):
                read = self.read_cell(cell, "?", loc)
                if read is not None:
                    found.append(read)
        origins, casts = NO_ORIGINS, UNKNOWN_V.casts
        for value in found:
            origins, casts = union(origins, value.origins), union_casts(casts, value.casts)
        return V(dtype, "?", origins, casts)
