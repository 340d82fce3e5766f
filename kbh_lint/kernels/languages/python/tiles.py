"""Tiles: which sizes there are, where they come from, and what indices make of a shape."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import TYPE_CHECKING

from kbh_lint.base import ir
from kbh_lint.kernels.core.value import NO_NAMES, Shape, V, leaves

if TYPE_CHECKING:
    from kbh_lint.kernels.languages.python.run import PythonRun


MAX_TILE = 1 << 20  # elements: Triton's own bound


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

    def tile(self, shape: Shape, sizes: Iterable[V]) -> None:
        """Checks a tile of this shape, made from `sizes`. Marks the kernel as refused if Triton has no such tile: a
        size is no power of two, or there are too many elements. Branches that may not be compiled are exempt."""
        known = [size for size in shape if size is not None]
        fits = all(size > 0 and not size & (size - 1) for size in known) and prod(known) <= MAX_TILE
        if fits or self.run.statements.control.doubtful or self.run.facts.refused:
            return
        for size in sizes:
            self.run.facts.decide(size)
        self.run.facts.refused = "a tile of a size that Triton does not have"

    def rows(self, value: V) -> int | None:
        """The number of rows of a tile; None where unknown. The arguments that it depends on count as having decided
        the products."""
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
