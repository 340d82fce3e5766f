"""Compensated sums in CUDA kernels."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbh_lint import ir, values
from kbh_lint.frontends import cuda
from kbh_lint.kernels.compensation import CompensationFacts, evaluate
from kbh_lint.values import UNKNOWN, Buffer

HEAD = """
#include <cuda_runtime.h>
#include <float.h>
"""

# A thread's share of a row, a block sum, and the normalised row: `LOOP` sums e, `TOTAL` is what the thread hands on.
KERNEL = """
__global__ void kernel(const float* __restrict__ x, float* __restrict__ y, int n) {
    __shared__ float parts[32];
    float m = -INFINITY;
    for (int i = threadIdx.x; i < n; i += blockDim.x) m = fmaxf(m, x[i]);
    float s = 0.0f, c = 0.0f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        float e = __expf(x[i] - m);
        LOOP
    }
    float total = TOTAL;
    for (int step = 16; step > 0; step >>= 1) total += __shfl_xor_sync(0xffffffff, total, step);
    if ((threadIdx.x & 31) == 0) parts[threadIdx.x >> 5] = total;
    __syncthreads();
    total = 0.f;
    for (int w = 0; w < 8; ++w) total += parts[w];
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = __expf(x[i] - m) / total;
}
"""


def kernel_of(text: str, name: str = "kernel") -> values.Func:
    text = HEAD + text
    module = cuda.lower(text, cuda.lines_origin(text, "kernel.cu"))
    assert module.unread == []
    env = cuda.module_env(module)
    node = next(s for s in module.body if isinstance(s, ir.FuncDef) and s.name == name)
    assert node.kind == "global"
    return values.Func(node, env)


def facts(text: str, *, block: Any = 256, **args: Any) -> CompensationFacts:
    given = {"x": Buffer("f32", 0, "f32"), "y": Buffer("f32", 1, "f32"), "n": 32768, **args}
    return evaluate(kernel_of(text), given, block=(block, 1, 1))


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
STRUCT = """
struct Acc {
    float sum;
    float err;
    __device__ Acc() : sum(0.f), err(0.f) {}
    __device__ void add(float v) {
        const float t = sum + v;
        if (fabsf(sum) >= fabsf(v)) err += (sum - t) + v;
        else err += (v - t) + sum;
        sum = t;
    }
    __device__ float total() const { return sum + err; }
};
"""
PAIR = """
__device__ float2 fast_two_sum(float a, float b) {
    float s = a + b;
    return make_float2(s, b - (s - a));
}
__device__ float2 operator+(float2 a, float2 b) {
    float2 r = fast_two_sum(a.x, b.x);
    r.y += a.y + b.y;
    return r;
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


def test_a_struct_with_a_method_is_followed() -> None:
    text = STRUCT + KERNEL.replace("LOOP", "acc.add(e);").replace("TOTAL", "acc.total()").replace(
        "float s = 0.0f, c = 0.0f;", "Acc acc;"
    )
    assert facts(text).state == "effective"
    assert facts(text.replace("acc.total()", "acc.sum")).state == "vacuous"


def test_an_overloaded_operator_on_pairs_is_followed() -> None:
    text = PAIR + KERNEL.replace("LOOP", "acc = acc + make_float2(e, 0.f);").replace("TOTAL", "acc.x + acc.y").replace(
        "float s = 0.0f, c = 0.0f;", "float2 acc = make_float2(0.f, 0.f);"
    )
    assert facts(text).state == "effective"
    assert facts(text.replace("acc.x + acc.y", "acc.x")).state == "vacuous"


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


UNROLLED = """
__global__ void kernel(const float4* __restrict__ x, float* __restrict__ y, int n) {
    float s = 0.f, c = 0.f;
    #pragma unroll 4
    for (int i = threadIdx.x; i < n / 4; i += blockDim.x) {
        float4 v = x[i];
        float e[4] = {expf(v.x), expf(v.y), expf(v.z), expf(v.w)};
        #pragma unroll
        for (int k = 0; k < 4; ++k) {
            float t = e[k] - c;
            float u = s + t;
            c = (u - s) - t;
            s = u;
        }
    }
    atomicAdd(y, s);
}
"""


def test_vector_loads_and_unrolled_arrays_are_followed() -> None:
    assert facts(UNROLLED, x=Buffer("f32", 0, "f32")).state == "effective"
    assert facts(UNROLLED.replace("e[k] - c", "e[k]")).state == "vacuous"


TREE = """
__global__ void kernel(const float* x, float* y, int n) {
    extern __shared__ float smem[];
    float* sums = smem;
    float* errs = smem + blockDim.x;
    float s = 0.f, c = 0.f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) s += expf(x[i]);
    sums[threadIdx.x] = s;
    errs[threadIdx.x] = c;
    __syncthreads();
    for (int k = blockDim.x / 2; k > 0; k >>= 1) {
        if (threadIdx.x < k) {
            float a = sums[threadIdx.x], b = sums[threadIdx.x + k];
            float t = a + b;
            float bb = t - a;
            errs[threadIdx.x] += errs[threadIdx.x + k] + ((a - (t - bb)) + (b - bb));
            sums[threadIdx.x] = t;
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) y[blockIdx.x] = sums[0] + errs[0];
}
"""


@pytest.mark.parametrize("block", [256, UNKNOWN])
def test_a_compensated_tree_in_shared_memory_is_effective(block: Any) -> None:
    assert facts(TREE, block=block).state == "effective"
    assert facts(TREE.replace("+ errs[0]", ""), block=block).state == "vacuous"
    assert facts(TREE.replace(" + ((a - (t - bb)) + (b - bb))", ""), block=block).state == "absent"


CUB = """
#include <cub/cub.cuh>
struct Pair { float s; float e; };
struct Combine {
    __device__ Pair operator()(const Pair& a, const Pair& b) const {
        Pair r;
        r.s = a.s + b.s;
        float z = r.s - a.s;
        r.e = a.e + b.e + ((a.s - (r.s - z)) + (b.s - z));
        return r;
    }
};
template <int THREADS>
__global__ void kernel(const float* x, float* y, int n) {
    using Reduce = cub::BlockReduce<Pair, THREADS>;
    __shared__ typename Reduce::TempStorage temp;
    Pair p{0.f, 0.f};
    for (int i = threadIdx.x; i < n; i += THREADS) p = Combine()(p, Pair{expf(x[i]), 0.f});
    p = Reduce(temp).Reduce(p, Combine());
    if (threadIdx.x == 0) y[blockIdx.x] = p.s + p.e;
}
"""


def test_a_functor_given_to_a_block_reduction_is_followed() -> None:
    assert facts(CUB, THREADS=256).state == "effective"
    assert facts(CUB.replace("p.s + p.e", "p.s"), THREADS=256).state == "vacuous"


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


def test_partial_sums_merged_by_a_second_kernel_count() -> None:
    text = """
    __global__ void kernel(const float* x, float* y, int n) {
        float s = 0.f, c = 0.f;
        for (int i = 0; i < n; ++i) { float t = x[i] - c; float u = s + t; c = (u - s) - t; s = u; }
        y[blockIdx.x] = s;
    }
    """
    assert facts(text).state == "effective"
    assert evaluate(kernel_of(text), {"n": 64}, assume_exp_inputs=False).state == "absent"


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


SHARED_FIELDS = """
__device__ float2 two_sum(float a, float b) {
    float s = a + b;
    float bb = s - a;
    return {s, (a - (s - bb)) + (b - bb)};
}
template <class F>
__device__ float2 over_warp(float2 v, F combine) {
    #pragma unroll
    for (int o = 16; o; o >>= 1) {
        float2 w;
        w.x = __shfl_down_sync(~0u, v.x, o);
        w.y = __shfl_down_sync(~0u, v.y, o);
        v = combine(v, w);
    }
    return v;
}
__global__ void kernel(const float* x, float* y, int n) {
    __shared__ float2 red[32];
    float2 acc = make_float2(0.f, 0.f);
    auto combine = [](float2 a, float2 b) { float2 r = two_sum(a.x, b.x); r.y += a.y + b.y; return r; };
    for (int i = threadIdx.x; i < n; i += blockDim.x) acc = combine(acc, make_float2(expf(x[i]), 0.f));
    acc = over_warp(acc, combine);
    if ((threadIdx.x & 31) == 0) { red[threadIdx.x >> 5].x = acc.x; red[threadIdx.x >> 5].y = acc.y; }
    __syncthreads();
    acc = over_warp(threadIdx.x < 8 ? red[threadIdx.x] : make_float2(0.f, 0.f), combine);
    if (threadIdx.x == 0) y[blockIdx.x] = acc.x + acc.y;
}
"""


def test_fields_of_vectors_in_shared_memory_are_written_in_place() -> None:
    assert facts(SHARED_FIELDS).state == "effective"
    assert facts(SHARED_FIELDS.replace("acc.x + acc.y", "acc.x")).reason == "unused"


ONLINE = """
struct State { float m, s, c; };
__device__ State merge(State a, State b) {
    if (a.m < b.m) { State t = a; a = b; b = t; }
    float r = __expf(b.m - a.m);
    float v = b.s * r - (a.c + b.c * r);
    State o;
    o.m = a.m;
    o.s = a.s + v;
    o.c = (o.s - a.s) - v;
    return o;
}
__global__ void kernel(const float* x, float* y, int n) {
    State st = {-INFINITY, 0.f, 0.f};
    for (int i = threadIdx.x; i < n; i += blockDim.x) { State e{x[i], 1.0f, 0.0f}; st = merge(st, e); }
    for (int o = 16; o > 0; o /= 2) {
        State b;
        b.m = __shfl_xor_sync(~0u, st.m, o);
        b.s = __shfl_xor_sync(~0u, st.s, o);
        b.c = __shfl_xor_sync(~0u, st.c, o);
        st = merge(st, b);
    }
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = __expf(x[i] - st.m) / st.s;
}
"""


def test_a_struct_of_maximum_sum_and_term_merged_by_value_is_followed() -> None:
    assert facts(ONLINE).state == "effective"
    assert facts(ONLINE.replace("(o.s - a.s) - v", "0.f")).state == "absent"


CLASS = """
struct Kahan {
    float sum = 0.f, c = 0.f;
    __device__ Kahan& operator+=(float v) { float y = v - c; float t = sum + y; c = (t - sum) - y; sum = t; return *this; }
    __device__ void merge(const Kahan& o) { *this += o.sum; *this += -o.c; }
};
struct Args { const float* x; float* y; int n; };
__global__ void kernel(Args args) {
    Kahan k;
    for (int i = threadIdx.x; i < args.n; i += blockDim.x) k += args.x[i];
    Kahan q;
    q.sum = __shfl_xor_sync(~0u, k.sum, 1);
    q.c = __shfl_xor_sync(~0u, k.c, 1);
    k.merge(q);
    args.y[blockIdx.x] = k.sum;
}
"""  # noqa: E501


def test_operators_on_this_and_a_struct_of_kernel_arguments_are_followed() -> None:
    found = facts(CLASS)
    assert found.state == "effective"
    assert found.stored_params == ("args.y",)


def test_the_last_block_may_merge_what_all_blocks_stored() -> None:
    text = """
    __device__ unsigned int counter;
    __global__ void kernel(const float* x, float* part, float* y, int n) {
        __shared__ bool last;
        float s = 0.f;
        for (int i = threadIdx.x; i < n; i += gridDim.x * blockDim.x) s += expf(x[i]);
        if (threadIdx.x == 0) { part[blockIdx.x] = s; last = atomicInc(&counter, gridDim.x) == gridDim.x - 1; }
        __syncthreads();
        if (last && threadIdx.x == 0) {
            float t = 0.f, c = 0.f;
            for (int b = 0; b < gridDim.x; ++b) { float v = part[b] - c; float u = t + v; c = (u - t) - v; t = u; }
            y[0] = t;
        }
    }
    """
    assert facts(text, part=Buffer("f32", 2, "f32")).stored_params == ("y",)


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


UNION = """
union Vec { float4 v; float f[4]; };
__global__ void kernel(const float* x, float* y, int n) {
    const float4* row = reinterpret_cast<const float4*>(x + blockIdx.x * (size_t)n);
    float s = 0.f, c = 0.f;
    for (int i = threadIdx.y * blockDim.x + threadIdx.x; i < n / 4; i += 256) {
        Vec u;
        u.v = row[i];
        for (int k = 0; k < 4; ++k) { float t = expf(u.f[k]) - c; float w = s + t; c = (w - s) - t; s = w; }
    }
    y[blockIdx.x] = s;
}
"""


def test_a_union_of_a_vector_and_an_array_is_one_memory() -> None:
    assert facts(UNION).state == "effective"
    assert facts(UNION.replace("- c;", ";")).state == "vacuous"


def test_fields_behind_the_address_of_a_vector_are_its_elements() -> None:
    text = UNION.replace("Vec u;", "float4 u;").replace("u.v = row[i];", "u = row[i];")
    assert facts(text.replace("u.f[k]", "reinterpret_cast<float*>(&u)[k]")).state == "effective"
    assert facts(text.replace("u.f[k]", "(&u.x)[k]")).state == "effective"


def test_arrays_inside_structs_are_copied_with_them() -> None:
    text = """
    struct Pair { float v[2]; };
    __device__ Pair add(Pair p, float e) {
        float t = p.v[0] + e;
        float b = t - p.v[0];
        p.v[1] += (p.v[0] - (t - b)) + (e - b);
        p.v[0] = t;
        return p;
    }
    __global__ void kernel(const float* x, float* y, int n) {
        Pair p = {};
        for (int i = threadIdx.x; i < n; i += blockDim.x) p = add(p, expf(x[i]));
        y[0] = p.v[0] + p.v[1];
    }
    """
    assert facts(text).state == "effective"
    assert facts(text.replace("+ p.v[1];", ";")).state == "vacuous"


def test_data_copied_to_shared_memory_ahead_of_time_is_data() -> None:
    text = """
    __global__ void kernel(const float* x, float* y, int n) {
        __shared__ float tile[256];
        float s = 0.f, c = 0.f;
        for (int i = threadIdx.x; i < n; i += blockDim.x) {
            __pipeline_memcpy_async(&tile[threadIdx.x], &x[i], sizeof(float));
            __pipeline_commit();
            __pipeline_wait_prior(0);
            __syncthreads();
            float t = __expf(tile[threadIdx.x]) - c;
            float u = s + t;
            c = (u - s) - t;
            s = u;
        }
        y[0] = s;
    }
    """
    assert facts(text).state == "effective"


def test_an_evaluation_that_fails_is_said_and_hides_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object, **options: object) -> None:
        raise OverflowError

    monkeypatch.setattr("kbh_lint.kernels.compensation_machine.Machine.run", fail)
    found = thread("s += e;")
    assert found.state == "unknown"
    assert [reason for reason, _ in found.unread] == ["the evaluation of the kernel failed (OverflowError)"]
