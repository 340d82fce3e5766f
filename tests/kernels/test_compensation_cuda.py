"""Compensated sums in CUDA kernels."""

from __future__ import annotations

from typing import Any

import pytest
from compensation_cuda_support import HEAD, KERNEL, facts, kernel_of
from hypothesis import given, settings
from hypothesis import strategies as st

from kbh_lint.base import ir, values
from kbh_lint.base.values import UNKNOWN
from kbh_lint.frontends import cuda
from kbh_lint.kernels.numeric.compensation import CompensationFacts, evaluate


def thread(loop: str, total: str = "s", helpers: str = "", **args: Any) -> CompensationFacts:
    return facts(helpers + KERNEL.replace("LOOP", loop).replace("TOTAL", total), **args)


def lines(locs: tuple[ir.Loc, ...], text: str) -> list[str]:
    rows = (HEAD + text).splitlines()
    return [rows[loc[0].span(loc).line - 1].strip() for loc in locs]


KAHAN = "float t = e - c; float u = s + t; c = (u - s) - t; s = u;"
NEUMAIER = "float u = s + e; if (fabsf(s) >= fabsf(e)) c += (s - u) + e; else c += (e - u) + s; s = u;"
INTRINSICS = "float t = __fsub_rn(e, c); float u = __fadd_rn(s, t); c = __fsub_rn(__fsub_rn(u, s), t); s = u;"
VOLATILE = "volatile float t = e - c; volatile float u = s + t; volatile float z = u - s; c = z - t; s = u;"
BY_REFERENCE = """
template <typename T>
__device__ __forceinline__ void two_sum(T a, T b, T& s, T& err) {
    s = a + b;
    T bb = s - a;
    err = (a - (s - bb)) + (b - bb);
}
"""
BY_POINTER = """
__device__ void add(float* s, float* c, float v) {
    float t = v - *c;
    float u = *s + t;
    *c = (u - *s) - t;
    *s = u;
}
"""


@pytest.mark.parametrize(
    ("loop", "total", "helpers"),
    [
        (KAHAN, "s", ""),
        (KAHAN, "s - c", ""),
        (NEUMAIER, "s + c", ""),
        (INTRINSICS, "s", ""),
        (VOLATILE, "s", ""),
        ("float u, err; two_sum(s, e, u, err); s = u; c += err;", "s + c", BY_REFERENCE),
        ("float u, err; two_sum<float>(s, e, u, err); s = u; c += err;", "s + c", BY_REFERENCE),
        ("add(&s, &c, e);", "s", BY_POINTER),
        ("auto step = [&](float v) { float t = v - c; float u = s + t; c = (u - s) - t; s = u; }; step(e);", "s", ""),
        ("float p = s * 1.0f; s = __fmaf_rn(1.0f, e, p); c += e - (s - p);", "s + c", ""),
    ],
)
def test_a_compensation_term_that_reaches_the_store_is_effective(loop: str, total: str, helpers: str) -> None:
    found = thread(loop, total, helpers)
    assert found.state == "effective"
    assert found.stored_params == ("y",)
    assert found.unread == ()


@pytest.mark.parametrize(
    ("loop", "total"),
    [
        ("s += e;", "s"),
        ("float t = e - c; float u = s + t; c = (u - u) * t; s = u;", "s"),
        ("float t = e - c; float u = s + t; c = 0.f * ((u - s) - t); s = u;", "s"),
        ("/* Kahan: c is the compensation */ float kahan = e - c; s += kahan;", "s"),
    ],
)
def test_what_only_looks_like_a_compensation_is_not_one(loop: str, total: str) -> None:
    found = thread(loop, total)
    assert found.state in ("absent", "vacuous")
    assert thread("s += e;").state == "absent"


FAST = """
struct Pair { float high, low; };
__device__ Pair fast(float a, float b) { float high = a + b; return {high, b - (high - a)}; }
__device__ float folded(Pair p, float c) { return FOLDED; }
"""


@pytest.mark.parametrize(
    ("folded", "state"), [("p.high - (c - p.low)", "vacuous"), ("p.high + p.low", "effective"), ("p.high", "effective")]
)
def test_a_helper_may_take_an_error_off_again(folded: str, state: str) -> None:
    found = thread(NEUMAIER, "folded(fast(s, c), c)", FAST.replace("FOLDED", folded))
    assert found.state == state


def test_an_unused_term_is_vacuous_and_so_is_a_loop_that_runs_once() -> None:
    assert thread(NEUMAIER, "s").reason == "unused"
    once = thread(KAHAN, "s", n=256)
    assert (once.state, once.reason) == ("vacuous", "trips")
    assert thread(KAHAN, "s", n=256, block=UNKNOWN).state == "effective"


def test_the_sums_without_a_residual_are_reported() -> None:
    text = KERNEL.replace("LOOP", KAHAN).replace("TOTAL", "s")
    found = facts(text)
    assert all("shfl" in line or "parts[w]" in line for line in lines(found.sums, text))
    assert len(found.sums) == 2
    assert lines(found.sites, text) == [KAHAN]


ASM = """
__device__ float sub(float a, float b) { float r; asm volatile("sub.rn.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }
__device__ float add(float a, float b) { float r; asm volatile("add.rn.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); return r; }
"""  # noqa: E501


def test_inline_assembly_is_followed() -> None:
    loop = "float t = sub(e, c); float u = add(s, t); c = sub(sub(u, s), t); s = u;"
    assert thread(loop, "s", ASM).state == "effective"
    assert thread(loop.replace("sub(sub(u, s), t)", "sub(u, u)"), "s", ASM).state == "absent"


DOUBLE = """
__global__ void kernel(const float* x, float* y, int n) {
    ACC s = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) s += (ACC)expf(x[i]);
    for (int k = 16; k > 0; k /= 2) s += __shfl_down_sync(~0u, s, k);
    if (threadIdx.x == 0) y[blockIdx.x] = (float)s;
}
"""


def test_a_double_accumulator_is_precise() -> None:
    assert facts(DOUBLE.replace("ACC", "double")).state == "precise"
    assert facts(DOUBLE.replace("ACC", "float")).state == "absent"


def test_a_double_constant_does_not_make_a_float_sum_precise() -> None:
    text = DOUBLE.replace("(ACC)expf(x[i])", "(double)expf(x[i]) * 1.0").replace("ACC", "float")
    assert facts(text).state == "absent"


def test_template_constants_decide_branches() -> None:
    text = """
    template <bool COMPENSATE>
    __global__ void kernel(const float* x, float* y, int n) {
        float s = 0.f, c = 0.f;
        for (int i = threadIdx.x; i < n; i += blockDim.x) {
            float e = expf(x[i]);
            if constexpr (COMPENSATE) { float t = e - c; float u = s + t; c = (u - s) - t; s = u; }
            else { s += e; }
        }
        y[0] = s;
    }
    """
    assert facts(text, COMPENSATE=True).state == "effective"
    assert facts(text, COMPENSATE=False).state == "absent"


def test_a_macro_is_seen_through() -> None:
    macro = "#define STEP(v) do { float t_ = (v) - c; float u_ = s + t_; c = (u_ - s) - t_; s = u_; } while (0)\n"
    assert thread("STEP(e);", "s", macro).state == "effective"


def test_an_unknown_device_function_leaves_the_question_open() -> None:
    found = thread("library_sum(&s, &c, e);", "s")
    assert found.state == "unknown"


@pytest.mark.parametrize(
    "text",
    [
        "struct A { A a; A b; A c; }; __global__ void kernel(A a, const float* x, float* y) { A z; y[0] = x[0]; }",
        "template <class T> struct B { B<B<T>> b; }; __global__ void kernel(float* y) { B<int> b; y[0] = 1.f; }",
        "using C = C; __global__ void kernel(C* y) { C c = 1.f; y[0] = c; }",
        "__device__ float f(float v) { return f(v) + f(v); } __global__ void kernel(float* y) { y[0] = f(y[1]); }",
        "__global__ void kernel(float* y) { for (;;) { for (;;) { for (;;) { for (;;) { y[0] += 1.f; } } } } }",
        "__global__ void kernel(float* y) { float v[1 << 30]; v[1 << 29] = 1.f; y[0] = v[-1]; *(float*)0 = 1.f; }",
        "__global__ void kernel(float* y) { int i = 1 << 40 << 40 << 40; y[i / 0] = i % 0; }",
    ],
)
def test_hostile_text_ends_with_an_answer(text: str) -> None:
    found = evaluate(kernel_of(text), {}, fuel=20_000)
    assert found.state in ("absent", "unknown")


_WORDS = """
s c e x y n i x[i] y[0] *x &s (float)n (int)s 1.f 0 + - * / % = += == < ? : ( ) [ ] { } ; , . -> expf( fabsf( float int
struct for(;;) if(s) __shared__ atomicAdd(y, __shfl_xor_sync(~0u, float2 make_float2( float4 reinterpret_cast<float4*>(
"""
_PIECES = st.sampled_from(_WORDS.split())


@settings(max_examples=80, deadline=None)
@given(st.lists(_PIECES, max_size=14).map(" ".join))
def test_no_text_makes_the_evaluation_fail(statement: str) -> None:
    text = HEAD + KERNEL.replace("LOOP", statement + ";").replace("TOTAL", "s")
    module = cuda.lower(text, cuda.lines_origin(text, "kernel.cu"))
    env = cuda.module_env(module)
    for node in module.body:
        if isinstance(node, ir.FuncDef) and node.kind == "global":
            found = evaluate(values.Func(node, env), {"n": 4096}, fuel=20_000)
            assert found.state in ("effective", "vacuous", "absent", "precise", "unknown")


def test_an_evaluation_that_fails_is_said_and_hides_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object, **options: object) -> None:
        raise OverflowError

    monkeypatch.setattr("kbh_lint.kernels.numeric.statements.Statements.block", fail)
    found = thread("s += e;")
    assert found.state == "unknown"
    assert [reason for reason, _ in found.unread] == ["the evaluation of the kernel failed (OverflowError)"]


FOLD = "float a = part - c, t = s + a; c = (t - s) - a; s = t; part = 0.f;"


@pytest.mark.parametrize(("loop", "state"), [
    (f"part += e; if ((++k & 15) == 0) {{ {FOLD} }}", "effective"),
    (f"part += e; if (++k == 32) {{ {FOLD} k = 0; }}", "effective"),
    (f"part += e; if (++k < 0) {{ {FOLD} }} s += e;", "absent"),
    ("part += e; if (++k == 32) { s += part; part = 0.f; k = 0; }", "absent"),
])  # fmt: skip
def test_blocks_of_terms_may_be_summed_before_they_are_added_with_care(loop: str, state: str) -> None:
    text = KERNEL.replace("float s = 0.0f", "int k = 0; float part = 0.f, s = 0.0f")
    assert facts(text.replace("LOOP", loop).replace("TOTAL", "s")).state == state


@pytest.mark.parametrize("lost", ["fabsf(c) < 1e-3f ? 0.f : c", "rintf(c)", "fminf(fmaxf(c, 1e-3f), 1e-3f)"])
def test_an_error_that_only_passes_when_it_is_large_compensates_nothing(lost: str) -> None:
    loop = f"float t = e - c; float u = s + t; c = (u - s) - t; c = {lost}; s = u;"
    assert thread(loop).state == "vacuous"


def test_a_template_converts_to_what_its_parameter_is_bound_to() -> None:
    own = """
template <typename T> struct Sum {
    T s{}, c{};
    __device__ void add(T v) { T t = s + v; c += fabsf(s) >= fabsf(v) ? (s - t) + v : (v - t) + s; s = t; }
    __device__ operator T() const { return WHAT; }
};
"""
    text = KERNEL.replace("float s = 0.0f", "Sum<float> sum; float s = 0.0f").replace("LOOP", "sum.add(e);")
    text = own + text.replace("TOTAL", "sum")
    assert facts(text.replace("WHAT", "s + c")).state == "effective"
    assert facts(text.replace("WHAT", "s")).state == "vacuous"


BY_RULE = """
struct Exact {}; struct Rounded {};
template <class Of, class In> struct rule { using type = Exact; };
template <class T> struct rule<T, T> { using type = Rounded; };
template <class Of, class In> using rule_t = typename rule<std::remove_cv_t<Of>, std::decay_t<In>>::type;
__device__ float error(float a, float b, float t, Exact) { return fabsf(a) >= fabsf(b) ? (a - t) + b : (b - t) + a; }
__device__ float error(float, float, float, Rounded) { return 0.f; }
template <class R> struct Total {
  float s = 0.f, c = 0.f;
  __device__ void add(float v) { const float t = s + v; c += error(s, v, t, R{}); s = t; }
};
template <int N> __device__ float pairs(const float* v) {
  if constexpr (N == 1) return v[0]; else return pairs<N / 2>(v) + pairs<N - N / 2>(v + N / 2);
}
"""


@pytest.mark.parametrize(("kind", "state"), [("double", "effective"), ("float", "absent")])
def test_a_rule_that_follows_from_a_type_decides_what_the_error_is(kind: str, state: str) -> None:
    """Of what is added, of which the terms of a step are summed by halves before."""
    step = "float v[8] = {e, 0.f, 0.f, 0.f, e, 0.f, 0.f, 0.f}; total.add(pairs<8>(v));"
    text = KERNEL.replace(
        "float s = 0.0f", f"{kind} one = 1; Total<rule_t<decltype(one), float>> total; float s = 0.0f"
    )
    assert facts(BY_RULE + text.replace("LOOP", step).replace("TOTAL", "total.s + total.c")).state == state


# A running sum over pairs whose correction is forgotten before each of them; what is left of the last is taken off.
RESCALED = """
struct Part { float s, c; };
__device__ void take(Part& p, float e) {
  float y = __fsub_rn(e, p.c), t = __fadd_rn(p.s, y);
  p.c = __fsub_rn(__fsub_rn(t, p.s), y);
  p.s = t;
}
__global__ void kernel(const float* __restrict__ x, float* __restrict__ y, int n) {
  float m = -INFINITY;
  Part p{0.f, 0.f};
  for (int i = threadIdx.x; i < n; i += 2 * blockDim.x) {
    float top = fmaxf(m, fmaxf(x[i], x[i + blockDim.x]));
    p.s *= expf(m - top);
    FORGOTTEN
    m = top;
    take(p, expf(x[i] - m) + expf(x[i + blockDim.x] - m));
  }
  for (int step = 16; step > 0; step >>= 1) {
    Part q{__shfl_xor_sync(~0u, p.s, step), __shfl_xor_sync(~0u, p.c, step)};
    FORGOTTEN
    take(p, q.s);
    MERGED
  }
  float total = __fsub_rn(p.s, p.c);
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = expf(x[i] - m) / total;
}
"""


@pytest.mark.parametrize(
    ("forgotten", "merged", "state"),
    [
        ("p.c = 0.f;", "", "vacuous"),
        ("p.c *= expf(m - top);".replace("m - top", "0.f"), "", "effective"),
        ("", "p.c += q.c;", "effective"),
    ],
)
def test_a_correction_that_is_forgotten_before_each_sum_is_none(forgotten: str, merged: str, state: str) -> None:
    found = facts(RESCALED.replace("FORGOTTEN", forgotten).replace("MERGED", merged), block=32)
    assert found.state == state
