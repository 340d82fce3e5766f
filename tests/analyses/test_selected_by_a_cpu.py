"""What a CPU puts in order, no kernel selects: the standard library of C++ over memory that a kernel filled."""

from __future__ import annotations

from pathlib import Path

import pytest
from linted import report_of

ON_THE_HOST = r'''
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <algorithm>
#include <queue>
#include <vector>
struct Entry { float value; int at; };
__global__ void most(const float* x, Entry* kept, int* counts, int n) {
    __shared__ float high[256];
    __shared__ int filled;
    const float* row = x + size_t(blockIdx.x) * n;
    float top = -INFINITY;
    for (int i = threadIdx.x; i < n; i += blockDim.x) top = fmaxf(top, row[i]);
    high[threadIdx.x] = top;
    if (threadIdx.x == 0) filled = 0;
    __syncthreads();
    float least = high[0];
    for (int i = 1; i < 256; ++i) least = fminf(least, high[i]);
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        if (row[i] >= least) kept[size_t(blockIdx.x) * n + atomicAdd(&filled, 1)] = Entry{row[i], i};
    __syncthreads();
    if (threadIdx.x == 0) counts[blockIdx.x] = filled;
}
__global__ void best(Entry* kept, const int* counts, float* v, long long* at, int n, int k) {
    Entry* row = kept + size_t(blockIdx.x) * n;
    for (int j = threadIdx.x; j < counts[blockIdx.x]; j += blockDim.x) {
        int rank = 0;
        for (int i = 0; i < counts[blockIdx.x]; ++i)
            rank += row[i].value > row[j].value || (row[i].value == row[j].value && i < j);
        if (rank < k) { v[blockIdx.x * k + rank] = row[j].value; at[blockIdx.x * k + rank] = row[j].at; }
    }
}
void run(torch::Tensor x, torch::Tensor kept, torch::Tensor counts, torch::Tensor v, torch::Tensor at) {
    const int rows = x.size(0), n = x.size(1), k = v.size(1);
    Entry* found = reinterpret_cast<Entry*>(kept.data_ptr());
    most<<<rows, 256>>>(x.data_ptr<float>(), found, counts.data_ptr<int>(), n);
    auto order = [](const Entry& a, const Entry& b) { return a.value > b.value; };
    HOST
}
"""
extension = load_inline(name="most", cuda_sources=SOURCE, functions=["run"], cpp_sources="void run(torch::Tensor x, "
                        "torch::Tensor kept, torch::Tensor counts, torch::Tensor v, torch::Tensor at);")


class Model(nn.Module):
    def __init__(self, batch, n, k):
        super().__init__()
        self.k = k

    def forward(self, x):
        rows, n = x.shape
        kept = torch.empty(rows, n, dtype=torch.int64, device=x.device)
        counts = torch.empty(rows, dtype=torch.int32, device=x.device)
        v = torch.empty(rows, self.k, device=x.device)
        at = torch.empty(rows, self.k, dtype=torch.int64, device=x.device)
        extension.run(x, kept, counts, v, at)
        return v, at
'''
FETCHED = """
    std::vector<int> many(rows);
    cudaMemcpy(many.data(), counts.data_ptr<int>(), rows * 4, cudaMemcpyDeviceToHost);
    std::vector<float> values(size_t(rows) * k);
    std::vector<int64_t> places(size_t(rows) * k);
    for (int r = 0; r < rows; ++r) {
        std::vector<Entry> row(many[r]);
        cudaMemcpy(row.data(), found + size_t(r) * n, many[r] * sizeof(Entry), cudaMemcpyDeviceToHost);
        STEP
        for (int j = 0; j < k; ++j) { values[r * k + j] = row[j].value; places[r * k + j] = row[j].at; }
    }
    cudaMemcpy(v.data_ptr(), values.data(), values.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(at.data_ptr(), places.data(), places.size() * 8, cudaMemcpyHostToDevice);
"""
PINNED = """
    auto host = torch::empty({rows, n}, torch::dtype(torch::kInt64).pinned_memory(true));
    auto many = counts.cpu();
    host.copy_(kept);
    auto values = torch::empty({rows, k}, torch::dtype(torch::kFloat32).pinned_memory(true));
    auto places = torch::empty({rows, k}, torch::dtype(torch::kInt64).pinned_memory(true));
    for (int r = 0; r < rows; ++r) {
        Entry* row = reinterpret_cast<Entry*>(host.data_ptr<int64_t>()) + size_t(r) * n;
        const int held = many.data_ptr<int>()[r];
        STEP
        for (int j = 0; j < k; ++j) {
            values.data_ptr<float>()[r * k + j] = row[j].value;
            places.data_ptr<int64_t>()[r * k + j] = row[j].at;
        }
    }
    v.copy_(values);
    at.copy_(places);
"""
MAPPED = """
    static Entry *host = nullptr, *device = nullptr;
    static float* values = nullptr;
    static int64_t* places = nullptr;
    if (!host) {
        cudaHostAlloc(&host, 1 << 24, cudaHostAllocMapped);
        cudaHostGetDevicePointer(&device, host, 0);
        cudaMallocHost(&values, 1 << 16);
        cudaMallocHost((void**)&places, 1 << 17);
    }
    most<<<rows, 256>>>(x.data_ptr<float>(), device, counts.data_ptr<int>(), n);
    cudaStreamSynchronize(0);
    for (int r = 0; r < rows; ++r) {
        Entry* row = host + size_t(r) * n;
        const int held = n;
        STEP
        for (int j = 0; j < k; ++j) { values[r * k + j] = row[j].value; places[r * k + j] = row[j].at; }
    }
    cudaMemcpyAsync(v.data_ptr(), values, rows * k * 4, cudaMemcpyHostToDevice, 0);
    cudaMemcpyAsync(at.data_ptr(), places, rows * k * 8, cudaMemcpyHostToDevice, 0);
"""
QUEUED = """
        std::priority_queue<std::pair<float, int>> queue;
        for (const Entry& e : row) queue.push({e.value, e.at});
        for (int j = 0; j < k; ++j) { row[j] = Entry{queue.top().first, queue.top().second}; queue.pop(); }
"""
BY_CPP = {
    "sort": FETCHED.replace("STEP", "std::sort(row.begin(), row.end(), order);"),
    "ranges": FETCHED.replace("STEP", "std::ranges::stable_sort(row, order);"),
    "a part": FETCHED.replace("STEP", "std::nth_element(row.begin(), row.begin() + k, row.end(), order);"),
    "a heap": FETCHED.replace("STEP", "std::make_heap(row.begin(), row.end(), order); "
                              "std::sort_heap(row.begin(), row.end(), order);"),
    "a queue": FETCHED.replace("STEP", QUEUED),
    "pinned": PINNED.replace("STEP", "std::partial_sort(row, row + k, row + held, order);"),
    "mapped": MAPPED.replace("STEP", "std::partial_sort(row, row + k, row + held, order);"),
    "pinned, of C": PINNED.replace("STEP", "qsort(row, held, sizeof(Entry), compared);"),
}  # fmt: skip
LAUNCH = "best<<<rows, 256>>>(found, counts.data_ptr<int>(), v.data_ptr<float>(), (long long*)at.data_ptr(), n, k);"
BY_KERNEL = {
    "alone": LAUNCH,
    "beside counts in order": "std::vector<int> many(rows); cudaMemcpy(many.data(), counts.data_ptr<int>(), rows * 4, "
    "cudaMemcpyDeviceToHost); std::sort(many.begin(), many.end()); if (many[0] < 0) return;" + LAUNCH,
    "after numbers in order": "std::vector<int> sizes{3, 1, 2}; std::sort(sizes.begin(), sizes.end()); " + LAUNCH,
}


@pytest.mark.parametrize("how", BY_CPP)
def test_what_a_cpu_puts_in_order_no_kernel_selects(how: str, tmp_path: Path) -> None:
    report = report_of(tmp_path, ON_THE_HOST.replace("HOST\n", f"{BY_CPP[how]}\n"), "05_topk_bitonic")
    assert "builtin-op-sidestep" in {f.leak_class for f in report.findings}, (report.verdict, report.promises)
    assert {p.state for p in report.promises} == {"broken"}


@pytest.mark.parametrize("how", BY_KERNEL)
def test_a_cpu_may_put_other_things_in_order(how: str, tmp_path: Path) -> None:
    report = report_of(tmp_path, ON_THE_HOST.replace("HOST\n", f"{BY_KERNEL[how]}\n"), "05_topk_bitonic")
    assert (report.verdict, {p.state for p in report.promises}) == ("clean", {"kept"}), report.promises
