"""FP8 GEMM from CUTLASS 3 collectives: TMA and wgmma chosen by the builders, the column scale fused by a visitor tree."""

import os
from pathlib import Path

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

M, N, K = 4096, 4096, 4096
CUTLASS = Path(os.environ.get("CUTLASS_PATH", "third_party/cutlass"))

CUDA_SRC = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include "cutlass/cutlass.h"
#include "cutlass/epilogue/collective/collective_builder.hpp"
#include "cutlass/epilogue/fusion/sm90_callbacks_tma_warpspecialized.hpp"
#include "cutlass/gemm/collective/collective_builder.hpp"
#include "cutlass/gemm/device/gemm_universal_adapter.h"
#include "cutlass/gemm/kernel/gemm_universal.hpp"
#include "cutlass/util/packed_stride.hpp"

using namespace cute;

using Element = cutlass::float_e4m3_t;
static torch::Tensor operand(const torch::Tensor& t) { return t.contiguous(); }

using ElementD = cutlass::bfloat16_t;
using Row = cutlass::layout::RowMajor;
using Col = cutlass::layout::ColumnMajor;
using Arch = cutlass::arch::Sm90;
using Cluster = Shape<_1, _1, _1>;
constexpr int kAlign = 128 / cutlass::sizeof_bits<Element>::value;
constexpr int kAlignD = 128 / cutlass::sizeof_bits<ElementD>::value;

template <class Tile>
struct Config {
    using Scale = cutlass::epilogue::fusion::Sm90RowBroadcast<0, Tile, float>;
    using Multiply = cutlass::epilogue::fusion::Sm90Compute<
        cutlass::multiplies, ElementD, float, cutlass::FloatRoundStyle::round_to_nearest>;
    using Fusion = cutlass::epilogue::fusion::Sm90EVT<Multiply, Scale, cutlass::epilogue::fusion::Sm90AccFetch>;
    using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
        Arch, cutlass::arch::OpClassTensorOp, Tile, Cluster, cutlass::epilogue::collective::EpilogueTileAuto,
        float, float, void, Row, kAlignD, ElementD, Row, kAlignD,
        cutlass::epilogue::TmaWarpSpecialized, Fusion>::CollectiveOp;
    using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
        Arch, cutlass::arch::OpClassTensorOp, Element, Row, kAlign, Element, Col, kAlign, float, Tile, Cluster,
        cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(sizeof(typename Epilogue::SharedStorage))>,
        cutlass::gemm::KernelTmaWarpSpecialized>::CollectiveOp;
    using Kernel = cutlass::gemm::kernel::GemmUniversal<Shape<int, int, int, int>, Mainloop, Epilogue>;
    using Gemm = cutlass::gemm::device::GemmUniversalAdapter<Kernel>;
};

template <class Gemm>
static void launch(const torch::Tensor& x, const torch::Tensor& w, const torch::Tensor& scale, torch::Tensor& y) {
    const int m = x.size(0), k = x.size(1), n = w.size(0);
    auto sx = cutlass::make_cute_packed_stride(typename Gemm::GemmKernel::StrideA{}, {m, k, 1});
    auto sw = cutlass::make_cute_packed_stride(typename Gemm::GemmKernel::StrideB{}, {n, k, 1});
    auto sy = cutlass::make_cute_packed_stride(typename Gemm::GemmKernel::StrideD{}, {m, n, 1});
    typename Gemm::Arguments arguments{
        cutlass::gemm::GemmUniversalMode::kGemm,
        {m, n, k, 1},
        {reinterpret_cast<const Element*>(x.data_ptr()), sx, reinterpret_cast<const Element*>(w.data_ptr()), sw},
        {{{scale.data_ptr<float>()}, {}, {}}, nullptr, {}, reinterpret_cast<ElementD*>(y.data_ptr()), sy}};
    Gemm gemm;
    auto workspace = torch::empty({static_cast<int64_t>(Gemm::get_workspace_size(arguments)) + 1},
                                  x.options().dtype(torch::kByte));
    TORCH_CHECK(gemm.can_implement(arguments) == cutlass::Status::kSuccess, "sizes do not suit the kernel");
    TORCH_CHECK(gemm.initialize(arguments, workspace.data_ptr()) == cutlass::Status::kSuccess, "initialize");
    TORCH_CHECK(gemm.run(at::cuda::getCurrentCUDAStream()) == cutlass::Status::kSuccess, "run");
}

torch::Tensor fp8_gemm(torch::Tensor x, torch::Tensor w, torch::Tensor scale) {
    auto a = operand(x);
    auto b = operand(w);
    auto y = torch::empty({a.size(0), b.size(0)}, x.options().dtype(torch::kBFloat16));
    if (a.size(0) <= 64) {
        launch<Config<Shape<_64, _128, _128>>::Gemm>(a, b, scale, y);
    } else {
        launch<Config<Shape<_128, _128, _128>>::Gemm>(a, b, scale, y);
    }
    return y;
}
"""


def build():
    return load_inline(
        name="idiom_fp8_cutlass3",
        cpp_sources="torch::Tensor fp8_gemm(torch::Tensor x, torch::Tensor w, torch::Tensor scale);",
        cuda_sources=CUDA_SRC,
        functions=["fp8_gemm"],
        extra_include_paths=[str(CUTLASS / "include"), str(CUTLASS / "tools" / "util" / "include")],
        extra_cuda_cflags=["-O3", "-std=c++17", "--expt-relaxed-constexpr", "-gencode=arch=compute_90a,code=sm_90a"],
    )


def pad_to_16(t: torch.Tensor) -> torch.Tensor:
    """`t` with its rows zero-padded to a multiple of 16 elements."""
    extra = -t.size(1) % 16
    if not extra:
        return t
    return torch.cat((t.view(torch.uint8), t.new_zeros(t.size(0), extra).view(torch.uint8)), dim=1).view(t.dtype)


class Model(nn.Module):
    def __init__(self, M: int, N: int, K: int):
        super().__init__()
        self.M, self.N, self.K = M, N, K
        w = torch.randn(N, K) * 0.02
        scale = w.abs().amax(dim=1) / 448.0
        self.register_buffer("weight", (w / scale[:, None]).to(torch.float8_e4m3fn))
        self.register_buffer("weight_scale", scale)
        self._ext = build()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._ext.fp8_gemm(pad_to_16(x), pad_to_16(self.weight), self.weight_scale)


def get_inputs():
    return [(torch.rand(M, K) * 8 - 4).to(torch.float8_e4m3fn)]


def get_init_inputs():
    return [M, N, K]
