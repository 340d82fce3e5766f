"""Whole numbers of CUDA and Triton have the width of their types where they decide what a kernel adds up."""

from __future__ import annotations

import pytest
from compensation_cuda_support import KERNEL, facts
from compensation_support import row

STEP = "float a = e - c, t = s + a; c = (t - s) - a; s = t;"
BEFORE = """
__device__ bool is_odd(unsigned char k) { return k == 1; }
__device__ unsigned char low(int k) { return k; }
__device__ const unsigned LAST = 0u - 1u;
constexpr unsigned char NARROW = 257;
template <int N> __device__ bool fits() { return (signed char)N == N; }
struct Flags { unsigned char on; };
"""
NEVER = [
    "threadIdx.x < 0u", "threadIdx.x - 1 < 0", "(threadIdx.x - blockDim.x) < 0", "(signed char)200 > 0",
    "65536u * 65536u != 0u", "-1 < 1u", "sizeof(float) - 5 < 0", "(unsigned char)~0 != 255", "(int)(1ll << 32) != 0",
    "0ull - 1ull < 5ull", "(1u << 31 << 1) != 0u", "-7 / 2 == -4", "max(0u - 1u, 7u) == 7u", "!is_odd(257)",
    "low(256) != 0", "LAST < 3u", "NARROW > 1", "fits<200>()", "0x80000000 < 0", "(unsigned)-1.5f > 0u",
]  # fmt: skip
# Statements before the loop, and a condition that never holds in it.
SET = [
    ("unsigned k = threadIdx.x; k -= 1u;", "k < 9u"), ("unsigned char k; k = 256;", "k"),
    ("unsigned char k[1]; k[0] = 256;", "k[0]"), ("Flags f; f.on = 256;", "f.on"),
    ("long long k = (unsigned)n * 1ll << 32; int l = k;", "l"),
]  # fmt: skip


def guarded(condition: str, first: str = "") -> str:
    """A kernel that compensates where a condition holds."""
    text = KERNEL.replace("LOOP", f"if ({condition}) {{ {STEP} }} else s += e;").replace("TOTAL", "s")
    return BEFORE + text.replace("    float s = 0.0f", f"    {first}\n    float s = 0.0f")


@pytest.mark.parametrize(("first", "condition"), [*(("", condition) for condition in NEVER), *SET])
def test_a_condition_on_whole_numbers_holds_where_it_does_in_c(first: str, condition: str) -> None:
    assert facts(guarded(condition, first)).state == "absent"
    assert facts(guarded(f"!({condition})", first)).state == "effective"


@pytest.mark.parametrize("loop", [
    "for (unsigned i = n - 1u; i < (unsigned)n; --i)", "for (unsigned i = n; i-- > 0u;)",
])  # fmt: skip
def test_a_loop_that_counts_down_to_the_wrap_runs(loop: str) -> None:
    text = KERNEL.replace("LOOP", STEP).replace("TOTAL", "s")
    head = "for (int i = threadIdx.x; i < n; i += blockDim.x) {"
    assert facts(text.replace(head, loop + " {", 2)).state == "effective"


@pytest.mark.parametrize(("condition", "state"), [
    ("start.to(tl.uint32) - 1 < 0", "absent"), ("start.to(tl.uint32) - 1 > 0", "effective"),
    ("(start + 256).to(tl.uint8) > 0", "absent"), ("(n + 1).to(tl.int64) == n", "absent"),
])  # fmt: skip
def test_triton_casts_to_types_of_a_width(condition: str, state: str) -> None:
    body = f"if {condition}:\n    a = v - c\n    t = s + a\n    c = (t - s) - a\n    s = t\nelse:\n    s += v"
    loop = body.replace("start.to", "tl.program_id(0).to").replace("(start +", "(tl.program_id(0) +")
    assert row(loop).state == state
