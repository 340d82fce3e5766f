"""Which part of a storage the stores of a launch can write at most, and its loads read: both in one walk."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kbh_lint.base import dtypes, ir, values
from kbh_lint.kernels.extents import intervals
from kbh_lint.kernels.extents.intervals import Limits
from kbh_lint.kernels.extents.reach import Dims, TooLong, can_be_followed
from kbh_lint.kernels.extents.reads import Part, Reads, read_parts

Parts = dict[int, list[Part]]  # by storage


def all_parts(kernel: values.Func, args: Mapping[str, Any], grid: Dims, block: Dims) -> tuple[Parts, Parts]:
    """What `read_parts` gives where no ranges are known; and the parts of each store, by storage, with those of each
    load beside them. Of stores a storage is left out of which not every one is bounded, and one that holds vectors, or
    numbers of another width than the kernel names."""
    body = kernel.node.body or ()
    if not can_be_followed(body):
        return {}, {}
    follow = _Writes(kernel, args, grid, block)
    try:
        follow.run(body, {})
    except (TooLong, RecursionError):  # which the loads alone may not come to
        return read_parts(kernel, args, grid, block), {}
    reads = {at: parts for at, parts in follow.parts.items() if at not in follow.lost}
    if follow.atoms.steps > intervals.MAX_STEPS:  # and the loads alone may take fewer
        reads = read_parts(kernel, args, grid, block)
    known = (follow.parts.keys() | follow.stored.keys()) - follow.lost - follow.unbounded
    return reads, {at: [*follow.parts.get(at, ()), *follow.stored.get(at, ())] for at in known}


class _Writes(Reads):
    """Notes the address of every store too, apart from what loads come to."""

    def __init__(self, kernel: values.Func, args: Mapping[str, Any], grid: Dims, block: Dims) -> None:
        super().__init__(kernel, args, grid, block)
        self.stored: Parts = {}
        self.unbounded: set[int] = set()  # storages of which a store may write anything
        for param in kernel.node.params if self.cpp else ():
            given = args.get(param.name)
            if isinstance(given, values.Buffer) and _width(param.type, args) != dtypes.BITS.get(given.dtype):
                self.unbounded.add(given.storage)
        for given in args.values():
            if isinstance(given, values.Buffer):
                self.stored.setdefault(given.storage, [])

    def _statement(self, stmt: object, limits: Limits) -> Limits:
        for target in stmt.targets if isinstance(stmt, ir.Assign) else ():
            self._apart(self._place, target, limits)
        return super()._statement(stmt, limits)

    def _target(self, target: object, op: str, limits: Limits) -> None:
        super()._target(target, op, limits)
        self._apart(self._place, target, limits)

    def _call_of(self, node: ir.Call, limits: Limits) -> None:
        super()._call_of(node, limits)
        if not self.cpp and self._called(node.func) == "store" and node.args and not isinstance(node.args[0], ir.Star):
            self._apart(self._store, node, limits)

    def _apart(self, look: Callable[[Any, Limits], None], node: object, limits: Limits) -> None:
        """Looks at what is stored to; what is noted meanwhile is none of the loads."""
        loads = self.parts, self.lost
        self.parts, self.lost = self.stored, self.unbounded
        try:
            look(node, limits)
        finally:
            self.parts, self.lost = loads

    def _place(self, target: object, limits: Limits) -> None:
        if isinstance(target, (ir.Index, ir.Unary)):
            self._visit(target.value, limits)
        if isinstance(target, ir.Index):
            self._note(self._binary("+", self.value(target.value), self.value(target.index)), limits)
        elif isinstance(target, ir.Unary) and target.op == "*":
            self._note(self.value(target.value), limits)
        elif not isinstance(target, ir.Name):
            self._lose(target)

    def _store(self, node: ir.Call, limits: Limits) -> None:
        box = self._box(node, limits)
        if box is not None:
            self._put(*box)
        else:
            mask = dict(node.keywords).get("mask", node.args[2] if len(node.args) > 2 else None)
            self._note(self.value(node.args[0]), limits if mask is None else self._under(self.value(mask), limits))


def _width(kind: object, args: Mapping[str, object]) -> int | None:
    """The bits of what a pointer parameter points to, where it is a number."""
    name = getattr(kind, "name", "")
    given = args.get(name)
    if isinstance(given, values.DType):
        return dtypes.BITS.get(given.name)
    if isinstance(given, values.TypeValue):
        name = given.ref.name if not given.ref.pointers else ""
    found = dtypes.from_cpp(name)
    return None if found is None else dtypes.BITS.get(found)
