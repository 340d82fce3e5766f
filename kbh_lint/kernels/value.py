"""Abstract values of the kernel analysis: what is known about one value inside a kernel.

A value is immutable and joins with another where control flow meets. Memory (arrays, parameters' buffers) lives in
`Cell`s, which only grow: every write is a weak update.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from kbh_lint import dtypes
from kbh_lint.ir import Loc
from kbh_lint.kernels.facts import Origin, Origins


class _Nothing:
    """The mark of a value that is not known at compile time."""

    def __repr__(self) -> str:
        return "NOTHING"


NOTHING = _Nothing()
NO_ORIGINS: Origins = frozenset()
NO_NAMES: frozenset[str] = frozenset()
NO_LOCS: frozenset[Loc] = frozenset()
Shape = tuple[int | None, ...]
MAX_ORIGINS = 40
MAX_CASTS = 12
MAX_TREE = 256  # values in one tuple, those inside its items counted
LITERAL = ""  # the dtype of a Python number: it takes the type of what it meets


class Cell:
    """A piece of memory: a parameter's buffer, a shared or local array, a TMA descriptor's tensor.

    `entries` holds what was written, by (element type, content, byte offset where known). `content` is the
    numeric type of what a parameter's storage holds. `read_empty` says that something read it before a write.
    """

    __slots__ = ("kind", "name", "storage", "dtype", "content", "entries", "read_empty", "subs")

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
        self.subs: dict[str, Cell] = {}

    def sub(self, name: str) -> Cell:
        """The memory of one field of a struct held here."""
        cell = self.subs.get(name)
        if cell is None:
            label = self.name if self.kind == "param" else f"{self.name}.{name}"
            cell = Cell(self.kind, label, self.storage)
            self.subs[name] = cell
        return cell

    def written(self, at: int | None) -> list[tuple[str, str, V]]:
        """What a read at byte offset `at` can see: the part of the memory that begins last before it.

        Kernels cut one shared array into tiles at constant offsets; an unknown offset sees everything.
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

    `decl` is the struct's definition (a CppType) and `args` its template arguments by name.
    """

    dtype: str = "?"
    lanes: int = 1
    pointers: int = 0
    dims: int = 0
    name: str = ""
    decl: Any = None
    args: tuple[tuple[str, Any], ...] = ()
    role: str = ""  # of a tensor core fragment: matrix_a, matrix_b, accumulator


@dataclass(frozen=True, slots=True)
class Mul:
    """The factors of a product of loaded data that nothing has summed yet; `terms` counts added products."""

    factors: tuple[V, ...]
    loc: Loc
    terms: int = 1


@dataclass(frozen=True, slots=True)
class Unbound:
    """A kernel argument about which nothing was said: a pointer if something loads from it."""

    path: str


@dataclass(frozen=True, slots=True)
class Offset:
    """The constant part of an address inside a shared array, in bytes; None when paths disagree."""

    bytes: int | None


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
    """Marks a policy of the L2 cache: whether it keeps data longest."""

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

    __slots__ = ("dtype", "content", "origins", "casts", "const", "deps", "cells", "shape", "x", "ct")

    def __init__(
        self,
        dtype: str = "?",
        content: str = "?",
        origins: Origins = NO_ORIGINS,
        casts: frozenset[Loc] = NO_LOCS,
        const: Any = NOTHING,
        deps: frozenset[str] = NO_NAMES,
        cells: Cells = NO_CELLS,
        shape: Shape | None = None,
        x: Any = None,
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

    def __repr__(self) -> str:
        parts = [f"{name}={getattr(self, name)!r}" for name in self.__slots__ if getattr(self, name) not in (None, "?")]
        return "V(" + ", ".join(parts) + ")"

    def with_(self, **changes: Any) -> V:
        """A copy with some fields replaced."""
        made = V.__new__(V)
        made.dtype, made.content, made.origins, made.casts = self.dtype, self.content, self.origins, self.casts
        made.const, made.deps, made.cells, made.shape = self.const, self.deps, self.cells, self.shape
        made.x, made.ct = self.x, self.ct
        for name, value in changes.items():
            setattr(made, name, value)
        return made

    @property
    def known(self) -> bool:
        """Whether the value is known at compile time."""
        return self.const is not NOTHING


UNKNOWN_V = V()
_LITERALS: dict[Any, V] = {}


def constant(value: Any, deps: frozenset[str] = NO_NAMES) -> V:
    """A known value; tuples and lists become values with items."""
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


# --- origins -----------------------------------------------------------------------------------------------


@lru_cache(maxsize=8192)
def flagged(origins: Origins, flag: str) -> Origins:
    """The origins with one more flag on each."""
    if not origins:
        return origins
    return capped(
        frozenset(o if flag in o.flags else Origin(o.param, o.storage, o.dtype, o.flags | {flag}) for o in origins)
    )


def choosing(origins: Origins) -> Origins:
    """The origins as those of a choice between constants: a branch on the choice is a branch on the data."""
    return flagged(flagged(origins, "index"), "test")


@lru_cache(maxsize=2048)
def testing(origins: Origins) -> Origins:
    """Those on which a branch is one on data: data, and what chose between constants."""
    return frozenset(o for o in origins if "index" not in o.flags or "test" in o.flags)


CUT = "cut:"  # with a number: so many of the lowest bits of a float were dropped where it was an integer


@lru_cache(maxsize=2048)
def cut_short(origins: Origins, count: int) -> Origins:
    """The origins with `count` bits fewer of each fp32 number that has all of them so far."""
    return capped(
        frozenset(
            Origin(o.param, o.storage, o.dtype, o.flags | {f"{CUT}{count}"})
            if o.dtype == "f32" and not any(flag.startswith(CUT) for flag in o.flags)
            else o
            for o in origins
        )
    )


@lru_cache(maxsize=8192)
def data_origins(origins: Origins) -> Origins:
    """Those that carry data, not only an address or a mask."""
    return frozenset(o for o in origins if "index" not in o.flags)


@lru_cache(maxsize=8192)
def storages(origins: Origins) -> frozenset[tuple[str, int]]:
    """The parameters behind data that went through no product yet."""
    return frozenset((o.param, o.storage) for o in origins if not (o.flags & {"index", "product", "exp"}))


def capped(origins: Origins) -> Origins:
    """At most MAX_ORIGINS of them: beyond, the flags of each parameter are united."""
    if len(origins) <= MAX_ORIGINS:
        return origins
    merged: dict[tuple[str, int, str, bool], frozenset[str]] = {}
    for o in origins:
        key = (o.param, o.storage, o.dtype, "index" in o.flags)
        merged[key] = merged.get(key, frozenset()) | o.flags
    whole = (frozenset(flag for flag in flags if not flag.startswith(CUT)) for flags in merged.values())
    return frozenset(Origin(key[0], key[1], key[2], flags) for key, flags in zip(merged, whole, strict=True))


def union(a: Origins, b: Origins) -> Origins:
    """Both sets; returns `a` itself when `b` adds nothing."""
    if not b or a is b:
        return a
    if not a:
        return b
    both = a | b
    if len(both) == len(a):
        return a
    return capped(both)


def union_casts(a: frozenset[Loc], b: frozenset[Loc]) -> frozenset[Loc]:
    """Both sets of places, at most MAX_CASTS."""
    if not b or a is b or len(a) >= MAX_CASTS:
        return a
    if not a:
        return b
    both = a | b
    return a if len(both) == len(a) else both


# --- joins -------------------------------------------------------------------------------------------------

_RANK = {name: (1 if name in dtypes.FLOATS else 0) * 100 + dtypes.BITS[name] for name in dtypes.BITS}


def wider(a: str, b: str) -> str:
    """The element type two values meet at: the unknown and the literal give way, floats win, then the wider."""
    if a == b or b in ("?", LITERAL):
        return a
    if a in ("?", LITERAL):
        return b
    return max(a, b, key=lambda name: (_RANK.get(name, 0), name))


def join_shape(a: Shape | None, b: Shape | None) -> Shape | None:
    """The shape where both agree."""
    if a == b:
        return a
    if a is None or b is None or len(a) != len(b):
        return a or b
    return tuple(p if p == q else None for p, q in zip(a, b, strict=True))


def _join_x(a: V, b: V) -> Any:
    x, y = a.x, b.x
    if x is y or y is None:
        return x
    if x is None:
        return y
    if isinstance(x, CachePolicy) and isinstance(y, CachePolicy):
        return LETS_GO
    if isinstance(x, Offset) and isinstance(y, Offset):
        return x if x == y or x.bytes is None else Offset(None)
    if isinstance(x, tuple) and isinstance(y, tuple):
        if len(x) == len(y):
            items = tuple(join(p, q) for p, q in zip(x, y, strict=True))
            return x if all(p is q for p, q in zip(x, items, strict=True)) else items
        return x if len(x) > len(y) else y
    if isinstance(x, Struct) and isinstance(y, Struct):
        fields = dict(x.fields)
        changed = False
        for name, value in y.fields.items():
            old = fields.get(name)
            new = value if old is None else join(old, value)
            if new is not old:
                fields[name] = new
                changed = True
        return Struct(fields, x.type) if changed else x
    if isinstance(x, Struct):
        return x
    if isinstance(y, (Struct, tuple)) or y is TWIDDLED:
        return y
    return x


def same_const(a: Any, b: Any) -> bool:
    """Whether two known values are the same (1 and True are not)."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    try:
        return bool(a == b)
    except TypeError:
        return False


def join(a: V, b: V) -> V:
    """The value where `a` and `b` meet; `a` itself when `b` adds nothing to it."""
    if a is b:
        return a
    const = a.const if a.const is NOTHING or (b.const is not NOTHING and same_const(a.const, b.const)) else NOTHING
    dtype = wider(a.dtype, b.dtype)
    content = wider(a.content, b.content)
    origins = union(a.origins, b.origins)
    casts = union_casts(a.casts, b.casts)
    deps = a.deps if not b.deps or b.deps <= a.deps else a.deps | b.deps
    cells = a.cells if not b.cells or b.cells <= a.cells else a.cells | b.cells
    shape = join_shape(a.shape, b.shape)
    x = _join_x(a, b)
    ct = a.ct or b.ct
    if (
        const is a.const and dtype == a.dtype and content == a.content and origins is a.origins and casts is a.casts
        and deps is a.deps and cells is a.cells and shape == a.shape and x is a.x and ct is a.ct
    ):  # fmt: skip
        return a
    return V(dtype, content, origins, casts, const, deps, cells, shape, x, ct)


def leaves(value: V) -> list[V]:
    """The value, or the values inside a tuple or struct (at most MAX_TREE of them)."""
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


def tuple_of(items: list[V] | tuple[V, ...], deps: frozenset[str] = NO_NAMES) -> V:
    """A tuple of values; one too large to handle as a tree becomes the mix of its items."""
    size = 0
    stack = list(items[: MAX_TREE + 1])
    while stack and size <= MAX_TREE:
        top = stack.pop()
        size += 1
        if isinstance(top.x, tuple):
            stack.extend(top.x)
    if size > MAX_TREE:
        return mix(list(items))
    return V(x=tuple(items), deps=deps)


def in_order(cells: Cells) -> list[Cell]:
    """Cells by name: what is found does not depend on where they lie in memory."""
    return sorted(cells, key=lambda cell: (cell.kind, cell.name)) if len(cells) > 1 else list(cells)


def offset_of(value: V) -> int | None:
    """The constant byte offset of an address, where it is known."""
    return value.x.bytes if isinstance(value.x, Offset) else None


def mix(values: list[V]) -> V:
    """One value that holds everything the given ones do, its constant and shape forgotten."""
    found = [leaf for value in values for leaf in leaves(value)]
    if not found:
        return UNKNOWN_V
    result = found[0]
    for value in found[1:]:
        result = join(result, value)
    return result.with_(const=NOTHING, x=TWIDDLED if result.x is TWIDDLED else None, shape=None)
