"""A rounding error that one kernel stores counts where the kernels after it bring it to the result."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbh_lint import lint

TRITON = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def split(x, tops, highs, lows, n, span, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.program_id(1)
    slot, lanes = row * tl.num_programs(1) + at, tl.arange(0, BLOCK)
    end = tl.minimum(at * span + span, n)
    top = float("-inf")
    for start in range(at * span, end, BLOCK):
        value = tl.load(x + row * n + start + lanes, mask=start + lanes < end, other=float("-inf"))
        top = tl.maximum(top, tl.max(value, 0))
    high = tl.zeros((BLOCK,), tl.float32)
    low = tl.zeros((BLOCK,), tl.float32)
    for start in range(at * span, end, BLOCK):
        e = tl.exp(tl.load(x + row * n + start + lanes, mask=start + lanes < end, other=float("-inf")) - top)
        t = high + e
        low += tl.where(high >= e, (high - t) + e, (e - t) + high)
        high = t
    tl.store(tops + slot, top)
    tl.store(highs + slot, tl.sum(high, 0))
    tl.store(lows + slot, tl.sum(low, 0))


@triton.jit
def write(x, y, tops, highs, lows, n, span, splits, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.program_id(1)
    top = float("-inf")
    for i in range(splits):
        top = tl.maximum(top, tl.load(tops + row * splits + i))
    high, low = 0.0, 0.0
    for i in range(splits):
        shrink = tl.exp(tl.load(tops + row * splits + i) - top)
        high += tl.load(highs + row * splits + i) * shrink
        low += tl.load(lows + row * splits + i) * shrink
    for start in range(at * span, tl.minimum(at * span + span, n), BLOCK):
        place = start + tl.arange(0, BLOCK)
        value = tl.load(x + row * n + place, mask=place < n, other=0.0)
        tl.store(y + row * n + place, tl.exp(value - top) / (TOTAL), mask=place < n)


class Model(nn.Module):
    def __init__(self, batch, vocab):
        super().__init__()

    def forward(self, x):
        rows, n = x.shape
        span, y = n // 16, torch.empty_like(x)
        ALLOCATE
        split[(rows, 16)](x, tops, highs, lows, n, span, BLOCK=64)
        BETWEEN
        write[(rows, 16)](x, y, tops, highs, lows, n, span, 16, BLOCK=64)
        return y
"""
APART = "tops, highs, lows = (torch.empty(rows, 16, device=x.device) for _ in range(3))"
ROWS = "tops, highs, lows = torch.empty(3, rows, 16, device=x.device)"
SLICES = (
    "kept = torch.empty(3 * rows, 16, device=x.device)\n"
    "        tops, highs, lows = kept[:rows], kept[rows:-rows], kept[-rows:]"
)


def state(tmp_path: Path, text: str) -> str:
    """What is said of the compensated sum."""
    path = tmp_path / "solution.py"
    path.write_text(text)
    promises = lint([path], problem="04_kahan_softmax").files[0].promises
    return next(promise.state for promise in promises if promise.id == "compensated-sum")


@pytest.mark.parametrize(("allocate", "between", "total", "want"), [
    (APART, "", "high + low", "kept"),
    (APART, "", "high", "broken"),
    (APART, "", "high + low * 0", "broken"),
    (APART, "", "(high + low) - (low - (low - ((high + low) - high)))", "broken"),  # which is `high`
    (APART, "", "(high + low) + (low - ((high + low) - high))", "kept"),
    (ROWS, "", "high + low", "kept"),
    (ROWS, "", "high", "broken"),
    (SLICES, "", "high + low", "kept"),
    (SLICES, "", "high", "broken"),
    (ROWS, "highs += lows", "high", "kept"),
    (ROWS, "tops += highs * 0", "high", "broken"),
    (APART, "lows.zero_()", "high + low", "broken"),
    (APART, "highs.zero_()", "high + low", "kept"),
])  # fmt: skip
def test_an_error_that_the_second_kernel_leaves_aside_compensates_nothing(
    tmp_path: Path, allocate: str, between: str, total: str, want: str
) -> None:
    text = TRITON.replace("ALLOCATE", allocate).replace("BETWEEN", between).replace("TOTAL", total)
    assert state(tmp_path, text) == want


@pytest.mark.parametrize(("total", "want"), [("high + low", "kept"), ("high", "broken")])
def test_sums_and_errors_that_all_blocks_add_to_are_told_apart(tmp_path: Path, total: str, want: str) -> None:
    text = TRITON.replace("ALLOCATE", "highs, lows = torch.zeros(2, rows, device=x.device); tops = x.amax(-1)")
    text = text.replace("BETWEEN", "").replace("TOTAL", total).replace("slot", "row").replace("row * splits + i", "row")
    text = text.replace("for i in range(splits):", "for i in range(1):").replace("    tl.store(tops + row, top)\n", "")
    for name in ("highs", "lows"):
        text = text.replace(f"tl.store({name}", f"tl.atomic_add({name}")
    assert "atomic_add(lows + row" in text
    assert state(tmp_path, text.replace("row, lanes = row *", "_, lanes = row *")) == want


CUDA = """
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

TEXT = r'''
#include <torch/extension.h>
struct Part { float top, high, low; };
struct Pair { float* highs; float* lows; };
struct Both { float* at[2]; };
__device__ float spare[4096];
__device__ void add(float& high, float& low, float e) {
    float t = high + e, z = t - high;
    low += (high - (t - z)) + (e - z);
    high = t;
}
__global__ void split(const float* x, STORED, int n, int span) {
    const float* row = x + (size_t)blockIdx.y * n + blockIdx.x * span;
    float top = -INFINITY, high = 0.f, low = 0.f;
    for (int i = 0; i < span; ++i) top = fmaxf(top, row[i]);
    for (int i = 0; i < span; ++i) add(high, low, __expf(row[i] - top));
    int slot = blockIdx.y * gridDim.x + blockIdx.x;
    STORE
}
__global__ void write(const float* x, float* y, STORED, int n, int splits) {
    int row = blockIdx.y * splits;
    float top = -INFINITY, high = 0.f, low = 0.f;
    for (int i = 0; i < splits; ++i) top = fmaxf(top, TOP);
    for (int i = 0; i < splits; ++i) {
        float shrink = expf(TOP - top);
        high += HIGH * shrink;
        low += LOW * shrink;
    }
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        y[(size_t)blockIdx.y * n + i] = __expf(x[(size_t)blockIdx.y * n + i] - top) / (TOTAL);
}
torch::Tensor softmax(torch::Tensor x) {
    int rows = x.size(0), n = x.size(1), splits = 128;
    auto y = torch::empty_like(x);
    auto kept = torch::empty({4 * rows * splits}, x.options());
    float* k = kept.data_ptr<float>();
    Both both;
    both.at[0] = k + rows * splits;
    both.at[1] = k + 2 * rows * splits;
    auto wide = torch::empty({rows * splits}, x.options().dtype(torch::kLong));
    split<<<dim3(splits, rows), 1>>>(x.data_ptr<float>(), GIVEN, n, n / splits);
    write<<<dim3(splits, rows), 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), GIVEN, n, splits);
    return y;
}
'''
extension = load_inline("probe", "torch::Tensor softmax(torch::Tensor x);", TEXT, functions=["softmax"])


class Model(nn.Module):
    def __init__(self, batch, vocab):
        super().__init__()

    def forward(self, x):
        return extension.softmax(x)
"""
# What the kernels are given, how the first stores, what the second reads: of the maxima, the sums, the errors.
WAYS = {
    "pointers into one workspace": (
        "float* tops, float* highs, float* lows", "k, k + rows * splits, k + 2 * rows * splits",
        "tops[slot] = top; highs[slot] = high; lows[slot] = low;", "tops[row + i]", "highs[row + i]", "lows[row + i]",
    ),
    "structs": (
        "Part* parts", "reinterpret_cast<Part*>(k)", "parts[slot] = Part{top, high, low};",
        "parts[row + i].top", "parts[row + i].high", "parts[row + i].low",
    ),
    "vectors": (
        "float4* parts", "reinterpret_cast<float4*>(k)", "parts[slot] = make_float4(top, high, low, 0.f);",
        "parts[row + i].x", "parts[row + i].y", "parts[row + i].z",
    ),
    "pointers in a struct": (
        "float* tops, Pair p", "k, Pair{k + rows * splits, k + 2 * rows * splits}",
        "tops[slot] = top; p.highs[slot] = high; p.lows[slot] = low;",
        "tops[row + i]", "p.highs[row + i]", "p.lows[row + i]",
    ),
    "an array of pointers": (
        "float* tops, Both b", "k, both", "tops[slot] = top; b.at[0][slot] = high; b.at[1][slot] = low;",
        "tops[row + i]", "b.at[0][row + i]", "b.at[1][row + i]",
    ),
    "elements with a gap": (
        "float* all", "k", "all[4 * slot] = top; all[4 * slot + 1] = high; all[4 * slot + 2] = low;",
        "all[4 * (row + i)]", "all[4 * (row + i) + 1]", "all[4 * (row + i) + 2]",
    ),
    "patterns of bits": (
        "float* tops, unsigned long long* all", "k, (unsigned long long*)wide.data_ptr<int64_t>()",
        "tops[slot] = top; all[slot] = (unsigned long long)__float_as_uint(low) << 32 | __float_as_uint(high);",
        "tops[row + i]", "__uint_as_float((unsigned)all[row + i])", "__uint_as_float((unsigned)(all[row + i] >> 32))",
    ),
    "a variable of the device": (
        "float* tops, float* highs", "k, k + rows * splits",
        "tops[slot] = top; highs[slot] = high; spare[slot] = low;", "tops[row + i]", "highs[row + i]", "spare[row + i]",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("total", "want"), [("high + low", "kept"), ("high", "broken")])
@pytest.mark.parametrize("way", WAYS)
def test_pairs_go_from_kernel_to_kernel_by_their_places_in_memory(
    tmp_path: Path, way: str, total: str, want: str
) -> None:
    stored, given, store, *reads = WAYS[way]
    text = CUDA.replace("STORED", stored).replace("GIVEN", given).replace("STORE", store).replace("TOTAL", total)
    for name, read in zip(("TOP", "HIGH", "LOW"), reads, strict=True):
        text = text.replace(name, read)
    assert state(tmp_path, text) == want


CUTE = """
import cutlass
import cutlass.cute as cute
import torch
import torch.nn as nn
from cutlass.cute.runtime import from_dlpack


@cute.kernel
def split(x: cute.Tensor, kept: cute.Tensor, span: cutlass.Int32):
    row, at, _ = cute.arch.block_idx()
    high, low = cutlass.Float32(0.0), cutlass.Float32(0.0)
    for i in cutlass.range(at * span, at * span + span):
        e = cute.math.exp(x[row, i])
        t = high + e
        z = t - high
        low = low + ((high - (t - z)) + (e - z))
        high = t
    STORE


@cute.kernel
def write(x: cute.Tensor, y: cute.Tensor, kept: cute.Tensor, span: cutlass.Int32):
    row, at, _ = cute.arch.block_idx()
    high, low = cutlass.Float32(0.0), cutlass.Float32(0.0)
    for i in cutlass.range_constexpr(16):
        high = high + HIGH
        low = low + LOW
    for i in cutlass.range(at * span, at * span + span):
        y[row, i] = cute.math.exp(x[row, i]) / (TOTAL)


@cute.jit
def launch(x: cute.Tensor, y: cute.Tensor, kept: cute.Tensor):
    span = x.shape[1] // 16
    split(x, kept, span).launch(grid=(x.shape[0], 16, 1), block=(1, 1, 1))
    write(x, y, kept, span).launch(grid=(x.shape[0], 16, 1), block=(1, 1, 1))


class Model(nn.Module):
    def __init__(self, batch, vocab):
        super().__init__()

    def forward(self, x):
        y, kept = torch.empty_like(x), torch.empty(2, x.shape[0], 16, device=x.device)
        launch(from_dlpack(x), from_dlpack(y), from_dlpack(kept))
        return y
"""
ELEMENTS = ("kept[0, row, at] = high\n    kept[1, row, at] = low", "kept[0, row, i]", "kept[1, row, i]")
SLICES_OF = "highs, lows = kept[0, row, None], kept[1, row, None]"
VIEWS = (f"{SLICES_OF}\n    highs[at] = high\n    lows[at] = low", *ELEMENTS[1:])


@pytest.mark.parametrize(("total", "want"), [("high + low", "kept"), ("high", "broken")])
@pytest.mark.parametrize("way", [ELEMENTS, VIEWS])
def test_coordinates_of_a_tensor_say_what_was_kept_there(
    tmp_path: Path, way: tuple[str, str, str], total: str, want: str
) -> None:
    text = CUTE.replace("TOTAL", total)
    for name, code in zip(("STORE", "HIGH", "LOW"), way, strict=True):
        text = text.replace(name, code)
    assert state(tmp_path, text) == want


@pytest.mark.parametrize(("total", "want"), [("total + err", "kept"), ("total", "broken")])
@pytest.mark.parametrize("which", ["lane == 0", "lane == 31", "tid % 32 == 31"])
def test_any_lane_of_a_cute_kernel_may_store_the_pair(tmp_path: Path, which: str, total: str, want: str) -> None:
    text = (Path(__file__).parents[1] / "variants/04_kahan_softmax/cute_kahan.py").read_text()
    for old, new in {
        "y = value - err\n    t = total + y": "t = total + value\n    z = t - total",
        "(t - total) - y": "err + ((total - (t - z)) + (value - z))",
        "total, err = add_compensated(total, err + errs[w], sums[w])": "total, err = total + sums[w], err + errs[w]",
        "lane == 0:\n        sums": f"{which}:\n        sums",
        "(total - err)": f"({total})",
    }.items():
        assert old in text
        text = text.replace(old, new)
    assert state(tmp_path, text) == want


TUNED = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


CONFIGS = [triton.Config({"B": 1024, "SHARE": share}, num_stages=i) for i, share in enumerate(SHARES)]


@triton.autotune(configs=CONFIGS, key=["n"])
@triton.jit
def softmax(x, y, n, B: tl.constexpr, SHARE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n
    total, lost = tl.zeros((B,), tl.float32), tl.zeros((B,), tl.float32)
    for at in range(0, n, B):
        to = at + tl.arange(0, B)
        term = tl.exp(tl.load(x + row + to, mask=to < n, other=float("-inf"))) - lost
        new = total + term
        lost = ((new - total) - term) * SHARE
        total = new
    norm = tl.sum(total, axis=0) - tl.sum(lost, axis=0)
    for at in range(0, n, B):
        to = at + tl.arange(0, B)
        tl.store(y + row + to, tl.exp(tl.load(x + row + to, mask=to < n)) / norm, mask=to < n)


class Model(nn.Module):
    def __init__(self, batch, vocab):
        super().__init__()

    def forward(self, x):
        y = torch.empty_like(x)
        softmax[(x.shape[0],)](x, y, x.shape[1])
        return y
"""


@pytest.mark.parametrize(("shares", "state"), [([1.0] * 12, "kept"), ([1.0] * 10 + [0.0], "broken")])
def test_every_configuration_of_a_tuner_compensates(tmp_path: Path, shares: list[float], state: str) -> None:
    path = tmp_path / "solution.py"
    path.write_text(TUNED.replace("SHARES", str(shares)))
    promises = lint([path], problem="04_kahan_softmax").files[0].promises
    assert next(p.state for p in promises if p.id == "compensated-sum") == state, promises
