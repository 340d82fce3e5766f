"""Power series of triangular matrices in Triton kernels: whether one that stands for an inverse has all its terms.

A strictly triangular matrix A of n rows is nilpotent: (I - A)^-1 is I + A + ... + A^(n-1), and a series that ends
earlier is right only where the powers that are left out are small. The kernel is executed with its loops unrolled;
masks made of `arange`s tell strictly triangular tiles and identities, and what is computed of those keeps its lowest
and highest power.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kbh_lint.base import ir, values
from kbh_lint.base.limits import Budget
from kbh_lint.base.records import dataclass
from kbh_lint.base.values import Value
from kbh_lint.dsl.triton.kernel import LANGUAGE
from kbh_lint.kernels.core.facts import ShortSeries
from kbh_lint.kernels.core.fixpoint import FixPoint
from kbh_lint.kernels.core.frames import Env
from kbh_lint.kernels.core.guards import Tests
from kbh_lint.kernels.core.numbers import Numbers
from kbh_lint.kernels.core.value import NOTHING, V
from kbh_lint.kernels.core.walker import Exit
from kbh_lint.kernels.languages.python.call import Call
from kbh_lint.kernels.languages.python.calls import PythonCalls
from kbh_lint.kernels.languages.python.run import PythonRun
from kbh_lint.kernels.languages.python.tiles import Tiles

FUEL = 6_000
MAX_TRIPS = 8  # squarings; loops over chunks and rows have more


@dataclass(frozen=True, slots=True)
class Axis:
    """0, 1, ... n-1 along one axis of a tile: 0 for rows, 1 for columns, None before it is placed."""

    size: int
    axis: int | None = None


@dataclass(frozen=True, slots=True)
class Mask:
    """Where an n x n tile is `lower` (strictly), `upper` (strictly) or `equal` (on the diagonal)."""

    size: int
    where: str


@dataclass(frozen=True, slots=True)
class Powers:
    """A sum of powers of strictly triangular n x n matrices, from the `low`est to the `high`est."""

    size: int
    side: str  # lower, upper; "" for the identity
    low: int
    high: int

    @property
    def short(self) -> bool:
        """Whether this is a power series that ends before its terms vanish: it has more terms than I + A, but not
        all."""
        return self.low == 0 and 2 <= self.high < self.size - 1


Known = Axis | Mask | Powers
ZERO = Powers(0, "", 0, 0)  # adds nothing


def short_series(
    kernel: values.Func, args: Mapping[str, values.KernelArg], budget: Budget | None = None
) -> tuple[list[ShortSeries], frozenset[str]]:
    """The power series that a Triton kernel uses (multiplies or stores) with terms missing, and the names of the
    arguments that decided its control flow."""
    fuel = FUEL if budget is None else budget.grant(FUEL)
    run = LANGUAGE.run(kernel.node.name, fuel)
    run.facts.tests, run.heights = Tests(0), False  # who asks goes by the names alone
    series = Series(run)
    try:
        run.calls.run_kernel(kernel, args)
    except Exception:  # a kernel that is not followed to its end shows nothing
        series.short.clear()
    if budget is not None:
        budget.take(fuel - max(run.fuel, 0))
    found = list(series.short.values()), frozenset(run.facts.decided)
    vars(series).clear()
    vars(run).clear()  # as after any walk: its parts know it
    return found


class Series:
    """What is known of the values of a run: which are triangular masks, and which are sums of powers of a triangular
    matrix. Loops are unrolled."""

    def __init__(self, run: PythonRun) -> None:
        self.run = run
        self.known: dict[int, tuple[V, Known]] = {}  # the value is kept, so that its id stays its own
        self.last: ir.Loc | None = None  # the last product of powers
        self.short: dict[ir.Loc, ShortSeries] = {}
        run.numbers = SeriesNumbers(run, self)
        run.tiles = SeriesTiles(run, self)
        run.statements.control = SeriesControl(run, self)
        run.calls = SeriesCalls(run, self)

    def of(self, value: V | None) -> Known | None:
        """What is known of a value; None if nothing is."""
        found = self.known.get(id(value))
        return found[1] if found is not None else None

    def mark(self, value: V, known: Known | None, *others: V | None) -> V:
        """Records what is known of `value` and returns it. If `value` is also one of the operands `others`, a copy is
        marked."""
        if any(value is other for other in others) and self.of(value) != known:
            value = value.with_()
        if known is not None:
            self.known[id(value)] = (value, known)
        return value

    def powers(self, value: V) -> Powers | None:
        """A value as a sum of powers of a triangular matrix, a diagonal mask being the identity; None where it is
        none."""
        known = self.of(value)
        if isinstance(known, Mask) and known.where == "equal":
            return Powers(known.size, "", 0, 0)
        if known is None and value.const is not NOTHING and value.const == 0 and not isinstance(value.const, bool):
            return ZERO
        return known if isinstance(known, Powers) else None

    def scaled(self, a: V, b: V) -> Known | None:
        """What is known of `a * b`, `b` being numbers: zeros stay zeros, and a mask makes any tile strictly
        triangular."""
        known = self.of(a)
        if isinstance(known, Powers) and self.of(b) is None:
            return known
        if isinstance(known, Mask) and known.where != "equal":
            return triangular(known, self.powers(b))
        return None

    def built(self, name: str, call: Call, given: list[V]) -> Known | None:
        """What is known of the result of calling the built-in `name`."""
        if name == "arange" and len(given) == 2 and given[0].const == 0 and isinstance(given[1].const, int):
            self.run.facts.decide(given[1])
            return Axis(given[1].const)
        if name == "expand_dims" and len(given) == 2 and given[1].const in (0, 1):
            known = self.of(given[0])
            return replace(known, axis=1 - given[1].const) if isinstance(known, Axis) else None
        if name in ("zeros", "zeros_like"):
            return ZERO
        if name == "cast" and given:
            return self.of(given[0])
        if name == "where" and len(given) == 3:
            return self.chosen_by(*given)
        if name in ("store", "atomic_add") and len(given) > 1:
            self.used(given[1])
        if name == "dot" and len(given) > 1:
            return self.multiplied(call, *given[:3])
        return None

    def chosen_by(self, condition: V, yes: V, no: V) -> Known | None:
        """What is known of `tl.where(condition, yes, no)`: a mask takes a triangle out of a tile, or puts ones on its
        diagonal."""
        mask, one, zero = self.of(condition), self.powers(yes), self.powers(no)
        if not isinstance(mask, Mask):
            return None
        if mask.where == "equal" and yes.const == 1:
            return added(Powers(mask.size, "", 0, 0), zero) if zero is not None and (zero is ZERO or zero.low) else None
        return triangular(mask, one) if mask.where != "equal" and zero is ZERO else None

    def multiplied(self, call: Call, a: V, b: V, acc: V | None = None) -> Known | None:
        """What is known of `tl.dot(a, b, acc)`: exponents add up. A series that is multiplied with anything else counts
        as used."""
        acc = acc if acc is not None else call.kwargs.get("acc")
        left, right = self.powers(a), self.powers(b)
        if left is None or right is None or ZERO in (left, right):
            self.used(a)
            self.used(b)
            return None
        if left.size != right.size or (left.side and right.side and left.side != right.side):
            return None
        made = Powers(left.size, left.side or right.side, left.low + right.low, left.high + right.high)
        total = made if acc is None or acc.const is None else added(made, self.powers(acc))
        self.last = call.loc
        return total

    def used(self, value: V) -> None:
        """Called where a value is multiplied with something else, or stored: records it if it is a series with terms
        missing."""
        known = self.of(value)
        if isinstance(known, Powers) and known.short and self.last is not None:
            self.short.setdefault(self.last, ShortSeries(known.high + 1, known.size, self.last))


class SeriesNumbers(Numbers):
    """Tracks masks and powers through operators."""

    def __init__(self, run: PythonRun, series: Series) -> None:
        super().__init__(run)
        self.series = series

    def binary(self, op: str, a: V, b: V, loc: ir.Loc) -> V:
        made = super().binary(op, a, b, loc)
        known: Known | None = None
        if op in ("+", "-"):
            known = added(self.series.powers(a), self.series.powers(b))
        elif op == "*":
            known = self.series.scaled(a, b) or self.series.scaled(b, a)
        elif op == "/" and isinstance(self.series.of(a), Powers):
            known = self.series.of(a)
        return self.series.mark(made, known, a, b)

    def unary(self, op: str, value: V, loc: ir.Loc) -> V:
        known = self.series.of(value)
        return self.series.mark(
            super().unary(op, value, loc), known if isinstance(known, Powers) and op == "-" else None, value
        )

    def compare(self, op: str, a: V, b: V) -> V:
        made, left, right = super().compare(op, a, b), self.series.of(a), self.series.of(b)
        known = None
        if isinstance(left, Axis) and isinstance(right, Axis) and left.size == right.size:
            if (left.axis, right.axis) == (1, 0):
                op = {"<": ">", ">": "<"}.get(op, op)
            side = {">": "lower", "<": "upper", "==": "equal"}.get(op)
            if side is not None and {left.axis, right.axis} == {0, 1}:
                known = Mask(left.size, side)
        return self.series.mark(made, known, a, b)

    def augmented(self, op: str, old: V, value: V, loc: ir.Loc) -> V:
        known = added(self.series.powers(old), self.series.powers(value)) if op in ("+", "-") else None
        return self.series.mark(super().augmented(op, old, value, loc), known, old, value)


class SeriesTiles(Tiles):
    """Finds out which axis of a tile an index runs along."""

    def __init__(self, run: PythonRun, series: Series) -> None:
        super().__init__(run)
        self.series = series

    def sliced(self, base: V, parts: Sequence[Value]) -> V:
        made, known = super().sliced(base, parts), self.series.of(base)
        places = [isinstance(part, ir.Const) and part.value is None for part in parts]
        if isinstance(known, Axis) and known.axis is None and places in ([False, True], [True, False]):
            return self.series.mark(made, replace(known, axis=int(places[0])), base)
        return made


class SeriesCalls(PythonCalls):
    """Tracks masks and powers through built-ins."""

    def __init__(self, run: PythonRun, series: Series) -> None:
        super().__init__(run)
        self.series = series

    def builtin(self, name: str, path: str, call: Call) -> V:
        given = list(call.args)
        made = super().builtin(name, path, call)
        return self.series.mark(made, self.series.built(name, call, given), *given)

    def method(self, base: V, name: str, call: Call) -> V:
        known = self.series.of(base)
        made = super().method(base, name, call)
        return self.series.mark(made, known if name == "to" else None, base, *call.args)

    def invoke(self, func: values.Func, env: Env, loc: ir.Loc, this: V | None = None) -> V:
        """The result of a call, executed anew each time: arguments that are otherwise equal may stand for different
        powers."""
        return self.inline(func, env, loc, this)


class SeriesControl(FixPoint):
    """Unrolls loops; forgets variables that a branch, or a loop that is not unrolled, may change."""

    def __init__(self, run: PythonRun, series: Series) -> None:
        super().__init__(run)
        self.series = series

    def each(self, node: ir.For) -> Exit:
        frame, walk = self.run.frame, self.run.statements
        iterable = self.run.expressions.eval(node.iterable)
        found = iterable.const
        names = assigned(node.body)
        if not isinstance(found, range) or len(found) > MAX_TRIPS:
            return self.forgetting(names, super().each, node)
        self.run.facts.decide(iterable)
        frame.loops += 1
        jumps: list[Any] = []
        frame.jumps.append(jumps)
        for index in found:
            walk.assign(node.target, V("i32", "i32", const=index, shape=()))
            if walk.block(node.body) is not None:
                self.forget(names)
                break
        frame.jumps.pop()
        frame.loops -= 1
        if jumps:
            self.forget(names)
        return walk.block(node.orelse)

    def iterations(self, node: ir.While | ir.CFor) -> Exit:
        return self.forgetting(assigned(node.body), super().iterations, node)

    def either(self, node: ir.If, test: V) -> Exit:
        return self.forgetting(assigned((*node.body, *node.orelse)), super().either, node, test)

    def forgetting(self, names: set[str], follow: Callable[..., Exit], *given: object) -> Exit:
        """Calls `follow`, which executes code that may run any number of times, with the variables `names` unknown
        before and after."""
        self.forget(names)
        why = follow(*given)
        self.forget(names)
        return why

    def forget(self, names: Iterable[str]) -> None:
        """Forgets what is known of the variables `names`."""
        env = self.run.frame.env
        for name in names:
            if name in env and self.series.of(env[name]) is not None:
                env[name] = env[name].with_()


def triangular(mask: Mask, value: Powers | None) -> Powers:
    """What is known of the part of a tile that a strictly triangular `mask` takes out: the same powers if they lie
    there anyway, else a new matrix."""
    if value is not None and value is not ZERO and value.low >= 1 and value.side == mask.where:
        return value
    return Powers(mask.size, mask.where, 1, 1)


def added(a: Powers | None, b: Powers | None) -> Powers | None:
    """The sum of two sums of powers of one triangular matrix; None where that is unknown."""
    if a is None or b is None or a is ZERO or b is ZERO:
        return b if a is ZERO else a if b is ZERO else None
    if a.size != b.size or (a.side and b.side and a.side != b.side):
        return None
    return Powers(a.size, a.side or b.side, min(a.low, b.low), max(a.high, b.high))


def assigned(body: Iterable[Value]) -> set[str]:
    """The names that statements assign, at any depth."""
    out: set[str] = set()
    stack: list[Any] = list(body)
    while stack:
        node = stack.pop()
        if isinstance(node, (ir.Assign, ir.AugAssign, ir.For)):
            targets = list(node.targets) if isinstance(node, ir.Assign) else [node.target]
            while targets:
                target = targets.pop()
                if isinstance(target, ir.Name):
                    out.add(target.id)
                elif isinstance(target, ir.Seq):
                    targets.extend(target.items)
        for name in ("body", "orelse"):
            stack.extend(getattr(node, name, None) or ())
    return out
