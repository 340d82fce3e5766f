"""Shared memory that the stages of a loop take for certain.

Where a loop loads what goes into `tl.dot` as it is, the compiler loads ahead: with `num_stages` stages there are at
least `num_stages - 1` copies of each such operand in shared memory, one more where the product is asynchronous. So it
was for all 16-bit operands whose loads were wide enough, compiled with Triton 3.7 for sm_80, sm_90, sm_100 and sm_120
with 2 to 5 stages. It was not for loads of less than 32 bits (rows that begin anywhere) and fp8 operands that lie the
other way. These count as nothing, and so does what was not tried: loops that run once, loads at places that are loaded
themselves, and whatever else is in a loop that is not known to leave the rest as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from math import prod

from kbh_lint.base import dtypes, ir
from kbh_lint.base.values import Buffer, Func, Scalar, Sym
from kbh_lint.dsl.triton import axes
from kbh_lint.dsl.triton.axes import Tile
from kbh_lint.dsl.triton.shared_memory import given
from kbh_lint.dsl.triton.staged_loops import BREAKS, LOOPS, PLAIN, assigned, keeps, made_of, may_keep, meets
from kbh_lint.frontends.walk import all_nodes, walk

_WIDE = 4  # elements of 16 bits: twice of what a load ahead needs
_TYPES = ("f16", "bf16")
_PASSES = 4
_LANGUAGE = Sym("triton.language")
_SCALARS = ("program_id", "num_programs")
_MIXED = ("sum", "max", "min", "cumsum", "where")
_HINTS = ("multiple_of", "max_contiguous")


def copied(kernel: Func, binding: Mapping[str, object], aligned: Collection[str]) -> int:
    """Returns the bytes of the operands of which a launch with the arguments `binding` keeps a copy for each stage but
    one: those of the loop that has most. `aligned` are the pointers to multiples of 16 bytes."""
    if not may_keep(kernel.node):
        return 0
    reading = _Reading(kernel, binding, aligned)
    reading.body(kernel.node.body or ())
    return reading.most


class _Reading:
    """One walk through a kernel, which follows what is certain to be compiled."""

    def __init__(self, kernel: Func, binding: Mapping[str, object], aligned: Collection[str]) -> None:
        self.kernel = kernel
        self.most = 0
        self.tiles: dict[str, Tile | None] = {
            name: _argument(name, value, name in aligned) for name, value in binding.items()
        }
        for param in kernel.node.params:
            self.tiles.setdefault(param.name, None)

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
                value = self._binary(node.op, self.of(node.target), self.of(node.value))
                self.tiles[node.target.id] = value
            elif isinstance(node, ir.Return):
                return False
            elif not isinstance(node, ir.ExprS) or any(isinstance(part, ir.AssignE) for part in walk(node)):
                if any(isinstance(part, ir.Return) for part in walk(node)):
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
            return not any(isinstance(part, ir.Return) for part in walk((node.body, node.orelse)))
        before, ends = dict(self.tiles), []
        for side in (node.body, node.orelse):
            self.tiles = dict(before)
            self.body(side, counts)
            ends.append(self.tiles)
        self.tiles = {name: axes.joined(one, ends[1].get(name)) for name, one in ends[0].items()}
        return True

    def _loop(self, node: ir.For, counts: bool) -> None:
        bounds = self._bounds(node.iterable)
        inner = any(isinstance(part, LOOPS) for part in walk(node.body))
        if bounds is None or inner or not isinstance(node.target, ir.Name):
            self._forget(node)
            if bounds is not None and not any(isinstance(part, ir.Return) for part in walk(node.body)):
                if isinstance(node.target, ir.Name):
                    self.tiles[node.target.id] = _counter(*bounds)
                self.body(node.body, counts)
                self._forget(node)
            return
        start, stop, _ = bounds
        self.tiles[node.target.id] = _counter(*bounds)
        names = assigned(node.body)
        for _ in range(_PASSES):
            before = dict(self.tiles)
            self.body(node.body, False)
            self.tiles = {
                name: axes.joined(before[name], one) if name in before else one for name, one in self.tiles.items()
            }
            if all(self.tiles.get(name) == before.get(name) for name in names):
                break
        else:
            self._forget(node)
        if counts and (stop.late and start.const is not None or _runs(bounds) > 1):
            self.most = max(self.most, self._operands(node))

    def _bounds(self, node: ir.Expr) -> tuple[Tile, Tile, Tile] | None:
        """The bounds of a loop over a range that nothing else is said of."""
        if not isinstance(node, ir.Call) or node.keywords or not 0 < len(node.args) < 4:
            return None
        if not (isinstance(node.func, ir.Name) and node.func.id == "range" or self._function(node.func) == "range"):
            return None
        given_ = [self.of(arg) for arg in node.args]
        if len(given_) == 1:
            given_.insert(0, axes.number(0))
        if len(given_) == 2:
            given_.append(axes.number(1))
        start, stop, step = given_
        return None if start is None or stop is None or step is None else (start, stop, step)

    # --- operands ---

    def _operands(self, loop: ir.For) -> int:
        """The bytes of the operands that one iteration loads."""
        nodes = walk(loop.body)
        calls = [node for node in nodes if isinstance(node, ir.Call)]
        if any(isinstance(node, BREAKS) for node in nodes) or not all(self._is_plain(call) for call in calls):
            return 0
        loads = [call for call in calls if self._function(call.func) == "load"]
        dots = [call for call in calls if self._function(call.func) == "dot"]
        late = made_of(loop.body, loads)
        if not all(keeps(load) for load in loads) or any(meets(load, loads, late) for load in loads):
            return 0
        sizes: dict[str, int] = {}  # loads of the same elements are one load
        for load, places in self._used(loads, dots):
            at = self.of(load.args[0])
            if at is not None and len(places) == 1:
                sizes[at.root] = max(sizes.get(at.root, 0), self._size(load, at))
        return sum(sizes.values())

    def _used(self, loads: list[ir.Call], dots: list[ir.Call]) -> Iterable[tuple[ir.Call, set[int]]]:
        """The loads that go into products, each with the sides on which it does; none where anything else goes into
        one."""
        used: dict[int, tuple[ir.Call, set[int]]] = {}
        for dot in dots:
            sides = [self._load_of(arg, loads, dots) for arg in dot.args[:2]]
            known = [load for load in sides if load is not None]
            places = [self.of(load.args[0]) for load in known]
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

    def _size(self, load: ir.Call, at: Tile | None) -> int:
        """The bytes that a load brings, where it can be made ahead; 0 where that is not known."""
        named = dict(load.keywords)
        masked = load.args[1] if len(load.args) > 1 else named.get("mask")
        mask = self.of(masked) if masked is not None else None
        if at is None or at.dtype not in _TYPES or len(at.axes) != 2 or masked is not None and mask is None:
            return 0
        if axes.neighbours(at, mask) < _WIDE:
            return 0
        return prod(axis.size for axis in at.axes) * dtypes.STORED[at.dtype] // 8

    def _is_plain(self, call: ir.Call) -> bool:
        """Whether a call is a function of the language that changes nothing in how a loop is compiled."""
        return self._function(call.func) in PLAIN or isinstance(call.func, ir.Attr) and call.func.name == "to"

    def _function(self, node: ir.Expr) -> str:
        """The name of a function of the language; empty for any other."""
        if not isinstance(node, ir.Attr) or not isinstance(node.value, ir.Name) or node.value.id in self.tiles:
            return ""
        found = self.kernel.env.get(node.value.id, None)
        return node.name if found == _LANGUAGE else ""

    # --- expressions ---

    def of(self, node: ir.Expr) -> Tile | None:
        """What is known of the value of an expression."""
        if isinstance(node, ir.Const):
            return axes.number(node.value) if type(node.value) is int else None
        if isinstance(node, ir.Name):
            if node.id in self.tiles:
                return self.tiles[node.id]
            found = self.kernel.env.get(node.id, None)
            return axes.number(found) if type(found) is int else None
        if isinstance(node, ir.Binary):
            return self._binary(node.op, self.of(node.left), self.of(node.right))
        if isinstance(node, ir.Compare):
            return self._compare(node)
        if isinstance(node, ir.Index):
            return self._index(node)
        return self._call(node) if isinstance(node, ir.Call) else None

    def _binary(self, op: str, a: Tile | None, b: Tile | None) -> Tile | None:
        if a is None or b is None:
            return None
        if op == "+":
            return axes.added(a, b)
        if op == "*":
            return axes.multiplied(a, b)
        if op == "%":
            return axes.remainder(a, b)
        if a.const is not None and b.const is not None and not a.axes and not b.axes:
            if op == "-":
                return axes.number(a.const - b.const)
            return axes.number(a.const // b.const) if op == "//" and b.const else None
        if op == "-" and not a.dtype and not b.dtype and not b.axes:  # a multiple of the same below another
            return axes.added(a, replace(b, const=None))
        return axes.mixed(a, b) if op in ("-", "//", "&") else None

    def _compare(self, node: ir.Compare) -> Tile | None:
        a, b = self.of(node.left), self.of(node.rights[0])
        if a is None or b is None or len(node.ops) != 1:
            return None
        return axes.less(a, b) if node.ops[0] in ("<", ">=") else axes.mixed(a, b)

    def _index(self, node: ir.Index) -> Tile | None:
        value = self.of(node.value)
        parts = node.index.items if isinstance(node.index, ir.Seq) else (node.index,)
        whole = [isinstance(part, ir.SliceE) and not (part.lower or part.upper or part.step) for part in parts]
        new = [isinstance(part, ir.Const) and part.value is None for part in parts]
        if value is None or not all(one or two for one, two in zip(whole, new, strict=True)):
            return None
        return axes.turned(value, whole)

    def _call(self, node: ir.Call) -> Tile | None:
        func, name = node.func, self._function(node.func)
        if not name:
            return self._plain_call(node, func)
        if name in _SCALARS:
            return Tile(late=True)
        if name in _HINTS:
            return self.of(node.args[0]) if node.args else None
        if name == "load":
            at = self.of(node.args[0]) if node.args else None
            return axes.loaded(at) if at is not None and at.dtype else None
        if name == "arange":
            return self._arange(node)
        if name in _MIXED:
            return self._mixed(node, name)
        return self._pair(node) if name in ("cdiv", "minimum", "maximum") else None

    def _plain_call(self, node: ir.Call, func: ir.Expr) -> Tile | None:
        """`value.to(type)`, `min(a, b)` and `max(a, b)`."""
        method = isinstance(func, ir.Attr) and func.name == "to" and not self._is_module(func.value)
        value = self.of(func.value) if method and isinstance(func, ir.Attr) else None
        if value is not None:
            return None if value.dtype else value
        if isinstance(func, ir.Name) and func.id in ("min", "max") and func.id not in self.tiles:
            return self._pair(node)
        return None

    def _mixed(self, node: ir.Call, name: str) -> Tile | None:
        """A sum or extreme of a row, which is one number that is not known, a running sum, or a choice by elements."""
        found = [self.of(arg) for arg in node.args[1 if name == "where" else 0 :]]
        one = found[0] if found else None
        if one is None or one.dtype or any(key != "axis" for key, _ in node.keywords):
            return None
        if name == "where":
            other = found[1] if len(found) == 2 else None
            return axes.mixed(one, other) if other is not None and not other.dtype else None
        if len(one.axes) != 1:
            return None
        return axes.mixed(one, one) if name == "cumsum" else Tile(late=True)

    def _is_module(self, node: ir.Expr) -> bool:
        return isinstance(node, ir.Name) and node.id not in self.tiles

    def _pair(self, node: ir.Call) -> Tile | None:
        """The value of a function of two numbers."""
        found = [self.of(arg) for arg in node.args]
        if len(found) != 2 or node.keywords or found[0] is None or found[1] is None:
            return None
        a, b = found[0], found[1]
        if a.const is not None and b.const is not None and not a.axes and not b.axes:
            if isinstance(node.func, ir.Attr) and node.func.name == "cdiv":
                return axes.number(-(-a.const // b.const)) if b.const else None
            return None
        return axes.mixed(a, b)

    def _arange(self, node: ir.Call) -> Tile | None:
        found = [self.of(arg) for arg in node.args]
        first, last = [one.const if one is not None else None for one in found] if len(found) == 2 else (None, None)
        if first is None or last is None or node.keywords or last <= first:
            return None
        return axes.rising(first, last - first)


def _argument(name: str, value: object, aligned: bool) -> Tile | None:
    """What the compiler knows of an argument: one that is 1 is a constant, else whether 16 divides it."""
    if type(value) is int:
        return axes.number(value)
    if isinstance(value, Buffer):
        bits = dtypes.STORED.get(value.dtype)
        return Tile(by=128 // bits if aligned and bits else 1, late=True, dtype=value.dtype, root=name)
    if isinstance(value, Scalar) and type(value.value) is int:
        return axes.number(1) if value.value == 1 else Tile(by=min(axes.multiple(value.value), 16), late=True)
    return None


def _counter(start: Tile, stop: Tile, step: Tile) -> Tile:
    return Tile(by=min(start.by, step.by), late=True)


def _runs(bounds: tuple[Tile, Tile, Tile]) -> int:
    start, stop, step = (bound.const for bound in bounds)
    return len(range(start, stop, step)) if start is not None and stop is not None and step else 0
