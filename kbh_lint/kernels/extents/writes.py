"""Which part of a storage the stores of a launch can write at most, and its loads read: both in one walk."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kbh_lint.base import dtypes, ir, values
from kbh_lint.kernels.core.walker import Enough
from kbh_lint.kernels.extents import intervals
from kbh_lint.kernels.extents.follow import NOT_FOLLOWED, can_be_followed
from kbh_lint.kernels.extents.intervals import Limits
from kbh_lint.kernels.extents.loads import Loads
from kbh_lint.kernels.extents.reads import Parts, Reads, parts_under
from kbh_lint.kernels.extents.values import Dims, Place


class AllParts(NamedTuple):
    """The parts of each storage that a kernel touches. Left out of `stores` and `touched` are storages with a store
    that has no bound, that hold vectors, or numbers of another width than the kernel names."""

    loads: Parts
    stores: Parts
    touched: Parts  # by stores and loads, where the stores are known
    widths: Mapping[int, int | None]  # of the elements that are counted, in bits, where a kernel says it


def all_parts(
    kernel: values.Func, args: Mapping[str, Any], grid: Dims, block: Dims, asked: frozenset[int] | None = None,
    stored: frozenset[int] | None = None, sizes: Mapping[int, int] | None = None,
) -> AllParts:  # fmt: skip
    """The parts of each storage that the loads and the stores of a launch can touch; loads as by `parts_under` without
    ranges. Where only the loads of some storages are `asked` for, and the stores of those or of what is `stored`,
    others may be left out."""
    if not can_be_followed(kernel, references=True):
        return AllParts({}, {}, {}, {})
    stored = asked if stored is None else stored
    with _Writes(kernel, args, grid, block) as follow:
        follow.asked = None if asked is None or stored is None else asked | stored
        follow.asked_loads, follow.asked_stores = asked or frozenset(), stored or frozenset()
        follow.sizes = sizes or {}
        try:
            follow.run()
        except Enough:
            return AllParts({}, {}, {}, {})
        except NOT_FOLLOWED:  # which the loads alone may not come to
            return AllParts(parts_under(kernel, args, grid, block, {}, asked, sizes)[0], {}, {}, {})
        reads = {at: parts for at, parts in follow.parts.items() if at not in follow.lost}
        if follow.atoms.steps > intervals.MAX_STEPS:  # and the loads alone may take fewer
            reads = parts_under(kernel, args, grid, block, {}, asked, sizes)[0]
        known = (follow.parts.keys() | follow.written.keys()) - follow.lost - follow.unbounded
        stores = {at: follow.written.get(at, []) for at in known if stored is None or at in stored}
        touched = {at: [*follow.parts.get(at, ()), *parts] for at, parts in stores.items()}
        return AllParts(reads, stores, touched, dict(follow.widths))


class _Writes(Reads):
    """Notes the address of every store too, apart from what loads come to."""

    def __init__(self, kernel: values.Func, args: Mapping[str, Any], grid: Dims, block: Dims) -> None:
        super().__init__(kernel, args, grid, block)
        self.loads = _Accesses(self)
        self.written: Parts = {}
        self.unbounded: set[int] = set()  # storages of which a store may write anything
        self.unread = self.lost  # storages of which a load may read anything: `lost` says it of stores in between
        self.asked_loads: frozenset[int] = frozenset()  # the storages whose loads are asked for,
        self.asked_stores: frozenset[int] = frozenset()  # and those whose stores are
        for param in kernel.node.params if self.cpp else ():
            given = args.get(param.name)
            if isinstance(given, values.Buffer) and self.widths.get(given.storage) != dtypes.BITS.get(given.dtype):
                self.unbounded.add(given.storage)
        for given in args.values():
            if isinstance(given, values.Buffer):
                self.written.setdefault(given.storage, [])

    def settled(self, asked: frozenset[int]) -> bool:
        unread, unbounded = self.unread, self.unbounded
        return all(at in unread or at in unbounded or self.whole(at, self.written) for at in self.asked_stores) and all(
            at in unread or self.whole(at, self.parts) for at in self.asked_loads
        )

    def look(self, stmt: object) -> None:
        if isinstance(stmt, ir.Assign):
            for target in stmt.targets:
                self.apart(self.place, target, self.limits)
            self.expressions.known.clear()
        super().look(stmt)

    def apart(self, look: Callable[[Any, Limits], None], node: object, limits: Limits) -> None:
        """Calls `look` on the target of a store; accesses that are recorded meanwhile count as stores, not as loads."""
        loads = self.parts, self.lost
        self.parts, self.lost = self.written, self.unbounded
        try:
            look(node, limits)
        finally:
            self.parts, self.lost = loads

    def place(self, target: object, limits: Limits) -> None:
        """Records a store to an element that is assigned to."""
        if isinstance(target, (ir.Index, ir.Unary)):
            self.loads.visit(target.value, limits)
        if isinstance(target, ir.Index):
            self.note(self.expressions.binary("+", self.value(target.value), self.value(target.index)), limits)
        elif isinstance(target, ir.Unary) and target.op == "*":
            self.note(self.value(target.value), limits)
        elif isinstance(target, ir.Attr) and (place := self.place_of(target)) is not None:
            self.note(place, limits)
        elif isinstance(target, ir.Name):
            there = self.frame.env.get(target.id)
            if isinstance(there, Place):
                self.note(there.at, limits)
        else:
            self.lose(target)

    def store(self, node: ir.Call, limits: Limits) -> None:
        """Records a store by `tl.store(...)` or `d.store(...)`."""
        box = self.loads.box(node, limits)
        if box is not None:
            self.put(*box)
        else:
            self.note(self.value(node.args[0]), self.loads.masked(node, 2, limits))


class _Accesses(Loads):
    """Finds stores beside loads."""

    run: _Writes

    def target(self, target: object, op: str, limits: Limits) -> None:
        super().target(target, op, limits)
        self.run.apart(self.run.place, target, limits)

    def call(self, node: ir.Call, limits: Limits) -> None:
        super().call(node, limits)
        run = self.run
        if run.cpp and isinstance(node.func, ir.Name):
            for position, arg in enumerate(node.args):
                place = run.place_of(arg) if run.changes(node.func.id, position) else None
                if place is not None:
                    run.apart(run.note, place, limits)
        if not run.cpp and run.expressions.called(node.func) == "store" and node.args:
            if not isinstance(node.args[0], ir.Star):
                run.apart(run.store, node, limits)
