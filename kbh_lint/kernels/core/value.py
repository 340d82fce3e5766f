"""Abstract values of the kernel analysis: what is known about one value inside a kernel.

A value is immutable and joins with another where control flow meets. Memory (arrays, parameters' buffers) lives in
`Cell`s, which only grow: every write is a weak update.
"""

from __future__ import annotations

from typing import Any

from kbh_lint.base.ir import Loc
from kbh_lint.base.records import dataclass
from kbh_lint.kernels.core.facts import Origins
from kbh_lint.kernels.core.origins import NO_ORIGINS
from kbh_lint.kernels.core.totals import NO_TOTALS, Totals


class _Nothing:
    """The mark of a value that is not known at compile time."""

    def __repr__(self) -> str:
        return "NOTHING"


NOTHING = _Nothing()
NO_NAMES: frozenset[str] = frozenset()
NO_LOCS: frozenset[Loc] = frozenset()
Shape = tuple[int | None, ...]
MAX_TREE = 256  # values in one tuple, those inside its items counted
LITERAL = ""  # the dtype of a Python number: it takes the type of what it meets


class Cell:
    """A piece of memory: a parameter's buffer, a shared or local array, a TMA descriptor's tensor.

    `entries` holds what was written, by (element type, content, byte offset where known). `content` is the
    numeric type of what a parameter's storage holds. `was_read` says that something read it, `read_empty` that it did
    before a write. `leads` is the memory that addresses which a launch finds in it lead to, by the field of a
    struct that holds each; `field` is which field of structs this is. `role` is as that of a `Buffer`.
    """

    __slots__ = (
        "kind",
        "name",
        "storage",
        "dtype",
        "content",
        "entries",
        "read_empty",
        "was_read",
        "subs",
        "leads",
        "field",
        "role",
    )

    def __init__(
        self,
        kind: str,
        name: str,
        storage: int = -1,
        dtype: str = "?",
        content: str = "?",
    ) -> None:
        self.kind = kind
        self.name = name
        self.storage = storage
        self.dtype = dtype
        self.content = content
        self.entries: dict[tuple[str, str, int | None], V] = {}
        self.read_empty = False
        self.was_read = False
        self.subs: dict[str, Cell] = {}
        self.leads: dict[str, Cells] = {}
        self.field = ""
        self.role = ""

    def sub(self, name: str) -> Cell:
        """The memory of the field `name` of a struct that lies in this cell."""
        cell = self.subs.get(name)
        if cell is None:
            label = self.name if self.kind == "param" else f"{self.name}.{name}"
            cell = Cell(self.kind, label, self.storage)
            cell.field = f"{self.field}.{name}".strip(".")
            cell.leads = self.leads
            self.subs[name] = cell
        return cell

    def led(self) -> Cells:
        """The memory that addresses stored in this cell lead to: those stored in its field, else those in any field."""
        here = self.leads.get(self.field)
        return here if here is not None else frozenset(cell for found in self.leads.values() for cell in found)

    def written(self, at: int | None) -> list[tuple[str, str, V]]:
        """The values, each with element type and content, that a read at byte offset `at` may see: those written at the
        nearest start before `at`.

        Kernels cut one shared array into tiles at constant offsets. A read at an unknown offset sees all values.
        """
        starts = [start for _, _, start in self.entries if start is not None and at is not None and start <= at]
        nearest = max(starts) if starts else None
        return [
            (dtype, content, value)
            for (dtype, content, start), value in self.entries.items()
            if start is None or nearest is None or start == nearest
        ]


Cells = frozenset[Cell]
NO_CELLS: Cells = frozenset()


@dataclass(frozen=True, slots=True)
class CType:
    """A C++ type: an element type with lanes (`float4` is f32 x 4), pointer depth, array dimensions, or a struct.

    `decl` is the struct's definition (a CppType) and `args` its template arguments by name. `sizes` are those of the
    array's dimensions, from the outermost on, as far as they are known.
    """

    dtype: str = "?"
    lanes: int = 1
    pointers: int = 0
    dims: int = 0
    name: str = ""
    decl: Any = None
    args: tuple[tuple[str, Any], ...] = ()
    role: str = ""  # of a tensor core fragment: matrix_a, matrix_b, accumulator
    sizes: tuple[int | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Mul:
    """The factors of a product of loaded data that nothing has summed yet; `terms` counts added products."""

    factors: tuple[V, ...]
    loc: Loc
    terms: int = 1


@dataclass(frozen=True, slots=True)
class Unbound:
    """A kernel argument of which nothing is known; it is a pointer if the kernel loads through it."""

    path: str


@dataclass(frozen=True, slots=True)
class Splat:
    """Marks a tile whose elements are all one number, such as `tl.full((1,), 4, tl.int8)`."""

    value: int


@dataclass(frozen=True, slots=True)
class Offset:
    """The constant part of an address inside a shared array, in bytes; None when paths disagree."""

    bytes: int | None

    def moved(self, by: int | None) -> Offset:
        """The same of an address that lies `by` bytes behind; None where that is not known."""
        return Offset(self.bytes if by is None or self.bytes is None else self.bytes + by)


@dataclass(frozen=True, slots=True)
class Place(Offset):
    """Where exactly an address lies behind the pointer that a launch is given; None where that is not known."""

    def moved(self, by: int | None) -> Offset:
        """The same of an address that lies `by` behind it."""
        return Place(None if by is None or self.bytes is None else self.bytes + by)


@dataclass(slots=True, eq=False)
class Struct:
    """The fields of a struct value; never changed in place."""

    fields: dict[str, V]
    type: CType


class _Twiddled:
    """Marks an integer on which bit operations were done: reinterpreting it as a float converts."""

    def __repr__(self) -> str:
        return "TWIDDLED"


TWIDDLED = _Twiddled()


@dataclass(frozen=True, slots=True)
class CachePolicy:
    """Marks a policy for the L2 cache, and says whether it keeps data longest."""

    keeps: bool


KEEPS, LETS_GO = CachePolicy(True), CachePolicy(False)


class _Handle:
    """Marks a barrier, a pipeline, a scheduler: an object that holds nothing of numbers."""

    def __repr__(self) -> str:
        return "HANDLE"


HANDLE = _Handle()


class V:
    """One abstract value.

    `dtype` is the type the program sees (of the element a pointer points to, for a pointer), `content` the numeric
    type of the bits (they differ after a byte view). `const` is the value where known, `deps` the compile-time
    arguments it came from. `cells` is the memory a pointer, address or descriptor leads to. `shape` is a Triton
    tile's shape. `x` is one extra: a tuple of values, a Struct, a Mul, an Unbound, a Ref, TWIDDLED, HANDLE.
    """

    __slots__ = ("dtype", "content", "origins", "casts", "const", "deps", "cells", "shape", "x", "ct", "term",
                 "totals")  # fmt: skip
    const: Any
    x: Any
    term: Any  # how a known number was made of arguments (`guards.Term`), where that is known
    totals: Totals  # the products that it is a total of

    def __init__(
        self,
        dtype: str = "?",
        content: str = "?",
        origins: Origins = NO_ORIGINS,
        casts: frozenset[Loc] = NO_LOCS,
        const: object = NOTHING,
        deps: frozenset[str] = NO_NAMES,
        cells: Cells = NO_CELLS,
        shape: Shape | None = None,
        x: object = None,
        ct: CType | None = None,
    ) -> None:
        self.dtype = dtype
        self.content = content
        self.origins = origins
        self.casts = casts
        self.const = const
        self.deps = deps
        self.cells = cells
        self.shape = shape
        self.x = x
        self.ct = ct
        self.term = None
        self.totals = NO_TOTALS

    def __repr__(self) -> str:
        parts = [f"{name}={getattr(self, name)!r}" for name in self.__slots__ if getattr(self, name) not in (None, "?")]
        return "V(" + ", ".join(parts) + ")"

    def with_(self, **changes: object) -> V:
        """A copy with some fields replaced."""
        made = V.__new__(V)
        made.dtype, made.content, made.origins, made.casts = self.dtype, self.content, self.origins, self.casts
        made.const, made.deps, made.cells, made.shape = self.const, self.deps, self.cells, self.shape
        made.x, made.ct, made.totals = self.x, self.ct, self.totals
        made.term = None if "const" in changes or "deps" in changes else self.term
        for name, value in changes.items():
            setattr(made, name, value)
        return made

    @property
    def known(self) -> bool:
        """Whether the value is known at compile time."""
        return self.const is not NOTHING

    @property
    def free(self) -> bool:
        """Whether the value hangs on no loaded data: a constant, an argument, the place of a thread."""
        return self.const is not NOTHING or not self.origins


UNKNOWN_V = V()
_LITERALS: dict[Any, V] = {}


def everywhere(value: V) -> object:
    """The number that a value is, or that every element of a tile is; NOTHING where unknown."""
    return value.x.value if isinstance(value.x, Splat) else value.const


def constant(value: object, deps: frozenset[str] = NO_NAMES) -> V:
    """A constant as an abstract value that depends on the arguments `deps`; tuples and lists become tuples of
    values."""
    if type(value) in (int, bool) and not deps:
        found = _LITERALS.get((type(value), value))
        if found is None:
            found = V(LITERAL if type(value) is int else "bool", LITERAL, const=value, shape=())
            if len(_LITERALS) < 4096:
                _LITERALS[(type(value), value)] = found
        return found
    if isinstance(value, (tuple, list)):
        return V(x=tuple(constant(item, deps) for item in value), deps=deps)
    if isinstance(value, bool):
        return V("bool", "bool", const=value, deps=deps, shape=())
    if isinstance(value, int):
        return V(LITERAL, LITERAL, const=value, deps=deps, shape=())
    if isinstance(value, float):
        return V("f32" if deps else LITERAL, LITERAL, const=value, deps=deps, shape=())
    return V(const=value, deps=deps)


def leaves(value: V) -> list[V]:
    """The value itself, or for a tuple or struct the values inside it, at most MAX_TREE of them."""
    if not isinstance(value.x, (tuple, Struct)):
        return [value]
    found: list[V] = []
    stack = [value]
    for _ in range(MAX_TREE):
        if not stack:
            break
        top = stack.pop()
        inner = top.x if isinstance(top.x, tuple) else tuple(top.x.fields.values()) if isinstance(top.x, Struct) else ()
        if inner:
            stack.extend(reversed(inner))
        else:
            found.append(top)
    return found or [value]


def in_order(cells: Cells) -> list[Cell]:
    """Cells sorted by kind and name, so that results do not depend on the order of a set."""
    return sorted(cells, key=lambda cell: (cell.kind, cell.name)) if len(cells) > 1 else list(cells)


def offset_of(value: V) -> int | None:
    """The constant byte offset of an address; None where unknown."""
    return value.x.bytes if isinstance(value.x, Offset) else None
