"""What an analysis of one kernel, at one set of argument types, proves about it."""

from __future__ import annotations

from dataclasses import field
from typing import Any, NamedTuple

from kbh_lint.base import ir
from kbh_lint.base.records import dataclass


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value inside a kernel comes from.

    `param` is the kernel parameter whose memory was read, `storage` the id of the storage behind it (-1 when
    unknown), `dtype` the element type it was loaded as. `flags` say what happened on the way, in any order:
    `cast` (its numeric type was widened or changed after the load), `unpack` (nibbles were taken out of it),
    `product` (it went through a matrix product), `exp`, `reduce` (summed over lanes or a loop), `index` (it only
    chose an address or a mask), `max`, `zero` (a comparison of it with zero or an infinity), `test` (beside `index`:
    it chose between constants, so that a branch on the choice is one on the data), `cut:N` (as an integer of its own
    width it lost its lowest N bits), `floor:N` (an integer of which and N the larger was taken).
    """

    param: str
    storage: int
    dtype: str
    flags: frozenset[str] = frozenset()


Origins = frozenset[Origin]
MAX_TILE = 1 << 20  # elements of a tile: Triton's own bound


@dataclass(frozen=True, slots=True)
class Product:
    """A matrix product, or a scalar multiply-accumulate of two loaded operands (`kind` fma).

    kind: dot (tl.dot, tl.dot_scaled), mma (mma.sync, wgmma, tcgen05, by `ptx` the opcode), wmma (nvcuda::wmma),
    dp (dp4a, dp2a), cutlass (a CUTLASS or CuTe collective, device-side), fma.
    `a` and `b` are the operand element types that the product itself runs on. `casts` are the places where an
    operand's numeric type was changed on the way from memory. `rows` is the tile's M where known.
    """

    kind: str
    a: str
    b: str
    accumulator: str
    a_origins: Origins
    b_origins: Origins
    loc: ir.Loc
    casts: tuple[ir.Loc, ...] = ()
    rows: int | None = None
    opcode: str = ""
    mode: str = ""  # how Triton multiplies fp32 operands: tf32 (its default), tf32x3, ieee ...


@dataclass(frozen=True, slots=True)
class Load:
    """A read of a parameter's memory.

    `early`: it comes before the first store, atomic or barrier of the kernel, outside of loops or surely in the first
    round of one, so that nothing of this launch need have been there.
    """

    param: str
    storage: int
    dtype: str
    loc: ir.Loc
    early: bool = False


LoadKey = tuple[str, str, ir.Loc]  # the parameter, the type, and where it is read
Made = list[tuple[LoadKey, Load]]  # loads, each as often as it was made


@dataclass(frozen=True, slots=True)
class Store:
    """A write to a parameter's memory: the element type written, and where the values come from. `added`: it is loaded
    there, and something was added to it."""

    param: str
    storage: int
    dtype: str
    origins: Origins
    loc: ir.Loc
    added: bool = False


@dataclass(frozen=True, slots=True)
class Lead:
    """An address that is written to a parameter's memory, into this `field` of a struct if it is one: `origins` is the
    memory that it leads to."""

    param: str
    storage: int
    origins: Origins
    loc: ir.Loc
    field: str = ""


@dataclass(frozen=True, slots=True)
class Cast:
    """A change of numeric type of a value loaded from memory (a bitcast or a byte view is not one)."""

    source: str
    target: str
    origins: Origins
    loc: ir.Loc


@dataclass(frozen=True, slots=True)
class Unpack:
    """4-bit fields taken out of a wider integer loaded from memory."""

    origins: Origins
    loc: ir.Loc


@dataclass(frozen=True, slots=True)
class Use:
    """A library or built-in symbol the kernel reaches that does work by itself: `triton.language.topk`,
    `triton.language.sort`, `triton.language.softmax`, `cub::BlockRadixSort`, `thrust::sort` ..."""

    symbol: str
    loc: ir.Loc


@dataclass(frozen=True, slots=True)
class Sum:
    """An accumulation of values: `x += y` in a loop, tl.sum, a shuffle or shared-memory tree, an atomic add.

    `carried`: products are added to earlier products in a loop. `weighted`: they are of data and weights that are made
    of products, and no `Product` is recorded of them. `of`: the places of the products that a total is made of, of one
    that is rounded in a loop; `by`: where these are added to it.
    """

    dtype: str
    origins: Origins
    loc: ir.Loc
    carried: bool = False
    weighted: bool = False
    of: frozenset[ir.Loc] = frozenset()
    by: frozenset[ir.Loc] = frozenset()


ProductTypes = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch on loaded data, or on numbers of the launch, that matrix products depend on.

    `origins` is the data that chose, `params` the names of the numbers that did. `taken` and `other` hold kind, operand
    types and accumulator of the products on either side; what a side that returns leaves out is on the other one.
    `sums`: the types in which either side adds up what it does not multiply there.
    """

    origins: Origins
    params: frozenset[str]
    taken: frozenset[ProductTypes]
    other: frozenset[ProductTypes]
    loc: ir.Loc
    sums: tuple[frozenset[str], frozenset[str]] = (frozenset(), frozenset())


@dataclass(frozen=True, slots=True)
class Bound:
    """Loaded data that bounds a loop, chooses, or is lost."""

    origins: Origins
    loc: ir.Loc


@dataclass(frozen=True, slots=True)
class Gate:
    """Loaded data on which it hangs whether a store happens: a branch around it, its mask. Each store to a parameter's
    memory has a number, and gates for all tests that it stands behind; one without origins where there is none.
    `numbers`: those of the launch that are in the test, by their names."""

    number: int
    param: str
    storage: int
    origins: Origins
    loc: ir.Loc
    numbers: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Wait:
    """A loop that does nothing until loaded data changes; `params` are the numbers of the launch that it is held
    against."""

    origins: Origins
    params: frozenset[str]
    loc: ir.Loc


@dataclass(frozen=True, slots=True)
class Hint:
    """A read that asks the L2 cache to keep what it reads longest (`evict_last`)."""

    param: str
    storage: int
    loc: ir.Loc


@dataclass(frozen=True, slots=True)
class Traffic:
    """What a kernel reads and writes, by storage: the storages it loads from; of each that it stores to the element
    type first written, and the storages that the values come from; the parameters whose storage is none (-1); and the
    storages that it reads `early`, before anything of the launch can be there."""

    loads: frozenset[int]
    stores: tuple[tuple[int, str, frozenset[int]], ...]
    unplaced: frozenset[str]
    early: frozenset[int] = frozenset()

    def moved(self, back: dict[int, int]) -> Traffic:
        """The same traffic with the storage ids that `back` maps replaced."""
        stores = [(back.get(at, at), dtype, frozenset(back.get(s, s) for s in come)) for at, dtype, come in self.stores]
        loads, early = (frozenset(back.get(s, s) for s in found) for found in (self.loads, self.early))
        return Traffic(loads, tuple(stores), self.unplaced, early)


class TileSizes(NamedTuple):
    """What the sizes of a kernel's tiles come from, and how near they are to what there is room for: the arguments by
    name, the elements of the largest tile, the bytes of shared memory that the operands of one product take, and how
    often one argument may be a factor of either."""

    names: frozenset[str] = frozenset()
    elements: int = 0
    operands: int = 0
    power: int = 1


@dataclass(slots=True)
class KernelFacts:
    """All that one analysis found. `unread` says what it could not follow; `decided` names the compile-time
    arguments that chose a branch or a type, and `tests` are those tests on arguments that could be kept as such: two
    bindings that agree on the former, and for which the latter hold, give the same facts. `arithmetic` says whether
    anything was added, multiplied or put through a function in floating point; `settings` are the numbers that flags
    in device memory hold after the launch, by their names; `choices` the data that chose where something is stored,
    whether, and which side of a branch runs; `waits` the loops that wait for another launch or block; `refused` why no
    compiler takes the kernel at these arguments, `too_large` that it takes more shared memory than any GPU has; `lost`
    the data of which a product with zero left nothing; `leads` the addresses that it writes to memory; `gates` the data
    on which it hangs whether each of its stores happens, `amounts` that on which it hangs how much it multiplies;
    `sizes` the arguments that nothing but the sizes of its tiles need depend on."""

    name: str
    loads: list[Load] = field(default_factory=list)
    stores: list[Store] = field(default_factory=list)
    products: list[Product] = field(default_factory=list)
    casts: list[Cast] = field(default_factory=list)
    unpacks: list[Unpack] = field(default_factory=list)
    uses: list[Use] = field(default_factory=list)
    sums: list[Sum] = field(default_factory=list)
    unread: list[tuple[str, ir.Loc]] = field(default_factory=list)
    decided: frozenset[str] = frozenset()
    branches: list[Branch] = field(default_factory=list)
    bounds: list[Bound] = field(default_factory=list)
    arithmetic: bool = False
    hints: list[Hint] = field(default_factory=list)
    settings: tuple[tuple[str, Any], ...] = ()
    choices: list[Bound] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)
    refused: str = ""
    lost: list[Bound] = field(default_factory=list)
    leads: list[Lead] = field(default_factory=list)
    tests: Any = field(default=None, repr=False, compare=False)  # `guards.Tests`
    too_large: bool = False
    gates: list[Gate] = field(default_factory=list)
    amounts: list[Bound] = field(default_factory=list)
    sizes: TileSizes = TileSizes()
    _traffic: Traffic | None = field(default=None, init=False, repr=False, compare=False)

    def plain(self) -> KernelFacts:
        """The same facts where it does not matter which storages they are about."""
        return self

    def traffic(self) -> Traffic:
        """The reads and writes of the kernel by storage; computed once."""
        if self._traffic is None:
            types: dict[int, str] = {}
            come: dict[int, set[int]] = {}
            for store in self.stores:
                types.setdefault(store.storage, store.dtype)
                come.setdefault(store.storage, set()).update(o.storage for o in store.origins)
            unplaced = {load.param for load in self.loads if load.storage == -1}
            unplaced |= {store.param for store in self.stores if store.storage == -1}
            stores = tuple((at, dtype, frozenset(come[at])) for at, dtype in types.items())
            awaited = {o.storage for wait in self.waits for o in wait.origins}  # and looked at until they change
            early = frozenset(load.storage for load in self.loads if load.early and load.storage not in awaited)
            loads = frozenset(load.storage for load in self.loads)
            self._traffic = Traffic(loads, stores, frozenset(unplaced), early)
        return self._traffic


@dataclass(frozen=True, slots=True)
class ShortSeries:
    """A power series, as of the inverse of a triangular tile, that adds `terms` of the `needed` terms; `loc` is its
    last product."""

    terms: int
    needed: int
    loc: ir.Loc
