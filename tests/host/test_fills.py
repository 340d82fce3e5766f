"""Memory that is filled holds nothing of earlier calls: also in a graph that is replayed, and by the CUDA runtime."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import HEAD, lint, model, states

TEXT = (
    HEAD
    + """
@triton.jit
def added(x, w, s, acc, M, N, K, first, last, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    there = acc + rows[:, None] * N + cols[None, :]
    total = tl.load(there, mask=(rows < M)[:, None], other=0.0)
    for k in range(first, last, BK):
        depth = k + tl.arange(0, BK)
        a = tl.load(x + rows[:, None] * K + depth[None, :], mask=(rows < M)[:, None] & (depth < K)[None, :], other=0.0)
        b = tl.load(w + cols[None, :] * K + depth[:, None], mask=(depth < K)[:, None], other=0.0)
        total += tl.dot(a, b) * tl.load(s + cols)[None, :]
    tl.store(there, total, mask=(rows < M)[:, None])


@triton.jit
def rounded(acc, y, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + at, tl.load(acc + at, mask=at < n).to(tl.bfloat16), mask=at < n)


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.ones(N))
        self.plans = {}

    def work(self, x, acc, y):
        (M, K), N = x.shape, self.weight.shape[0]
        INSIDE
        half = triton.cdiv(K, 128) * 64
        for first, last in ((0, half), (half, K)):
            added[(triton.cdiv(M, 64), triton.cdiv(N, 128))](
                x, self.weight, self.weight_scale, acc, M, N, K, first, last, BM=64, BN=128, BK=64
            )
        rounded[(triton.cdiv(M * N, 1024),)](acc, y, M * N, B=1024)

    def plan(self, x):
        held = x.clone()
        acc = torch.zeros(x.shape[0], self.weight.shape[0], device=x.device)
        y = torch.empty_like(acc, dtype=torch.bfloat16)
        self.work(held, acc, y)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        OUTSIDE
        with torch.cuda.graph(graph):
            self.work(held, acc, y)
        return graph, held, acc, y

    def forward(self, x):
        if x.shape not in self.plans:
            self.plans[x.shape] = self.plan(x)
        graph, held, acc, y = self.plans[x.shape]
        held.copy_(x)
        EACH
        graph.replay()
        return y.clone()
"""
)
PLACES = {
    "zero_ in the graph": ("INSIDE", "acc.zero_()", True),
    "fill_ in the graph": ("INSIDE", "acc.fill_(0.0)", True),
    "out= in the graph": ("INSIDE", "torch.zeros(acc.shape, out=acc)", True),
    "zero_ before each replay": ("EACH", "acc.zero_()", True),
    "zero_ before the capture": ("OUTSIDE", "acc.zero_()", False),
}


@pytest.mark.parametrize("how", PLACES)
def test_sums_that_begin_at_zero_in_each_replay_are_of_this_call(tmp_path: Path, how: str) -> None:
    place, statement, honest = PLACES[how]
    text = TEXT.replace(place, statement)
    for other in ("INSIDE", "OUTSIDE", "EACH"):
        text = text.replace(other, "pass")
    report = lint(tmp_path, text)
    if honest:
        assert (report.verdict, set(states(report).values())) == ("clean", {"kept"}), report.findings
    else:
        assert "KBH202" in {finding.rule for finding in report.findings}


EXTENSION = """
from torch.utils.cpp_extension import load_inline
SOURCE = r'''
#include <torch/extension.h>
__global__ void added(const __nv_fp8_e4m3* x, const __nv_fp8_e4m3* w, const float* s, float* acc, int N, int K, int k) {
  int row = blockIdx.x, col = threadIdx.x;
  float total = acc[row * N + col];
  for (int end = k + K / 2; k < end; ++k) total += float(x[row * K + k]) * float(w[col * K + k]);
  acc[row * N + col] = total;
}
__global__ void rounded(const float* acc, const float* s, __nv_bfloat16* y, int N) {
  int i = blockIdx.x * N + threadIdx.x;
  y[i] = __float2bfloat16(acc[i] * s[threadIdx.x]);
}
void run(torch::Tensor x, torch::Tensor w, torch::Tensor s, torch::Tensor acc, torch::Tensor y) {
  int M = x.size(0), K = x.size(1), N = w.size(0);
  CLEARED
  for (int k = 0; k < K; k += K / 2)
    added<<<M, N>>>((const __nv_fp8_e4m3*)x.data_ptr(), (const __nv_fp8_e4m3*)w.data_ptr(), s.data_ptr<float>(),
                    acc.data_ptr<float>(), N, K, k);
  rounded<<<M, N>>>(acc.data_ptr<float>(), s.data_ptr<float>(), (__nv_bfloat16*)y.data_ptr(), N);
}
'''
NAME = "void run(torch::Tensor x, torch::Tensor w, torch::Tensor s, torch::Tensor acc, torch::Tensor y);"
ext = load_inline("e", NAME, SOURCE, functions=["run"])
"""
CLEARED = {
    "by the runtime": ("cudaMemsetAsync(acc.data_ptr(), 0, acc.nbytes(), at::cuda::getCurrentCUDAStream());", True),
    "by its elements": ("cudaMemset(acc.data_ptr<float>(), 0, sizeof(float) * M * N);", True),
    "by the driver": ("cuMemsetD32Async((CUdeviceptr)acc.data_ptr(), 0, M * N, 0);", True),
    "by torch": ("acc.zero_();", True),
    "in part": ("cudaMemsetAsync(acc.data_ptr(), 0, 4 * N, 0);", False),
    "words as bytes": ("cudaMemset(acc.data_ptr(), 0, M * N);", False),
    "not at all": ("", False),
}


@pytest.mark.parametrize("how", CLEARED)
def test_what_is_cleared_in_each_call_holds_nothing_of_the_call_before(tmp_path: Path, how: str) -> None:
    statement, cleared = CLEARED[how]
    setup = 'self.acc = torch.zeros(M, N, device="cuda")\n'
    body = (
        "y = torch.empty(M, N, dtype=torch.bfloat16, device=x.device)\n"
        "ext.run(x, self.weight, self.weight_scale, self.acc, y)\nreturn y\n"
    )
    report = lint(tmp_path, HEAD + EXTENSION.replace("CLEARED", statement) + model(body, setup))
    assert ("KBH202" not in {finding.rule for finding in report.findings}) == cleared, report.findings
