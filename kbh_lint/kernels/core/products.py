"""Products, sums and totals of data: recorded where they are made, or where what was multiplied is added up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kbh_lint.base import dtypes, ir
from kbh_lint.base.ir import Loc
from kbh_lint.frontends.walk import by_node, walk
from kbh_lint.kernels.core import facts as F
from kbh_lint.kernels.core.joins import join, mix
from kbh_lint.kernels.core.origins import data_origins, flagged, storages, union, union_casts
from kbh_lint.kernels.core.rounds import begins, carrying, same_place
from kbh_lint.kernels.core.value import (
    LITERAL,
    NOTHING,
    Mul,
    V,
)
from kbh_lint.ops import conversions
from kbh_lint.ops.catalogue import spellings

if TYPE_CHECKING:
    from kbh_lint.kernels.core.run import Run

_LINEAR = frozenset(("+", "-", "*", "/"))
SHAPED = frozenset(("to", "cast", "where", "trans", "permute", "reshape", "view", "broadcast_to", "expand_dims"))
_ACCUMULATOR = 2  # the argument of a product, or of a multiply-add, that it adds to
_MAX_NAMES = 4  # that stand for what a total becomes, one in another
_MAX_CALLS = 6  # of functions, one in another, that a total is handed through
_LANGUAGES = ("cuda", "triton")
_FUSED = spellings("fma", languages=_LANGUAGES)
_SUMS = spellings("add", "sub", languages=_LANGUAGES)
_MULTIPLIES = spellings("mul", languages=_LANGUAGES) | _FUSED
_ARITHMETIC = _SUMS | _MULTIPLIES | spellings("div", languages=_LANGUAGES)


class Products:
    """Records matrix products, multiply-accumulates and sums of loaded data."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.open: list[int] = []  # the loops that run
        self.within: dict[int, set[Loc]] = {}  # the places of products, by the loops that they were made in

    def made_in(self, loop: ir.Stmt) -> set[Loc]:
        """The places of the products that were made while a loop ran."""
        return self.within.get(id(loop), set())

    def product(
        self, kind: str, a: V, b: V, accumulator: str, loc: Loc,
        *, a_dtype: str = "", b_dtype: str = "", rows: int | None = None, opcode: str = "", acc: V | None = None,
        mode: str = "",
    ) -> V:  # fmt: skip
        """Records the matrix product of `a` and `b` and returns its value."""
        a_type = a_dtype or operand_type(a)
        b_type = b_dtype or operand_type(b)
        for loop in self.open:
            self.within.setdefault(loop, set()).add(loc)
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
            if not any(product.loc == loc for product in self.run.facts.products.values()):
                self.run.sides.add_sum(dtype)
            if in_loop:
                value = value.with_(origins=flagged(value.origins, "reduce"))
        return value

    def add_in_memory(self, value: V, dtype: str, loc: Loc) -> V:
        """`value` as what an atomic operation adds to memory of type `dtype`: others add to the same total, which
        products are carried in."""
        return self.accumulate(value, value, dtype, loc, True)


def operand_type(value: V) -> str:
    """The element type on which a product of this operand runs: its type, or for floats held as raw bits the type of
    these."""
    if value.dtype in dtypes.INTS and value.content in dtypes.FLOATS:
        return value.content
    return value.dtype if value.dtype != LITERAL else "?"


def kept_total(run: Run, stmt: ir.Assign, made: V) -> None:
    """Records a sum in each type that a loop rounds a total to, which becomes `made` by the assignment `stmt`:
    `total = convert(total + product)`. What was begun in the same round of the loop is no total of it."""
    target = stmt.targets[0]
    inner = run.frame.inside[-1] if run.frame.inside else None
    held = _held(inner) if inner is not None else {}
    path = _along(run, stmt.value, target, held) if _again(stmt) or id(stmt) in _through_names(inner) else None
    if not path:
        return
    loop, of_products = _total_of(run, stmt, made)
    if loop is None:
        return
    of = frozenset[Loc]()
    if of_products or _adder(path) or _added_elsewhere(run, loop, stmt, held):
        of = made_in(run, loop, made)
    weighted = not of and not of_products and _weighted(run, path, made)
    if of or of_products or weighted:
        for kind, loc in _rounded_to(run, path, made, weighted):
            run.facts.add_sum(kind, made.origins, loc, True, weighted, of)


def _total_of(run: Run, stmt: ir.Assign, made: V) -> tuple[ir.Stmt | None, bool]:
    """The loop whose total an assignment makes, None where it makes none; and whether all of it went through products,
    before the round and after the assignment."""
    target = stmt.targets[0]
    old = run.frame.began.get(target.id) if isinstance(target, ir.Name) else None
    if old is None or not isinstance(target, ir.Name):
        return _carrying(run, stmt), False
    inner = run.frame.inside[-1] if run.frame.inside else None
    refers = getattr(old.x, "pointer", None) is not None  # a reference of C++
    if not refers and old is run.frame.env.get(target.id):
        return run.frame.inside[-1], all(any("product" in o.flags for o in value.origins) for value in (old, made))
    return (inner if inner is not None and _goes_on(inner, target) else _carrying(run, stmt)), False


def _added_elsewhere(run: Run, loop: ir.Stmt, stmt: ir.Assign, held: dict[str, ir.Expr]) -> bool:
    """Whether another statement of a loop adds to the variable that `stmt` assigns to."""
    target = stmt.targets[0]
    if not isinstance(target, ir.Name):
        return False
    for node in _assigned(loop).get(target.id, ()):
        if isinstance(node, ir.AugAssign) and node.op in ("+", "-"):
            return True
        if isinstance(node, ir.Assign) and node is not stmt:
            path = _along(run, node.value, target, held)
            if path and _adder(path):
                return True
    return False


def _goes_on(loop: ir.Stmt, target: ir.Expr) -> bool:
    """Whether all that a loop assigns to a variable is made of what it was."""
    nodes = _assigned(loop).get(target.id, ()) if isinstance(target, ir.Name) else ()
    return bool(nodes) and all(isinstance(node, ir.AugAssign) or id(node) in _through_names(loop) for node in nodes)


@by_node
def _assigned(loop: ir.Stmt) -> dict[str, list[ir.Assign | ir.AugAssign | ir.Decl]]:
    """What assigns to each variable in a loop; nothing of those that something else may assign to."""
    found: dict[str, list[ir.Assign | ir.AugAssign | ir.Decl]] = {}
    for node in walk((loop,)):
        if isinstance(node, ir.Decl):
            found.setdefault(node.name, []).append(node)
        elif isinstance(node, ir.Assign):
            for target in node.targets:
                for name in (part.id for part in walk((target,)) if isinstance(part, ir.Name)):
                    found.setdefault(name, []).append(node)
        elif isinstance(node, ir.AugAssign) and isinstance(node.target, ir.Name):
            found.setdefault(node.target.id, []).append(node)
    return found


@by_node
def _held(loop: ir.Stmt) -> dict[str, ir.Expr]:
    """The expressions that variables stand for which a loop assigns to once."""
    found: dict[str, ir.Expr] = {}
    for name, nodes in _assigned(loop).items():
        node = nodes[0] if len(nodes) == 1 else None
        if isinstance(node, ir.Decl) and node.init is not None:
            found[name] = node.init
        elif isinstance(node, ir.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ir.Name):
            found[name] = node.value
    return found


@by_node
def _through_names(loop: ir.Stmt | None) -> frozenset[int]:
    """The assignments in a loop, by their identities, to a variable that what is assigned is made of by the names of
    what the loop computes once."""
    if loop is None:
        return frozenset()
    held, found = _held(loop), set[int]()
    for name, nodes in _assigned(loop).items():
        for node in nodes:
            if isinstance(node, ir.Assign) and isinstance(node.targets[0], ir.Name):
                seen, stack = set[str](), [node.value]
                while stack:
                    names = {part.id for part in walk((stack.pop(),)) if isinstance(part, ir.Name)} - seen
                    seen |= names
                    stack += [held[each] for each in names if each in held]
                if name in seen:
                    found.add(id(node))
    return frozenset(found)


def _carrying(run: Run, stmt: ir.Assign) -> ir.Stmt | None:
    """The innermost loop in which an assignment finds what it left in the round before: of the function that runs, or
    of one of those that called it, and handed it the place."""
    frame, target, called = run.frame, stmt.targets[0], ""
    for _ in range(_MAX_CALLS):
        loop, begun = carrying(frame.func, frame.inside, stmt, target, called)
        if loop is not None or begun or frame.around is None:
            return loop
        outer = run.statements.in_caller(frame, target)
        if outer is None or begins(frame.func, frame.inside, stmt, target, called):
            return None
        frame, target, called = frame.around, outer, frame.called
    return None


def _rounded_to(run: Run, path: list[ir.Expr], made: V, weighted: bool) -> Iterator[tuple[str, ir.Loc]]:
    """Yields the types that a total is rounded to on its way, each with the place where it is."""
    places = [node.loc for node in path]
    for source, kind, loc in list(run.facts.casts):
        floats = source in dtypes.FLOATS and kind in dtypes.FLOATS
        if loc in places and floats and dtypes.BITS[kind] < dtypes.BITS[source]:
            yield kind, loc
    adder = _adder(path)
    narrow = made.dtype in dtypes.FLOATS and dtypes.BITS[made.dtype] < dtypes.BITS["f32"]
    if narrow and (weighted or isinstance(adder, ir.Call) and _named(adder) in _ARITHMETIC):
        yield made.dtype, path[-1].loc


@by_node
def _again(stmt: ir.Assign) -> bool:
    """Whether what is assigned to is in what is assigned."""
    target = stmt.targets[0]
    if isinstance(target, ir.Name):
        return any(isinstance(node, ir.Name) and node.id == target.id for node in walk((stmt.value,)))
    kind = type(target)
    return any(type(node) is kind and same_place(node, target) for node in walk((stmt.value,)))


def made_in(run: Run, loop: ir.Stmt, made: V) -> frozenset[Loc]:
    """The places of the products that were made in a loop and that a value holds."""
    here = run.products.made_in(loop)
    summed = {o.storage for o in made.origins if "product" in o.flags}
    return frozenset(
        product.loc
        for product in run.facts.products.values()
        if product.loc in here
        and summed.issuperset(o.storage for o in product.a_origins | product.b_origins if "index" not in o.flags)
    )


def _weighted(run: Run, path: list[ir.Expr], made: V) -> bool:
    """Whether what is added on the way is data times weights that are made of products: of these no product is
    recorded, as neither side of one is a tensor's data alone."""
    adder = _adder(path)
    if adder is None or any(product.loc == adder.loc for product in run.facts.products.values()):
        return False
    multiplies = any(
        isinstance(node, ir.Binary) and node.op == "*" or isinstance(node, ir.Call) and _named(node) in _MULTIPLIES
        for node in walk((adder,))
    )
    weights = any("product" in o.flags for o in data_origins(made.origins))
    return multiplies and weights and bool(storages(made.origins))


def _adder(path: list[ir.Expr]) -> ir.Expr | None:
    """The first operation on the way of a total, the innermost first, that something is added to it in."""
    inner = path[0]
    for node in path[1:]:
        if isinstance(node, ir.Binary) and node.op in ("+", "-"):
            return node
        if isinstance(node, ir.Call):
            fused = len(node.args) > _ACCUMULATOR and node.args[_ACCUMULATOR] is inner
            if fused or _named(node) in _SUMS or any(value is inner for _, value in node.keywords):
                return node
        inner = node
    return None


def _along(run: Run, node: ir.Expr, target: ir.Expr, held: dict[str, ir.Expr], depth: int = 0) -> list[ir.Expr] | None:
    """The expressions that a total passes on its way through an expression, itself first: what it is added to, scaled
    by and converted to, but no operand of a product. None where it is not in there. `held`: what names stand for."""
    if same_place(node, target):
        return [node]
    inner: list[ir.Expr] = []
    if isinstance(node, ir.Name) and node.id in held and depth < _MAX_NAMES:
        return _along(run, held[node.id], target, held, depth + 1)
    if isinstance(node, ir.Binary) and node.op in _LINEAR:
        inner = [node.left, node.right]
    elif isinstance(node, ir.Cast):
        inner = [node.value]
    elif isinstance(node, ir.Call):
        inner = _summands(run, node)
    for each in inner:
        found = _along(run, each, target, held, depth)
        if found is not None:
            return [*found, node]
    return None


def _summands(run: Run, call: ir.Call) -> list[ir.Expr]:
    """What of a call's arguments goes into its value as a summand."""
    if any(product.loc == call.loc for product in run.facts.products.values()):
        return [*call.args[_ACCUMULATOR:], *(value for key, value in call.keywords if key == "acc")]
    named = isinstance(call.func, ir.TypeRef) or isinstance(call.func, ir.Name) and conversions.named(call.func.id)
    converts = bool(named) or any(loc == call.loc for _, _, loc in run.facts.casts)
    if isinstance(call.func, ir.Attr) and (converts or call.func.name in SHAPED):
        return [call.func.value, *call.args]
    return list(call.args) if converts or _named(call) in _ARITHMETIC else []


def _named(call: ir.Call) -> str:
    """The plain name of what is called."""
    func = call.func
    return func.id.rpartition("::")[2] if isinstance(func, ir.Name) else getattr(func, "name", "")
