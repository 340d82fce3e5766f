"""Products and sums of data: recorded where they are made, or where what was multiplied is added up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbh_lint.base import dtypes, ir
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
from kbh_lint.ops import conversions

if TYPE_CHECKING:
    from kbh_lint.kernels.core.run import Run

_LINEAR = frozenset(("+", "-", "*", "/"))
_ON = frozenset(("to", "cast", "where", "trans", "permute", "reshape", "view", "broadcast_to", "expand_dims"))
_ACCUMULATOR = 2  # the argument of a product that it adds to


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


def rounded_total(run: Run, target: ir.Name, node: ir.Expr, made: V) -> None:
    """Records a sum in each type that a loop rounds the total `target` to, which becomes `made` by the expression
    `node`: `total = convert(total + product)`, in whatever order it adds and converts. What was made in the same round
    of the loop is no total of it."""
    old = run.frame.began.get(target.id)
    if old is None or old is not run.frame.env.get(target.id):
        return
    if not all(any("product" in o.flags for o in value.origins) for value in (old, made)):
        return
    path = _along(run, node, target)
    for source, kind, loc in list(run.facts.casts) if path else ():
        floats = source in dtypes.FLOATS and kind in dtypes.FLOATS
        if path and loc in path and floats and dtypes.BITS[kind] < dtypes.BITS[source]:
            run.facts.add_sum(kind, made.origins, loc, True)


def _along(run: Run, node: ir.Expr, target: ir.Expr) -> list[Loc] | None:
    """The places that a total passes on its way through an expression, as a summand: what it is added to, scaled by and
    converted to, but no operand of a product. None where it is not in there."""
    if same_place(node, target):
        return []
    inner: list[ir.Expr] = []
    if isinstance(node, ir.Binary) and node.op in _LINEAR:
        inner = [node.left, node.right]
    elif isinstance(node, ir.Cast):
        inner = [node.value]
    elif isinstance(node, ir.Call):
        inner = _summands(run, node)
    for each in inner:
        found = _along(run, each, target)
        if found is not None:
            return [*found, node.loc]
    return None


def _summands(run: Run, call: ir.Call) -> list[ir.Expr]:
    """What of a call's arguments goes into its value as a summand."""
    if any(product.loc == call.loc for product in run.facts.products.values()):
        return [*call.args[_ACCUMULATOR:], *(value for key, value in call.keywords if key == "acc")]
    named = isinstance(call.func, ir.TypeRef) or isinstance(call.func, ir.Name) and conversions.named(call.func.id)
    converts = bool(named) or any(loc == call.loc for _, _, loc in run.facts.casts)
    if isinstance(call.func, ir.Attr) and (converts or call.func.name in _ON):
        return [call.func.value, *call.args]
    return list(call.args) if converts else []


def same_place(a: object, b: object) -> bool:
    """Whether two expressions of names, elements and numbers are written the same way."""
    if isinstance(a, ir.Name) and isinstance(b, ir.Name):
        return a.id == b.id
    if isinstance(a, ir.Const) and isinstance(b, ir.Const):
        return bool(a.value == b.value)
    if isinstance(a, ir.Index) and isinstance(b, ir.Index):
        return same_place(a.value, b.value) and same_place(a.index, b.index)
    if isinstance(a, ir.Attr) and isinstance(b, ir.Attr):
        return a.name == b.name and same_place(a.value, b.value)
    if isinstance(a, ir.Binary) and isinstance(b, ir.Binary):
        return a.op == b.op and same_place(a.left, b.left) and same_place(a.right, b.right)
    return False
