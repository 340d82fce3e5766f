"""What is found of a kernel while it runs: each kind of fact once a place, in the order they were met."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kbh_lint.base.ir import Loc
from kbh_lint.kernels.core import facts as F
from kbh_lint.kernels.core.guards import Tests
from kbh_lint.kernels.core.origins import data_origins, flagged, union
from kbh_lint.kernels.core.value import (
    Cell,
    Cells,
    V,
    in_order,
)

if TYPE_CHECKING:
    from kbh_lint.kernels.core.run import Run


_MAX_UNREAD = 40


class Recorder:
    """Collects the facts of one run."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.loads: dict[F.LoadKey, F.Load] = {}
        self.times: dict[F.LoadKey, int] = {}  # how often each was made, and not taken back
        self.made: list[F.LoadKey] = []  # the loads in the order in which they were made
        self.looked: dict[Loc, F.Made] = {}  # those of the last call at a place that looked where it refers to
        self.stores: dict[Any, F.Store] = {}
        self.products: dict[Any, F.Product] = {}
        self.casts: dict[Any, F.Cast] = {}
        self.unpacks: dict[Any, F.Unpack] = {}
        self.uses: dict[Any, F.Use] = {}
        self.sums: dict[Any, F.Sum] = {}
        self.unreads: dict[Any, tuple[str, Loc]] = {}
        self.hints: dict[Any, F.Hint] = {}
        self.decided: set[str] = set()
        self.tests = Tests()
        self.arithmetic = False
        self.bounds: dict[Any, F.Bound] = {}
        self.choices: dict[Any, F.Bound] = {}
        self.waits: dict[Any, F.Wait] = {}
        self.lost: dict[Any, F.Bound] = {}
        self.leads: dict[Any, F.Lead] = {}
        self.refused = ""  # why no compiler takes the kernel
        self.too_large = False  # for the shared memory of any GPU
        self.sizes = F.TileSizes()
        self.shared: dict[Any, int] = {}  # bytes that allocations of a kernel take there, by place

    def found(self) -> F.KernelFacts:
        """All facts recorded so far, in the order in which they were found."""
        return F.KernelFacts(
            self.run.name, list(self.loads.values()), list(self.stores.values()), list(self.products.values()),
            list(self.casts.values()), list(self.unpacks.values()), list(self.uses.values()),
            list(self.sums.values()), list(self.unreads.values()), frozenset(self.decided), self.run.sides.facts(),
            list(self.bounds.values()), self.arithmetic, list(self.hints.values()),
            tuple(sorted(self.run.flags.settings.items())), list(self.choices.values()), list(self.waits.values()),
            self.refused, list(self.lost.values()), list(self.leads.values()), self.tests, self.too_large,
            self.run.sides.gates(), self.run.sides.bounds_of_work(), self.sizes,
        )  # fmt: skip

    def reached(self) -> set[int]:
        """The ids of the storages whose data has reached a store, an operand, a cast, a bound or a branch so far."""
        groups = (self.stores, self.bounds, self.choices, self.waits, self.casts)
        origins = [fact.origins for group in groups for fact in group.values()]
        origins += [side for product in self.products.values() for side in (product.a_origins, product.b_origins)]
        return {origin.storage for some in origins for origin in some}

    def loaded(self, loads: F.Made) -> None:
        """Records loads that are made."""
        for key, load in loads:
            self.loads[key] = load
            self.times[key] = self.times.get(key, 0) + 1
            self.made.append(key)

    def not_loaded(self, loads: F.Made) -> None:
        """Takes loads back: those of an expression that was evaluated only to know its type, or its place."""
        for key, _ in loads:
            self.times[key] = left = self.times.get(key, 0) - 1
            if left <= 0:
                self.loads.pop(key, None)

    def loaded_at(self, loc: Loc, since: int | None = None) -> F.Made:
        """The loads of what the expression at `loc` refers to, which are none where only its place is asked for: all,
        or those that were made when there were `since`."""
        among = self.loads if since is None else dict.fromkeys(self.made[since:])
        found = [(key, self.loads[key]) for key in among if key[2] == loc]
        return found + self.looked.get(loc, [])

    def lose(self, a: V, b: V, loc: Loc) -> None:
        """Records a product with zero: the result depends on neither `a` nor `b`."""
        old, origins = self.lost.get(loc), union(a.origins, b.origins)
        self.lost[loc] = F.Bound(union(old.origins, origins) if old else origins, loc)

    def add_lead(self, cell: Cell, field: str, to: Cells, loc: Loc) -> None:
        """Records that an address that leads to the argument memory `to` is written to `cell`, in its `field`."""
        origins = frozenset(F.Origin(at.name, at.storage, at.dtype) for at in to if at.kind == "param")
        if origins:
            key, old = (cell.name, field, loc), self.leads.get((cell.name, field, loc))
            self.leads[key] = F.Lead(cell.name, cell.storage, old.origins | origins if old else origins, loc, field)

    def unread(self, reason: str, loc: Loc) -> None:
        """Records that something at `loc` could not be analysed, and why."""
        if len(self.unreads) < _MAX_UNREAD:
            self.unreads.setdefault((reason, loc), (reason, loc))

    def use(self, symbol: str, loc: Loc) -> None:
        """Records the use of a library symbol that does work by itself."""
        self.uses.setdefault((symbol, loc), F.Use(symbol, loc))

    def add_hint(self, pointer: V, loc: Loc) -> None:
        """Records that the L2 cache is asked to keep the data read through `pointer`."""
        for cell in in_order(pointer.cells):
            if cell.kind == "param":
                self.hints.setdefault((cell.name, loc), F.Hint(cell.name, cell.storage, loc))

    def add_sum(
        self,
        dtype: str,
        origins: F.Origins,
        loc: Loc,
        carried: bool = False,
        weighted: bool = False,
        of: frozenset[Loc] = frozenset(),
        by: frozenset[Loc] = frozenset(),
    ) -> None:
        """Records that loaded data is summed in `dtype`; `carried`: products are added to earlier products in a loop,
        those `of` these places where it rounds their total, to which they are added at those `by` which it grows;
        `weighted`: what is added is data times weights that are made of products."""
        data = data_origins(origins)
        if data:
            old = self.sums.get((dtype, loc))
            if old is not None:
                data, of, by = union(old.origins, data), old.of | of, old.by | by
                carried, weighted = carried or old.carried, weighted or old.weighted
            self.sums[(dtype, loc)] = F.Sum(dtype, data, loc, carried, weighted, of, by)

    def add_bound(self, value: V, loc: Loc) -> V:
        """Records the data that bounds a loop; returns `value`."""
        if value.origins:
            old = self.bounds.get(loc)
            self.bounds[loc] = F.Bound(union(old.origins, value.origins) if old else value.origins, loc)
        return value

    def add_choice(self, value: V, loc: Loc) -> None:
        """Records the data that `value` depends on, which decides the address or mask of a store or the side of a
        branch."""
        if value.origins:
            old = self.choices.get(loc)
            self.choices[loc] = F.Bound(union(old.origins, value.origins) if old else value.origins, loc)

    def add_to_stored(self, loc: Loc) -> None:
        """Records that a store adds to what is loaded at its place."""
        for key, store in self.stores.items():
            if key[-1] == loc and not store.added:
                self.stores[key] = replace(store, added=True)

    def add_unpack(self, value: V, loc: Loc) -> V:
        """Records that 4-bit fields are taken out of `value`; returns it with the flag "unpack"."""
        data = data_origins(value.origins)
        old = self.unpacks.get(loc)
        self.unpacks[loc] = F.Unpack(union(old.origins, data) if old else data, loc)
        return value.with_(origins=flagged(value.origins, "unpack"))

    def add_cast(self, source: str, target: str, origins: F.Origins, loc: Loc) -> None:
        """Records that loaded data changes its numeric type from `source` to `target`."""
        key = (source, target, loc)
        old = self.casts.get(key)
        self.casts[key] = F.Cast(source, target, union(old.origins, origins) if old else origins, loc)

    def decide(self, value: V) -> None:
        """Records that the compile-time arguments behind `value` decided a branch or a type."""
        if value.deps:
            self.decided |= value.deps
