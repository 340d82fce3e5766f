"""Numbers carried exactly and rounded at once."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbh_lint.kernels.numeric.numbers import EXP, PRIME, Num, Numbers, exact, literal, rounded

F32 = st.floats(width=32, min_value=2.0**-60, max_value=2.0**60)


def numbers(**options: object) -> Numbers:
    return Numbers(0, {}, {}, **options)  # type: ignore[arg-type]


def num(f: float, src: int = EXP) -> Num:
    return Num(exact(f), f, "f32", src)


def test_the_modulus_is_prime() -> None:
    """Fermat's test to twelve bases decides primality below 3e24 when it is the strong one (Miller-Rabin)."""
    odd, twos = PRIME - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37):
        powers = [pow(base, odd << k, PRIME) for k in range(twos)]
        assert powers[0] == 1 or PRIME - 1 in powers


@given(F32, F32, F32)
def test_the_exact_half_is_zero_only_where_the_rationals_are(a: float, b: float, c: float) -> None:
    n = numbers()
    total = n.add(num(a), num(b), 0)
    rest = n.add(n.add(total, num(c), 8, plus=False), num(b), 16, plus=False)
    assert (rest.q == 0) == (Fraction(a) + Fraction(b) - Fraction(c) - Fraction(b) == 0)
    product = n.div(n.mul(num(a), num(b)), num(b))
    assert product.q == exact(a)


@given(F32, F32)
def test_the_error_of_a_sum_is_recorded_as_a_residual(a: float, b: float) -> None:
    n = numbers()
    high, low = max(a, b), min(a, b)
    total = n.add(num(high), num(low), 0)
    error = n.add(num(low), n.add(total, num(high), 8, plus=False), 16, plus=False)
    assert error.q == 0
    assert Fraction(total.f) + Fraction(error.f) == Fraction(a) + Fraction(b)
    assert (16 in n.zeros) and n.zeros[16].values == [error.f]


@pytest.mark.parametrize("dt", ["f32", "f16", "bf16", "e4m3"])
def test_rounding_is_idempotent_and_keeps_what_fits(dt: str) -> None:
    for f in (0.0, 1.0, -1.5, 0.1, 3.3e4, math.inf):
        once = rounded(f, dt)
        assert rounded(once, dt) == once
    assert rounded(1.5, dt) == 1.5
    assert math.isnan(rounded(math.nan, dt))


def test_bf16_keeps_eight_bits() -> None:
    assert rounded(1.0 + 2.0**-7, "bf16") == 1.0 + 2.0**-7
    assert rounded(1.0 + 2.0**-9, "bf16") == 1.0


def test_values_that_overflow_become_infinite() -> None:
    assert rounded(1e300, "f32") == math.inf
    assert rounded(-1e6, "f16") == -math.inf
    assert literal(10**400).f == math.inf
    assert exact(math.inf) is None


def test_another_lane_holds_zero_where_ours_does_and_something_else_otherwise() -> None:
    n = numbers()
    value = n.perturbed(num(3.0), 0)
    assert value.q not in (0, exact(3.0))
    assert n.perturbed(num(0.0), 8).q == 0


def test_random_values_are_the_same_for_the_same_seed_and_site() -> None:
    first, second, other = numbers(), numbers(), Numbers(1, {}, {})
    assert first.data(8, "f32", EXP).f == second.data(8, "f32", EXP).f
    assert first.data(8, "f32", EXP).f != second.data(16, "f32", EXP).f
    assert first.data(24, "f32", EXP).f != other.data(24, "f32", EXP).f


def test_an_exponential_is_a_function_of_its_exact_argument() -> None:
    n = numbers()
    one, again, other = n.exp(num(-1.0, 2)), n.exp(num(-1.0, 2)), n.exp(num(-2.0, 2))
    assert one.q == again.q and one.f == again.f
    assert one.q != other.q
    assert one.src == EXP and n.logits == 2
    assert n.exp(literal(-math.inf)).f == 0.0
    assert n.exp(num(0.0)).f == 1.0


def test_a_literal_takes_the_type_of_the_other_operand() -> None:
    n = numbers()
    assert n.mul(literal(0.1), num(1.0)).f == rounded(0.1, "f32")
    assert n.add(Num(exact(1.0), 1.0, "f64"), num(1.0), 0).dt == "f64"


def test_the_largest_numbers_of_a_wide_type_are_infinite_in_a_narrow_one() -> None:
    largest = 1.79769e308
    assert (rounded(largest, "bf16"), rounded(-largest, "e4m3")) == (math.inf, -math.inf)
