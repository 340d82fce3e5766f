"""Whole numbers that a kernel computes, as sums of terms, and how large they can be under conditions."""

from __future__ import annotations

from typing import NamedTuple

Bound = int | None  # None: no bound is known
Terms = tuple[tuple[int, int], ...]  # (atom, coefficient), by atom
MAX_DEPTH = 24
MAX_STEPS = 20_000
MAX_TERMS = 48  # of a sum, and limits at one place


class Linear(NamedTuple):
    """`const + sum of coefficient * atom`, where an atom is a number that is not known (a block index, an argument). A
    tuple: walks make and compare many thousands of them."""

    const: int
    terms: Terms = ()


Limits = dict[Terms, int]  # sums of terms that hold at most so much


class _Bounds:
    """What is known under one set of limits, at a depth, and the steps it took: the most that sums come to, and what
    numbers are between. `limits` has the limits by the first of their atoms, with the place of each in their order."""

    __slots__ = ("atoms", "limits", "rooms", "sums")

    def __init__(self, limits: Limits) -> None:
        self.limits: dict[int, list[tuple[int, Terms, int]]] = {}
        for place, (limit, most) in enumerate(limits.items()):
            if limit:
                self.limits.setdefault(limit[0][0], []).append((place, limit, most))
        self.sums: dict[tuple[Terms, int], tuple[Bound, int]] = {}
        self.atoms: dict[tuple[int, int], tuple[tuple[Bound, Bound], int]] = {}
        self.rooms: dict[Terms, tuple[Bound, int]] = {}


class Atoms:
    """The unknown numbers that sums consist of: numbers between two bounds, and results of operations that are no
    sums."""

    def __init__(self) -> None:
        self.ranges: list[tuple[Bound, Bound]] = []
        self.steps = 0
        self.made: dict[int, tuple[str, Linear, Linear]] = {}
        self.known: dict[tuple[str, Linear, Linear], int] = {}
        self.limits: Limits = {}
        self.bounds = _Bounds(self.limits)  # under `limits`
        self.under: dict[int, tuple[Limits, _Bounds]] = {}  # of those met before; limits are made anew, never changed

    def turn(self, limits: Limits) -> None:
        """Makes `limits` those under which the next bounds are computed; bounds known under other limits are kept."""
        self.under[id(self.limits)] = self.limits, self.bounds
        known = self.under.get(id(limits))
        self.limits, self.bounds = (limits, _Bounds(limits)) if known is None else known

    def between(self, low: Bound, high: Bound) -> Linear:
        """A new unknown number from `low` to `high`, both included."""
        self.ranges.append((low, high))
        return _new(Linear, (0, ((len(self.ranges) - 1, 1),)))

    def anything(self) -> Linear:
        """A new unknown number without bounds."""
        self.ranges.append(_NO_BOUNDS)
        return _new(Linear, (0, ((len(self.ranges) - 1, 1),)))

    def apply(self, op: str, a: Linear, b: Linear) -> Linear:
        """The value of `a op b`; op in + - * // % min max << >> &."""
        if op in ("+", "-"):
            return add(a, b, 1 if op == "+" else -1)
        if op == "<<" and not b.terms and 0 <= b.const < 64:
            op, b = "*", Linear(1 << b.const)
        if op == ">>" and not b.terms and 0 <= b.const < 64:
            op, b = "//", Linear(1 << b.const)
        if op == "*" and not (a.terms and b.terms):
            return scaled(a, b.const) if a.terms else scaled(b, a.const)
        if op == "//" and b == _ONE:
            return a
        key = (op, a, b)
        found = self.known.get(key)
        if found is None:
            self.ranges.append((None, None))
            found = self.known[key] = len(self.ranges) - 1
            self.made[found] = key
        return _new(Linear, (0, ((found, 1),)))


_NO_BOUNDS = (None, None)
_ONE = Linear(1)
_new = tuple.__new__  # what `Linear(...)` calls, after a function of its own


def add(a: Linear, b: Linear, sign: int = 1) -> Linear:
    """The sum `a + sign * b`."""
    const, more = a[0] + sign * b[0], b[1]
    if not more:
        return _new(Linear, (const, a[1]))
    terms = dict(a[1])
    for atom, factor in more:
        terms[atom] = terms.get(atom, 0) + sign * factor
    return _new(Linear, (const, tuple(sorted([term for term in terms.items() if term[1]]))))


def scaled(a: Linear, by: int) -> Linear:
    """The product `by * a`."""
    return _new(Linear, (a[0] * by, tuple([(t, f * by) for t, f in a[1]]) if by else ()))


def limited(limits: Limits, a: Linear, b: Linear, room: int = 0) -> Limits:
    """`limits` with `a <= b - room` added, if there are fewer than MAX_TERMS of them."""
    if len(limits) >= MAX_TERMS:
        return limits
    left = add(a, b, -1)
    most = -left.const - room
    return limits | {left.terms: min(most, limits.get(left.terms, most))}


def lowest(atoms: Atoms, value: Linear, limits: Limits, depth: int = 0) -> Bound:
    """The least value of a sum under `limits`; None where unknown."""
    if not value[1]:
        return highest(atoms, value, limits, depth)
    most = highest(atoms, scaled(value, -1), limits, depth)
    return None if most is None else -most


def highest(atoms: Atoms, value: Linear, limits: Limits, depth: int = 0) -> Bound:
    """The greatest value of a sum under `limits`; None where unknown.

    Computed once for sums that differ by a constant. A stored answer costs as many steps as computing it did.
    """
    const, terms = value
    if not terms:  # nothing is unknown
        atoms.steps += 1
        return const if depth <= MAX_DEPTH and atoms.steps <= MAX_STEPS else None
    if atoms.limits is not limits:
        atoms.turn(limits)
    key = terms, depth
    known = atoms.bounds.sums.get(key)
    if known is not None and atoms.steps + known[1] <= MAX_STEPS:
        atoms.steps += known[1]
        found = known[0]
    else:
        before = atoms.steps
        found = _highest(atoms, terms, limits, depth)
        atoms.bounds.sums[key] = found, atoms.steps - before
    return None if found is None else found + const


def _highest(atoms: Atoms, terms: Terms, limits: Limits, depth: int) -> Bound:
    atoms.steps += 1
    if depth > MAX_DEPTH or atoms.steps > MAX_STEPS or len(terms) > MAX_TERMS:
        return None
    found: Bound = 0
    extremes = False
    for atom, factor in terms:
        made = atoms.made.get(atom)
        if made is None:
            low, high = atoms.ranges[atom]
        else:
            low, high = _atom(atoms, atom, limits, depth)
            extremes = extremes or made[0] in ("min", "max")
        end = high if factor > 0 else low
        found = None if found is None or end is None else found + factor * end
    if extremes:
        found = _by_sides(atoms, terms, limits, depth, found)
    by_atom = atoms.bounds.limits
    if not by_atom:
        return found
    on_these = [
        (*limit, whole, times)
        for atom, whole in terms
        if atom in by_atom
        for limit in by_atom[atom]
        if (times := whole // limit[1][0][1]) > 0
    ]
    if len(on_these) > 1:
        on_these.sort()
    for _, limit, most, whole, factor in on_these:
        if len(limit) == 1:  # of one number, as most are
            atom, unit = limit[0]
            left = tuple([term for term in terms if term[0] != atom]) if unit * factor == whole else None
        else:
            left = _without(terms, limit, factor)
        if left is None:
            continue
        end = highest(atoms, _new(Linear, (0, left)), limits, depth + 1)
        if end is not None and (found is None or end + factor * most < found):
            found = end + factor * most
    return found


def _without(terms: Terms, limit: Terms, factor: int) -> Terms | None:
    """What is left of a sum beside so many times another; None where it does not hold that."""
    factors = dict(terms)
    if [f * factor for _, f in limit] != [factors.get(atom) for atom, _ in limit]:
        return None
    named = [atom for atom, _ in limit]
    return tuple([term for term in terms if term[0] not in named])


def _by_sides(atoms: Atoms, terms: Terms, limits: Limits, depth: int, found: Bound) -> Bound:
    """The smaller of two is neither more than the one nor than the other: a sum with either in its place bounds it."""
    for atom, factor in terms:
        if atom not in atoms.made:
            continue
        op, *sides = atoms.made[atom]
        if op != ("min" if factor > 0 else "max"):
            continue
        rest = Linear(0, tuple([term for term in terms if term[0] != atom]))
        for side in sides:
            assert isinstance(side, Linear)
            end = highest(atoms, add(rest, scaled(side, factor)), limits, depth + 1)
            found = end if found is None or end is not None and end < found else found
    return found


def _atom(atoms: Atoms, atom: int, limits: Limits, depth: int) -> tuple[Bound, Bound]:
    """What a number is between, which is worked out once under the same limits: either end of a sum asks for both ends
    of all that its numbers are made of. An answer that is there costs as many of the steps as it did."""
    if atom not in atoms.made:
        return atoms.ranges[atom]
    known = atoms.bounds.atoms.get((atom, depth))
    if known is not None and atoms.steps + known[1] <= MAX_STEPS:
        atoms.steps += known[1]
        return known[0]
    before = atoms.steps
    found = _operation(atoms, atom, limits, depth)
    atoms.bounds.atoms[atom, depth] = found, atoms.steps - before
    return found


def _operation(atoms: Atoms, atom: int, limits: Limits, depth: int) -> tuple[Bound, Bound]:
    op, left, right = atoms.made[atom]
    a = lowest(atoms, left, limits, depth + 1), highest(atoms, left, limits, depth + 1)
    b = lowest(atoms, right, limits, depth + 1), highest(atoms, right, limits, depth + 1)
    if op in ("min", "max"):
        return _extreme(op, a, b)
    if op == "%":
        return _rest(a, b)
    (low, high), (least, most) = a, b
    if low is None or low < 0 or least is None or least < 0:
        return None, None
    if op == "*":
        return low * least, None if high is None or most is None else high * most
    if op == "&":
        ends = [end for end in (high, most) if end is not None]
        return 0, min(ends) if ends else None
    if op == "//" and least > 0:
        return 0 if most is None else low // most, None if high is None else high // least
    return None, None


def _rest(a: tuple[Bound, Bound], b: tuple[Bound, Bound]) -> tuple[Bound, Bound]:
    """What a division leaves: no more than was divided where that is not below zero, and less than a positive divisor
    either way."""
    (low, high), (least, most) = a, b
    if least is None or least <= 0:
        return (0, high) if low is not None and low >= 0 else (None, None)
    if low is None or low < 0:
        return (1 - most, most - 1) if most is not None else (None, None)
    if high is None and most is None:
        return 0, None
    if high is not None and least == most and low // least == high // least:  # all of them in one round of the divisor
        return low % least, high % least
    ends = [end for end in (high, None if most is None else most - 1) if end is not None]
    return 0, min(ends)


def _extreme(op: str, a: tuple[Bound, Bound], b: tuple[Bound, Bound]) -> tuple[Bound, Bound]:
    lows, highs = [e for e in (a[0], b[0]) if e is not None], [e for e in (a[1], b[1]) if e is not None]
    if op == "min":
        return min(lows) if len(lows) == 2 else None, min(highs) if highs else None
    return max(lows) if lows else None, max(highs) if len(highs) == 2 else None
