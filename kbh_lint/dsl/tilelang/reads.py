"""Which part of a tensor a TileLang kernel can read at most: a box, from the ends of the indices at each place.

An index is a number between two ends: those of block indices, of loop iterations, of elements of parallel loops.
A tile begins at its indices and has the shape of the buffer on the copy's other side. What is not known is read whole,
and so is a tensor whose name stands anywhere but under an index.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from kbh_lint.base import ir
from kbh_lint.base.values import Buffer, Func, Value
from kbh_lint.dsl.tilelang.kernel import REGIONS
from kbh_lint.frontends.walk import children, walk
from kbh_lint.kernels.core.ranges import Ends, arithmetic
from kbh_lint.kernels.extents.parts import Part
from kbh_lint.ops.catalogue import spellings

Box = tuple[Ends, ...]

_COPIES = frozenset(spellings("copy", languages=("tilelang",)))
_ALLOCATED = frozenset(spellings("allocate_shared", "allocate_registers", languages=("tilelang",)))
_LOOPS = frozenset(spellings("range", languages=("tilelang",))) | {"range"}
_EACH = frozenset(spellings("parallel", languages=("tilelang",)))
_BLOCKS = frozenset(spellings("kernel_indices", languages=("tilelang",)))
_CEIL = frozenset(spellings("ceil_div", languages=("tilelang",)))


def read_parts(kernel: Func, args: Mapping[str, Value]) -> dict[int, tuple[list[Part], int]]:
    """For each tensor that a kernel reads, by storage id: the parts that it can read, and how many elements the kernel
    declares the tensor to have."""
    tensors = {name: value for name, value in args.items() if isinstance(value, Buffer)}
    found = _Kernel(kernel, set(tensors))
    out: dict[int, tuple[list[Part], int]] = {}
    for param in kernel.node.params:
        sides = found.sides(_declared(param.type)) if param.name in tensors else None
        storage = tensors[param.name].storage if param.name in tensors else -1
        if sides is None or storage in out or not all(sides):
            out.pop(storage, None)
            continue
        boxes = [found.box(place, partner, sides) for place, partner in found.places.get(param.name, ())]
        whole = param.name in found.bare
        boxes += [tuple((0, side - 1) for side in sides)] if whole else []
        out[storage] = [_part(box, sides) for box in boxes], prod(sides)
    given = [value.storage for value in tensors.values()]
    return {at: made for at, made in out.items() if given.count(at) == 1}


def _declared(node: object) -> object:
    """The shape in `T.Tensor(shape, dtype)` and `T.Tensor[shape, dtype]`."""
    if isinstance(node, ir.Call):
        return node.args[0] if node.args else None
    if isinstance(node, ir.Index):
        return node.index.items[0] if isinstance(node.index, ir.Seq) and node.index.items else node.index
    return None


def _part(box: Box, sides: tuple[int, ...]) -> Part:
    strides = [prod(sides[axis + 1 :]) for axis in range(len(sides))]
    first = sum(low * stride for (low, _), stride in zip(box, strides, strict=True))
    last = sum(high * stride for (_, high), stride in zip(box, strides, strict=True))
    return Part(first, last + 1, prod(max(high - low + 1, 0) for low, high in box))


def _called(node: object) -> str:
    """The last part of the name of what a call calls."""
    func = node.func if isinstance(node, ir.Call) else None
    return func.name if isinstance(func, ir.Attr) else func.id if isinstance(func, ir.Name) else ""


class _Kernel:
    """The places where a kernel indexes its tensors, and what its names are between."""

    def __init__(self, kernel: Func, tensors: set[str]) -> None:
        self.kernel, self.tensors = kernel, tensors
        self.names: dict[str, Ends | None] = {}  # of what the kernel assigns; None where nothing is known
        self.buffers: dict[str, tuple[int, ...] | None] = {}
        self.places: dict[str, list[tuple[ir.Index, ir.Expr | None]]] = {}
        self.bare: set[str] = set()
        nodes = walk(kernel.node.body or ())
        given = [(name, isinstance(node, (ir.For, ir.With))) for node in nodes for name in _assigned(node)]
        counted = {name for name, looped in given if looped}
        plain = [name for name, looped in given if not looped]
        self.names.update((name, None) for name in plain if name in counted or plain.count(name) > 1)
        for node in nodes:
            self._bind(node)
        self._visit(kernel.node.body or (), None, False)

    # --- names ---

    def _bind(self, node: object) -> None:
        if isinstance(node, ir.With):
            for made, target in node.items:
                bounds = made.args if isinstance(made, ir.Call) and _called(made) in _BLOCKS else ()
                self._each(target, [self._below(part) for part in bounds])
        elif isinstance(node, ir.For) and _called(node.iterable) in _EACH:
            bounds = node.iterable.args if isinstance(node.iterable, ir.Call) else ()
            self._each(node.target, [self._below(part) for part in bounds])
        elif isinstance(node, ir.For):
            self._each(node.target, [self._rounds(node.iterable)])
        elif isinstance(node, ir.Assign):
            for target in node.targets:
                self._give(target, node.value)

    def _give(self, target: ir.Expr, value: ir.Expr) -> None:
        if isinstance(target, ir.Seq):
            same = isinstance(value, ir.Seq) and len(value.items) == len(target.items)
            for at, part in enumerate(target.items):
                self._give(part, value.items[at] if same and isinstance(value, ir.Seq) else ir.Const(None, value.loc))
        elif isinstance(target, ir.Name) and _called(value) in _ALLOCATED and isinstance(value, ir.Call):
            sides = self.sides(value.args[0]) if value.args else None
            self.buffers[target.id] = None if target.id in self.buffers else sides
        elif isinstance(target, ir.Name):
            self._set(target.id, self.ends(value))

    def _each(self, target: object, ends: list[Ends | None]) -> None:
        items = target.items if isinstance(target, ir.Seq) else (target,)
        for at, item in enumerate(items):
            if isinstance(item, ir.Name):
                self._set(item.id, ends[at] if at < len(ends) else None)

    def _set(self, name: str, ends: Ends | None) -> None:
        old = self.names.get(name, ends)
        if old is None or ends is None:
            self.names[name] = None
        else:
            self.names[name] = min(old[0], ends[0]), max(old[1], ends[1])

    def _below(self, node: ir.Expr) -> Ends | None:
        """The numbers below an expression."""
        ends = self.ends(node)
        return None if ends is None else (0, max(ends[1] - 1, 0))

    def _rounds(self, node: ir.Expr) -> Ends | None:
        """What a loop over `range(n)`, `T.serial(first, last)` or `T.Pipelined(n, num_stages=3)` counts."""
        if not isinstance(node, ir.Call) or _called(node) not in _LOOPS or not node.args:
            return None
        if len(node.args) == 1:
            return self._below(node.args[0])
        first, last = self.ends(node.args[0]), self.ends(node.args[1])
        step = self.ends(node.args[2]) if len(node.args) > 2 else (1, 1)
        if first is None or last is None or step is None or step[0] <= 0:
            return None
        return first[0], max(last[1] - 1, first[0])

    # --- numbers ---

    def sides(self, node: object) -> tuple[int, ...] | None:
        """The shape that an expression stands for, if all sizes are known; None otherwise."""
        if isinstance(node, ir.Name):
            found = self._outer(node.id)
            given = found if isinstance(found, (tuple, list)) else (found,)
            return tuple(given) if all(type(side) is int for side in given) else None
        items = node.items if isinstance(node, ir.Seq) else (node,)
        ends = [self.ends(item) if item is not None else None for item in items]
        known = [end[0] for end in ends if end is not None and end[0] == end[1]]
        return tuple(known) if len(known) == len(items) else None

    def _outer(self, name: str) -> Value:
        try:
            return self.kernel.env.lookup(name)
        except KeyError:
            return None

    def ends(self, node: object) -> Ends | None:
        """The least and the greatest number that an expression can be; None where unknown."""
        if isinstance(node, ir.Const):
            return (node.value, node.value) if type(node.value) is int else None
        if isinstance(node, ir.Name):
            if node.id in self.names:
                return self.names[node.id]
            found = self._outer(node.id)
            return (found, found) if type(found) is int else None
        if isinstance(node, ir.Binary):
            left, right = self.ends(node.left), self.ends(node.right)
            return None if left is None or right is None else arithmetic(node.op, left, right)
        if isinstance(node, ir.Call) and _called(node) in _CEIL and len(node.args) == 2:
            left, right = self.ends(node.args[0]), self.ends(node.args[1])
            if left is None or right is None or left[0] < 0 or right[0] <= 0:
                return None
            return -(-left[0] // right[1]), -(-left[1] // right[0])
        return None

    # --- places ---

    def _visit(self, node: object, call: ir.Call | None, begins: bool) -> None:
        """Notes indices of tensors below a node. With `begins` they are where a region of a call begins."""
        if isinstance(node, (tuple, list)):
            for part in node:
                self._visit(part, None, False)
            return
        if isinstance(node, ir.Index) and isinstance(node.value, ir.Name) and node.value.id in self.tensors:
            other = None
            if begins and call is not None and _called(call) in _COPIES:
                sides = [*call.args[:2], *(value for key, value in call.keywords if key in ("src", "dst"))]
                other = next((side for side in sides if side is not node), None)
            known = begins and other is not None or not begins
            self.places.setdefault(node.value.id, []).append((node, other)) if known else self.bare.add(node.value.id)
            self._visit(node.index, None, False)
        elif isinstance(node, ir.Name):
            self.bare |= {node.id} & self.tensors
        else:
            regions = isinstance(node, ir.Call) and _called(node) in REGIONS
            for part in children(node):
                self._visit(part, node if isinstance(node, ir.Call) else None, regions)

    def box(self, place: ir.Index, partner: ir.Expr | None, sides: tuple[int, ...]) -> Box:
        """The box of a tensor with these `sides` that an access at `place` touches; in a copy, it is as large as the
        tile of `partner`."""
        items = place.index.items if isinstance(place.index, ir.Seq) else (place.index,)
        if len(items) != len(sides):
            return tuple((0, side - 1) for side in sides)
        tile = self._tile(partner) if partner is not None else ()
        return tuple(self._axis(item, at - len(sides), tile, sides[at]) for at, item in enumerate(items))

    def _axis(self, item: object, axis: int, tile: tuple[int, ...] | None, side: int) -> Ends:
        if isinstance(item, ir.SliceE):
            low = self.ends(item.lower) if item.lower is not None else (0, 0)
            high = self.ends(item.upper) if item.upper is not None else (side, side)
            ends = None if low is None or high is None else (low[0], high[1] - 1)
        else:
            more = None if tile is None else tile[axis] if -axis <= len(tile) else 1
            here = self.ends(item)
            ends = None if here is None or more is None else (here[0], here[1] + more - 1)
        return (0, side - 1) if ends is None else (max(ends[0], 0), min(ends[1], side - 1))

    def _tile(self, partner: ir.Expr) -> tuple[int, ...] | None:
        """The shape of a copy's other side; None where it is not known."""
        if isinstance(partner, ir.Name):
            return self.buffers.get(partner.id)
        return None


def _assigned(node: object) -> list[str]:
    """The names that a statement gives numbers to."""
    targets: list[Any] = []
    if isinstance(node, ir.Assign):
        targets = list(node.targets)
    elif isinstance(node, (ir.AugAssign, ir.For)):
        targets = [node.target] * (2 if isinstance(node, ir.AugAssign) else 1)  # it had a number before
    elif isinstance(node, ir.With):
        targets = [target for _, target in node.items if target is not None]
    plain = [part for target in targets for part in (target.items if isinstance(target, ir.Seq) else (target,))]
    return [part.id for part in plain if isinstance(part, ir.Name)]
