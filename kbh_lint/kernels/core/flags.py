"""Numbers in device memory that outlive a launch: flags and counters, whose value at the start may be known.

A launch is analysed at the values that its flags hold then, as if they were arguments; what it leaves in them is part
of its facts (`settings`). A value counts until the kernel itself writes there, and not in a loop of a kernel that does:
other threads may have written it by then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kbh_lint.base.values import UNKNOWN, Scalar
from kbh_lint.kernels.core.joins import same_const
from kbh_lint.kernels.core.value import NOTHING, Cell, V, in_order

if TYPE_CHECKING:
    from kbh_lint.kernels.core.run import Run


PREFIX = "* "  # in a binding, `* name` is the number at the address `name`


def only_reads(name: str, given: Sequence[V]) -> bool:
    """Whether an atomic operation leaves memory unchanged: it adds 0, or its compare-and-swap stores the number that it
    compares with. `given` are its arguments behind the pointer."""
    short = name.rsplit("::", 1)[-1].removeprefix("atomic").lstrip("_").lower()
    known = [value.const for value in given]
    if short == "cas":
        return len(known) > 1 and known[0] is not NOTHING and same_const(known[0], known[1])
    return short in ("add", "sub", "or", "xor") and known[:1] == [0]


class Flags:
    """Tracks the numbers that flags in device memory hold during one launch."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.initial: dict[str, Any] = {}  # by cell: the value at the start of the launch
        self.settings: dict[str, Any] = {}  # by flag: the number at the end of the launch, or UNKNOWN
        self.changed: set[str] = set()  # written so far
        self.polled: set[str] = set()  # read in a loop
        self.unsteady: set[str] = set()  # read and written in loops, or waited for: no value counts

    def start(self, args: Mapping[str, object]) -> None:
        """Begins one execution of the kernel; takes the initial values of flags from `args`, where their names begin
        with PREFIX."""
        self.changed.clear()
        for name, value in args.items():
            if name.startswith(PREFIX) and isinstance(value, Scalar) and value.value is not UNKNOWN:
                self.initial[name.removeprefix(PREFIX)] = value.value

    def seen(self, cell: Cell, made: V) -> V:
        """The value of a read of the flag in `cell`, `made` with its number where that is known: the initial number,
        until the kernel writes the flag or another thread may have."""
        if cell.kind != "param" or cell.name in self.unsteady:
            return made
        if self.run.frame.loops:
            self.polled.add(cell.name)
        if cell.name in self.changed:
            return made
        return made.with_(const=self.initial[cell.name], deps=frozenset((PREFIX + cell.name,)))

    def left(self, cell: Cell, value: V) -> None:
        """Records a write to the flag in `cell`: its number when the launch ends, or UNKNOWN."""
        name = cell.name
        if cell.kind != "param":
            return
        known = isinstance(value.const, (bool, int, float)) and not self.run.sides.on_data()
        left = value.const if known else UNKNOWN
        same = name not in self.settings or same_const(self.settings[name], left)
        self.settings[name] = left if same else UNKNOWN
        self.changed.add(name)
        if name in self.polled and name not in self.unsteady:
            self.unsteady.add(name)
            self.run.memory.dirty = True

    def awaited(self, names: frozenset[str]) -> None:
        """Records that a loop waits for other threads to change flags, given the `names` of their arguments: the
        initial values of these flags are no longer used."""
        flags = {name for name in self.initial if PREFIX + name in names} - self.unsteady
        self.unsteady |= flags
        self.run.memory.dirty = self.run.memory.dirty or bool(flags)

    def after_atomic(self, name: str, pointer: V, args: list[V]) -> V | None:
        """The value of a flag after an atomic operation that one thread executes once; None where `pointer` is not a
        flag."""
        cells = in_order(pointer.cells)
        if len(cells) != 1 or cells[0].name not in self.initial:
            return None
        old = NOTHING if cells[0].name in self.changed else self.initial[cells[0].name]
        given = args[1].const if len(args) > 1 else NOTHING
        made: Any = NOTHING
        if isinstance(old, int) and isinstance(given, int):
            made = {"atomicAdd": old + given, "atomicSub": old - given, "atomicExch": given}.get(name, NOTHING)
            if name == "atomicCAS" and len(args) > 2:
                made = args[2].const if old == given else old
        return V(pointer.dtype, pointer.dtype, const=made)
