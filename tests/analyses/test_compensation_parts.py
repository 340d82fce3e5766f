"""Which part of what an earlier kernel stored a later one divides by: the sum alone, or the sum and its error."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbh_lint import lint

CUDA = r"""
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

TEXT = r'''
#include <torch/extension.h>
constexpr int LANES = 32, WARPS = 8;
struct Pair {
    float high, low;
    __device__ void set(float a, float b) { high = a; low = b; }
    __device__ float first() const { return high; }
    __device__ float second() const { return low; }
    __device__ Pair& operator+=(const Pair& b) { high += b.high; low += b.low; return *this; }
};
struct Peak { float top; Pair pair; };
struct alignas(16) Wide { float top, high, low; };
__device__ void put(Pair& place, Pair value) { place.high = value.high; place.low = value.low; }

__device__ __forceinline__ Pair plus(Pair a, float b) {
    float high = a.high + b;
    float part = high - a.high;
    float low = a.low + ((a.high - (high - part)) + (b - part));
    return Pair{high, low};
}
__device__ __forceinline__ Pair joined(Pair a, Pair b) {
    Pair out = plus(a, b.high);
    out.low += b.low;
    return out;
}
__device__ float largest(float v, float* room) {
    for (int step = LANES / 2; step > 0; step /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, step));
    if (threadIdx.x % LANES == 0) room[threadIdx.x / LANES] = v;
    __syncthreads();
    v = room[0];
    for (int w = 1; w < WARPS; ++w) v = fmaxf(v, room[w]);
    return v;
}
__device__ Pair summed(Pair a, Pair* room) {
    for (int step = LANES / 2; step > 0; step /= 2) {
        Pair b;
        b.high = __shfl_xor_sync(0xffffffffu, a.high, step);
        b.low = __shfl_xor_sync(0xffffffffu, a.low, step);
        a = joined(a, b);
    }
    if (threadIdx.x % LANES == 0) room[threadIdx.x / LANES] = a;
    __syncthreads();
    a = room[0];
    for (int w = 1; w < WARPS; ++w) a = joined(a, room[w]);
    return a;
}

__global__ void partial(const float* __restrict__ x, float* __restrict__ tops, STORED, int n, int chunk) {
    __shared__ float peaks[WARPS];
    __shared__ Pair pairs[WARPS];
    const float4* row = reinterpret_cast<const float4*>(x + (size_t)blockIdx.y * n + blockIdx.x * chunk);
    float top = -INFINITY;
    for (int i = threadIdx.x; i < chunk / 4; i += blockDim.x) {
        float4 v = row[i];
        top = fmaxf(top, fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)));
    }
    top = largest(top, peaks);
    Pair total{0.f, 0.f};
    for (int i = threadIdx.x; i < chunk / 4; i += blockDim.x) {
        float4 v = row[i];
        total = plus(total, __expf(v.x - top));
        total = plus(total, __expf(v.y - top));
        total = plus(total, __expf(v.z - top));
        total = plus(total, __expf(v.w - top));
    }
    total = summed(total, pairs);
    if (threadIdx.x == 0) {
        int slot = blockIdx.y * gridDim.x + blockIdx.x, all = gridDim.x * gridDim.y;
        tops[slot] = top;
        STORE
    }
}

__global__ void divide(const float* __restrict__ x, float* __restrict__ y, const float* __restrict__ tops,
                       STORED, float* __restrict__ beside, int n) {
    __shared__ float sent[2];
    int row = blockIdx.y, splits = gridDim.x, all = gridDim.x * gridDim.y;
    if (threadIdx.x < LANES) {
        float top = -INFINITY, high = 0.f, low = 0.f;
        for (int p = threadIdx.x; p < splits; p += LANES) top = fmaxf(top, tops[row * splits + p]);
        for (int step = LANES / 2; step > 0; step /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, step));
        for (int p = threadIdx.x; p < splits; p += LANES) {
            int slot = row * splits + p;
            float shrink = __expf(tops[slot] - top);
            READ
            high = fmaf(h, shrink, high);
            low = fmaf(l, shrink, low);
        }
        for (int step = LANES / 2; step > 0; step /= 2) {
            high += __shfl_xor_sync(0xffffffffu, high, step);
            low += __shfl_xor_sync(0xffffffffu, low, step);
        }
        if (threadIdx.x == 0) {
            float whole = TOTAL;
            float inverse = __frcp_rn(whole);
            inverse = fmaf(inverse, fmaf(-whole, inverse, 1.f), inverse);
            sent[0] = top;
            sent[1] = inverse;
            ASIDE
        }
    }
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        y[(size_t)row * n + i] = __expf(x[(size_t)row * n + i] - sent[0]) * sent[1];
}

torch::Tensor softmax(torch::Tensor x, torch::Tensor tops, torch::Tensor kept, torch::Tensor beside) {
    auto y = torch::empty_like(x);
    int rows = x.size(0), n = x.size(1), splits = tops.size(1);
    dim3 grid(splits, rows);
    partial<<<grid, LANES * WARPS>>>(x.data_ptr<float>(), tops.data_ptr<float>(), GIVEN, n, n / splits);
    divide<<<grid, LANES * WARPS>>>(x.data_ptr<float>(), y.data_ptr<float>(), tops.data_ptr<float>(), GIVEN,
                                    beside.data_ptr<float>(), n);
    return y;
}
'''
extension = load_inline(
    "parts",
    "torch::Tensor softmax(torch::Tensor x, torch::Tensor tops, torch::Tensor kept, torch::Tensor beside);",
    TEXT,
    functions=["softmax"],
)


class Model(nn.Module):
    def __init__(self, batch, vocab):
        super().__init__()
        splits = max(1, vocab // 8192)
        self.register_buffer("tops", torch.zeros(batch, splits), persistent=False)
        self.register_buffer("kept", torch.zeros(batch, splits, 4), persistent=False)
        self.register_buffer("beside", torch.zeros(batch), persistent=False)

    def forward(self, x):
        return extension.softmax(x, self.tops, self.kept, self.beside)
"""
# What the kernels are given, how the first stores, how the second reads.
FLOATS = "kept.data_ptr<float>()"
WAYS = {
    "a struct": (
        "Pair* kept", "(Pair*)kept.data_ptr()", "kept[slot] = total;",
        "const Pair held = kept[slot]; float h = held.high, l = held.low;",
    ),
    "fields of a struct": (
        "Pair* kept", f"reinterpret_cast<Pair*>({FLOATS})", "kept[slot].high = total.high; kept[slot].low = total.low;",
        "float h = kept[slot].high, l = kept[slot].low;",
    ),
    "lanes of a vector": (
        "float2* kept", f"reinterpret_cast<float2*>({FLOATS})", "kept[slot] = make_float2(total.high, total.low);",
        "float2 held = kept[slot]; float h = held.x, l = held.y;",
    ),
    "two pointers into one buffer": (
        "float* highs, float* lows", f"{FLOATS}, {FLOATS} + rows * splits",
        "highs[slot] = total.high; lows[slot] = total.low;", "float h = highs[slot], l = lows[slot];",
    ),
    "halves of a buffer": (
        "float* kept", FLOATS, "kept[slot] = total.high; kept[all + slot] = total.low;",
        "float h = kept[slot], l = kept[all + slot];",
    ),
    "every other element": (
        "float* kept", FLOATS, "kept[2 * slot] = total.high; kept[2 * slot + 1] = total.low;",
        "float h = kept[2 * slot], l = kept[2 * slot + 1];",
    ),
    "stored by elements, read as a vector": (
        "float* kept", FLOATS, "kept[2 * slot] = total.high; kept[2 * slot + 1] = total.low;",
        "float2 held = reinterpret_cast<const float2*>(kept)[slot]; float h = held.x, l = held.y;",
    ),
    "stored as a struct, read by elements": (
        "float* kept", FLOATS, "reinterpret_cast<Pair*>(kept)[slot] = total;",
        "float h = kept[2 * slot], l = kept[2 * slot + 1];",
    ),
    "stored as a struct, read as a vector": (
        "void* kept", "kept.data_ptr()", "((Pair*)kept)[slot] = total;",
        "float2 held = ((const float2*)kept)[slot]; float h = held.x, l = held.y;",
    ),
    "patterns in a long": (
        "unsigned long long* kept", f"reinterpret_cast<unsigned long long*>({FLOATS})",
        "kept[slot] = ((unsigned long long)__float_as_uint(total.low) << 32) | __float_as_uint(total.high);",
        "unsigned long long held = kept[slot]; float h = __uint_as_float((unsigned)held), "
        "l = __uint_as_float((unsigned)(held >> 32));",
    ),
    "through pointers to structs": (
        "Pair* kept", "(Pair*)kept.data_ptr()", "Pair* at = kept + slot; at->high = total.high; at->low = total.low;",
        "const Pair* held = &kept[slot]; float h = held->high, l = (*held).low;",
    ),
    "through a reference to a struct": (
        "Pair* kept", "(Pair*)kept.data_ptr()", "Pair& at = kept[slot]; at.high = total.high; at.low = total.low;",
        "const Pair& held = kept[slot]; float h = held.high, l = held.low;",
    ),
    "by a method of a struct": (
        "Pair* kept", "(Pair*)kept.data_ptr()", "kept[slot].set(total.high, total.low);",
        "float h = kept[slot].first(), l = kept[slot].second();",
    ),
    "by a function that takes a reference": (
        "Pair* kept", "(Pair*)kept.data_ptr()", "put(kept[slot], total);",
        "Pair held = kept[slot]; float h = held.high, l = held.low;",
    ),
    "by an operator of a struct": (
        "Pair* kept", "(Pair*)kept.data_ptr()", "kept[slot] = Pair{0.f, 0.f}; kept[slot] += total;",
        "float h = kept[slot].high, l = kept[slot].low;",
    ),
    "a struct in a struct": (
        "Peak* kept", "(Peak*)kept.data_ptr()", "kept[slot].top = top; kept[slot].pair = total;",
        "Peak held = kept[slot]; float h = held.pair.high, l = held.pair.low;",
    ),
    "a struct in a struct, read by elements": (
        "float* kept", FLOATS, "((Peak*)kept)[slot] = Peak{top, total};",
        "float h = kept[3 * slot + 1], l = kept[3 * slot + 2];",
    ),
    "an aligned struct, read as a vector": (
        "float* kept", FLOATS, "((Wide*)kept)[slot] = Wide{top, total.high, total.low};",
        "float4 held = ((const float4*)kept)[slot]; float h = held.y, l = held.z;",
    ),
    "two doubles": (
        "double2* kept", "(double2*)kept.data_ptr()", "kept[slot] = make_double2(total.high, total.low);",
        "double2 held = kept[slot]; float h = (float)held.x, l = (float)held.y;",
    ),
    "through a cache": (
        "float2* kept", f"reinterpret_cast<float2*>({FLOATS})",
        "__stcg(kept + slot, make_float2(total.high, total.low));",
        "float2 held = __ldcg(kept + slot); float h = held.x, l = held.y;",
    ),
}  # fmt: skip
TOTALS = {
    "the sum and its error": ("high + low", "", "kept"),
    "the sum and its error, and the error beside": ("high + low", "if (blockIdx.x == 0) beside[row] = low;", "kept"),
    "the sum": ("high", "", "broken"),
    "the sum, and the error beside": ("high", "if (blockIdx.x == 0) beside[row] = low;", "broken"),
}


def state(tmp_path: Path, text: str) -> str:
    """What is said of the compensated sum."""
    path = tmp_path / "solution.py"
    path.write_text(text)
    promises = lint([path], problem="04_kahan_softmax").files[0].promises
    return next(promise.state for promise in promises if promise.id == "compensated-sum")


def small(text: str) -> str:
    """The same kernels, where the first does not sum over a block."""
    return text.replace("    top = largest(top, peaks);\n", "").replace("    total = summed(total, pairs);\n", "")


@pytest.mark.share(3)
@pytest.mark.parametrize(("way", "total"), [
    *(("a struct", total) for total in TOTALS),
    *((way, total) for way in list(WAYS)[1:] for total in ("the sum and its error", "the sum")),
])  # fmt: skip
def test_only_the_part_that_reaches_the_result_counts(tmp_path: Path, way: str, total: str) -> None:
    stored, given, store, read = WAYS[way]
    whole, aside, want = TOTALS[total]
    text = CUDA.replace("STORED", stored).replace("GIVEN", given).replace("STORE", store).replace("READ", read)
    text = text.replace("TOTAL", whole).replace("ASIDE", aside)
    assert state(tmp_path, text if way == "a struct" else small(text)) == want


TRITON = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def partial(x, tops, GIVEN, n, chunk, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.program_id(1)
    slot, lanes = row * tl.num_programs(1) + at, tl.arange(0, BLOCK)
    top = float("-inf")
    for start in range(0, chunk, BLOCK):
        top = tl.maximum(top, tl.max(tl.load(x + row * n + at * chunk + start + lanes), 0))
    high, low = 0.0, 0.0
    for start in range(0, chunk, BLOCK):
        value = tl.load(x + row * n + at * chunk + start + lanes)
        more = tl.sum(tl.exp(value - top), 0)
        total = high + more
        part = total - high
        low += (high - (total - part)) + (more - part)
        high = total
    tl.store(tops + slot, top)
    STORE


@triton.jit
def divide(x, y, tops, GIVEN, beside, n, chunk, splits, ALL: tl.constexpr, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.program_id(1)
    slot, lanes = row * splits + tl.arange(0, ALL), tl.arange(0, BLOCK)
    mask = tl.arange(0, ALL) < splits
    tops_of_row = tl.load(tops + slot, mask=mask, other=float("-inf"))
    top = tl.max(tops_of_row, 0)
    shrink = tl.exp(tops_of_row - top)
    READ
    high, low = tl.sum(h * shrink, 0), tl.sum(l * shrink, 0)
    if at == 0:
        tl.store(beside + row, low)
    for start in range(0, chunk, BLOCK):
        place = row * n + at * chunk + start + lanes
        tl.store(y + place, tl.exp(tl.load(x + place) - top) / (TOTAL))


class Model(nn.Module):
    def __init__(self, batch, vocab):
        super().__init__()

    def forward(self, x):
        rows, n = x.shape
        splits = max(1, n // 8192)
        y, tops, beside = torch.empty_like(x), x.new_empty(rows, splits), x.new_empty(rows)
        ALLOCATE
        partial[(rows, splits)](x, tops, HANDED, n, n // splits, BLOCK=1024)
        divide[(rows, splits)](x, y, tops, HANDED, beside, n, n // splits, splits, ALL=64, BLOCK=1024)
        return y
"""
TENSORS = {
    "two tensors": (
        "highs, lows", "highs, lows", "highs, lows = torch.empty_like(tops), torch.empty_like(tops)",
        "tl.store(highs + slot, high); tl.store(lows + slot, low)",
        "h, l = tl.load(highs + slot, mask=mask, other=0.0), tl.load(lows + slot, mask=mask, other=0.0)",
    ),
    "two columns": (
        "kept", "kept", "kept = x.new_empty(rows, splits, 2)",
        "tl.store(kept + 2 * slot, high); tl.store(kept + 2 * slot + 1, low)",
        "h = tl.load(kept + 2 * slot, mask=mask, other=0.0); l = tl.load(kept + 2 * slot + 1, mask=mask, other=0.0)",
    ),
    "views of two columns": (
        "highs, lows", "kept[..., 0], kept[..., 1]", "kept = x.new_empty(rows, splits, 2)",
        "tl.store(highs + 2 * slot, high); tl.store(lows + 2 * slot, low)",
        "h, l = tl.load(highs + 2 * slot, mask=mask, other=0.0), tl.load(lows + 2 * slot, mask=mask, other=0.0)",
    ),
    "two halves": (
        "kept, half", "kept, kept.numel() // 2", "kept = x.new_empty(2, rows, splits)",
        "tl.store(kept + slot, high); tl.store(kept + half + slot, low)",
        "h = tl.load(kept + slot, mask=mask, other=0.0); l = tl.load(kept + half + slot, mask=mask, other=0.0)",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("total", "want"), [("high + low", "kept"), ("high", "broken")])
@pytest.mark.parametrize("way", TENSORS)
def test_only_the_part_of_a_tensor_that_reaches_the_result_counts(
    tmp_path: Path, way: str, total: str, want: str
) -> None:
    given, handed, allocate, store, read = TENSORS[way]
    text = TRITON.replace("GIVEN", given).replace("HANDED", handed).replace("ALLOCATE", allocate)
    text = text.replace("STORE", store).replace("READ", read).replace("TOTAL", total)
    assert state(tmp_path, text) == want
