"""Branches on values inside a kernel: which matrix products run on either side, and what variables hold after them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import field

from kbh_lint.base import ir
from kbh_lint.base.records import dataclass
from kbh_lint.kernels.core.facts import Bound, Branch, Gate, Origins, ProductTypes
from kbh_lint.kernels.core.joins import join
from kbh_lint.kernels.core.origins import NO_ORIGINS, testing, union
from kbh_lint.kernels.core.value import NO_NAMES, V

_NOTHING = nullcontext()
_SUM = "sum"  # the kind of what stands for a type of sums among a side's products

Side = set[ProductTypes]
Pair = tuple[Side, Side]
Stored = tuple[str, int, frozenset[int]]  # an argument and its storage, and the sides on which it is written


@dataclass(slots=True)
class _Record:
    origins: Origins = NO_ORIGINS
    params: frozenset[str] = NO_NAMES
    sides: Pair = field(default_factory=lambda: (set(), set()))  # with a product of its own kind for each type of sums


class Sides:
    """The branches met so far, and the sides that are being executed: each product is recorded on all sides that
    are."""

    def __init__(self) -> None:
        self._records: dict[ir.Loc, _Record] = {}
        self._open: dict[int, Side] = {}
        self._tests: dict[ir.Loc, _Record] = {}  # masks, bounds and jumps, whose first side is where they hold
        self.stored: list[Stored] = []

    def add(self, *products: ProductTypes) -> None:
        """Records products as running on every side that is being executed."""
        for side in self._open.values():
            side.update(products)

    def add_sum(self, dtype: str) -> None:
        """Records that every side that is being executed adds loaded data up in this type, and no products."""
        self.add((_SUM, dtype, dtype, dtype))

    def store(self, name: str, storage: int) -> None:
        """Records that an argument's memory is written on every side that is being executed."""
        self.stored.append((name, storage, frozenset(self._open)))

    def stored_since(self, start: int) -> list[Stored]:
        """What was recorded by `store` since there were `start` of them, with the sides that were entered since."""
        around = frozenset(self._open)
        return [(name, storage, sides - around) for name, storage, sides in self.stored[start:]]

    def store_again(self, stored: list[Stored]) -> None:
        """Records what `stored_since` gave, on every side that is being executed."""
        around = frozenset(self._open)
        self.stored += [(name, storage, sides | around) for name, storage, sides in stored]

    def gates(self) -> list[Gate]:
        """For every store to an argument the data on which it hangs whether it happens; none where it surely does."""
        written = {side for _, _, sides in self.stored for side in sides}
        of = {
            id(side): (loc, r)
            for loc, r in (*self._records.items(), *self._tests.items())
            for side in r.sides
            if r.origins and not written >= {id(side) for side in r.sides}  # and so on one side alone
        }
        found: list[Gate] = []
        for number, (name, storage, sides) in enumerate(dict.fromkeys(self.stored)):
            tests = [of[side] for side in sides if side in of]
            found += [Gate(number, name, storage, record.origins, loc, record.params) for loc, record in tests]
            if not tests:
                found.append(Gate(number, name, storage, NO_ORIGINS, ()))
        return found

    def bounds_of_work(self) -> list[Bound]:
        """The data of masks and bounds on which it hangs how much is multiplied or added up."""
        return [Bound(r.origins, loc) for loc, r in self._tests.items() if any(r.sides)]

    def hanging(self, test: V, loc: ir.Loc, on: bool = True) -> AbstractContextManager[None]:
        """A context manager around what is left out where `test`, a mask or a bound of data, is not `on`. Its products
        count as those of no branch."""
        return self.watching(*self._held(test, loc)[not on : 2 - on])

    def jumped(self, test: V, loc: ir.Loc, on: bool) -> None:
        """After a branch that goes to another round of a loop where the test is not `on`: what follows in this round
        hangs on it."""
        for side in self._held(test, loc)[not on : 2 - on]:
            self._open.setdefault(id(side), side)

    def _held(self, test: V, loc: ir.Loc) -> Pair | tuple[()]:
        origins = testing(test.origins)
        if not origins:
            return ()
        record = self._tests.setdefault(loc, _Record())
        record.origins = union(record.origins, origins)
        record.params |= test.deps
        return record.sides

    def on_data(self) -> bool:
        """Whether the code that is being executed stands on one side of a branch on loaded data."""
        return any(
            r.origins and (id(r.sides[0]) in self._open or id(r.sides[1]) in self._open) for r in self._records.values()
        )

    def of(self, test: V, loc: ir.Loc) -> Pair | tuple[()]:
        """The pair of sets that collect the products on either side of the branch at `loc`; empty for a branch that
        neither loaded data nor an argument of the launch decides."""
        origins = testing(test.origins)
        if not origins and not test.deps:
            return ()
        record = self._records.setdefault(loc, _Record())
        record.origins = union(record.origins, origins)
        record.params |= test.deps
        return record.sides

    def watching(self, *sides: Side) -> AbstractContextManager[None]:
        """A context manager in which the products that run are also added to each of `sides`; it does nothing where
        there are none."""
        return self._watching(sides) if sides else _NOTHING

    @contextmanager
    def _watching(self, sides: tuple[Side, ...]) -> Iterator[None]:
        opened = [side for side in sides if id(side) not in self._open]
        for side in opened:
            self._open[id(side)] = side
        try:
            yield
        finally:
            for side in opened:
                self._open.pop(id(side), None)

    def rest(self, sides: Pair, returned: tuple[bool, bool]) -> None:
        """After a branch of which exactly one side returned, counts what follows, up to the end of the function, as
        part of the other side. `returned` says which side did."""
        if returned[0] != returned[1]:
            side = sides[1] if returned[0] else sides[0]
            self._open.setdefault(id(side), side)

    @contextmanager
    def in_frame(self) -> Iterator[None]:
        """A context manager around the body of one inlined function or one round of a loop: sides that `rest` or
        `jumped` opened in it are closed at its end."""
        before = dict(self._open)
        try:
            yield
        finally:
            self._open = before

    def facts(self) -> list[Branch]:
        """The branches whose two sides run different matrix products."""
        found: list[Branch] = []
        for loc, record in self._records.items():
            taken, other = (frozenset(p for p in side if p[0] != _SUM) for side in record.sides)
            if taken != other:
                sums, rest = (frozenset(p[1] for p in side if p[0] == _SUM) for side in record.sides)
                found.append(Branch(record.origins, record.params, taken, other, loc, (sums, rest)))
        return found


def returns(body: tuple[object, ...]) -> bool:
    """Whether one side of a branch ends with a return."""
    return isinstance(last(body), ir.Return)


def goes_on(body: tuple[object, ...]) -> bool:
    """Whether one side of a branch ends with going to the next round of a loop."""
    end = last(body)
    return isinstance(end, ir.Jump) and end.kind == "continue"


def last(body: tuple[object, ...]) -> object:
    """The last statement of a body, looked for inside blocks too; None for an empty body."""
    while body and isinstance(body[-1], ir.Block):
        body = body[-1].body
    return body[-1] if body else None


def merge(a: dict[str, V], b: dict[str, V], test: Origins = NO_ORIGINS) -> dict[str, V]:
    """Joins the variables of two paths that meet behind a branch; `test` is the data that the branch depends on.
    Changes and returns `a`."""
    for name, value in b.items():
        old = a.get(name)
        if old is None:
            a[name] = value
        elif old is not value:
            a[name] = meet(old, value, test)
    return a


def meet(old: V, value: V, test: Origins) -> V:
    """Joins one variable of two paths that meet. If it is a different constant on each, it depends on the branch's
    data, `test`."""
    new = join(old, value)
    if test and new is not old and old.known and value.known:
        return new.with_(origins=union(new.origins, test))
    return new


def runs_once(body: tuple[object, ...]) -> bool:
    """Whether the loop body always ends the loop in its first iteration, so that the loop acts as a branch."""
    ends = last(body)
    return isinstance(ends, ir.Return) or (isinstance(ends, ir.Jump) and ends.kind == "break")
