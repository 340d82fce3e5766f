"""The values of sums of whole numbers, put together on numbers: which remainders a place can leave.

Values are never fewer than there can be: where they are too many to go through, all multiples of a factor count, and
limits that hold together with what is not known leave nothing out.
"""

from __future__ import annotations

import operator
from bisect import bisect_left, bisect_right
from collections.abc import Callable

from kbh_lint.kernels.extents.intervals import Atoms, Limits, Linear, highest, lowest

MAX_LINES = 40_000  # of numbers that are gone through for one sum
MAX_WORK = 400_000  # numbers that one question may take

Columns = dict[int, list[int]]  # by atom, its number on each line


class TooMany(Exception):
    """More numbers than are gone through."""


class Residues:
    """Asks for the values of sums under limits."""

    def __init__(self, atoms: Atoms) -> None:
        self.atoms = atoms
        self.work = 0
        self.below: dict[int, frozenset[int]] = {}

    def bases(self, value: Linear) -> frozenset[int]:
        """The numbers that a sum is made of, through operations."""
        return frozenset().union(*(self._below(atom) for atom, _ in value.terms))

    def _below(self, atom: int) -> frozenset[int]:
        found = self.below.get(atom)
        if found is None:
            made = self.atoms.made.get(atom)
            found = frozenset([atom]) if made is None else self.bases(made[1]) | self.bases(made[2])
            self.below[atom] = found
        return found

    def remainders(self, value: Linear, modulus: int, limits: Limits) -> int:
        """The remainders that a sum can leave: bit `r` of the answer is set where it can leave `r`."""
        bits = 1 << value.const % modulus
        linked = self.linked(value, limits)
        left = list(value.terms)
        while left:
            group, left = self._together(left, linked)
            bits = turned(bits, self._of_group(Linear(0, tuple(group)), modulus, limits, linked), modulus)
        return bits

    def plainly_all(self, value: Linear, width: int, modulus: int, limits: Limits) -> bool:
        """Whether a sum seems to leave all remainders, with so many from each of its values on: what it is made of
        follows on one another without a gap."""
        linked = self.linked(value, limits)
        if any(atom in self.atoms.made for terms in linked for atom, _ in terms):
            return False
        return self._reach(value, width, modulus, limits) >= modulus

    def _reach(self, value: Linear, width: int, modulus: int, limits: Limits) -> int:
        """How many remainders follow on one another that a sum plainly leaves; 0 where that is not plain."""
        factors = sorted((min(factor % modulus, -factor % modulus), atom) for atom, factor in value.terms)
        for factor, atom in factors:
            if not factor:
                continue
            if factor > width or not self._plain(atom, limits):
                return 0
            width = min(width + factor * (len(self._range(atom, modulus, limits)) - 1), modulus)
        return width

    def _plain(self, atom: int, limits: Limits) -> bool:
        """Whether a number takes all values between its ends, or seems to."""
        made = self.atoms.made.get(atom)
        if made is None:
            return True
        op, value, by = made
        if by.terms or op not in ("//", "%") or by.const <= 0:
            return False
        width = by.const if op == "//" else 1
        return self._reach(value, width, MAX_LINES, limits) > 0

    def lines(self, sums: list[Linear], own: Limits, limits: Limits) -> tuple[int, Columns]:
        """How many lines of numbers there are for what sums are made of, and what each holds on them: all that the
        limits of their `own` allow; each number is as all limits have it. Raises TooMany."""
        known = [(Linear(0, terms), most) for terms, most in own.items() if terms]
        held: Columns = {}
        size = 1
        for atom in self._frontier([*sums, *(one for one, _ in known)]):
            size, held = self._with(atom, size, held, known, limits)
        return size, held

    def numbers(self, value: Linear, held: Columns, size: int) -> list[int]:
        """A sum on each of so many lines. Raises TooMany where one is not known."""
        total = [value.const] * size
        for atom, factor in value.terms:
            made = self.atoms.made.get(atom)
            if atom not in held:
                if made is None:
                    raise TooMany
                a, b = (self.numbers(part, held, size) for part in made[1:])
                held[atom] = _applied(made[0], a, b)
            total = [old + factor * number for old, number in zip(total, held[atom], strict=True)]
        return total

    # --- which numbers belong together ---

    def linked(self, value: Linear, limits: Limits) -> Limits:
        """The limits on nothing but what a sum is made of, where that can be gone through."""
        bases = {atom for atom in self.bases(value) if len(self._range(atom, MAX_LINES + 1, limits)) <= MAX_LINES}
        return {terms: most for terms, most in limits.items() if terms and self.bases(Linear(0, terms)) <= bases}

    def _together(
        self, terms: list[tuple[int, int]], linked: Limits
    ) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """The first of some terms with all that share numbers or limits with it, and those that are left."""
        group, rest = terms[:1], terms[1:]
        bases = set(self._below(group[0][0]))
        sides = [self.bases(Linear(0, limit)) for limit in linked]
        grown = True
        while grown:
            grown = False
            for more in [self._below(term[0]) for term in rest if self._below(term[0]) & bases]:
                grown, bases = True, bases | more
            for side in sides:
                if side & bases and not side <= bases:
                    grown, bases = True, bases | side
            group += [term for term in rest if self._below(term[0]) & bases]
            rest = [term for term in rest if not self._below(term[0]) & bases]
        return group, rest

    def _frontier(self, sums: list[Linear]) -> list[int]:
        """Numbers that sums are made of and that have nothing to do with one another: results of operations where what
        they are made of is in no other."""
        nodes = {atom for one in sums for atom, _ in one.terms}
        while True:
            clash = next((a for a in nodes if a in self.atoms.made and self._clashes(a, nodes)), None)
            if clash is None:
                return sorted(nodes)
            nodes.remove(clash)
            nodes |= {atom for side in self.atoms.made[clash][1:] for atom, _ in side.terms}

    def _clashes(self, atom: int, nodes: set[int]) -> bool:
        return any(other != atom and self._below(other) & self._below(atom) for other in nodes)

    # --- going through them ---

    def _of_group(self, value: Linear, modulus: int, limits: Limits, linked: Limits) -> set[int]:
        """The remainders of terms that belong together."""
        bases = self.bases(value)
        own = {terms: most for terms, most in linked.items() if self.bases(Linear(0, terms)) <= bases}
        try:
            if len(value.terms) == 1 and not own:
                ((atom, factor),) = value.terms
                return {factor * number % modulus for number in self._domain(atom, limits)}
            size, held = self.lines([value], own, limits)
            return {number % modulus for number in self.numbers(value, held, size)}
        except TooMany:
            found = {0}
            for atom, factor in value.terms:
                steps = {number * factor % modulus for number in self._range(atom, modulus, limits)}
                if len(found) * len(steps) > MAX_LINES:
                    return set(range(modulus))
                found = {(one + step) % modulus for one in found for step in steps}
            return found

    def _range(self, atom: int, modulus: int, limits: Limits) -> range:
        """Whole numbers that one may be; as many as leave different remainders where it has no ends."""
        low, high = self.atoms.ranges[atom]
        if atom not in self.atoms.made and low is not None and high is not None:
            low, high = max(low, -limits.get(((atom, -1),), -low)), min(high, limits.get(((atom, 1),), high))
        else:
            one = Linear(0, ((atom, 1),))
            low, high = lowest(self.atoms, one, limits), highest(self.atoms, one, limits)
        if low is None or high is None or high - low >= modulus:
            return range(modulus)
        return range(low, high + 1)

    def _domain(self, atom: int, limits: Limits) -> list[int]:
        """The values of one number, in order. Raises TooMany."""
        made = self.atoms.made.get(atom)
        if made is None:
            found = self._range(atom, MAX_LINES + 1, limits)
            if len(found) > MAX_LINES:
                raise TooMany
            return list(found)
        try:
            size, held = self.lines(list(made[1:]), {}, limits)
            return sorted(set(self.numbers(Linear(0, ((atom, 1),)), held, size)))
        except TooMany:
            found = self._range(atom, MAX_LINES + 1, limits)
            if len(found) > MAX_LINES:
                raise
            return list(found)

    def _with(
        self, atom: int, size: int, held: Columns, known: list[tuple[Linear, int]], limits: Limits
    ) -> tuple[int, Columns]:
        """Lines with one more number, as far as the limits that are settled by then allow it."""
        domain = self._domain(atom, limits)
        ready = held.keys() | {atom}
        below = frozenset().union(*map(self._below, ready))
        own = self._below(atom)
        settled = [(one, most) for one, most in known if own & self.bases(one) and self.bases(one) <= below]
        starts, ends = self._between(atom, domain, settled, size, held)
        counts = [max(end - start, 0) for start, end in zip(starts, ends, strict=True)]
        total = sum(counts)
        self.work += total
        if total > MAX_LINES or self.work > MAX_WORK:
            raise TooMany
        made = {
            name: [number for number, count in zip(column, counts, strict=True) for _ in range(count)]
            for name, column in held.items()
        }
        made[atom] = [number for start, end in zip(starts, ends, strict=True) for number in domain[start:end]]
        return self._kept(settled, total, made)

    def _between(
        self, atom: int, domain: list[int], settled: list[tuple[Linear, int]], size: int, held: Columns
    ) -> tuple[list[int], list[int]]:
        """On each line, which of the values of a number the limits leave that are on it alone: from where to where."""
        own = self._below(atom)
        starts, ends = [0] * size, [len(domain)] * size
        for one, most in settled:
            factor = dict(one.terms).get(atom, 0)
            rest = Linear(0, tuple(term for term in one.terms if term[0] != atom))
            if not factor or self.bases(rest) & own:
                continue
            room = [most - number for number in self.numbers(rest, dict(held), size)]
            if factor > 0:
                far = [bisect_right(domain, left // factor) for left in room]
                ends = list(map(min, ends, far))
            else:
                near = [bisect_left(domain, -(left // -factor)) for left in room]
                starts = list(map(max, starts, near))
        return starts, ends

    def _kept(self, settled: list[tuple[Linear, int]], size: int, held: Columns) -> tuple[int, Columns]:
        """The lines on which limits hold."""
        good = [True] * size
        for one, most in settled:
            numbers = self.numbers(one, dict(held), size)
            good = [old and number <= most for old, number in zip(good, numbers, strict=True)]
        if all(good):
            return size, held
        return sum(good), {
            name: [number for number, ok in zip(column, good, strict=True) if ok] for name, column in held.items()
        }


def turned(bits: int, steps: set[int], modulus: int) -> int:
    """The remainders of sums of one of some remainders (bits that are set) and one of `steps`."""
    whole = (1 << modulus) - 1
    if bits == whole or len(steps) >= modulus:
        return whole
    other = 0
    if bits.bit_count() < len(steps):
        for step in steps:
            other |= 1 << step
        steps, bits = set(ones(bits)), other
    found = 0
    for step in steps:
        found |= bits << step
    return (found & whole) | found >> modulus


def ones(bits: int) -> list[int]:
    """Which bits of a number are set."""
    return [at for at, bit in enumerate(reversed(bin(bits)[2:])) if bit == "1"]


def _applied(op: str, left: list[int], right: list[int]) -> list[int]:
    """`op` on each line; raises TooMany where a number is not one of those that languages agree on."""
    if left and (op in ("//", "%") and min(right) <= 0 or op in ("//", "%", "&") and min(left) < 0):
        raise TooMany
    found = _ON_LINES.get(op)
    if found is None:
        raise TooMany
    return list(map(found, left, right))


_ON_LINES: dict[str, Callable[[int, int], int]] = {
    "*": operator.mul, "//": operator.floordiv, "%": operator.mod, "min": min, "max": max, "<=": operator.le,
    "&": operator.and_,
}  # fmt: skip
