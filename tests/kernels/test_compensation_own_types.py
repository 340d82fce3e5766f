"""Compensated sums in a submission's own number types, as pairs of other threads, and in stores that do not last."""

from __future__ import annotations

import pytest
from compensation_cuda_support import KERNEL, facts
from compensation_support import facts as triton_facts

NEUMAIER = "float t = s + e; float z = t - s; c += (s - (t - z)) + (e - z); s = t;"
PAIR = """
struct Pair {
    float high, low;
    MEMBERS
};
"""
FREE = """
__device__ Pair operator+(Pair a, Pair b) {
    float s = a.high + b.high, z = s - a.high;
    return Pair{s, a.low + b.low + ((a.high - (s - z)) + (b.high - z))};
}
__device__ Pair operator+(const Pair& a, float b) { return a + Pair{b, 0.f}; }
__device__ Pair& operator+=(Pair& a, float b) { a = a + b; return a; }
"""
SUM = """
    __device__ Pair operator+(const Pair& b) const {
        float s = high + b.high, z = s - high;
        return Pair{s, low + b.low + ((high - (s - z)) + (b.high - z))};
    }
"""
OWN = SUM + "    __device__ Pair& operator+=(float v) { *this = *this + Pair{v, 0.f}; return *this; }"
OVERLOADED = """
    __device__ Pair& operator+=(const Pair& b) {
        float s = high + b.high, z = s - high;
        low += b.low + ((high - (s - z)) + (b.high - z));
        high = s;
        return *this;
    }
    __device__ Pair& operator+=(float v) { return *this += Pair{v, 0.f}; }
"""


@pytest.mark.parametrize(
    "types",
    [PAIR.replace("MEMBERS", "") + FREE, PAIR.replace("MEMBERS", OWN), PAIR.replace("MEMBERS", OVERLOADED)],
    ids=["free operators", "assignment to this", "overloaded members"],
)
def test_an_operator_that_adds_to_a_struct_changes_it(types: str) -> None:
    text = types + KERNEL.replace("float s = 0.0f, c = 0.0f;", "Pair acc{0.f, 0.f};").replace("LOOP", "acc += e;")
    assert facts(text.replace("TOTAL", "acc.high + acc.low")).state == "effective"
    assert facts(text.replace("TOTAL", "acc.high")).state in ("vacuous", "absent")


def test_a_struct_is_read_as_a_number_through_its_own_conversion() -> None:
    types = PAIR.replace("MEMBERS", OWN + "\n    __device__ operator float() const { return high + low; }")
    text = types + KERNEL.replace("float s = 0.0f, c = 0.0f;", "Pair acc{0.f, 0.f};").replace("LOOP", "acc += e;")
    for total in ("acc", "static_cast<float>(acc)", "1.f * acc"):
        assert facts(text.replace("TOTAL", total)).state == "effective"
        assert facts(text.replace("high + low", "high").replace("TOTAL", total)).state in ("vacuous", "absent")


@pytest.mark.parametrize(
    ("array", "put", "first", "second"),
    [
        ("float2 parts[32]", "parts[threadIdx.x >> 5] = make_float2(s, c);", "parts[w].x", "parts[w].y"),
        (
            "float parts[64]",
            "{ parts[2 * (threadIdx.x >> 5)] = s; parts[2 * (threadIdx.x >> 5) + 1] = c; }",
            "parts[2 * w]",
            "parts[2 * w + 1]",
        ),
    ],
)
def test_the_sums_of_other_warps_are_told_from_their_errors(array: str, put: str, first: str, second: str) -> None:
    head = KERNEL.partition("float total")[0].replace("float parts[32]", array).replace("LOOP", NEUMAIER)
    text = (
        head
        + f"""
    if ((threadIdx.x & 31) == 0) {put}
    __syncthreads();
    float total = 0.f, rest = 0.f;
    for (int w = 0; w < 8; ++w) {{ total += {first}; rest += {second}; }}
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = __expf(x[i] - m) / (total + rest);
}}"""
    )
    assert facts(text).state == "effective"
    assert facts(text.replace("(total + rest)", "total")).state == "vacuous"


def test_what_a_later_store_replaces_does_not_count() -> None:
    text = KERNEL.replace("LOOP", NEUMAIER).replace("TOTAL", "s")
    shown = text.replace("float total = s;", "y[threadIdx.x] = s + c; float total = s;")
    assert facts(shown).state == "vacuous"
    assert facts(shown.replace("total = s;", "total = y[threadIdx.x];")).state == "effective"
    assert facts(shown.replace("y[threadIdx.x] =", "y[n + threadIdx.x] =")).state == "effective"


TILE = """
def kernel(x, y, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    s = tl.zeros([BLOCK], tl.float32)
    c = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        e = tl.exp(tl.load(x + start + offs))
        t = s + e
        z = t - s
        c += (s - (t - z)) + (e - z)
        s = t
    tl.store(y + offs, s + c)
    tl.store(y + offs, s, mask=MASK)
"""


def test_a_masked_store_replaces_only_where_its_mask_is_known() -> None:
    assert triton_facts(TILE.replace("MASK", "offs < n")).state == "vacuous"
    assert triton_facts(TILE.replace("MASK", "None")).state == "vacuous"
    assert triton_facts(TILE.replace("MASK", "offs < 0")).state == "effective"
    assert triton_facts(TILE.replace("MASK", "tl.load(x + n).to(tl.int32) > offs")).state == "effective"


def test_fields_of_an_unnamed_struct_share_the_memory_of_their_union() -> None:
    types = "union Pair { struct { float high, low; }; float2 both; };\n"
    text = types + KERNEL.replace("float s = 0.0f, c = 0.0f;", "Pair p; p.high = 0.f; p.low = 0.f;").replace(
        "LOOP",
        NEUMAIER.replace("c +=", "p.low +=").replace("s = t", "p.high = t").replace("float t", "float s = p.high, t"),
    )
    assert facts(text.replace("TOTAL", "p.both.x + p.both.y")).state == "effective"
    assert facts(text.replace("TOTAL", "p.both.x")).state == "vacuous"
