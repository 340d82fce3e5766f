"""Numbers that are carried in two systems at once: exactly, and as the machine would round them.

The exact half lives in a prime field instead of in rationals: sums, products and quotients of random inputs are
zero there exactly when they are zero in the rationals (up to a chance of about 1e-17 an operation), and a number
never grows. The rounded half decides comparisons, so both halves always take the same path.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from ctypes import c_float
from dataclasses import field
from typing import Any

from kbh_lint.base import dtypes
from kbh_lint.base.records import dataclass

PRIME = 10**18 + 9
LITERAL = "lit"  # the element type of a constant, which takes that of what it meets
EXP = 1  # the source bit of values that come out of an exponential
_MAGIC = 2.0**20  # literals this large are added to force a rounding (to integers), not to sum
_SENTINEL = 1.0e25  # literals beyond this stand for infinity
_UNDERFLOW = -500.0
_AMPLIFY = 2.0**24
_NUDGED = 1.0 + 2.0**-5  # by how much an addition is wrong whose error is followed
_SMALL = 2.0**-6  # what is larger has been amplified before
_RANK = {LITERAL: 0, **{row.name: row.fmt.rank for row in dtypes.ROWS if row.fmt is not None and row.fmt.rank}}
_MANTISSA = {row.name: row.fmt.fraction + 1 for row in dtypes.ROWS if row.fmt is not None}


class Num:
    """One lane of a floating-point value.

    `q` is the exact value modulo `PRIME` (None when it is not finite), `f` the rounded one, `dt` the element type
    (`lit` for literals, which take the other operand's type). `src` is a bit set of where it comes from: `EXP` and
    one bit a load. `near` is the bit set of additions it was just made of; `wide` counts f64 additions in a row.
    """

    __slots__ = ("q", "f", "dt", "src", "near", "wide")

    def __init__(self, q: int | None, f: float, dt: str, src: int = 0, near: int = 0, wide: int = 0) -> None:
        self.q = q
        self.f = f
        self.dt = dt
        self.src = src
        self.near = near
        self.wide = wide


def exact(f: float) -> int | None:
    """`f` as an element of the field of integers modulo PRIME, in which exact arithmetic is done; None for infinities
    and NaN."""
    if not math.isfinite(f):
        return None
    top, bottom = f.as_integer_ratio()
    return top % PRIME if bottom == 1 else top * pow(bottom, -1, PRIME) % PRIME


def literal(value: float) -> Num:
    """A number for a constant of the program text, or for a known integer."""
    try:
        f = float(value)
    except OverflowError:
        f = math.inf
    return Num(exact(f), f, "lit")


def rounded(f: float, dt: str) -> float:
    """`f` rounded to the element type `dt` (to three fraction bits where the type is unknown)."""
    if dt in ("f32", "tf32"):
        return float(c_float(f).value)
    if dt in ("f64", "lit") or not math.isfinite(f):
        return f
    if dt == "f16":
        try:
            return float(struct.unpack("<e", struct.pack("<e", f))[0])
        except OverflowError:
            return math.copysign(math.inf, f)
    if f == 0.0:
        return f
    mantissa, power = math.frexp(f)
    bits = _MANTISSA.get(dt, 4)
    try:
        return math.ldexp(round(math.ldexp(mantissa, bits)), power - bits)
    except OverflowError:
        return math.copysign(math.inf, f)


@dataclass(slots=True)
class Zero:
    """An addition whose exact result was zero so far: its rounded results in order, and what they are made of."""

    values: list[float] = field(default_factory=list)
    src: int = 0
    near: int = 0


@dataclass(slots=True)
class Total:
    """An addition of two values that are both made of data."""

    src: int = 0
    wide: bool = False


def _mixed(key: tuple[int, ...]) -> int:
    """64 well-mixed bits that depend on nothing but the integers in `key`."""
    x = hash(key) & 0xFFFFFFFFFFFFFFFF
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & 0xFFFFFFFFFFFFFFFF
    return x ^ (x >> 31)


def _full(bits: int, mantissa: int, power: int) -> float:
    """A float between `2**power` and twice that, with a full mantissa."""
    return math.ldexp(1.0 + ((bits % (1 << mantissa)) | 1) / (1 << mantissa), power)


class Numbers:
    """The arithmetic of one run.

    `products` says whether products and quotients are rounded (sums always are). `amplify` holds sites
    whose rounding errors are made large enough to be seen wherever they go, `scale` sites whose sums are scaled for
    the same reason. Of the site `nudge` the first sum comes out wrong by a few percent, also where the same two numbers
    are added elsewhere; rounding errors of sites in `mute` are zero, and other lanes have the same multiple of
    everything where it is given. `memo` holds the values of transcendental functions and is shared by the runs of one
    seed; `bits` numbers the sites and is shared by all runs of a kernel. What comparisons and roundings to integers
    gave is in `settled`, in order; a run that `follows` another takes what they gave there, since a large error must
    not come through where the small one that it stands for does not.
    """

    def __init__(
        self,
        seed: int,
        memo: dict[tuple[str, int], tuple[int, float, float]],
        bits: dict[int, int],
        *,
        products: bool = True,
        amplify: frozenset[int] = frozenset(),
        scale: frozenset[int] = frozenset(),
        nudge: int | None = None,
        mute: frozenset[int] | None = None,
        follows: Sequence[Any] = (),
    ) -> None:
        self.seed = seed
        self.memo = memo
        self.products = products
        self.amplify = amplify
        self.scale = scale
        self.nudge = nudge
        self.mute = mute or frozenset()
        self.alike = mute is not None
        self._wrong: tuple[float, float, str] | None = None  # the numbers whose sum comes out wrong, and its type
        self.zeros: dict[int, Zero] = {}
        self.nonzero: set[int] = set()
        self.settled: list[Any] = []
        self.follows = follows
        self.totals: dict[int, Total] = {}
        self.reductions: dict[int, Total] = {}
        self.logits = 0
        self.plain = LITERAL  # what a constant is as, where it meets another number
        self.implicit_wide = False  # C++: a double constant widens one operation without widening the sum
        self._counts: dict[int, int] = {}
        self._bits = bits

    def promoted(self, a: str, b: str) -> str:
        """The element type of the sum or product of numbers of types `a` and `b`."""
        if self.plain != LITERAL and LITERAL in (a, b) and a != b:
            a, b = (self.plain if dt == LITERAL else dt for dt in (a, b))
        return a if _RANK.get(a, 5) >= _RANK.get(b, 5) else b

    def settle(self, found: object) -> Any:
        """The outcome of a comparison or a rounding to integers in this run: `found`, unless the run is to repeat the
        outcomes of another."""
        at = len(self.settled)
        self.settled.append(self.follows[at] if at < len(self.follows) else found)
        return self.settled[-1]

    # --- random values ---------------------------------------------------------------------------------------

    def draw(self, site: int, salt: int = 0) -> int:
        """Random bits; the n-th draw at a site is the same in every run with one seed."""
        key = site * 4 + salt
        count = self._counts.get(key, 0)
        self._counts[key] = count + 1
        return _mixed((self.seed, site, salt, count))

    def bit(self, site: int) -> int:
        """The bit that stands for data read at `site` in sets of sources (bit 0 is `EXP`)."""
        found = self._bits.get(site)
        if found is None:
            found = self._bits[site] = 2 << len(self._bits)
        return found

    def data(self, site: int, dt: str, src: int) -> Num:
        """A new random value between 0.125 and 8 that the type `dt` holds exactly.

        The first value at a site is the largest: a running sum is usually larger than what is added to it, and adding
        values of different size must lose bits.
        """
        bits = self.draw(site)
        power = 2 if self._counts[site * 4] == 1 else 1 - (bits >> 40) % 5
        f = _full(bits, 23 if dt in ("f32", "f64", "tf32") else 3, power)
        return Num(exact(f), f, dt, src)

    def factor(self, site: int) -> Num:
        """A random number of few bits: the ratio between another lane's value and ours."""
        drawn = self.seed if self.alike else self.draw(site, 1)
        return literal(((drawn % 191) * 2 + 129) / 2048)

    def perturbed(self, value: Num, site: int) -> Num:
        """The value that another lane has where ours has `value`: different from it, but zero for zero."""
        factor = self.factor(site)
        factor.dt = value.dt
        other = self.mul(value, factor)
        other.near = value.near if value.q == 0 else 0
        other.wide = value.wide
        return other

    # --- arithmetic ------------------------------------------------------------------------------------------

    def add(self, a: Num, b: Num, site: int, plus: bool = True) -> Num:
        """`a + b`, or `a - b` if not `plus`, computed exactly and rounded."""
        dt = a.dt if a.dt == b.dt else self.promoted(a.dt, b.dt)
        f = a.f + b.f if plus else a.f - b.f
        q: int | None = None
        if a.q is not None and b.q is not None:
            q = (a.q + b.q if plus else a.q - b.q) % PRIME
        return self._added(q, f, dt, a, b, site, plus)

    def _added(self, q: int | None, f: float, dt: str, a: Num, b: Num, site: int, plus: bool) -> Num:
        if dt == "f32":
            f = c_float(f).value
        elif dt != "f64" and dt != "lit":
            f = rounded(f, dt)
        if (a.dt == "lit" and _MAGIC <= abs(a.f) < _SENTINEL) or (b.dt == "lit" and _MAGIC <= abs(b.f) < _SENTINEL):
            q = exact(f)
        src = a.src | b.src
        if not src:
            return Num(q, f, dt)
        near = a.near | b.near
        wide = 0
        if q == 0:
            record = self.zeros.get(site)
            if record is None:
                record = self.zeros[site] = Zero()
            record.values.append(f)
            record.src |= src
            record.near |= near
            if site in self.amplify and abs(f) < _SMALL:
                # Errors are small multiples of powers of two: factors like these do not make two of them cancel.
                f *= _AMPLIFY * (1.0 + _mixed((site, len(record.values))) % 1021 / 1024)
            elif site in self.mute:
                f = 0.0
        elif q is not None:
            self.nonzero.add(site)
            if a.q and b.q and a.src and b.src:
                if self.nudge is not None and self._is_wrong(site, a.f, b.f if plus else -b.f, dt):
                    f *= _NUDGED
                if dt == "f64":
                    wide = max(a.wide, b.wide) + 1
                if plus:
                    near |= self.bit(-site - 1)
                    if dt != "f64" or wide > 1 or not self.implicit_wide:
                        f = self._totalled(self.totals, site, src, dt == "f64", f)
            elif dt == "f64":
                wide = max(a.wide, b.wide)
        return Num(q, f, dt, src, near, wide)

    def _is_wrong(self, site: int, a: float, b: float, dt: str) -> bool:
        """Whether the sum of two numbers in one type comes out wrong, as the first at the site asked about does."""
        asked = (a, b, dt) if a <= b else (b, a, dt)
        if self._wrong is None and site == self.nudge:
            self._wrong = asked
        return asked == self._wrong

    def _totalled(self, totals: dict[int, Total], site: int, src: int, wide: bool, f: float) -> float:
        total = totals.get(site)
        if total is None:
            total = totals[site] = Total()
        total.src |= src
        total.wide = wide
        return f * 1.5 if site in self.scale else f

    def fma(self, a: Num, b: Num, c: Num, site: int) -> Num:
        """`a * b + c`, computed exactly and rounded once."""
        dt = self.promoted(self.promoted(a.dt, b.dt), c.dt)
        q: int | None = None
        if a.q is not None and b.q is not None and c.q is not None:
            q = (a.q * b.q + c.q) % PRIME
        product = Num(None if a.q is None or b.q is None else a.q * b.q % PRIME, a.f * b.f, dt, a.src | b.src)
        return self._added(q, product.f + c.f, dt, product, c, site, True)

    def mul(self, a: Num, b: Num) -> Num:
        """`a * b`, computed exactly and, where `products` says so, rounded."""
        dt = a.dt if a.dt == b.dt else self.promoted(a.dt, b.dt)
        f = a.f * b.f
        if self.products and dt != "f64" and dt != "lit":
            f = rounded(f, dt)
        q = None if a.q is None or b.q is None or math.isnan(f) else a.q * b.q % PRIME
        return Num(q, f, dt, a.src | b.src, 0, max(a.wide, b.wide) if dt == "f64" else 0)

    def div(self, a: Num, b: Num) -> Num:
        """`a / b`, computed exactly and, where `products` says so, rounded."""
        dt = self.promoted(a.dt, b.dt)
        f = a.f / b.f if b.f else (math.copysign(math.inf, a.f) if a.f else math.nan)
        if self.products:
            f = rounded(f, dt)
        q = a.q * pow(b.q, -1, PRIME) % PRIME if a.q is not None and b.q else None
        if math.isinf(b.f) and math.isfinite(a.f):
            q = 0
        return Num(q, f, dt, a.src | b.src)

    def neg(self, a: Num) -> Num:
        """The value of `-a`."""
        return Num(None if a.q is None else -a.q % PRIME, -a.f, a.dt, a.src, a.near, a.wide)

    def cast(self, a: Num, dt: str) -> Num:
        """`a` converted to the element type `dt`. For a narrow type the rounded value counts as exact from then on:
        what is lost is no rounding error of a sum."""
        if dt == a.dt:
            return a
        f = rounded(a.f, dt)
        if _RANK.get(dt, 5) < _RANK["f32"] and a.dt != "lit":
            return Num(exact(f), f, dt, a.src)
        return Num(a.q, f, dt, a.src, a.near, a.wide if dt == "f64" else 0)

    # --- functions -------------------------------------------------------------------------------------------

    def exp(self, a: Num) -> Num:
        """The exponential of `a`: a value near the real one, and the same for equal exact arguments."""
        self.logits |= a.src
        dt = "f32" if a.dt == "lit" else a.dt
        if a.f < _UNDERFLOW:
            return Num(0, 0.0, dt, EXP)
        if a.q == 0:
            return Num(1, 1.0 + a.f, dt, EXP)
        return self.function("exp", a, dt, EXP)

    def function(self, name: str, a: Num, dt: str, src: int) -> Num:
        """The transcendental function `name` of `a`: some value that is the same for equal exact arguments, and changes
        with its rounded argument."""
        if a.q is None:
            return Num(None, a.f, dt, src)
        key = (name, a.q)
        known = self.memo.get(key)
        if known is None:
            if name == "exp":
                base = rounded(math.exp(min(max(a.f, -20.0), 20.0)), "f32")
            else:
                base = _full(_mixed((self.seed, len(name), ord(name[0]), a.q)), 23, -1)
            value = exact(base)
            known = self.memo[key] = (0 if value is None else value, base, a.f)
        q, base, at = known
        f = base if a.f == at else rounded(base + (a.f - at), dt)
        return Num(q, f, dt, src)

    def reduced(self, a: Num, site: int) -> Num:
        """The sum of `a` over all lanes, modelled as a random multiple of `a`."""
        total = self.perturbed(a, site)
        if a.src and a.q:
            wide = a.dt == "f64"
            total.f = self._totalled(self.reductions, site, a.src, wide, total.f)
            total.wide = 1 if wide else 0
        return total

    def beyond(self, a: Num, site: int, sign: float) -> Num:
        """The largest (`sign` 1) or smallest (-1) of `a` over all lanes, modelled as a new value."""
        f = a.f + sign * (0.25 + (self.draw(site, 2) % 1024) / 512) if math.isfinite(a.f) else a.f
        f = rounded(f, a.dt)
        return Num(exact(f), f, a.dt, a.src)
