"""Shared memory that the stages of a loop take for certain.

Where a loop loads what goes into `tl.dot` as it is, the compiler loads ahead: with `num_stages` stages there are at
least `num_stages - 1` copies of each such operand in shared memory, one more where the product is asynchronous. Loads
whose places are loaded in the loop, too, share the stages with the loads that lead to them: where an operand is the
last of n loads, all operands have `(num_stages - 1) // n` copies, at least one. So it was for all 16-bit operands whose
loads were wide enough, compiled with Triton 3.4 to 3.7 for sm_80, sm_90, sm_100 and sm_120 with 2 to 7 stages. It was
not for loads of less than 32 bits (rows that begin anywhere) and fp8 operands that lie the other way. The former are
not loaded ahead, so what leads to them takes no stage from the others: `axes.apart` says of which that is certain.
These count as nothing, and so do operands that are the same in each iteration (they are loaded before the loop), loops
that hand on a value as an iteration was given it (there nothing is loaded ahead), and what was not tried: loops that
run once, and whatever else is in a loop that is not known to leave the rest as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from math import prod

from kbh_lint.base import dtypes, ir
from kbh_lint.base.values import Func
from kbh_lint.dsl.triton import axes
from kbh_lint.dsl.triton.axes import Tile
from kbh_lint.dsl.triton.shared_memory import given
from kbh_lint.dsl.triton.staged_loops import (
    BREAKS,
    PLAIN,
    assigned,
    assigns_inside,
    given_to,
    hinted,
    in_a_row,
    keeps,
    made_in,
    may_keep,
    nests,
    returns,
)
from kbh_lint.dsl.triton.tile_values import Places, Values
from kbh_lint.frontends.walk import all_nodes, walk

_AHEAD = 32  # bits that a load ahead needs
_LEAST = 2048  # elements, of which each of 1024 threads has so many that they are wide enough
_WIDE = 4  # elements of 16 bits: twice as many
_TYPES = ("f16", "bf16")
_PASSES = 4


def copied(kernel: Func, binding: Mapping[str, object], aligned: Collection[str], stages: int) -> int:
    """Returns the bytes that a launch with the arguments `binding` takes at least for copies of operands, with so many
    stages: those of the loop that has most. `aligned` are the pointers to multiples of 16 bytes."""
    if stages < 2 or not may_keep(kernel.node):
        return 0
    reading = _Reading(kernel, binding, aligned, stages)
    reading.body(kernel.node.body or ())
    return reading.most


class _Reading(Values):
    """One walk through a kernel, which follows what is certain to be compiled."""

    def __init__(self, kernel: Func, binding: Mapping[str, object], aligned: Collection[str], stages: int) -> None:
        super().__init__(kernel, binding, aligned)
        self.stages = stages
        self.most = 0

    # --- statements ---

    def body(self, body: Iterable[ir.Stmt], counts: bool = True) -> bool:
        """Follows statements; says whether what stands behind them is compiled, too."""
        for node in body:
            if isinstance(node, ir.If):
                if not self._branch(node, counts):
                    return False
            elif isinstance(node, ir.For):
                self._loop(node, counts)
            elif isinstance(node, ir.Assign):
                self._assign(node)
            elif isinstance(node, ir.AugAssign) and isinstance(node.target, ir.Name):
                value = self.binary(node.op, self.of(node.target), self.of(node.value))
                self.tiles[node.target.id] = value
            elif isinstance(node, ir.Return):
                return False
            elif not isinstance(node, ir.ExprS) or assigns_inside(node):
                if returns(node):
                    return False
                self._forget(node)
        return True

    def _assign(self, node: ir.Assign) -> None:
        target = node.targets[0]
        if len(node.targets) == 1 and isinstance(target, ir.Name):
            self.tiles[target.id] = self.of(node.value)
            return
        self._forget(node)

    def _forget(self, node: object) -> None:
        """Nothing is known any more of what is assigned in `node`."""
        self.tiles.update(dict.fromkeys(assigned(node)))

    def _branch(self, node: ir.If, counts: bool) -> bool:
        test = self.of(node.test)
        if test is None or not test.late:  # one side may not be compiled
            self._forget(node)
            return not returns(node.body) and not returns(node.orelse)
        before, ends = dict(self.tiles), []
        for side in (node.body, node.orelse):
            self.tiles = dict(before)
            self.body(side, counts)
            ends.append(self.tiles)
        self.tiles = {name: axes.joined(one, ends[1].get(name)) for name, one in ends[0].items()}
        return True

    def _loop(self, node: ir.For, counts: bool) -> None:
        bounds = self._bounds(node.iterable)
        if bounds is None or nests(node.body) or not isinstance(node.target, ir.Name):
            self._forget(node)
            if bounds is not None and not returns(node.body):
                if isinstance(node.target, ir.Name):
                    self.tiles[node.target.id] = _counter(*bounds)
                self.body(node.body, counts)
                self._forget(node)
            return
        start, stop, _ = bounds
        names, target = assigned(node.body), node.target.id
        second, shifts = self._twice(node, target, bounds)
        self.tiles[target] = _counter(*bounds)
        self._settle(node, names)
        if counts and not shifts and (stop.late and start.const is not None or _runs(bounds) > 1):
            self.most = max(self.most, self._operands(node, second))
        for name in (*names, target):
            one = self.tiles.get(name)
            self.tiles[name] = replace(one, sure=False) if one is not None else None

    def _settle(self, loop: ir.For, names: set[str]) -> None:
        """Finds what holds in every iteration of a loop, in which `names` are assigned."""
        for _ in range(_PASSES):
            before = dict(self.tiles)
            self.body(loop.body, False)
            self.tiles = {
                name: _again(before[name], one) if name in before else one for name, one in self.tiles.items()
            }
            if all(self.tiles.get(name) == before.get(name) for name in names):
                return
        self._forget(loop)
        self.places.clear()

    def _twice(self, loop: ir.For, target: str, bounds: tuple[Tile, Tile, Tile]) -> tuple[Places, bool]:
        """Where the loads of a loop read in its second iteration, and whether it may hand a value on as it is: what the
        counter, an argument or another name held when an iteration began. The compiler loads nothing ahead then."""
        entry, counter, step = dict(self.tiles), _counter(*bounds), bounds[2]
        carried = [name for name in assigned(loop.body) - made_in(loop.body) if name in entry]
        held = {*assigned(loop.body), *(param.name for param in self.kernel.node.params), target} & {*entry, target}
        copies = {(name, one) for name in carried for one in held}
        for at in (counter.first[0], counter.first[0] + step.first[0]):
            self.tiles[target] = replace(counter, first=(at,))
            head = dict(self.tiles)
            self.body(loop.body, False)
            copies = {(name, one) for name, one in copies if _may_be(self.tiles.get(name), head.get(one))}
        second, self.tiles = dict(self.places), entry
        return second, bool(copies)

    def _bounds(self, node: ir.Expr) -> tuple[Tile, Tile, Tile] | None:
        """The bounds of a loop over a range that nothing else is said of."""
        if not isinstance(node, ir.Call) or node.keywords or not 0 < len(node.args) < 4:
            return None
        if not (isinstance(node.func, ir.Name) and node.func.id == "range" or self.function(node.func) == "range"):
            return None
        given_ = [self.of(arg) for arg in node.args]
        if len(given_) == 1:
            given_.insert(0, axes.number(0))
        if len(given_) == 2:
            given_.append(axes.number(1))
        start, stop, step = given_
        return None if start is None or stop is None or step is None else (start, stop, step)

    # --- operands ---

    def _operands(self, loop: ir.For, second: Places) -> int:
        """The bytes that copies of operands take in a loop; `second` are the places in its second iteration."""
        nodes = walk(loop.body)
        calls = [node for node in nodes if isinstance(node, ir.Call)]
        if any(isinstance(node, BREAKS) for node in nodes) or not all(self._is_plain(call) for call in calls):
            return 0
        loads = [call for call in calls if self.function(call.func) == "load"]
        dots = [call for call in calls if self.function(call.func) == "dot"]
        used = list(self._used(loads, dots)) if all(keeps(load) for load in loads) else []
        sizes: dict[str, int] = {}  # loads of the same elements are one load
        for load, sides in used:
            at, again = self._places(load)[0], second.get(id(load), (None, None))[0]
            if at is not None and again is not None and axes.moves(at, again) and len(sides) == 1:
                sizes[at.root] = max(sizes.get(at.root, 0), self._size(load))
        size = sum(sizes.values())
        return size and size * self._copies(loop, loads, [load for load, _ in used])

    def _copies(self, loop: ir.For, loads: list[ir.Call], used: list[ir.Call]) -> int:
        """How many copies of each operand there are at least."""
        narrow = {id(load) for load in loads if self._is_narrow(load)}
        row = in_a_row(loop.body, used, {id(load) for load in loads}, narrow)
        return max((self.stages - 1) // row, 1) if row else 0

    def _places(self, load: ir.Call) -> tuple[Tile | None, Tile | None]:
        """Where a load reads, and under which mask, as was known at the load itself."""
        return self.places.get(id(load), (None, None))

    def _is_narrow(self, load: ir.Call) -> bool:
        """Whether the compiler certainly takes a load for too narrow to be made ahead."""
        at, _ = self._places(load)
        bits = dtypes.STORED.get(at.dtype, _AHEAD) if at is not None and at.axes else _AHEAD
        return at is not None and bits < _AHEAD and axes.apart(at) and not hinted(self.kernel.node)

    def _used(self, loads: list[ir.Call], dots: list[ir.Call]) -> Iterable[tuple[ir.Call, set[int]]]:
        """The loads that go into products, each with the sides on which it does; none where anything else goes into
        one."""
        used: dict[int, tuple[ir.Call, set[int]]] = {}
        for dot in dots:
            sides = [self._load_of(arg, loads, dots) for arg in dot.args[:2]]
            known = [load for load in sides if load is not None]
            places = [self._places(load)[0] for load in known]
            if len(known) != 2 or len({at.dtype if at is not None else "" for at in places}) > 1:
                return []
            for side, load in enumerate(known):
                used.setdefault(id(load), (load, set()))[1].add(side)
        return used.values()

    def _load_of(self, arg: ir.Expr, loads: list[ir.Call], dots: list[ir.Call]) -> ir.Call | None:
        """The load whose value an operand is, where products are all that it goes into."""
        if isinstance(arg, ir.Name):
            made = given(self.kernel.node).get(arg.id, ())
            uses = sum(isinstance(n, ir.Name) and n.id == arg.id for n in all_nodes(self.kernel.node.body or ()))
            into = sum(isinstance(a, ir.Name) and a.id == arg.id for dot in dots for a in dot.args[:2])
            if len(made) != 1 or uses != into + 1:  # and where it is assigned
                return None
            return next((load for load in loads if load is made[0]), None)
        return next((load for load in loads if load is arg), None)

    def _size(self, load: ir.Call) -> int:
        """The bytes that a load brings, where it can be made ahead; 0 where that is not known."""
        at, mask = self._places(load)
        if at is None or at.dtype not in _TYPES or len(at.axes) != 2 or given_to(load, 1, "mask") and mask is None:
            return 0
        elements = prod(axis.size for axis in at.axes)
        if axes.neighbours(at, mask) < _WIDE or elements < _LEAST:
            return 0
        return elements * dtypes.STORED[at.dtype] // 8

    def _is_plain(self, call: ir.Call) -> bool:
        """Whether a call is a function of the language that changes nothing in how a loop is compiled."""
        return self.function(call.func) in PLAIN or isinstance(call.func, ir.Attr) and call.func.name == "to"


def _counter(start: Tile, stop: Tile, step: Tile) -> Tile:
    return Tile(by=min(start.by, step.by), late=True, first=start.first, sure=start.sure)


def _may_be(tile: Tile | None, other: Tile | None) -> bool:
    """Whether one value may be the other."""
    if tile is None or other is None:
        return tile is None
    sizes = [[axis.size for axis in one.axes] for one in (tile, other)]
    return (tile.root, tile.first, sizes[0]) == (other.root, other.first, sizes[1])


def _again(before: Tile | None, after: Tile | None) -> Tile | None:
    """What holds of a name wherever an iteration begins."""
    made = axes.joined(before, after)
    return replace(made, first=before.first, sure=before.sure) if made is not None and before is not None else None


def _runs(bounds: tuple[Tile, Tile, Tile]) -> int:
    start, stop, step = (bound.const for bound in bounds)
    return len(range(start, stop, step)) if start is not None and stop is not None and step else 0
