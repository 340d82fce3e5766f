"""A packed weight that a launch takes apart into global memory, and multiplies from there, is expanded."""

from __future__ import annotations

from pathlib import Path

import pytest
from linted import report_of

TRITON = """import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def fused(x, q, s, z, room, y, M, N, K, ticket, BM: tl.constexpr, BN: tl.constexpr):
    cols = tl.program_id(0) * BN + tl.arange(0, BN)
    half = tl.arange(0, 64)
{filling}
    for m in range(0, M, BM):
        rows = m + tl.arange(0, BM)
        acc = tl.zeros((BM, BN), tl.float32)
        for group in range(0, K // 128):
            even = x + rows[:, None] * K + (group * 128 + 2 * half)[None, :]
            a = tl.load(even, mask=rows[:, None] < M, other=0.0)
            b = tl.load(even + 1, mask=rows[:, None] < M, other=0.0)
            scale = tl.load(s + group * N + cols)[None, :].to(tl.float32)
            zero = tl.load(z + group * N + cols)[None, :].to(tl.float32)
{product}
        tl.store(y + rows[:, None] * N + cols[None, :], acc.to(tl.bfloat16), mask=rows[:, None] < M)


class Model(nn.Module):
    def __init__(self, M, N, K, group_size=128):
        super().__init__()
        self.M, self.N, self.K = M, N, K
        self.register_buffer("w_q", torch.zeros(K // 2, N, dtype=torch.uint8))
        self.register_buffer("scales", torch.zeros(K // group_size, N, dtype=torch.bfloat16))
        self.register_buffer("zeros", torch.zeros(K // group_size, N, dtype=torch.bfloat16))

    def forward(self, x):
        M, N, K = self.M, self.N, self.K
        y = x.new_empty(M, N)
        room = torch.empty({room}, device=x.device)
        ticket = torch.zeros(1, dtype=torch.int32, device=x.device)
        fused[(N // 64,)](x, self.w_q, self.scales, self.zeros, room, y, M, N, K, ticket, BM=16, BN=64)
        return y
"""
BYTE = "byte = tl.load(q + (group * 64 + half)[:, None] * N + cols[None, :])"
INSIDE = f"""{BYTE}
w = ((byte & 15).to(tl.float32) - zero) * scale
acc = tl.dot(a, w.to(tl.bfloat16), acc)
w = ((byte >> 4).to(tl.float32) - zero) * scale
acc = tl.dot(b, w.to(tl.bfloat16), acc)"""
OPENED = f"""for group in range(0, K // 128):
    {BYTE}
    at = room + (group * 128 + half)[:, None] * N + cols[None, :]
    tl.store(at, LOW)
    tl.store(at + 64 * N, HIGH)
WAIT"""
WAIT = """tl.atomic_add(ticket, 1)
while tl.atomic_add(ticket, 0) < tl.num_programs(0):
    pass"""
SCALED = (
    """((byte & 15).to(tl.float32) - tl.load(z + group * N + cols)[None, :]) * tl.load(s + group * N + cols)[None, :]"""
)
FROM_ROOM = """at = room + (group * 128 + half)[:, None] * N + cols[None, :]
low, high = tl.load(at), tl.load(at + 64 * N)
"""
FULL = "K, N, dtype=torch.bfloat16"


def _opened(low: str, high: str, wait: str) -> str:
    return OPENED.replace("LOW", low).replace("HIGH", high).replace("WAIT", wait)


EXPANDED = {
    "scaled, and all wait for all": (
        FULL,
        _opened(SCALED, SCALED.replace("byte & 15", "byte >> 4"), WAIT),
        FROM_ROOM + "acc = tl.dot(b, high, tl.dot(a, low, acc))",
    ),
    "each program its own columns": (
        FULL,
        _opened(SCALED, SCALED.replace("byte & 15", "byte >> 4"), "tl.debug_barrier()"),
        FROM_ROOM + "acc = tl.dot(b, high, tl.dot(a, low, acc))",
    ),
    "a byte for each of the numbers": (
        "K, N, dtype=torch.uint8",
        _opened("byte & 15", "byte >> 4", WAIT),
        FROM_ROOM
        + "low, high = (low.to(tl.float32) - zero) * scale, (high.to(tl.float32) - zero) * scale\n"
        + "acc = tl.dot(b, high.to(tl.bfloat16), tl.dot(a, low.to(tl.bfloat16), acc))",
    ),
}
KEPT = {
    "nothing is written": ("1", "pass", INSIDE),
    "the bytes are copied": (
        "K // 2, N, dtype=torch.uint8",
        f"for group in range(0, K // 128):\n    {BYTE}\n"
        f"    tl.store(room + (group * 64 + half)[:, None] * N + cols[None, :], byte)\n{WAIT}",
        INSIDE.replace("tl.load(q +", "tl.load(room +"),
    ),
    "products are written to a room as large": (
        "K // 128, M, N, dtype=torch.float32",
        "pass",
        f"{BYTE}\npart = tl.dot(b, (byte >> 4).to(tl.bfloat16), tl.dot(a, (byte & 15).to(tl.bfloat16)))\n"
        "at = room + (group * M + rows)[:, None] * N + cols[None, :]\n"
        "tl.store(at, part, mask=rows[:, None] < M)\ntl.debug_barrier()\n"
        "total = tl.sum((a + b).to(tl.float32), 1)[:, None]\n"
        "acc += (tl.load(at, mask=rows[:, None] < M, other=0.0) - total * zero) * scale",
    ),
    "sums of them are written to a room that is larger": (
        FULL,
        f"for group in range(0, K // 128):\n    {BYTE}\n"
        "    added = tl.sum((byte & 15).to(tl.float32) + (byte >> 4).to(tl.float32), 0)\n"
        "    tl.store(room + group * N + cols, added.to(tl.bfloat16))\ntl.debug_barrier()",
        INSIDE + "\nacc += tl.sum(a.to(tl.float32), 1)[:, None] * tl.load(room + group * N + cols)[None, :] * 1e-9",
    ),
}


def _indented(lines: str, by: int) -> str:
    return "".join(f"{' ' * by}{line}\n" for line in lines.splitlines()).rstrip("\n")


def _report(tmp_path: Path, text: str) -> tuple[set[str], dict[str, str]]:
    found = report_of(tmp_path, text, "07_w4a16_gemm")
    return {f.leak_class for f in found.findings if f.severity != "info"}, {p.id: p.state for p in found.promises}


def _triton(room: str, filling: str, product: str) -> str:
    return TRITON.format(room=room, filling=_indented(filling, 4), product=_indented(product, 12))


@pytest.mark.parametrize("how", EXPANDED)
def test_a_weight_that_is_taken_apart_into_memory_is_expanded_in_one_launch_too(tmp_path: Path, how: str) -> None:
    found, states = _report(tmp_path, _triton(*EXPANDED[how]))
    assert found == {"preunpacked-int4"} and states["int4-packed"] == "broken", (found, states)


@pytest.mark.parametrize("how", KEPT)
def test_other_memory_that_a_launch_writes_and_reads_is_no_expanded_weight(tmp_path: Path, how: str) -> None:
    assert _report(tmp_path, _triton(*KEPT[how])) == (set(), {"int4-packed": "kept", "authored-compute": "kept"})


CUDA = r'''import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cooperative_groups.h>
#include <cuda_bf16.h>
#include <mma.h>
using namespace nvcuda;
using half_t = __nv_bfloat16;
__device__ half_t number(const uint8_t* q, const half_t* s, const half_t* z, int k, int n, int N) {
    int byte = q[(k / 2) * N + n], at = k / 128 * N + n;
    float v = k & 1 ? byte >> 4 : byte & 15;
    return __float2bfloat16((v - __bfloat162float(z[at])) * __bfloat162float(s[at]));
}
__global__ void fused(const half_t* x, const uint8_t* q, const half_t* s, const half_t* z, half_t* room, half_t* y,
                      int M, int N, int K) {
    __shared__ half_t a[16 * 16], b[16 * 16];
    __shared__ float c[16 * 16];
    FILLING
    for (int t = blockIdx.x; t < (M + 15) / 16 * (N / 16); t += gridDim.x) {
        int m = t / (N / 16) * 16, n = t % (N / 16) * 16;
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
        wmma::fill_fragment(acc, 0.f);
        for (int k = 0; k < K; k += 16) {
            for (int i = threadIdx.x; i < 256; i += blockDim.x) {
                a[i] = m + i / 16 < M ? x[(m + i / 16) * K + k + i % 16] : __float2bfloat16(0.f);
                b[i] = OPERAND;
            }
            __syncthreads();
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half_t, wmma::row_major> fa;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half_t, wmma::row_major> fb;
            wmma::load_matrix_sync(fa, a, 16);
            wmma::load_matrix_sync(fb, b, 16);
            wmma::mma_sync(acc, fa, fb, acc);
            __syncthreads();
        }
        wmma::store_matrix_sync(c, acc, 16, wmma::mem_row_major);
        __syncthreads();
        for (int i = threadIdx.x; i < 256; i += blockDim.x)
            if (m + i / 16 < M) y[(m + i / 16) * N + n + i % 16] = __float2bfloat16(c[i]);
        __syncthreads();
    }
}
torch::Tensor run(torch::Tensor x, torch::Tensor q, torch::Tensor s, torch::Tensor z) {
    int M = x.size(0), K = x.size(1), N = q.size(1);
    auto y = torch::empty({M, N}, x.options()), room = torch::empty({K, N}, x.options());
    auto p = [](torch::Tensor t) { return reinterpret_cast<half_t*>(t.data_ptr()); };
    const half_t *px = p(x), *ps = p(s), *pz = p(z);
    const uint8_t* pq = q.data_ptr<uint8_t>();
    half_t *pr = p(room), *py = p(y);
    void* args[] = {&px, &pq, &ps, &pz, &pr, &py, &M, &N, &K};
    cudaLaunchCooperativeKernel((void*)fused, dim3(132), dim3(32), args, 0, 0);
    return y;
}
"""
DECLARED = "torch::Tensor run(torch::Tensor x, torch::Tensor q, torch::Tensor s, torch::Tensor z);"
extension = load_inline(name="fused", cuda_sources=SOURCE, functions=["run"], cpp_sources=DECLARED)


class Model(nn.Module):
    def __init__(self, M, N, K, group_size=128):
        super().__init__()
        self.register_buffer("w_q", torch.zeros(K // 2, N, dtype=torch.uint8))
        self.register_buffer("scales", torch.zeros(K // group_size, N, dtype=torch.bfloat16))
        self.register_buffer("zeros", torch.zeros(K // group_size, N, dtype=torch.bfloat16))

    def forward(self, x):
        return extension.run(x, self.w_q, self.scales, self.zeros)
'''
FILLING = """for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < K * N; i += gridDim.x * blockDim.x)
        room[i] = number(q, s, z, i / N, i % N, N);
    cooperative_groups::this_grid().sync();"""


def test_a_grid_that_waits_for_itself_expands_too(tmp_path: Path) -> None:
    text = CUDA.replace("FILLING", FILLING).replace("OPERAND", "room[(k + i / 16) * N + n + i % 16]")
    found, states = _report(tmp_path, text)
    assert found == {"preunpacked-int4"} and states["int4-packed"] == "broken", (found, states)


def test_shared_memory_is_inside_of_the_kernel(tmp_path: Path) -> None:
    text = CUDA.replace("FILLING", "").replace("OPERAND", "number(q, s, z, k + i / 16, n + i % 16, N)")
    assert _report(tmp_path, text) == (set(), {"int4-packed": "kept", "authored-compute": "kept"})
