"""Formats, and the model of Hopper's fp8 accumulator against exact arithmetic done by hand."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.deck.code import TORCH_DTYPES
from grader.deck.precision import FORMATS, architectures, half_ulp, matmul, resolve, round_to
from kbh_lint.base import paths
from kbh_lint.problems import load_deck, load_targets

E4M3 = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).float()
FINITE = E4M3[torch.isfinite(E4M3)]
DECK = load_deck(paths.problems_dir())


@pytest.mark.parametrize("fmt", FORMATS)
def test_rounding_is_idempotent_odd_and_keeps_zero_one_and_infinity(fmt: str) -> None:
    values = torch.randn(4096) * torch.exp2(torch.randint(-8, 8, (4096,)).float())
    once = round_to(values, fmt)
    assert torch.equal(round_to(once, fmt), once)
    assert torch.equal(round_to(-values, fmt), -once)
    assert round_to(torch.tensor([0.0, 1.0]), fmt).tolist() == [0.0, 1.0]
    if fmt != "e4m3":
        assert round_to(torch.tensor([math.inf, -math.inf]), fmt).tolist() == [math.inf, -math.inf]
    assert bool(round_to(torch.tensor([math.nan]), fmt).isnan().all())


@pytest.mark.parametrize(("fmt", "fraction"), [("tf32", 10), ("f32-approx", 21), ("bf16", 7), ("f16", 10)])
@given(value=st.floats(2.0**-10, 2.0**10, width=32))
@settings(max_examples=100, deadline=None)
def test_a_rounded_value_is_the_nearest_with_so_many_fraction_bits_and_the_even_one_of_two(
    fmt: str, fraction: int, value: float
) -> None:
    unit = Fraction(2) ** (math.frexp(value)[1] - 1 - fraction)
    assert Fraction(round_to(torch.tensor([value]), fmt).item()) == round(Fraction(value) / unit) * unit


@pytest.mark.parametrize("fmt", ["bf16", "f16", "f32", "e4m3", "e5m2"])
def test_half_an_ulp_is_half_the_way_to_the_next_larger_value_of_the_type(fmt: str) -> None:
    dtype = TORCH_DTYPES[fmt]
    whole = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[dtype.itemsize]
    last = int(torch.tensor([torch.finfo(dtype).max], dtype=dtype).view(whole))
    bits = torch.randint(1, last, (4096,), generator=torch.Generator().manual_seed(5), dtype=torch.int64)
    value, above = (b.to(whole).view(dtype).double() for b in (bits, bits + 1))
    keep = torch.isfinite(above)
    assert torch.equal(2 * half_ulp(value, fmt)[keep], (above - value)[keep])
    assert torch.equal(half_ulp(-value, fmt), half_ulp(value, fmt))


def test_zeros_and_what_is_not_finite_have_no_ulp() -> None:
    assert half_ulp(torch.tensor([0.0, -0.0, math.inf, -math.inf, math.nan]), "f32").tolist() == [0.0] * 5
    with pytest.raises(ValueError, match="unknown format f8"):
        half_ulp(torch.ones(1), "f8")


def test_unknown_formats_and_accumulators_are_told() -> None:
    with pytest.raises(ValueError, match="unknown format f8"):
        round_to(torch.ones(1), "f8")
    with pytest.raises(ValueError, match="unknown accumulator f16"):
        matmul(torch.ones(1, 1), torch.ones(1, 1), "f16")


def cut(value: Fraction, unit: Fraction) -> Fraction:
    """Towards zero, to a multiple of `unit`."""
    return math.trunc(value / unit) * unit


def stored(value: float) -> int:
    return max(math.frexp(value)[1] - 1, -6)


def by_hand(a: list[float], b: list[float]) -> Fraction:
    """One output of the fp8 tensor core in exact arithmetic, step by step as `matmul` describes it."""
    total = Fraction(0)
    for k in range(0, len(a), 32):
        pairs = [(x, y) for x, y in zip(a[k : k + 32], b[k : k + 32], strict=True) if x and y]
        highest = [stored(x) + stored(y) for x, y in pairs]
        if total:
            highest.append(math.frexp(float(total))[1] - 1)
        if not highest:
            continue
        unit = Fraction(2) ** (max(highest) - 13)
        total = sum((cut(Fraction(x) * Fraction(y), unit) for x, y in pairs), cut(total, unit))
        if total:
            total = cut(total, Fraction(2) ** (math.frexp(float(total))[1] - 1 - 13))
    return total


@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 31, 32, 33, 64, 200]), st.integers(-6, 0))
@settings(max_examples=40, deadline=None)
def test_the_fp8_accumulator_is_the_one_done_by_hand(seed: int, k: int, spread: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    a, b = (FINITE[torch.randint(len(FINITE), (3, k), generator=generator)] for _ in range(2))
    a = (a * torch.exp2(torch.randint(spread, 1, a.shape, generator=generator).float())).to(torch.float8_e4m3fn)
    got = matmul(a, b.T, "e4m3-wgmma")
    for i in range(3):
        for j in range(3):
            assert Fraction(got[i, j].item()) == by_hand(a[i].tolist(), b[j].tolist())


def test_the_fp8_accumulator_does_not_depend_on_tiles_and_pads_nothing() -> None:
    a = (torch.rand(150, 70) * 8 - 4).to(torch.float8_e4m3fn)
    b = (torch.randn(130, 70) * 100).to(torch.float8_e4m3fn)
    whole = matmul(a, b.T, "e4m3-wgmma")
    assert torch.equal(matmul(a[140:], b[120:].T, "e4m3-wgmma"), whole[140:, 120:])


def test_the_fp8_accumulator_is_exact_where_thirteen_bits_hold_the_sum_and_loses_small_terms_elsewhere() -> None:
    a = torch.tensor([[1.0, 2.0, 3.0, 4.0] * 16])
    assert matmul(a, a.T, "e4m3-wgmma").item() == 480
    large = torch.tensor([[448.0] + [0.0] * 31 + [2.0**-6] * 32])
    ones = torch.ones(64, 1)
    assert matmul(large, ones, "e4m3-wgmma").item() == 448
    assert matmul(large, ones).item() == 448.5


def test_zero_operands_give_zero() -> None:
    zeros = torch.zeros(2, 96)
    assert not matmul(zeros, zeros.T, "e4m3-wgmma").any()


def test_an_architecture_takes_its_own_format_and_others_the_default() -> None:
    problem = DECK["01_fp8_gemm"]
    assert resolve(problem, "sm_90a")["accumulator"] == "e4m3-wgmma"
    assert resolve(problem, "sm_100a")["accumulator"] == "f32"


def test_architectures_are_those_of_the_targets_once_each() -> None:
    targets = load_targets(paths.problems_dir() / "hardware.yaml")
    problem = DECK["01_fp8_gemm"]
    found = architectures(problem, targets)
    assert set(found) == {targets[name].sm for name in problem.targets} >= {"sm_120a", "sm_90a", "sm_100a"}
    assert len(found) == len(set(found)) < len(problem.targets)
    assert found[0] == targets[problem.targets[0]].sm
