"""What a device-wide function of cub reads and writes: pointers into one buffer, double buffers, sorts in place."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_extension_hosts import TENSORS, Host

import kbh_lint
from kbh_lint.findings import FileReport
from kbh_lint.host.gpu import device_wide

TEXT = """
#include <cub/cub.cuh>
typedef unsigned long long u64;
__global__ void coded(const float* x, u64* keys, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    const unsigned b = __float_as_uint(x[(int64_t)blockIdx.x * n + i]);
    keys[(int64_t)blockIdx.x * n + i] = ((u64)((b >> 31) ? ~b : (b | 0x80000000u)) << 32) | (0xffffffffu - i);
  }
}
__global__ void decoded(const u64* keys, float* top, int64_t* at, int n, int k) {
  for (int i = threadIdx.x; i < k; i += blockDim.x) {
    const u64 key = keys[(int64_t)blockIdx.x * n + i];
    const unsigned u = (unsigned)(key >> 32);
    top[blockIdx.x * k + i] = __uint_as_float((u >> 31) ? (u & 0x7fffffffu) : ~u);
    at[blockIdx.x * k + i] = (int64_t)(0xffffffffu - (unsigned)key);
  }
}
__global__ void ordered(const u64* in, u64* out, int n) {
  const u64* row = in + (int64_t)blockIdx.x * n;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    int before = 0;
    for (int j = 0; j < n; ++j) before += row[j] > row[i];
    out[(int64_t)blockIdx.x * n + before] = row[i];
  }
}
void go(torch::Tensor x, torch::Tensor top, torch::Tensor at, int64_t k) {
  const int batch = x.size(0), n = x.size(1);
  KEPT torch::Tensor both, room;
  size_t bytes = 1 << 24;
  if (!both.defined() || both.numel() != 2 * x.numel()) {
    both = torch::empty({2, x.numel()}, x.options().dtype(torch::kInt64));
    room = torch::empty({1 << 24}, x.options().dtype(torch::kUInt8));
  }
  void* w = room.data_ptr();
  u64 *keys = (u64*)both.data_ptr(), *out = keys + x.numel();
  coded<<<batch, 256>>>(x.data_ptr<float>(), keys, n);
  BODY
  decoded<<<batch, 64>>>(out, top.data_ptr<float>(), at.data_ptr<int64_t>(), n, k);
}
"""
ROWS = "for (int r = 0; r < batch; ++r) "
SORTS = {
    "out of one buffer": ROWS + "cub::DeviceRadixSort::SortKeysDescending(w, bytes, keys + r * n, out + r * n, n);",
    "after the question of the size": "cub::DeviceRadixSort::SortKeysDescending(nullptr, bytes, keys, out, n);"
    + ROWS + "cub::DeviceRadixSort::SortKeysDescending(w, bytes, keys + r * n, out + r * n, n);",
    "through a double buffer": "cub::DoubleBuffer<u64> pair(keys, out);"
    + ROWS + "cub::DeviceRadixSort::SortKeysDescending(w, bytes, pair, n); out = pair.Current();",
    "in its place": ROWS + "cub::DeviceMergeSort::SortKeys(w, bytes, keys + r * n, n, Falling{}); out = keys;",
    "by copy": ROWS + "cub::DeviceMergeSort::SortKeysCopy(w, bytes, keys + r * n, out + r * n, n, Falling{});",
}  # fmt: skip
QUESTION = "cub::DeviceRadixSort::SortKeysDescending(nullptr, bytes, keys, out, n);"


def _lint(body: str, kept: str, tmp_path: Path) -> FileReport:
    text = "struct Falling { template <class T> __device__ bool operator()(T a, T b) const { return a > b; } };\n"
    text += TEXT.replace("BODY", body).replace("KEPT", kept)
    host = Host(text, "ext.go(x, top, at, self.k)", (), "go", f"void go({TENSORS}, int64_t k);")
    path = tmp_path / "solution.py"
    path.write_text(host.solution(), encoding="utf-8")
    return kbh_lint.lint([path], problem="05_topk_bitonic").files[0]


@pytest.mark.parametrize("kept", ["", "static"])
@pytest.mark.parametrize("how", SORTS)
def test_a_sort_makes_the_result(how: str, kept: str, tmp_path: Path) -> None:
    report = _lint(SORTS[how], kept, tmp_path)
    assert "builtin-op-sidestep" in {f.leak_class for f in report.findings}, (report.verdict, report.unread)


@pytest.mark.parametrize("kept", ["", "static"])
def test_a_kernel_in_its_place_is_the_submissions_own(kept: str, tmp_path: Path) -> None:
    report = _lint("ordered<<<batch, 256>>>(keys, out, n);", kept, tmp_path)
    assert report.verdict == "clean", ([f.message for f in report.findings], report.unread)


def test_a_question_of_a_size_is_no_work(tmp_path: Path) -> None:
    report = _lint(QUESTION + "ordered<<<batch, 256>>>(keys, out, n);", "static", tmp_path)
    assert report.verdict == "clean", ([f.message for f in report.findings], report.unread)


@pytest.mark.parametrize(
    ("name", "given", "reads", "writes"),
    [
        ("cub::DeviceRadixSort::SortPairs", [1, 0, 1, 1, 1, 1, 0], [1, 3], [0, 2, 4]),
        ("cub::DeviceSegmentedSort::SortKeys", [1, 0, 1, 1, 0, 0, 1, 1], [1, 3, 4], [0, 2]),
        ("cub::DeviceRadixSort::SortPairs", [1, 0, 2, 2, 0], [1, 2, 3, 4], [0, 1, 2, 3, 4]),
        ("cub::DeviceMergeSort::SortPairs", [1, 0, 1, 1, 0], [1, 2], [0, 1, 2]),
        ("cub::DeviceReduce::Sum", [1, 0, 1, 1, 0], [1], [0, 2]),
        ("cub::DeviceReduce::ReduceByKey", [1, 0, 1, 1, 1, 1, 1, 0, 0], [1, 3], [0, 2, 4, 5]),
        ("cub::DeviceScan::InclusiveSum", [1, 0, 1, 0], [1], [0, 1]),
        ("cub::DeviceSelect::Flagged", [1, 0, 1, 1, 1, 1, 0], [1, 2], [0, 3, 4]),
        ("cub::DeviceNeverHeardOf::Work", [1, 0, 1, 1, 0], [1], [0, 2]),
    ],
)
def test_what_is_read_and_written_follows_the_signature(
    name: str, given: list[int], reads: list[int], writes: list[int]
) -> None:
    assert device_wide.places(name, given) == (reads, writes)


def test_functions_of_others_have_no_such_signature() -> None:
    assert device_wide.places("cublasSgemm_v2", [1, 1]) is None
    assert device_wide.places("cub::BlockLoad::Load", [1, 1]) is None
