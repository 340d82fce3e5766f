"""What both languages share: recording facts, numeric conversions, memory, products."""

from __future__ import annotations

from typing import Any

from kbh_lint.base import dtypes
from kbh_lint.base.ir import Loc
from kbh_lint.kernels.core import facts as F
from kbh_lint.kernels.core.branches import Sides
from kbh_lint.kernels.core.joins import join, mix, wider
from kbh_lint.kernels.core.origins import NO_ORIGINS, data_origins, flagged, storages, union, union_casts
from kbh_lint.kernels.core.value import (
    LITERAL,
    NOTHING,
    TWIDDLED,
    UNKNOWN_V,
    Cell,
    Mul,
    Struct,
    Unbound,
    V,
    in_order,
    leaves,
    offset_of,
)

_VAGUE = ("?", LITERAL)
_MAX_UNREAD = 40


def _is_flag(entries: list[tuple[str, str, V]], exact: list[V], dtype: str) -> bool:
    """Whether `exact` is an integer of no loaded data in memory that else holds floats.

    Nobody reads those as integers. A fill with an integer looks the same here, and hides them.
    """
    if dtype not in dtypes.INTS or not exact or any(v.known for v in exact):
        return False
    return all(d in dtypes.FLOATS for d, c, _ in entries if dtype not in (d, c))


class OutOfFuel(Exception):
    """The analysis reached its bound on executed statements."""


class Core:
    """Facts found so far, and the operations that make them."""

    def __init__(self, name: str, fuel: int) -> None:
        self.name = name
        self.fuel = fuel
        self.loads: dict[Any, F.Load] = {}
        self.stores: dict[Any, F.Store] = {}
        self.products: dict[Any, F.Product] = {}
        self.casts: dict[Any, F.Cast] = {}
        self.unpacks: dict[Any, F.Unpack] = {}
        self.uses: dict[Any, F.Use] = {}
        self.sums: dict[Any, F.Sum] = {}
        self.unreads: dict[Any, tuple[str, Loc]] = {}
        self.hints: dict[Any, F.Hint] = {}
        self.decided: set[str] = set()
        self.settings: dict[str, Any] = {}  # by flag: the number at the end of the launch, or UNKNOWN
        self.arithmetic = False
        self.sides = Sides()
        self.bounds: dict[Any, F.Bound] = {}
        self.choices: dict[Any, F.Bound] = {}
        self.waits: dict[Any, F.Wait] = {}
        self.refused = ""  # why no compiler takes the kernel
        self.param_cells: dict[str, Cell] = {}
        self.memory_version = 0
        self.late_write = False  # memory was read before anything wrote it: a loop around both must go round again
        self.dirty = False  # shared memory was read before anything wrote it: the kernel must be run again

    def facts(self) -> F.KernelFacts:
        """The facts in the order they were met."""
        return F.KernelFacts(
            self.name, list(self.loads.values()), list(self.stores.values()), list(self.products.values()),
            list(self.casts.values()), list(self.unpacks.values()), list(self.uses.values()),
            list(self.sums.values()), list(self.unreads.values()), frozenset(self.decided), self.sides.facts(),
            list(self.bounds.values()), self.arithmetic, list(self.hints.values()),
            tuple(sorted(self.settings.items())), list(self.choices.values()), list(self.waits.values()),
            self.refused,
        )  # fmt: skip

    # --- records ---

    def unread(self, reason: str, loc: Loc) -> None:
        """Note that something could not be followed."""
        if len(self.unreads) < _MAX_UNREAD:
            self.unreads.setdefault((reason, loc), (reason, loc))

    def use(self, symbol: str, loc: Loc) -> None:
        """Note a library symbol that does work by itself."""
        self.uses.setdefault((symbol, loc), F.Use(symbol, loc))

    def add_hint(self, pointer: V, loc: Loc) -> None:
        """Note that the cache is asked to keep what is read through `pointer`."""
        for cell in in_order(pointer.cells):
            if cell.kind == "param":
                self.hints.setdefault((cell.name, loc), F.Hint(cell.name, cell.storage, loc))

    def add_sum(self, dtype: str, origins: F.Origins, loc: Loc, carried: bool = False) -> None:
        """Note an accumulation of data."""
        data = data_origins(origins)
        if data:
            old = self.sums.get((dtype, loc))
            carried = carried or old is not None and old.carried
            self.sums[(dtype, loc)] = F.Sum(dtype, union(old.origins, data) if old else data, loc, carried)

    def add_bound(self, value: V, loc: Loc) -> V:
        """Note the data that bounds a loop; returns it."""
        if value.origins:
            old = self.bounds.get(loc)
            self.bounds[loc] = F.Bound(union(old.origins, value.origins) if old else value.origins, loc)
        return value

    def add_choice(self, value: V, loc: Loc) -> None:
        """Note the data that chose an address or a mask of a store, or a side of a branch."""
        if value.origins:
            old = self.choices.get(loc)
            self.choices[loc] = F.Bound(union(old.origins, value.origins) if old else value.origins, loc)

    def add_unpack(self, value: V, loc: Loc) -> V:
        """Note that nibbles are taken out of `value`; returns it with the flag."""
        data = data_origins(value.origins)
        old = self.unpacks.get(loc)
        self.unpacks[loc] = F.Unpack(union(old.origins, data) if old else data, loc)
        return value.with_(origins=flagged(value.origins, "unpack"))

    def add_cast(self, source: str, target: str, origins: F.Origins, loc: Loc) -> None:
        """Note a change of numeric type of loaded data."""
        key = (source, target, loc)
        old = self.casts.get(key)
        self.casts[key] = F.Cast(source, target, union(old.origins, origins) if old else origins, loc)

    # --- numeric types ---

    def convert(self, value: V, target: str, loc: Loc) -> V:
        """`value` as a number of type `target`: a Cast when it is loaded data whose type changes."""
        if target in _VAGUE or (value.dtype == target and value.content in (target, "?", LITERAL)):
            return value
        if isinstance(value.x, (tuple, Struct)):
            value = mix([value])
        data = data_origins(value.origins)
        if not data:
            const = _convert_const(value.const, target)
            keep = value.x if isinstance(value.x, (Unbound, Mul)) else None
            return V(target, target, value.origins, value.casts, const, value.deps, value.cells, value.shape, keep)
        source = value.content if value.content not in _VAGUE else value.dtype
        if source == target:
            return value.with_(dtype=target, content=target, x=value.x if isinstance(value.x, Mul) else None)
        if source in _VAGUE and target in dtypes.INTS:
            return value.with_(dtype=target, content="?", const=NOTHING)
        if source in dtypes.INTS and target in dtypes.INTS:
            return value.with_(dtype=target, const=NOTHING)
        if value.dtype in dtypes.INTS and target in dtypes.INTS:  # float bits in an integer only change its width
            return value.with_(dtype=target, const=NOTHING)
        self.add_cast(source, target, data, loc)
        return V(
            target, target, flagged(value.origins, "cast"), union_casts(value.casts, frozenset((loc,))),
            NOTHING, value.deps, value.cells, value.shape, value.x if isinstance(value.x, Mul) else None,
        )  # fmt: skip

    def bitcast(self, value: V, target: str, loc: Loc) -> V:
        """The same bits seen as `target`; after bit operations on other numbers it is a conversion by hand."""
        if target in _VAGUE or value.dtype == target:
            return value
        content = value.content
        if target not in dtypes.FLOATS:
            if value.dtype in dtypes.FLOATS and content in _VAGUE:
                content = value.dtype
            return value.with_(dtype=target, content=content, const=NOTHING, ct=None)
        if value.x is TWIDDLED and content != target and content not in _VAGUE:
            data = data_origins(value.origins)
            if data:
                self.add_cast(content, target, data, loc)
                return V(
                    target, target, flagged(value.origins, "cast"), union_casts(value.casts, frozenset((loc,))),
                    NOTHING, value.deps, value.cells, value.shape,
                )  # fmt: skip
        keeps = content in dtypes.FLOATS and value.dtype in dtypes.INTS and content != target
        return value.with_(
            dtype=target,
            content=content if keeps and value.x is not TWIDDLED else target,
            const=NOTHING,
            x=None,
            ct=None,
        )

    # --- memory ---

    def param_cell(self, path: str, storage: int = -1, dtype: str = "?", content: str = "?") -> Cell:
        """The memory behind a kernel argument."""
        cell = self.param_cells.get(path)
        if cell is None:
            cell = self.param_cells[path] = Cell("param", path, storage, dtype, content)
        return cell

    def load(self, pointer: V, dtype: str, loc: Loc) -> V:
        """What is read through `pointer` as elements of `dtype` ("?": the pointer's own type)."""
        if dtype in _VAGUE:
            dtype = pointer.dtype
        cells = in_order(pointer.cells)
        if not cells:
            if isinstance(pointer.x, Unbound):
                cells = [self.param_cell(pointer.x.path)]
            else:
                return V(dtype, origins=flagged(pointer.origins, "index"), shape=pointer.shape)
        result: V | None = None
        for cell in cells:
            found = self.read_cell(cell, dtype, loc, offset_of(pointer))
            if found is not None:
                result = found if result is None else join(result, found)
        if result is None:
            result = V(dtype, dtype)
        if pointer.origins:
            result = self._indexed(result, pointer, loc)
        shape = pointer.shape if pointer.shape is not None else result.shape
        return result if shape == result.shape else result.with_(shape=shape)

    def read_cell(self, cell: Cell, dtype: str, loc: Loc, at: int | None = None) -> V | None:
        """The joined value of a cell seen as `dtype`; None when nothing was written to local memory."""
        result = None
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
        if key not in self.loads:
            self.loads[key] = F.Load(cell.name, cell.storage, name, loc)
        own = V(seen, content, frozenset((F.Origin(cell.name, cell.storage, name),)))
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
            result = self.bitcast(result, dtype, loc)
        return result

    def _indexed(self, result: V, pointer: V, loc: Loc) -> V:
        """Adds where the address came from; a table looked up by narrow data is a conversion of that data."""
        narrow = frozenset(
            o for o in pointer.origins
            if "index" not in o.flags and (o.dtype in dtypes.FP8 or o.dtype in ("u8", "i8") or "unpack" in o.flags)
        )  # fmt: skip
        if narrow and result.dtype in dtypes.FLOATS:
            source = wider("?", min(o.dtype for o in narrow))
            self.add_cast(source, result.dtype, narrow, loc)
            origins = union(union(result.origins, flagged(narrow, "cast")), flagged(pointer.origins - narrow, "index"))
            casts = union_casts(result.casts, frozenset((loc,)))
            return result.with_(origins=origins, casts=casts, const=NOTHING, x=None)  # no product of its entries' parts
        return result.with_(origins=union(result.origins, flagged(pointer.origins, "index")), const=NOTHING)

    def store(self, pointer: V, value: V, loc: Loc, *, raw: bool = False) -> None:
        """Writes `value` through `pointer`; converts it to the pointer's type unless `raw`."""
        self.add_choice(pointer, loc)
        cells = in_order(pointer.cells)
        if not cells and isinstance(pointer.x, Unbound):
            cells = [self.param_cell(pointer.x.path)]
        if not raw and pointer.dtype not in _VAGUE and not isinstance(value.x, Struct) and not value.cells:
            value = self.convert(value, pointer.dtype, loc)
        for cell in cells:
            self.write_cell(cell, value, loc, pointer.dtype, offset_of(pointer))

    def write_cell(self, cell: Cell, value: V, loc: Loc, dtype: str = "?", at: int | None = None) -> None:
        """A weak update of a cell."""
        kept = value if value.shape is None else value.with_(shape=None)
        if kept.const is not NOTHING:
            kept = kept.with_(const=NOTHING)
        if kept.dtype == LITERAL and dtype not in _VAGUE:
            kept = kept.with_(dtype=dtype, content=dtype)
        if cell.kind == "param":
            seen = dtype if dtype not in _VAGUE else (cell.dtype if cell.dtype != "?" else value.dtype)
            if seen in dtypes.INTS and value.content in dtypes.FLOATS and cell.content not in ("i32", "i64"):
                seen = value.content
            key = (cell.name, seen, loc)
            old_store = self.stores.get(key)
            origins = union(old_store.origins, value.origins) if old_store else value.origins
            self.stores[key] = F.Store(cell.name, cell.storage, seen, origins, loc)
        entry = (kept.dtype, kept.content, at)
        old = cell.entries.get(entry)
        if old is None and len(cell.entries) >= 16:
            entry, old = next(iter(cell.entries.items()))
        new = kept if old is None else join(old, kept)
        if new is not old:
            cell.entries[entry] = new
            self.memory_version += 1
            if cell.read_empty and cell.kind != "param" and (kept.origins or kept.cells):
                cell.read_empty = False
                self.late_write = True
                self.dirty = self.dirty or cell.kind != "local"

    # --- products and sums ---

    def product(
        self, kind: str, a: V, b: V, accumulator: str, loc: Loc,
        *, a_dtype: str = "", b_dtype: str = "", rows: int | None = None, opcode: str = "", acc: V | None = None,
        mode: str = "",
    ) -> V:  # fmt: skip
        """Records a matrix product and returns its value."""
        a_type = a_dtype or operand_type(a)
        b_type = b_dtype or operand_type(b)
        key = (kind, a_type, b_type, accumulator, opcode, rows, mode, loc)
        old = self.products.get(key)
        a_origins, b_origins = a.origins, b.origins
        casts = union_casts(a.casts, b.casts)
        if old:
            a_origins, b_origins = union(old.a_origins, a_origins), union(old.b_origins, b_origins)
            casts = union_casts(casts, frozenset(old.casts))
        if a_origins or b_origins:
            self.sides.add((kind, a_type, b_type, accumulator))
            ordered = tuple(sorted(casts, key=lambda place: place[1:]))
            self.products[key] = F.Product(
                kind, a_type, b_type, accumulator, a_origins, b_origins, loc, ordered, rows, opcode, mode
            )
        origins = flagged(union(a.origins, b.origins), "product")
        result = V(accumulator, accumulator, origins, casts)
        return result if acc is None else join(result, acc.with_(const=NOTHING, x=None))

    def multiply_mark(self, a: V, b: V, loc: Loc) -> Mul | None:
        """The mark of `a * b` when both are loaded data of different parameters."""
        left, right = storages(a.origins), storages(b.origins)
        if not left or not right or (left == right and len(left) == 1):
            return None
        factors = (a.x.factors if isinstance(a.x, Mul) else (a,)) + (b.x.factors if isinstance(b.x, Mul) else (b,))
        return Mul(factors[:6], loc)

    def summed(self, value: V, accumulator: str, loc: Loc, kind: str = "fma") -> V:
        """`value` after being added up: pending products become facts."""
        if not isinstance(value.x, Mul):
            return value
        factors = value.x.factors
        first = factors[0]
        own = storages(first.origins)
        rest = [f for f in factors[1:] if storages(f.origins) != own] or list(factors[1:])
        other = mix(rest)
        made = self.product(kind, first, other, accumulator, loc)
        return value.with_(
            origins=union(flagged(value.origins, "product"), made.origins),
            casts=union_casts(value.casts, made.casts),
            x=None,
        )

    def accumulate(self, old: V, value: V, dtype: str, loc: Loc, in_loop: bool) -> V:
        """`value` as an addend of `old += value`: records sums and products of data."""
        if value.cells or old.cells:
            return value
        value = self.summed(value, dtype, loc)
        if data_origins(value.origins):
            self.add_sum(dtype, value.origins, loc, in_loop and any("product" in o.flags for o in old.origins))
            if in_loop:
                value = value.with_(origins=flagged(value.origins, "reduce"))
        return value

    # --- anything else ---

    def havoc(self, args: list[V], dtype: str, loc: Loc) -> V:
        """The result of something unknown: it may hold all its arguments, and what they point to."""
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

    def step(self, amount: int = 1) -> None:
        """Spends fuel; raises OutOfFuel."""
        self.fuel -= amount
        if self.fuel < 0:
            raise OutOfFuel

    def decide(self, value: V) -> None:
        """A known value chose a branch or a type."""
        if value.deps:
            self.decided |= value.deps


def operand_type(value: V) -> str:
    """The numeric type a product runs on: the seen one, or the content of raw bits."""
    if value.dtype in dtypes.INTS and value.content in dtypes.FLOATS:
        return value.content
    return value.dtype if value.dtype != LITERAL else "?"


def _convert_const(value: Any, target: str) -> Any:
    if value is NOTHING or isinstance(value, bool):
        return value
    try:
        if isinstance(value, float) and target in dtypes.INTS:
            return int(value)
        if isinstance(value, int) and target in dtypes.FLOATS:
            return float(value)
    except (OverflowError, ValueError):
        return NOTHING
    if isinstance(value, int) and target in dtypes.INTS and target != "bool":
        bits = dtypes.BITS[target]
        value &= (1 << bits) - 1
        if target.startswith("i") and value >> (bits - 1):
            value -= 1 << bits
    return value
