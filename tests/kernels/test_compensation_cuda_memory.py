"""Compensated sums of CUDA kernels in arrays, structs, unions and shared memory, or merged by several threads."""

from __future__ import annotations

from typing import Any

import pytest
from compensation_cuda_support import KERNEL, facts, kernel_of

from kbh_lint.base.values import UNKNOWN, Buffer
from kbh_lint.kernels.numeric.compensation import evaluate

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


@pytest.mark.parametrize(("total", "moved"), [("kept[0][1] + kept[1][1]", ("kept", "y")), ("kept[0][1]", ("kept",))])
def test_an_accessor_is_indexed_one_dimension_after_the_other(total: str, moved: tuple[str, ...]) -> None:
    text = KERNEL.replace("int n)", "int n, torch::PackedTensorAccessor32<float, 2, torch::RestrictPtrTraits> kept)")
    text = text.replace("LOOP", "float t = s + e, z = t - s; c += (s - (t - z)) + (e - z); s = t;")
    text = text.replace("    float total = TOTAL;", f"    kept[0][1] = s; kept[1][1] = c;\n    float total = {total};")
    assert facts(text, kept=Buffer("f32", 2, "f32")).stored_params == moved


LANES = """
__global__ void kernel(const float* x, float* y, int n) {
    __shared__ float kept[2], terms[128], sums[128];
    float s = 0.f, c = 0.f;
    SUM
    if (LAST) { kept[0] = s; kept[1] = c; }
    __syncthreads();
    y[threadIdx.x] = x[threadIdx.x] / (TOTAL);
}
"""
OWN = "for (int i = threadIdx.x; i < n; i += 256) { float e = __expf(x[i]); ADD }"
SPECIAL = """
    for (int b = 0; b < n; b += 128) {
        if (threadIdx.x < 128) terms[threadIdx.x] = __expf(x[b + threadIdx.x]);
        __syncthreads();
        if (threadIdx.x >= 128) { float e = terms[threadIdx.x - 128]; ADD }
        __syncthreads();
    }
"""
ADD = "float t = s + e, z = t - s; c += (s - (t - z)) + (e - z); s = t;"


@pytest.mark.parametrize("way", [OWN, SPECIAL])
@pytest.mark.parametrize("last", [
    "threadIdx.x == blockDim.x - 1", "(threadIdx.x & 31) == 31 && threadIdx.x / 32 == 7", "threadIdx.x + 1 == 256u",
])  # fmt: skip
def test_what_another_thread_of_the_block_does_counts(way: str, last: str) -> None:
    text = LANES.replace("SUM", way).replace("ADD", ADD).replace("LAST", last)
    assert facts(text.replace("TOTAL", "kept[0] + kept[1]")).state == "effective"
    assert facts(text.replace("TOTAL", "kept[0]")).state == "vacuous"


@pytest.mark.parametrize("never", ["threadIdx.x >= blockDim.x", "threadIdx.x == 31 && n < 0", "threadIdx.x / 32 == 8"])
def test_what_no_thread_of_the_block_does_does_not(never: str) -> None:
    text = LANES.replace("SUM", OWN).replace("ADD", "s += e; if (NEVER) { float t = s + e; c += (s - t) + e; }")
    text = text.replace("LAST", "threadIdx.x == 0").replace("TOTAL", "kept[0] + kept[1]")
    assert facts(text.replace("NEVER", never)).state == "absent"


SPLIT_ROLES = """
__global__ void kernel(const float* x, float* y, int n) {
    __shared__ float terms[256], sums[224], errors[224];
    float s = 0.f, c = 0.f;
    for (int b = 0; b < n; b += 224) {
        if (threadIdx.x < 32) {
            for (int j = threadIdx.x; j < 224; j += 32) terms[j] = __expf(x[b + j]);
        }
        __syncthreads();
        if (threadIdx.x < 32) { __syncwarp(); } else { float e = terms[threadIdx.x - 32]; ADD }
        __syncthreads();
    }
    if (!(threadIdx.x < 32)) { sums[threadIdx.x - 32] = s; errors[threadIdx.x - 32] = c; }
    __syncthreads();
    y[threadIdx.x] = x[threadIdx.x] / (TOTAL);
}
"""


@pytest.mark.parametrize(("add", "total", "state"), [
    (ADD, "sums[0] + errors[0]", "effective"), (ADD, "sums[0]", "vacuous"),
    ("s += e;", "sums[0] + errors[0]", "absent"),
])  # fmt: skip
def test_warps_that_go_the_other_way_are_followed_too(add: str, total: str, state: str) -> None:
    assert facts(SPLIT_ROLES.replace("ADD", add).replace("TOTAL", total)).state == state


SHARED_STRUCT = (
    STRUCT
    + """
template <int WARPS>
struct Scratch {
    float top[WARPS];
    float sums[WARPS], errs[WARPS];
    float best;
};
__global__ void kernel(const float* __restrict__ x, float* __restrict__ y, int n) {
    __shared__ Scratch<8> room;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    Acc acc;
    for (int i = threadIdx.x; i < n; i += blockDim.x) acc.add(__expf(x[i]));
    if (lane == 0) {
        room.sums[warp] = acc.sum;
        room.errs[warp] = KEPT;
    }
    __syncthreads();
    const float total = room.sums[lane & 7] + room.errs[lane & 7];
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = __expf(x[i]) / total;
}
"""
)


def test_arrays_of_a_struct_in_shared_memory_keep_what_is_put_there() -> None:
    assert facts(SHARED_STRUCT.replace("KEPT", "acc.err")).state == "effective"
    assert facts(SHARED_STRUCT.replace("KEPT", "0.f * acc.err")).state == "vacuous"


CLUSTER = """
__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ unsigned of_rank(unsigned a, unsigned r) {
    unsigned o; asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(o) : "r"(a), "r"(r)); return o;
}
__device__ TYPE far(unsigned a) {
    TYPE v; asm volatile("ld.shared::cluster.WIDTH %0, [%1];" : "=REG"(v) : "r"(a) : "memory"); return v;
}
__global__ void kernel(const float* x, float* y, int n) {
    __shared__ TYPE mine;
    __shared__ TYPE lost;
    TYPE sum = 0, err = 0;
    for (int i = threadIdx.x; i < n; i += 256) {
        TYPE v = expf(x[i]) - err;
        TYPE t = sum + v;
        KEEP
        sum = t;
    }
    if (threadIdx.x == 0) { mine = sum; lost = err; }
    __syncthreads();
    sum = 0;
    for (int r = 0; r < 4; ++r) sum += far(of_rank(at(&mine), r)) - far(of_rank(at(&lost), r));
    for (int i = threadIdx.x; i < n; i += 256) y[i] = expf(x[i]) / (float)sum;
}
"""
ERR = "err = (t - sum) - v;"


@pytest.mark.parametrize(
    ("number", "width", "register", "keep", "state"),
    [
        ("float", "f32", "f", ERR, "effective"),
        ("float", "f32", "f", "", "absent"),
        ("double", "f64", "d", "", "precise"),
    ],
)
def test_sums_of_other_blocks_of_a_cluster_are_found_by_their_addresses(
    number: str, width: str, register: str, keep: str, state: str
) -> None:
    text = CLUSTER.replace("TYPE", number).replace("WIDTH", width).replace("REG", register).replace("KEEP", keep)
    found = facts(text, x=Buffer("f32", 1, "f32"), y=Buffer("f32", 2, "f32"), n=4096)
    assert found.state == state, found


def test_a_load_from_an_address_that_nobody_knows_leaves_open_what_it_gives() -> None:
    text = CLUSTER.replace("TYPE", "float").replace("WIDTH", "f32").replace("REG", "f").replace("KEEP", ERR)
    text = text.replace("far(of_rank(at(&mine), r)) - far(of_rank(at(&lost), r))", "far(x[r])")
    assert facts(text, x=Buffer("f32", 1, "f32"), y=Buffer("f32", 2, "f32"), n=4096).state == "unknown"


IN_PLACE = """
__device__ void fetch(void* to, const void* from) {
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(at), "l"(from));
}
struct Pair { float hi, lo; };
__device__ Pair two_sum(Pair a, Pair b) {
    const float s = a.hi + b.hi, bb = s - a.hi;
    const float err = (a.hi - (s - bb)) + (b.hi - bb);
    return {s, LOW};
}
__global__ void kernel(const float4* __restrict__ x, float4* __restrict__ y, int n) {
    extern __shared__ float4 tile[];
    __shared__ float top;
    for (int i = threadIdx.x; i < n / 4; i += blockDim.x) fetch(tile + i, x + i);
    asm volatile("cp.async.wait_all;");
    __syncthreads();
    float m = -INFINITY;
    for (int i = threadIdx.x; i < n / 4; i += blockDim.x) m = fmaxf(m, fmaxf(tile[i].x, tile[i].y));
    if (threadIdx.x == 0) top = m;
    __syncthreads();
    m = top;
    Pair acc{0.f, 0.f};
    for (int i = threadIdx.x; i < n / 4; i += blockDim.x) {
        float4 v = tile[i];
        v.x = expf(v.x - m);
        v.y = expf(v.y - m);
        tile[i] = v;
        acc = two_sum(acc, Pair{v.x, 0.f});
        acc = two_sum(acc, Pair{v.y, 0.f});
    }
    MERGE
    const float total = acc.hi + acc.lo;
    for (int i = threadIdx.x; i < n / 4; i += blockDim.x) {
        float4 v = tile[i];
        v.x = v.x / total;
        v.y = v.y / total;
        y[i] = v;
    }
}
"""
REUSED = """__syncthreads();
    float* parts = reinterpret_cast<float*>(tile);
    parts[2 * threadIdx.x] = acc.hi, parts[2 * threadIdx.x + 1] = acc.lo;
    __syncthreads();
    acc = {0.f, 0.f};
    for (int w = 0; w < 32; ++w) acc = two_sum(acc, Pair{parts[2 * w], parts[2 * w + 1]});"""


EACH = "for (int i = threadIdx.x; i < n / 4; i += blockDim.x) fetch(tile + i, x + i);"
BULK = """if (threadIdx.x == 0) {
        const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(tile));
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                     :: "r"(at), "l"(x), "r"(n * 4), "r"(at));
    }"""


@pytest.mark.parametrize("copy", [EACH, BULK], ids=["by each thread", "by one"])
@pytest.mark.parametrize("merge", ["", REUSED], ids=["alone", "through the tile"])
@pytest.mark.parametrize(("low", "state"), [("err + (a.lo + b.lo)", "effective"), ("0.f * err", "vacuous")])
def test_what_a_copy_brought_is_there_until_it_is_overwritten_in_place(
    copy: str, merge: str, low: str, state: str
) -> None:
    assert EACH in IN_PLACE
    assert facts(IN_PLACE.replace(EACH, copy).replace("LOW", low).replace("MERGE", merge)).state == state
