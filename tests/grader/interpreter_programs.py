"""Programs that test_interpreter.py runs in a process of its own: kernels in the interpreter against torch.

Each `check_NAME` raises when something is wrong. Run as a script it prints a JSON object of failures by name.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grader.candidate.interpreter import install

install()

import triton  # noqa: E402
import triton.language as tl  # noqa: E402
from triton.tools.ragged_tma import create_ragged_descriptor, load_ragged, store_ragged  # noqa: E402

from grader.candidate.interpreter import InterpreterRefusal, OutOfBoundsError  # noqa: E402

BF16, E4M3, E5M2 = torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2


def random(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0, scale: float = 1.0) -> Tensor:
    return (torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * scale).to(dtype)


def every_fp8(dtype: torch.dtype) -> Tensor:
    return torch.arange(256, dtype=torch.uint8).view(dtype)


def edges() -> Tensor:
    """fp32 values that are hard to round: ties, subnormals, overflow, infinities, NaN, signed zeros."""
    grid = torch.cat([every_fp8(E4M3).float(), every_fp8(E5M2).float()]).nan_to_num(0, 500, -500).unique()
    middle = (grid[1:] + grid[:-1]) / 2
    ties = random(200, dtype=BF16, scale=3.0).float() * (1 + 2**-8)
    odd = [0.0, -0.0, float("inf"), float("-inf"), float("nan"), 3.4e38, 1e-40, -1e-45, 464.0, 448.01, 61440.0, 1e30]
    values = torch.cat([grid, middle, ties, torch.tensor(odd), random(300, scale=1e-3), random(300, scale=100.0)])
    return torch.nn.functional.pad(values, (0, 2048 - values.numel()))


def expect(got: Tensor, want: Tensor) -> None:
    """Equal bit for bit, save that any NaN is NaN."""
    assert got.dtype == want.dtype and got.shape == want.shape, (got.dtype, want.dtype, got.shape, want.shape)
    left, right = got.double(), want.double()
    same = (left == right) | (left.isnan() & right.isnan())
    where = (~same).nonzero()[:3].tolist()
    assert same.all(), f"{int((~same).sum())} differ, first at {where}: {left[~same][:3]} for {right[~same][:3]}"
    assert torch.equal(left.signbit()[left == 0], right.signbit()[right == 0]), "the sign of zero"


def refused(launch: Callable[[], Any], words: str) -> None:
    try:
        launch()
    except InterpreterRefusal as refusal:
        assert words in str(refusal), str(refusal)
        return
    raise AssertionError("it was computed")


def saturated(values: Tensor, dtype: torch.dtype) -> Tensor:
    """As `cvt.rn.satfinite` converts: torch makes NaN or infinity of what is too large."""
    limit = torch.finfo(dtype).max
    return torch.where(values.isnan(), values, values.clamp(-limit, limit)).to(dtype)


# --- conversions, loads and stores ---------------------------------------------------------------------------


@triton.jit
def copy_kernel(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.load(x + i).to(y.dtype.element_ty))


def copied(x: Tensor, dtype: torch.dtype) -> Tensor:
    y = torch.zeros(x.shape, dtype=dtype)
    copy_kernel[(1,)](x, y, x.numel())
    return y


def check_loads_and_stores_keep_every_bit_of_a_narrow_value() -> None:
    everything = torch.arange(65536, dtype=torch.int32).to(torch.int16).view(BF16)
    kept = copied(everything, BF16)
    plain = ~everything.isnan()
    assert (
        torch.equal(kept.view(torch.int16)[plain], everything.view(torch.int16)[plain]) and kept[~plain].isnan().all()
    )
    for dtype in (E4M3, E5M2):
        expect(copied(every_fp8(dtype), dtype).float(), every_fp8(dtype).float())


def check_fp32_to_bf16_rounds_to_nearest_even() -> None:
    expect(copied(edges(), BF16), edges().to(BF16))


def check_fp32_to_fp8_rounds_to_nearest_even_and_saturates() -> None:
    for dtype in (E4M3, E5M2):
        expect(copied(edges(), dtype).float(), saturated(edges(), dtype).float())


def check_fp8_widens_exactly() -> None:
    for dtype in (E4M3, E5M2):
        for wide in (BF16, torch.float16, torch.float32):
            values = every_fp8(dtype)
            if (dtype, wide) == (E5M2, BF16):
                refused(lambda: copied(every_fp8(E5M2), BF16), "infinities and NaN of fp8e5")
                values = torch.where(values.float().isfinite(), values.view(torch.uint8), 0).view(E5M2)
            expect(copied(values, wide), values.to(wide))


def check_bf16_to_fp16_and_back() -> None:
    expect(copied(edges().to(BF16), torch.float16), edges().to(BF16).to(torch.float16))
    expect(copied(edges().to(torch.float16), BF16), edges().to(torch.float16).to(BF16))


def check_whole_numbers_and_narrow_floats() -> None:
    numbers = torch.arange(-512, 512, dtype=torch.int32) * 77
    expect(copied(numbers, BF16), numbers.to(BF16))
    values = random(512, dtype=BF16, scale=300.0)
    expect(copied(values, torch.int32), values.to(torch.int32))
    large = torch.tensor([3e9, -3e9, float("nan"), float("inf")] * 4, dtype=torch.float32)
    expect(copied(large, torch.int32), torch.tensor([2**31 - 1, -(2**31), 0, 2**31 - 1] * 4, dtype=torch.int32))


@triton.jit
def round_down_kernel(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.load(x + i).to(tl.bfloat16, fp_downcast_rounding="rtz"))


def check_rounding_towards_zero_on_request() -> None:
    x = random(512)
    y = torch.zeros(512, dtype=BF16)
    round_down_kernel[(1,)](x, y, 512)
    expect(y, (x.view(torch.int32) & -65536).view(torch.float32).to(BF16))


@triton.jit
def bits_kernel(x, y, z, N: tl.constexpr, INT: tl.constexpr):
    i = tl.arange(0, N)
    bits = tl.load(x + i).to(INT, bitcast=True)
    tl.store(y + i, bits)
    tl.store(z + i, bits.to(x.dtype.element_ty, bitcast=True))


def check_bitcasts_see_the_narrow_bits() -> None:
    for x, kind, view in ((random(256, dtype=BF16), tl.int16, torch.int16), (every_fp8(E4M3), tl.uint8, torch.uint8)):
        y, z = torch.zeros(256, dtype=view), torch.zeros(256, dtype=x.dtype)
        bits_kernel[(1,)](x, y, z, 256, kind)
        finite = x.float().isfinite()
        assert torch.equal(y[finite], x.view(view)[finite])
        expect(z.float(), x.float())


@triton.jit
def masked_kernel(x, y, n, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.load(x + i, mask=i < n, other=1.5), mask=i < n + 2)


def check_masks_choose_what_is_read_and_written() -> None:
    x, y = random(10, dtype=BF16), torch.zeros(16, dtype=BF16)
    masked_kernel[(1,)](x, y, 10, 16)
    expect(y, torch.cat([x, torch.full((2,), 1.5, dtype=BF16), torch.zeros(4, dtype=BF16)]))


@triton.jit
def no_other_kernel(x, y, n, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 0)


def check_what_a_masked_load_leaves_undefined_shows_as_nan() -> None:
    x, y = random(10, dtype=BF16), torch.zeros(16, dtype=BF16)
    no_other_kernel[(1,)](x, y, 10, 16)
    assert y[10:].isnan().all() and (y[:10] == 0).all()


@triton.jit
def scalar_other_kernel(x, y, n):
    tl.store(y, tl.load(x + n, mask=n < 0, other=0.0))


def check_a_masked_scalar_takes_the_other_value_even_when_it_is_zero() -> None:
    y = torch.ones(1)
    scalar_other_kernel[(1,)](torch.ones(1), y, 5)
    assert y.item() == 0


# --- arithmetic ----------------------------------------------------------------------------------------------


@triton.jit
def arithmetic_kernel(x, y, z, OP: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.load(x + i), tl.load(y + i)
    if OP == "add":
        c = a + b
    elif OP == "sub":
        c = a - b
    elif OP == "mul":
        c = a * b
    elif OP == "twice":
        c = a * 2
    elif OP == "half":
        c = a + 0.1
    elif OP == "neg":
        c = -a
    elif OP == "abs":
        c = tl.abs(a)
    elif OP == "where":
        c = tl.where(a > b, a, b)
    elif OP == "max":
        c = tl.maximum(a, b).to(a.dtype)
    elif OP == "min":
        c = tl.minimum(a, b).to(a.dtype)
    elif OP == "fma":
        c = tl.fma(a, b, a)
    elif OP == "sum3":
        c = a + b + a
    tl.store(z + i, c)


BF16_OPS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "twice": lambda a, b: a * 2,
    "half": lambda a, b: a + torch.tensor(0.1, dtype=BF16),
    "neg": lambda a, b: 0 - a,
    "abs": lambda a, b: a.abs(),
    "where": lambda a, b: torch.where(a > b, a, b),
    "max": torch.fmax,
    "min": torch.fmin,
    "fma": lambda a, b: (a.double() * b.double() + a.double()).to(BF16),
    "sum3": lambda a, b: (a + b) + a,
}


def check_every_operation_on_bf16_rounds_its_result() -> None:
    a, b = random(4096, dtype=BF16), random(4096, dtype=BF16, seed=1)
    a[:4], b[:4] = torch.tensor([1e38, float("nan"), 3.0, -1.0], dtype=BF16), torch.tensor([3e38, 1, float("nan"), 1.0])
    for name, reference in BF16_OPS.items():
        z = torch.zeros(4096, dtype=BF16)
        arithmetic_kernel[(1,)](a, b, z, name, 4096)
        want = reference(a, b)
        assert not torch.equal(want, a), name
        try:
            expect(z, want)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from None


def check_fp16_and_fp32_are_as_in_torch() -> None:
    for dtype in (torch.float16, torch.float32):
        a, b = random(1024, dtype=dtype), random(1024, dtype=dtype, seed=1)
        for name in ("add", "sub", "mul", "twice", "abs", "where", "max", "min", "sum3"):
            z = torch.zeros(1024, dtype=dtype)
            arithmetic_kernel[(1,)](a, b, z, name, 1024)
            expect(z, BF16_OPS[name](a, b))


def check_arithmetic_on_fp8_is_refused_and_choosing_is_not() -> None:
    a, b = every_fp8(E4M3), every_fp8(E4M3).view(torch.uint8).flip(0).contiguous().view(E4M3)
    for name in ("add", "mul", "neg", "where"):
        refused(lambda name=name: arithmetic_kernel[(1,)](a, b, torch.zeros(256, dtype=E4M3), name, 256), "fp8e4nv")  # type: ignore[misc]
    z = torch.zeros(256, dtype=E4M3)
    arithmetic_kernel[(1,)](a, b, z, "max", 256)
    expect(z.float(), torch.fmax(a.float(), b.float()))


@triton.jit
def compare_kernel(x, y, z, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(z + i, (a < b).to(tl.float32) + 2 * (a == b).to(tl.float32) + 4 * (a != b).to(tl.float32))


def check_comparisons_give_truth_values_also_of_nan() -> None:
    a, b = random(256, dtype=BF16), random(256, dtype=BF16, seed=1)
    a[:3], b[1] = torch.tensor([float("nan"), 1.0, 0.0], dtype=BF16), 1.0
    z = torch.zeros(256)
    compare_kernel[(1,)](a, b, z, 256)
    expect(z, (a < b).float() + 2 * (a == b).float() + 4 * (a != b).float())


@triton.jit
def math_kernel(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i).to(tl.float32)
    tl.store(y + i, tl.exp(a) + tl.exp2(a) + tl.log(tl.abs(a) + 1) + tl.sqrt(tl.abs(a)) + tl.sigmoid(a) + tl.erf(a))


def check_functions_of_fp32_and_a_bf16_store() -> None:
    x, y = random(512, dtype=BF16), torch.zeros(512, dtype=BF16)
    math_kernel[(1,)](x, y, 512)
    a = x.double()
    want = a.exp() + a.exp2() + (a.abs() + 1).log() + a.abs().sqrt() + a.sigmoid() + a.erf()
    assert ((y.double() - want).abs() <= want.abs() * 2**-8).all()


@triton.jit
def exp_of_bf16_kernel(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.exp(tl.load(x + i)))


def check_exp_of_bf16_is_an_error_as_it_is_for_the_compiler() -> None:
    try:
        exp_of_bf16_kernel[(1,)](random(16, dtype=BF16), torch.zeros(16, dtype=BF16), 16)
    except Exception as error:
        assert "Expected dtype" in str(error), error
        return
    raise AssertionError("it was computed")


@triton.jit
def divide_kernel(x, y, z, w, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(z + i, a // b)
    tl.store(w + i, a % b)


def check_whole_numbers_divide_towards_zero() -> None:
    a = torch.arange(-128, 128, dtype=torch.int32)
    b = torch.tensor([-7, -2, 3, 5], dtype=torch.int32).repeat(64)
    z, w = torch.zeros_like(a), torch.zeros_like(a)
    divide_kernel[(1,)](a, b, z, w, 256)
    expect(z, torch.div(a, b, rounding_mode="trunc"))
    expect(w, torch.fmod(a, b))


@triton.jit
def nibbles_kernel(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    packed = tl.load(x + i)
    low, high = (packed & 0xF).to(tl.bfloat16), (packed >> 4).to(tl.bfloat16)
    tl.store(y + tl.arange(0, 2 * N), tl.interleave(low, high))


def check_nibbles_of_a_byte_shift_without_sign() -> None:
    x, y = torch.arange(256, dtype=torch.uint8), torch.zeros(512, dtype=BF16)
    nibbles_kernel[(1,)](x, y, 256)
    expect(y, torch.stack([x & 15, x >> 4], dim=1).flatten().to(BF16))


@triton.jit
def logic_kernel(x, n, m, y, N: tl.constexpr):
    i = tl.arange(0, N)
    inside = (i < n) and (i >= m)
    outside = not_inside(i, n, m)
    tl.store(y + i, tl.where(inside, 1.0, 0.0) + tl.where(outside, 10.0, 0.0))


@triton.jit
def not_inside(i, n, m):
    return (i >= n) or (i < m)


def check_and_and_or_apply_to_every_element_of_a_block() -> None:
    y = torch.zeros(32)
    logic_kernel[(1,)](torch.zeros(1), 20, 5, y, 32)
    i = torch.arange(32)
    expect(y, torch.where((i < 20) & (i >= 5), 1.0, 10.0))


@triton.jit
def block_truth_kernel(y, N: tl.constexpr):
    i = tl.arange(0, N)
    if i < 3:
        tl.store(y + i, 1.0)


def check_a_block_has_no_truth_value() -> None:
    refused(lambda: block_truth_kernel[(1,)](torch.zeros(8), 8), "truth value")


@triton.jit
def float_argument_kernel(y, scale):
    tl.store(y, scale * 3.0)


def check_a_float_argument_is_fp32() -> None:
    y = torch.zeros(1, dtype=torch.float64)
    float_argument_kernel[(1,)](y, 0.1)
    assert y.item() == float(np.float32(0.1) * np.float32(3.0)) != 0.1 * 3.0


# --- products ------------------------------------------------------------------------------------------------


@triton.jit
def dot_kernel(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr, OUT: tl.constexpr):
    i, j, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    left = tl.load(a + i[:, None] * K + k[None, :])
    right = tl.load(b + k[:, None] * N + j[None, :])
    product = tl.dot(left, right, input_precision=PRECISION, out_dtype=OUT)
    tl.store(c + i[:, None] * N + j[None, :], product)


def product(a: Tensor, b: Tensor, precision: str = "tf32", out: torch.dtype = torch.float32) -> Tensor:
    c = torch.zeros(a.shape[0], b.shape[1], dtype=out)
    kind = tl.float16 if out == torch.float16 else tl.float32
    dot_kernel[(1,)](a, b, c, a.shape[0], b.shape[1], a.shape[1], precision, kind)
    return c


def check_a_product_of_narrow_floats_is_exact_up_to_fp32_sums() -> None:
    for dtype in (BF16, E4M3, E5M2, torch.float16):
        a, b = random(32, 64, dtype=dtype), random(64, 16, dtype=dtype, seed=1)
        want = a.double() @ b.double()
        assert (product(a, b).double() - want).abs().max() < 64 * 2**-24 * want.abs().max()


def check_a_product_stored_as_bf16_rounds_once() -> None:
    a, b = random(16, 32, dtype=BF16), torch.eye(32, dtype=BF16)
    expect(product(a, b, out=BF16), a)


def check_an_fp32_product_is_tf32_unless_ieee_is_asked_for() -> None:
    a, b = random(16, 64), random(64, 16, seed=1)
    exact = a.double() @ b.double()
    cut = [(t.view(torch.int32) & -8192).view(torch.float32).double() for t in (a, b)]
    assert (product(a, b).double() - cut[0] @ cut[1]).abs().max() < 1e-5
    assert (product(a, b).double() - exact).abs().max() > 1e-3
    assert (product(a, b, "ieee").double() - exact).abs().max() < 1e-5
    assert (product(a, b, "tf32x3").double() - exact).abs().max() < 1e-5


def check_an_fp16_accumulator_loses_what_fp16_loses() -> None:
    a, b = torch.full((16, 512), 0.125, dtype=torch.float16), torch.ones(512, 16, dtype=torch.float16)
    a[:, 0] = 4096.0
    # Numbers above 4096 lie 4 apart in fp16: sixteen eighths are lost each time they are added.
    assert (product(a, b, out=torch.float16) == 4096).all()
    assert (product(a, b, out=torch.float32) == 4096 + 511 / 8).all()


def check_a_product_too_small_for_the_compiler_is_an_error() -> None:
    for dtype, depth in ((BF16, 8), (E4M3, 16)):
        try:
            product(random(16, depth, dtype=dtype), random(depth, 16, dtype=dtype))
        except Exception as error:
            assert "Input shapes should have" in str(error), error
        else:
            raise AssertionError("it was computed")


def check_int8_products_are_exact() -> None:
    a = torch.randint(-128, 128, (16, 32), dtype=torch.int8, generator=torch.Generator().manual_seed(0))
    b = torch.randint(-128, 128, (32, 16), dtype=torch.int8, generator=torch.Generator().manual_seed(1))
    c = torch.zeros(16, 16, dtype=torch.int32)
    dot_kernel[(1,)](a, b, c, 16, 16, 32, "ieee", tl.int32)
    expect(c, a.int() @ b.int())


# --- reductions and scans ------------------------------------------------------------------------------------


@triton.jit
def reduce_kernel(x, y, OP: tl.constexpr, AXIS: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M), tl.arange(0, N)
    value = tl.load(x + i[:, None] * N + j[None, :])
    if OP == "sum":
        result = tl.sum(value, axis=AXIS)
    elif OP == "max":
        result = tl.max(value, axis=AXIS)
    elif OP == "min":
        result = tl.min(value, axis=AXIS)
    elif OP == "argmax":
        result = tl.argmax(value, axis=AXIS)
    elif OP == "argmin":
        result = tl.argmin(value, axis=AXIS, tie_break_left=False)
    if AXIS is None:
        tl.store(y, result)
    elif AXIS == 0:
        tl.store(y + j, result)
    else:
        tl.store(y + i, result)


def reduced(x: Tensor, op: str, axis: int | None, out: torch.dtype) -> Tensor:
    m, n = x.shape
    y = torch.zeros(1 if axis is None else (n if axis == 0 else m), dtype=out)
    reduce_kernel[(1,)](x, y, op, axis, m, n)
    return y


def check_extremes_and_their_places() -> None:
    for dtype in (BF16, torch.float32, torch.float16):
        x = random(16, 64, dtype=dtype)
        for axis in (0, 1, -1):
            expect(reduced(x, "max", axis, dtype), x.amax(axis))
            expect(reduced(x, "min", axis, dtype), x.amin(axis))
            expect(reduced(x, "argmax", axis, torch.int32), x.argmax(axis).int())
        expect(reduced(x, "max", None, dtype), x.max()[None])
    ties = torch.tensor([[3, 7, 7, 1], [5, 5, 5, 5]], dtype=torch.int32)
    expect(reduced(ties, "argmax", 1, torch.int32), torch.tensor([1, 0], dtype=torch.int32))


def check_sums_of_bf16_round_at_every_step() -> None:
    x = random(16, 64, dtype=BF16)
    left = x
    while left.shape[1] > 1:
        left = left[:, 0::2] + left[:, 1::2]
    expect(reduced(x, "sum", 1, BF16), left[:, 0])
    wide = random(64, 128)
    for axis in (0, 1, None):
        want = wide.double().sum(axis) if axis is not None else wide.double().sum()[None]
        assert (reduced(wide, "sum", axis, torch.float32).double() - want).abs().max() < 2e-5


def check_the_place_of_a_maximum_among_nan_is_refused() -> None:
    x = random(4, 8)
    x[1, 3] = float("nan")
    refused(lambda: reduced(x, "argmax", 1, torch.int32), "NaN")


@triton.jit
def pair_combine(sum_a, lost_a, sum_b, lost_b):
    total = sum_a + sum_b
    part = total - sum_a
    error = (sum_a - (total - part)) + (sum_b - part)
    return total, lost_a + lost_b + error


@triton.jit
def pair_kernel(x, y, N: tl.constexpr):
    value = tl.load(x + tl.arange(0, N))
    total, lost = tl.reduce((value, tl.zeros_like(value)), 0, pair_combine)
    tl.store(y, total)
    tl.store(y + 1, lost)


def check_a_reduction_of_pairs_with_ones_own_function() -> None:
    x = random(1024, scale=1000.0)
    y = torch.zeros(2)
    pair_kernel[(1,)](x, y, 1024)
    assert abs(y.double().sum().item() - x.double().sum().item()) < 1e-6 * x.abs().sum().item() * 2**-10


@triton.jit
def first_combine(a, b):
    return a


@triton.jit
def later_combine(va, ia, vb, ib):
    take = (vb > va) or ((vb == va) and (ib < ia))
    return tl.where(take, vb, va), tl.where(take, ib, ia)


@triton.jit
def ordered_kernel(x, y, z, w, N: tl.constexpr):
    i = tl.arange(0, N)
    value = tl.load(x + i)
    tl.store(y, tl.reduce(value, 0, first_combine))
    best, place = tl.reduce((value, i), 0, later_combine)
    tl.store(z, best)
    tl.store(w, place)


def check_a_combining_function_sees_neighbours_in_order() -> None:
    x = random(64, dtype=torch.float32).round()
    y, z, w = torch.zeros(1), torch.zeros(1), torch.zeros(1, dtype=torch.int32)
    ordered_kernel[(1,)](x, y, z, w, 64)
    assert (y.item(), z.item(), w.item()) == (x[0].item(), x.max().item(), int(x.argmax()))


@triton.jit
def scan_kernel(x, y, REVERSE: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(y + at, tl.cumsum(tl.load(x + at), axis=1, reverse=REVERSE))


def check_scans_run_in_order_and_round() -> None:
    x = random(4, 32, dtype=BF16)
    y = torch.zeros_like(x)
    scan_kernel[(1,)](x, y, False, 4, 32)
    expect(y, x.float().cumsum(1).to(BF16))  # Triton widens a running sum of bf16
    numbers = torch.arange(128, dtype=torch.int32).view(4, 32)
    back = torch.zeros_like(numbers)
    scan_kernel[(1,)](numbers, back, True, 4, 32)
    expect(back, numbers.flip(1).cumsum(1).flip(1).int())


@triton.jit
def sum_combine(a, b):
    return a + b


@triton.jit
def narrow_scan_kernel(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.associative_scan(tl.load(x + i), 0, sum_combine))


def check_a_scan_with_ones_own_function_rounds_at_every_step() -> None:
    x, y = random(64, dtype=BF16), torch.zeros(64, dtype=BF16)
    narrow_scan_kernel[(1,)](x, y, 64)
    want = [x[0]]
    for i in range(1, 64):
        want.append(want[-1] + x[i])
    expect(y, torch.stack(want))


@triton.jit
def sort_kernel(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.sort(tl.load(x + i), descending=True))


def check_the_sorting_network_sorts() -> None:
    for dtype in (BF16, torch.float32):
        x, y = random(128, dtype=dtype), torch.zeros(128, dtype=dtype)
        sort_kernel[(1,)](x, y, 128)
        expect(y, x.sort(descending=True).values)


# --- addresses -----------------------------------------------------------------------------------------------


@triton.jit
def block_pointer_kernel(x, y, m, n, M: tl.constexpr, N: tl.constexpr):
    source = tl.make_block_ptr(x, (m, n), (n, 1), (0, 0), (M, N), (1, 0))
    target = tl.make_block_ptr(y, (m, n), (n, 1), (0, 0), (M, N), (1, 0))
    for _ in range(0, tl.cdiv(n, N)):
        value = tl.load(source, boundary_check=(0, 1), padding_option="zero")
        tl.store(target, (value * 2).to(y.dtype.element_ty), boundary_check=(0, 1))
        source = tl.advance(source, (0, N))
        target = tl.advance(target, (0, N))


def check_block_pointers_stop_at_the_edge() -> None:
    x, y = random(13, 37, dtype=BF16), torch.zeros(13, 37, dtype=BF16)
    block_pointer_kernel[(1,)](x, y, 13, 37, 16, 16)
    expect(y, x * 2)


@triton.jit
def descriptor_kernel(x, y, m, n, M: tl.constexpr, N: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [m, n], [n, 1], [M, N])
    target = tl.make_tensor_descriptor(y, [m, n], [n, 1], [M, N])
    for column in range(0, n, N):
        target.store([0, column], source.load([0, column]))


@triton.jit
def host_descriptor_kernel(source, y, n, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * n + tl.arange(0, N)[None, :]
    tl.store(y + at, source.load([0, 0]))


def check_tensor_descriptors_of_both_kinds() -> None:
    from triton.tools.tensor_descriptor import TensorDescriptor

    for dtype in (BF16, E4M3):
        x, y = random(13, 48, dtype=dtype), torch.zeros(13, 48, dtype=dtype)
        descriptor_kernel[(1,)](x, y, 13, 48, 16, 16)
        expect(y.float(), x.float())
        y = torch.zeros(16, 48, dtype=dtype)
        host_descriptor_kernel[(1,)](TensorDescriptor.from_tensor(x, [16, 16]), y, 48, 16, 16)
        expect(y[:13, :16].float(), x[:, :16].float())
        assert (y[13:].float() == 0).all()


@triton.jit
def joined_kernel(x, y, M: tl.constexpr, N: tl.constexpr):
    block = tl.load(x + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    deep = tl.reshape(block, [1] + block.shape + [1])
    rows: tl.constexpr = [M] + [1]
    tl.store(y + tl.arange(0, M * N), tl.reshape(deep + tl.zeros([1] + rows + [1], tl.float32), (M * N,)))


def check_a_list_takes_a_shape_after_it() -> None:
    x, y = random(8, 16), torch.zeros(8, 16)
    joined_kernel[(1,)](x, y, 8, 16)
    expect(y, x)


@triton.jit
def ragged_kernel(source, target, first, count, M: tl.constexpr):
    rows = load_ragged(source, first, count, [0, 0])
    tl.static_assert(rows.shape[0] == M)
    store_ragged(target, first, count, [0, 0], rows + 1)


def check_ragged_descriptors_keep_to_the_rows_of_their_part() -> None:
    x, y = random(40, 16), torch.zeros(40, 16)
    parts = (create_ragged_descriptor(t, [16, 16]) for t in (x, y))
    ragged_kernel[(1,)](*parts, 7, 11, 16)
    expect(y[7:18], x[7:18] + 1)
    assert not y[:7].any() and not y[18:].any()


@triton.jit
def layout_kernel(x, y, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    value = tl.load(x + at)
    left, right = tl.split(tl.reshape(value, (M, N // 2, 2)))
    joined = tl.reshape(tl.join(right, left), (M, N))
    back = tl.trans(tl.trans(joined))
    column = tl.arange(0, N)[:, None] * M + tl.arange(0, M)[None, :]
    tl.store(y + column, tl.permute(back, (1, 0)) + tl.zeros((N, M), tl.bfloat16) + joined.T - joined.T)


def check_layouts_keep_values() -> None:
    x, y = random(8, 16, dtype=BF16), torch.zeros(16, 8, dtype=BF16)
    layout_kernel[(1,)](x, y, 8, 16)
    expect(y, x.view(8, 8, 2).flip(2).reshape(8, 16).t().contiguous())


@triton.jit
def past_the_end_kernel(x, y, n, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.load(x + i + n))


def check_reading_past_the_end_is_an_error() -> None:
    memory = torch.zeros(64, dtype=BF16)
    try:
        past_the_end_kernel[(1,)](memory[:32].clone(), torch.zeros(32, dtype=BF16), 8, 32)
    except OutOfBoundsError as error:
        line = past_the_end_kernel.fn.__code__.co_firstlineno + 3
        told = f"the kernel in line {line} of interpreter_programs.py reads 8 elements outside of the tensors"
        assert told in str(error), error
        return
    raise AssertionError("it was read")


@triton.jit
def atomic_kernel(x, y, z, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.atomic_add(y + i % 4, tl.load(x + i))
    tl.atomic_max(z, tl.program_id(0).to(tl.int32))


def check_atomics_on_fp32_and_whole_numbers_add_up() -> None:
    x, y, z = random(64).round(), torch.zeros(4), torch.zeros(1, dtype=torch.int32)
    atomic_kernel[(3,)](x, y, z, 64)
    expect(y, 3 * x.view(16, 4).sum(0))
    assert z.item() == 2


def check_atomics_on_narrow_floats_are_refused() -> None:
    for dtype in (BF16, torch.float16):
        arguments = (random(64, dtype=dtype), torch.zeros(4, dtype=dtype), torch.zeros(1, dtype=torch.int32), 64)
        refused(lambda arguments=arguments: atomic_kernel[(1,)](*arguments), "atomics on")  # type: ignore[misc]


@triton.jit
def wait_kernel(flag):
    if tl.program_id(0) == 0:
        while tl.atomic_add(flag, 0) == 0:
            pass
    else:
        tl.atomic_xchg(flag, 1)


def check_a_program_that_waits_for_a_later_one_is_refused() -> None:
    refused(lambda: wait_kernel[(2,)](torch.zeros(1, dtype=torch.int32)), "waits for another one")


# --- what surrounds a kernel ---------------------------------------------------------------------------------


@triton.autotune([triton.Config({"BLOCK": 32}), triton.Config({"BLOCK": 64})], key=["n"])
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def tuned_kernel(y, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, BLOCK + EVEN, mask=at < n)


def check_autotuning_takes_the_first_configuration() -> None:
    y = torch.zeros(64)
    tuned_kernel[lambda meta: (triton.cdiv(64, meta["BLOCK"]),)](y, 64)
    assert (y == 33).all()


def check_questions_about_a_device_are_refused() -> None:
    assert torch.cuda.is_available() is False
    refused(lambda: torch.cuda.get_device_properties(0), "torch.cuda.get_device_properties")
    refused(lambda: torch.cuda.current_stream(), "torch.cuda.current_stream")
    refused(lambda: triton.testing.do_bench(lambda: None), "triton.testing.do_bench")
    refused(lambda: triton.runtime.driver.active.get_current_target(), "Triton's GPU driver")

    def swallow() -> None:
        try:
            torch.cuda.get_device_capability()
        except Exception:
            return

    refused(swallow, "get_device_capability")


def check_torch_may_ask_itself_about_a_device() -> None:
    scope = {"__name__": "torch._inductor.codecache", "torch": torch}
    try:
        exec("torch.cuda.current_device()", scope)
    except (RuntimeError, AssertionError):
        return


@triton.jit
def asm_kernel(y):
    tl.store(y, tl.inline_asm_elementwise("mov.b32 $0, 1;", "=r", [], dtype=tl.int32, is_pure=True, pack=1))


@triton.jit
def scaled_dot_kernel(x, y):
    i = tl.arange(0, 32)
    a = tl.load(x + i[:, None] * 32 + i[None, :])
    tl.store(y + i[:, None] * 32 + i[None, :], tl.dot_scaled(a, None, "e4m3", a, None, "e4m3"))


def check_what_is_not_known_is_refused_by_name() -> None:
    refused(lambda: asm_kernel[(1,)](torch.zeros(1, dtype=torch.int32)), "inline_asm_elementwise")
    refused(lambda: scaled_dot_kernel[(1,)](random(32, 32, dtype=E4M3), torch.zeros(32, 32)), "dot_scaled")


@triton.jit
def libdevice_kernel(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    tl.store(y + i, tl.extra.cuda.libdevice.add_rn(a, tl.extra.cuda.libdevice.tanh(a)))


@triton.jit
def bessel_kernel(x, y):
    tl.store(y, tl.extra.cuda.libdevice.j0(tl.load(x)))


def check_known_library_functions_are_computed_and_others_refused() -> None:
    x, y = random(64), torch.zeros(64)
    libdevice_kernel[(1,)](x, y, 64)
    assert (y - (x + x.tanh())).abs().max() < 1e-6
    refused(lambda: bessel_kernel[(1,)](x, y), "libdevice.j0")


def main() -> None:
    """Run every check, or those that are named."""
    torch.set_num_threads(1)
    told = {}
    for name, check in list(globals().items()):
        if name.startswith("check_") and (not sys.argv[1:] or name.removeprefix("check_") in sys.argv[1:]):
            try:
                check()
            except BaseException:
                told[name.removeprefix("check_")] = traceback.format_exc()[-1500:]
            else:
                told[name.removeprefix("check_")] = ""
    print("RESULT" + json.dumps(told))


if __name__ == "__main__":
    main()
