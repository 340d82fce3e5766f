"""Products and sums of data: recorded where they are made, or where what was multiplied is added up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbh_lint.base import dtypes
from kbh_lint.base.ir import Loc
from kbh_lint.kernels.core import facts as F
from kbh_lint.kernels.core.joins import join, mix
from kbh_lint.kernels.core.origins import data_origins, flagged, storages, union, union_casts
from kbh_lint.kernels.core.value import (
    LITERAL,
    NOTHING,
    Mul,
    V,
)

if TYPE_CHECKING:
    from kbh_lint.kernels.core.run import Run


class Products:
    """Records matrix products, multiply-accumulates and sums of loaded data."""

    def __init__(self, run: Run) -> None:
        self.run = run

    def product(
        self, kind: str, a: V, b: V, accumulator: str, loc: Loc,
        *, a_dtype: str = "", b_dtype: str = "", rows: int | None = None, opcode: str = "", acc: V | None = None,
        mode: str = "",
    ) -> V:  # fmt: skip
        """Records the matrix product of `a` and `b` and returns its value."""
        a_type = a_dtype or operand_type(a)
        b_type = b_dtype or operand_type(b)
        key = (kind, a_type, b_type, accumulator, opcode, rows, mode, loc)
        old = self.run.facts.products.get(key)
        a_origins, b_origins = a.origins, b.origins
        casts = union_casts(a.casts, b.casts)
        if old:
            a_origins, b_origins = union(old.a_origins, a_origins), union(old.b_origins, b_origins)
            casts = union_casts(casts, frozenset(old.casts))
        if a_origins or b_origins:
            self.run.sides.add((kind, a_type, b_type, accumulator))
            ordered = tuple(sorted(casts, key=lambda place: place[1:]))
            self.run.facts.products[key] = F.Product(
                kind, a_type, b_type, accumulator, a_origins, b_origins, loc, ordered, rows, opcode, mode
            )
        origins = flagged(union(a.origins, b.origins), "product")
        result = V(accumulator, accumulator, origins, casts)
        return result if acc is None else join(result, acc.with_(const=NOTHING, x=None))

    def multiply_mark(self, a: V, b: V, loc: Loc) -> Mul | None:
        """A mark that the value is `a * b`, if both are loaded data of different parameters; summing marked values
        records a product. None otherwise."""
        left, right = storages(a.origins), storages(b.origins)
        if not left or not right or (left == right and len(left) == 1):
            return None
        factors = (a.x.factors if isinstance(a.x, Mul) else (a,)) + (b.x.factors if isinstance(b.x, Mul) else (b,))
        return Mul(factors[:6], loc)

    def summed(self, value: V, accumulator: str, loc: Loc, kind: str = "fma") -> V:
        """`value` once it has been added to a sum: if it is marked as a product of data, that product is recorded."""
        if not isinstance(value.x, Mul):
            return value
        factors = value.x.factors
        first = factors[0]
        own = storages(first.origins)
        rest = [f for f in factors[1:] if storages(f.origins) != own] or list(factors[1:])
        other = mix(rest)
        made = self.product(kind, first, other, accumulator, loc)
        return value.with_(
            origins=union(flagged(value.origins, "product"), made.origins),
            casts=union_casts(value.casts, made.casts),
            x=None,
        )

    def accumulate(self, old: V, value: V, dtype: str, loc: Loc, in_loop: bool) -> V:
        """`value` as the addend of `old += value` in type `dtype`; records the sum, and the product if `value` is
        one."""
        if value.cells or old.cells:
            return value
        value = self.summed(value, dtype, loc)
        if data_origins(value.origins):
            self.run.facts.add_sum(
                dtype, value.origins, loc, in_loop and any("product" in o.flags for o in old.origins)
            )
            if in_loop:
                value = value.with_(origins=flagged(value.origins, "reduce"))
        return value


def operand_type(value: V) -> str:
    """The element type on which a product of this operand runs: its type, or for floats held as raw bits the type of
    these."""
    if value.dtype in dtypes.INTS and value.content in dtypes.FLOATS:
        return value.content
    return value.dtype if value.dtype != LITERAL else "?"
