"""Functions that the host calls in the order of a stream's work: what they put in order, no kernel selects."""

# ruff: noqa: E501

from __future__ import annotations

from pathlib import Path

import pytest
from linted import report_of

TEXT = r'''
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <algorithm>
#include <functional>
struct Entry { float value; int at; };
__global__ void all(const float* x, Entry* row, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) row[size_t(blockIdx.x) * n + i] = Entry{x[size_t(blockIdx.x) * n + i], i};
}
__global__ void best(const Entry* rows, float* v, long long* at, int n, int k) {
    const Entry* row = rows + size_t(blockIdx.x) * n;
    for (int j = threadIdx.x; j < n; j += blockDim.x) {
        int rank = 0;
        for (int i = 0; i < n; ++i) rank += row[i].value > row[j].value || (row[i].value == row[j].value && i < j);
        if (rank < k) { v[blockIdx.x * k + rank] = row[j].value; at[blockIdx.x * k + rank] = row[j].at; }
    }
}
__global__ void first(const Entry* rows, float* v, long long* at, int n, int k) {
    for (int j = threadIdx.x; j < k; j += blockDim.x) {
        v[blockIdx.x * k + j] = rows[size_t(blockIdx.x) * n + j].value;
        at[blockIdx.x * k + j] = rows[size_t(blockIdx.x) * n + j].at;
    }
}
bool above(const Entry& a, const Entry& b) { return a.value > b.value || (a.value == b.value && a.at < b.at); }
struct Job {
    Entry* host; int rows, n, k;
    void go() { for (int r = 0; r < rows; ++r) ORDER }
    static void run(void* given) { static_cast<Job*>(given)->go(); }
};
void finish(void* given) { Job* job = reinterpret_cast<Job*>(given); job->go(); delete job; }
void called(cudaStream_t, cudaError_t status, void* given) { if (status == cudaSuccess) static_cast<Job*>(given)->go(); }
void run(torch::Tensor x, torch::Tensor v, torch::Tensor at) {
    const int rows = x.size(0), n = x.size(1), k = v.size(1);
    static Entry *host = nullptr, *device = nullptr;
    if (!host) { cudaHostAlloc(&host, 1 << 27, cudaHostAllocMapped); cudaHostGetDevicePointer(&device, host, 0); }
    cudaStream_t stream = at::cuda::getCurrentCUDAStream();
    all<<<rows, 256, 0, stream>>>(x.data_ptr<float>(), device, n);
    HOST
    LAST<<<rows, 256, 0, stream>>>(device, v.data_ptr<float>(), (long long*)at.data_ptr(), n, k);
}
"""
extension = load_inline(name="rows", cuda_sources=SOURCE, functions=["run"],
                        cpp_sources="void run(torch::Tensor x, torch::Tensor v, torch::Tensor at);")


class Model(nn.Module):
    def __init__(self, batch, n, k):
        super().__init__()
        self.k = k

    def forward(self, x):
        v = torch.empty(x.shape[0], self.k, device=x.device)
        at = torch.empty(x.shape[0], self.k, dtype=torch.int64, device=x.device)
        extension.run(x, v, at)
        return v, at
'''
ORDER = "std::partial_sort(host + size_t(r) * n, host + size_t(r) * n + k, host + size_t(r + 1) * n, above);"
COPIED = "std::partial_sort_copy(host + r * n, host + (r + 1) * n, host + r * n, host + r * n + k, above);"
JOB = "static Job job; job = Job{host, rows, n, k};"
NODE = """cudaHostNodeParams params{};
    params.fn = WHAT;
    params.userData = &job;
    cudaGraph_t graph; cudaGraphExec_t ready; cudaGraphNode_t node;
    cudaGraphCreate(&graph, 0);
    cudaGraphAddHostNode(&node, graph, nullptr, 0, &params);
    cudaGraphInstantiate(&ready, graph, 0);
    cudaGraphLaunch(ready, stream);"""
CALLED = {
    "a method of a class": f"{JOB} cudaLaunchHostFunc(stream, &Job::run, &job);",
    "a function": "C10_CUDA_CHECK(cudaLaunchHostFunc(stream, finish, new Job{host, rows, n, k}));",
    "by a pointer": "cudaHostFn_t func = &finish; cudaLaunchHostFunc(stream, func, new Job{host, rows, n, k});",
    "a lambda": f"{JOB} cudaLaunchHostFunc(stream, [](void* p) {{ static_cast<Job*>(p)->go(); }}, &job);",
    "by the driver": f"{JOB} cuLaunchHostFunc(stream, Job::run, &job);",
    "a callback": f"{JOB} cudaStreamAddCallback(stream, called, &job, 0);",
    "what a function holds": "auto* work = new std::function<void()>([=] { for (int r = 0; r < rows; ++r) "
    f"{ORDER} }}); cudaLaunchHostFunc(stream, [](void* p) {{ auto* work = static_cast<std::function<void()>*>(p); "
    "(*work)(); delete work; }, work);",
    "a node of a graph": f"{JOB} {NODE.replace('WHAT', 'Job::run')}",
}  # fmt: skip
FOUND = '(cudaHostFn_t)dlsym(RTLD_DEFAULT, "finish")'
UNREAD = {
    "a function": f"cudaLaunchHostFunc(stream, {FOUND}, host);",
    "a node of a graph": f"{JOB} {NODE.replace('WHAT', FOUND)}",
}
HONEST = {
    "counts": "static std::atomic<int> done{0}; cudaLaunchHostFunc(stream, [](void* p) { "
    "static_cast<std::atomic<int>*>(p)->fetch_add(1); }, &done);",
    "frees": "auto* held = new torch::Tensor(x); cudaLaunchHostFunc(stream, [](void* p) { "
    "delete static_cast<torch::Tensor*>(p); }, held);",
    "looks": "cudaStreamAddCallback(stream, [](cudaStream_t, cudaError_t status, void*) { "
    "if (status != cudaSuccess) fprintf(stderr, \"failed\"); }, nullptr, 0);",
    "nothing": "cudaLaunchHostFunc(stream, [](void*) {}, nullptr);",
}  # fmt: skip


def text(host: str, last: str, order: str = ORDER) -> str:
    return TEXT.replace("ORDER", order).replace("HOST\n", f"{host}\n").replace("LAST<<<", f"{last}<<<")


@pytest.mark.parametrize("order", [ORDER, COPIED])
@pytest.mark.parametrize("how", CALLED)
def test_what_the_host_puts_in_order_no_kernel_selects(how: str, order: str, tmp_path: Path) -> None:
    report = report_of(tmp_path, text(CALLED[how], "first", order), "05_topk_bitonic")
    assert "builtin-op-sidestep" in {f.leak_class for f in report.findings}, (report.verdict, report.promises)
    assert {p.state for p in report.promises} == {"broken"}


@pytest.mark.parametrize("how", UNREAD)
def test_what_is_called_and_not_known_leaves_it_open(how: str, tmp_path: Path) -> None:
    report = report_of(tmp_path, text(UNREAD[how], "best"), "05_topk_bitonic")
    assert report.verdict == "unproven", (report.findings, report.promises)


@pytest.mark.parametrize("what", HONEST)
def test_the_host_may_do_other_things_in_the_order_of_a_stream(what: str, tmp_path: Path) -> None:
    report = report_of(tmp_path, text(HONEST[what], "best"), "05_topk_bitonic")
    assert (report.verdict, {p.state for p in report.promises}) == ("clean", {"kept"}), report.promises
