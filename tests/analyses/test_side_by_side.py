"""Several tensors in one buffer keep their own element types, and CUTLASS's mixed products unpack in registers."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbh_lint import lint
from kbh_lint.findings import FileReport

PACKED = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gemv(x, codes, scale, offset, y, N, K, BN: tl.constexpr):
    row, cols = tl.program_id(0), tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BN,), tl.float32)
    for half in range(0, K // 2):
        at = half // 64 * N + cols
        s, o = tl.load(scale + at).to(tl.float32), tl.load(offset + at).to(tl.float32)
        LOADS
        total += tl.load(x + row * K + 2 * half).to(tl.float32) * (low.to(tl.float32) - o) * s
        total += tl.load(x + row * K + 2 * half + 1).to(tl.float32) * (high.to(tl.float32) - o) * s
    tl.store(y + row * N + cols, total.to(tl.bfloat16))


class Model(nn.Module):
    def __init__(self, M, N, K, group_size=128):
        super().__init__()
        self.register_buffer("w_q", torch.zeros(K // 2, N, dtype=torch.uint8))
        self.register_buffer("scales", torch.zeros(K // group_size, N, dtype=torch.bfloat16))
        self.register_buffer("zeros", torch.zeros(K // group_size, N, dtype=torch.bfloat16))
        self.made = None

    def gathered(self):
        made = [tensor._version for tensor in (self.w_q, self.scales, self.zeros)]
        if made != self.made:
            pieces = [PREPARED.view(torch.uint8), self.scales.view(torch.uint8), self.zeros.view(torch.uint8)]
            self.arena = torch.empty(sum(p.numel() for p in pieces), dtype=torch.uint8, device=self.w_q.device)
            begin = 0
            for piece in pieces:
                self.arena[begin : begin + piece.numel()].copy_(piece.reshape(-1))
                begin += piece.numel()
            self.ends, self.made = pieces[0].numel(), made
        codes, rest = self.arena[: self.ends].view(torch.KIND), self.arena[self.ends :].view(torch.bfloat16)
        return codes, rest[: self.scales.numel()], rest[self.scales.numel() :]

    def forward(self, x):
        (M, K), N = x.shape, self.w_q.shape[1]
        y = torch.empty(M, N, dtype=torch.bfloat16, device=x.device)
        gemv[(M, N // 256)](x, *self.gathered(), y, N, K, BN=256)
        return y
"""

MIXED = '''
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/extension.h>
#include "cutlass/gemm/device/gemm_universal_adapter.h"
#include "cutlass/gemm/collective/collective_builder.hpp"
#include "cutlass/epilogue/collective/collective_builder.hpp"
using namespace cute;
namespace cc = cutlass::gemm::collective;
using B16 = cutlass::bfloat16_t;
using Tile = Shape<_128, _64, _64>;
using One = Shape<_1, _1, _1>;
using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<cutlass::arch::Sm90,
    cutlass::arch::OpClassTensorOp, Tile, One, cutlass::epilogue::collective::EpilogueTileAuto, float, float, void,
    cutlass::layout::ColumnMajor, 8, B16, cutlass::layout::ColumnMajor, 8,
    cutlass::epilogue::TmaWarpSpecializedCooperative>::CollectiveOp;
using Loop = typename cc::CollectiveBuilder<cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, LEFT,
    cutlass::layout::RowMajor, 32, B16, cutlass::layout::ColumnMajor, 8, float, Tile, One, cc::StageCountAuto,
    cutlass::gemm::KernelTmaWarpSpecializedCooperative>::CollectiveOp;
using Product = cutlass::gemm::device::GemmUniversalAdapter<
    cutlass::gemm::kernel::GemmUniversal<Shape<int, int, int, int>, Loop, Epilogue>>;

torch::Tensor product(torch::Tensor x, torch::Tensor w, torch::Tensor s, torch::Tensor z) {
  using K = typename Product::GemmKernel;
  const int m = x.size(0), k = x.size(1), n = w.size(0);
  auto y = torch::empty({m, n}, x.options());
  auto sa = cutlass::make_cute_packed_stride(typename K::StrideA{}, make_shape(n, k, 1));
  auto sb = cutlass::make_cute_packed_stride(typename K::StrideB{}, make_shape(m, k, 1));
  auto sd = cutlass::make_cute_packed_stride(typename K::StrideD{}, make_shape(n, m, 1));
  typename Product::Arguments args{cutlass::gemm::GemmUniversalMode::kGemm, {n, m, k, 1},
      {reinterpret_cast<CAST const*>(w.data_ptr()), sa, reinterpret_cast<B16 const*>(x.data_ptr()), sb SCALES},
      {{1.0f, 0.0f}, nullptr, sd, reinterpret_cast<B16*>(y.data_ptr()), sd}};
  Product op;
  op.initialize(args, nullptr);
  op.run();
  return y;
}
"""

ext = load_inline(
    name="mixed_product",
    cpp_sources="torch::Tensor product(torch::Tensor x, torch::Tensor w, torch::Tensor s, torch::Tensor z);",
    cuda_sources=CUDA,
    functions=["product"],
)


class Model(nn.Module):
    def __init__(self, M, N, K, group_size=128):
        super().__init__()
        self.register_buffer("w_q", torch.zeros(K // 2, N, dtype=torch.uint8))
        self.register_buffer("scales", torch.zeros(K // group_size, N, dtype=torch.bfloat16))
        self.register_buffer("zeros", torch.zeros(K // group_size, N, dtype=torch.bfloat16))

    def forward(self, x):
        w = PREPARED
        return ext.product(x, w, self.scales, -self.zeros * self.scales)
'''
SCALES = """, reinterpret_cast<B16 const*>(s.data_ptr()),
       cutlass::make_cute_packed_stride(typename Loop::StrideScale{}, make_shape(n, k / 128, 1)), 128,
       reinterpret_cast<B16 const*>(z.data_ptr())"""
WIDENED = "torch.stack((self.w_q & 15, self.w_q >> 4), 1).view(-1, self.w_q.shape[1]).to(torch.bfloat16).T.contiguous()"


def told(folder: Path, problem: str, text: str, parts: dict[str, str]) -> FileReport:
    """The report on a program whose words in capitals are replaced."""
    for word, part in parts.items():
        text = text.replace(word, part)
    path = folder / "solution.py"
    path.write_text(text)
    return lint([path], problem=problem, raise_errors=True).files[0]


@pytest.mark.parametrize(
    ("parts", "state"),
    [
        (
            {
                "LOADS": "both = tl.load(codes + half * N + cols); low = both & 15; high = both >> 4",
                "KIND": "uint8",
                "PREPARED": "self.w_q",
            },
            "kept",
        ),
        (
            {
                "LOADS": "a = codes + 2 * half * N + cols; low = tl.load(a); high = tl.load(a + N)",
                "KIND": "bfloat16",
                "PREPARED": "torch.stack((self.w_q & 15, self.w_q >> 4), 1).to(torch.bfloat16)",
            },
            "broken",
        ),
    ],
)
def test_a_tensor_has_its_own_type_beside_others_in_one_buffer(tmp_path: Path, parts: dict[str, str], state: str):
    report = told(tmp_path, "07_w4a16_gemm", PACKED, parts)
    assert {p.id: p.state for p in report.promises}["int4-packed"] == state, report


@pytest.mark.parametrize(
    ("parts", "state"),
    [
        (
            {
                "LEFT": "cute::tuple<cutlass::uint4b_t, B16, B16>",
                "CAST": "cutlass::uint4b_t",
                "SCALES": SCALES,
                "PREPARED": "self.w_q.T.contiguous()",
            },
            "kept",
        ),
        ({"LEFT": "B16", "CAST": "B16", "SCALES": "", "PREPARED": WIDENED}, "broken"),
    ],
)
def test_a_mixed_product_of_cutlass_unpacks_in_registers(tmp_path: Path, parts: dict[str, str], state: str):
    report = told(tmp_path, "07_w4a16_gemm", MIXED, parts)
    assert {p.id: p.state for p in report.promises}["int4-packed"] == state, report
