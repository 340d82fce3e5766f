"""FP8 GEMM put together from CUTLASS 3 for Hopper: e4m3 tiles by TMA, wgmma on them, the column scale in the epilogue.

The builders choose the main loop: two warpgroups share a tile of 128 x 128 and a pair of blocks shares what TMA brings.
A short activation (decode) gets tiles of 64 rows, the fewest that wgmma takes, by 64 columns. The epilogue multiplies
each column of the fp32 accumulator by its scale and rounds once.

TMA wants rows that start on 16 bytes. Where the depth does not give that, both operands are copied into rows that do,
in e4m3 with zeros behind: the activation on every call, the weight once per version of the buffer.

CUTLASS's headers are wanted on the include path; `kbh grade --cutlass DIR` puts them there.
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cutlass/cutlass.h>
#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/epilogue/fusion/sm90_callbacks_tma_warpspecialized.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/gemm/device/gemm_universal_adapter.h>
#include <cutlass/gemm/kernel/gemm_universal.hpp>
#include <cutlass/util/packed_stride.hpp>

using namespace cute;

using In = cutlass::float_e4m3_t;
using Out = cutlass::bfloat16_t;
using Row = cutlass::layout::RowMajor;
using Column = cutlass::layout::ColumnMajor;
constexpr int IN_ALIGNED = 16;  // elements of 16 bytes
constexpr int OUT_ALIGNED = 8;

// One kernel: the tile of a block, how many blocks share it, and how its warps share the work.
template <class Tile, class Cluster, class Loop, class Store>
struct Kernel {
    using Scale = cutlass::epilogue::fusion::Sm90RowBroadcast<0, Tile, float>;
    using Multiply = cutlass::epilogue::fusion::Sm90Compute<
        cutlass::multiplies, Out, float, cutlass::FloatRoundStyle::round_to_nearest>;
    using Fused = cutlass::epilogue::fusion::Sm90EVT<Multiply, Scale, cutlass::epilogue::fusion::Sm90AccFetch>;
    using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
        cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Tile, Cluster,
        cutlass::epilogue::collective::EpilogueTileAuto, float, float,
        void, Row, OUT_ALIGNED, Out, Row, OUT_ALIGNED, Store, Fused>::CollectiveOp;
    using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
        cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, In, Row, IN_ALIGNED, In, Column, IN_ALIGNED, float,
        Tile, Cluster,
        cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(sizeof(typename Epilogue::SharedStorage))>,
        Loop>::CollectiveOp;
    using Gemm = cutlass::gemm::device::GemmUniversalAdapter<
        cutlass::gemm::kernel::GemmUniversal<Shape<int, int, int, int>, Mainloop, Epilogue>>;
};

using Prefill = Kernel<Shape<_128, _128, _128>, Shape<_2, _1, _1>,
                       cutlass::gemm::KernelTmaWarpSpecializedCooperativeFP8FastAccum,
                       cutlass::epilogue::TmaWarpSpecializedCooperative>::Gemm;
using Decode = Kernel<Shape<_64, _64, _128>, Shape<_1, _1, _1>,
                      cutlass::gemm::KernelTmaWarpSpecializedFP8FastAccum,
                      cutlass::epilogue::TmaWarpSpecialized>::Gemm;

template <class Gemm>
static void run(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& scale, torch::Tensor& y) {
    const int m = x.size(0), k = x.size(1), n = weight.size(0);
    const auto rows = cutlass::make_cute_packed_stride(typename Gemm::GemmKernel::StrideA{}, {m, k, 1});
    const auto columns = cutlass::make_cute_packed_stride(typename Gemm::GemmKernel::StrideB{}, {n, k, 1});
    const auto out = cutlass::make_cute_packed_stride(typename Gemm::GemmKernel::StrideD{}, {m, n, 1});
    typename Gemm::Arguments arguments{
        cutlass::gemm::GemmUniversalMode::kGemm,
        {m, n, k, 1},
        {reinterpret_cast<const In*>(x.data_ptr()), rows, reinterpret_cast<const In*>(weight.data_ptr()), columns},
        {{{scale.data_ptr<float>()}, {}, {}}, nullptr, {}, reinterpret_cast<Out*>(y.data_ptr()), out}};
    Gemm gemm;
    auto workspace = torch::empty({static_cast<int64_t>(Gemm::get_workspace_size(arguments)) + 1},
                                  x.options().dtype(torch::kByte));
    TORCH_CHECK(gemm.can_implement(arguments) == cutlass::Status::kSuccess, "the kernel cannot do this size");
    TORCH_CHECK(gemm.initialize(arguments, workspace.data_ptr(), at::cuda::getCurrentCUDAStream()) ==
                cutlass::Status::kSuccess, "the kernel could not be set up");
    TORCH_CHECK(gemm.run(at::cuda::getCurrentCUDAStream()) == cutlass::Status::kSuccess, "the launch failed");
}

void fp8_gemm(torch::Tensor x, torch::Tensor weight, torch::Tensor scale, torch::Tensor y) {
    if (x.size(0) <= 64) {
        run<Decode>(x, weight, scale, y);
    } else {
        run<Prefill>(x, weight, scale, y);
    }
}
"""


def build():
    """The compiled extension; torch keeps it, so a second call is quick."""
    return load_inline(
        name="kbh_fp8_gemm_cutlass",
        cpp_sources=["void fp8_gemm(torch::Tensor x, torch::Tensor weight, torch::Tensor scale, torch::Tensor y);"],
        cuda_sources=[SOURCE],
        functions=["fp8_gemm"],
        extra_cuda_cflags=[
            "-O3", "-std=c++17", "-DNDEBUG", "--expt-relaxed-constexpr", "-gencode=arch=compute_90a,code=sm_90a",
        ],
        extra_ldflags=["-lcuda"],
    )


def aligned(t: torch.Tensor) -> torch.Tensor:
    """`t` [rows, depth], or a copy whose rows start on 16 bytes, with zeros behind."""
    extra = -t.size(1) % 16
    if not extra:
        return t
    zeros = torch.zeros(t.size(0), extra, dtype=torch.uint8, device=t.device)
    return torch.cat((t.view(torch.uint8), zeros), dim=1).view(t.dtype)


class Model(nn.Module):
    """y[M,N] bf16 = (x[M,K] e4m3 @ weight[N,K]^T e4m3) * weight_scale[N]."""

    def __init__(self, M: int, N: int, K: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.ones(N, dtype=torch.float32))
        self._extension = build()
        self._aligned: torch.Tensor | None = None
        self._version: tuple[int, int] | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [M, K] e4m3 -> [M, N] bf16."""
        version = (self.weight.data_ptr(), self.weight._version)
        if self._version != version:
            self._aligned, self._version = aligned(self.weight), version
        y = torch.empty((x.shape[0], self.weight.shape[0]), dtype=torch.bfloat16, device=x.device)
        self._extension.fp8_gemm(aligned(x), self._aligned, self.weight_scale, y)
        return y
