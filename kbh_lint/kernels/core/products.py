"""Products, sums and totals of data: recorded where they are made, or where what was multiplied is added up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbh_lint.base import dtypes
from kbh_lint.base.ir import Loc
from kbh_lint.kernels.core import facts as F
from kbh_lint.kernels.core.joins import join, mix
from kbh_lint.kernels.core.origins import data_origins, flagged, of_products, storages, union, union_casts
from kbh_lint.kernels.core.totals import NO_TOTALS, Loops, Totals, together
from kbh_lint.kernels.core.value import (
    LITERAL,
    NOTHING,
    UNKNOWN_V,
    Mul,
    V,
)

if TYPE_CHECKING:
    from kbh_lint.kernels.core.run import Run


class Products:
    """Records matrix products, multiply-accumulates and sums of loaded data."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.loops = Loops(run)

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
        result.totals = self.loops.product(loc)
        return result if acc is None else self.onto(result, acc)

    def onto(self, made: V, acc: V) -> V:
        """A product once it has been added to an accumulator."""
        result = join(made, acc.with_(const=NOTHING, x=None))
        if acc.totals:
            loc = made.totals[0].place[0] if made.totals else ()
            result = result.with_(totals=self._sum(made, acc, "", result.origins, loc))
        return result

    def in_numbers(self, op: str, a: V, b: V, made: V, loc: Loc) -> Totals:
        """What the result of an operation on two numbers is a total of."""
        if made.dtype not in dtypes.FLOATS:
            return NO_TOTALS
        if op in ("+", "-"):
            return self._sum(a, b, made.dtype, made.origins, loc)
        scaled = a.totals if op == "/" or not b.totals else NO_TOTALS if a.totals else b.totals
        if op == "*" and made.x is None and _weighed(a, b):
            return together(scaled, self.loops.product(loc, weights=True))
        return scaled if op in "*/" else NO_TOTALS

    def _sum(self, a: V, b: V, dtype: str, origins: F.Origins, loc: Loc) -> Totals:
        made, kept = self.loops.added(a.totals, b.totals, dtype, loc)
        for one in kept:
            of = frozenset[Loc]() if one.weights else frozenset((one.place[0],))
            self.run.facts.add_sum(one.kind, origins, one.at, True, one.weights, of, frozenset((loc,)))
        return made

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
            totals=made.totals,
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
            of_products = value.totals and old is not UNKNOWN_V  # what is added is a product's total, and no data
            if not of_products and not any(product.loc == loc for product in self.run.facts.products.values()):
                self.run.sides.add_sum(dtype)
            if in_loop:
                value = value.with_(origins=flagged(value.origins, "reduce"))
        if value.totals and old is UNKNOWN_V:  # of all in it: a sum along an axis
            value = value.with_(totals=NO_TOTALS)
        return value

    def add_in_memory(self, value: V, dtype: str, loc: Loc) -> V:
        """`value` as what an atomic operation adds to memory of type `dtype`: others add to the same total, which
        products are carried in."""
        return self.accumulate(value, value, dtype, loc, True)


def _weighed(a: V, b: V) -> bool:
    """Whether one of two numbers is data and the other one a weight that is made of products: of their product none is
    recorded."""
    return any(storages(one.origins) and of_products(other.origins) for one, other in ((a, b), (b, a)))


def operand_type(value: V) -> str:
    """The element type on which a product of this operand runs: its type, or for floats held as raw bits the type of
    these."""
    if value.dtype in dtypes.INTS and value.content in dtypes.FLOATS:
        return value.content
    return value.dtype if value.dtype != LITERAL else "?"
