"""Tiles: which sizes there are, where they come from, and what indices make of a shape."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import TYPE_CHECKING

from kbh_lint.base import ir
from kbh_lint.kernels.core.facts import MAX_TILE, TileSizes
from kbh_lint.kernels.core.value import NO_NAMES, Shape, V, leaves

if TYPE_CHECKING:
    from kbh_lint.kernels.languages.python.run import PythonRun


class Tiles:
    """Checks the sizes of tiles, and tracks which arguments they come from."""

    def __init__(self, run: PythonRun) -> None:
        self.run = run
        self.sizes: dict[int, frozenset[str]] = {}  # the arguments behind each tile size

    def sized(self, value: V) -> None:
        """Records which arguments of the launch the tile sizes in `value` depend on."""
        for part in leaves(value):
            if isinstance(part.const, int) and part.deps:
                self.sizes[part.const] = self.sizes.get(part.const, NO_NAMES) | part.deps
                sizes = self.run.facts.sizes
                if not part.deps <= sizes.names:
                    self.run.facts.sizes = sizes._replace(names=sizes.names | part.deps)

    def room(self, *shapes: Shape, elements: int = 0, operands: int = 0) -> None:
        """Records how large tiles of these shapes are."""
        facts, power = self.run.facts, 1
        for shape in shapes:
            behind = [self.sizes.get(size or 0, NO_NAMES) for size in shape]
            power = max(power, *(sum(name in names for names in behind) for name in NO_NAMES.union(*behind)), 1)
        sizes = facts.sizes
        if elements > sizes.elements or operands > sizes.operands or power > sizes.power:
            most = max(elements, sizes.elements), max(operands, sizes.operands), max(power, sizes.power)
            facts.sizes = TileSizes(sizes.names, *most)

    def tile(self, shape: Shape, sizes: Iterable[V]) -> None:
        """Checks a tile of this shape, made from `sizes`. Marks the kernel as refused if Triton has no such tile: a
        size is no power of two, or there are too many elements. Branches that may not be compiled are exempt."""
        known = [size for size in shape if size is not None]
        elements = prod(known)
        self.room(shape, elements=elements)
        fits = all(size > 0 and not size & (size - 1) for size in known) and elements <= MAX_TILE
        if fits or self.run.statements.control.doubtful or self.run.facts.refused:
            return
        for size in sizes:
            self.run.facts.decide(size)
        self.run.facts.refused = "a tile of a size that Triton does not have"

    def rows(self, value: V) -> int | None:
        """The number of rows of a tile; None where unknown, or where nobody asks. The arguments that it depends on
        count as having decided the products."""
        if not self.run.heights:
            return None
        height = value.shape[-2] if value.shape is not None and len(value.shape) > 1 else None
        if isinstance(height, int):
            self.run.facts.decided |= self.sizes.get(height, NO_NAMES)
        return height

    def sliced(self, base: V, parts: Sequence[object]) -> V:
        """`x[:, None]` and the like, which only change the shape."""
        if base.shape is None:
            return base
        shape: list[int | None] = []
        left = list(base.shape)
        for part in parts:
            if isinstance(part, ir.Const) and part.value is None:
                shape.append(1)
            elif isinstance(part, ir.SliceE):
                shape.append(left.pop(0) if left else None)
            elif left:
                left.pop(0)
        return base.with_(shape=tuple(shape) + tuple(left))
