# expect: kept
"""The host reads the offsets through pinned memory, makes a list of tiles and launches; all in an object of C++."""
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/Exceptions.h>
#include <cuda_bf16.h>
#include <mma.h>
#include <vector>
#include <algorithm>
using namespace nvcuda;
using bf16 = __nv_bfloat16;

struct alignas(16) Tile { int expert, row, end, pad; };

template <int BM, int BN>
__global__ void __launch_bounds__(256) moe(const bf16* __restrict__ x, const bf16* __restrict__ wg, const bf16* __restrict__ wu, bf16* __restrict__ out,
                                           const Tile* __restrict__ tiles, int H, int I) {
    constexpr int BK = 32;
    __shared__ bf16 sx[BM][BK + 8], sg[BK][BN + 8], su[BK][BN + 8];
    __shared__ float cg[BM][BN], cu[BM][BN];
    const Tile t = tiles[blockIdx.y];
    const int col0 = blockIdx.x * BN, warp = threadIdx.x / 32;
    constexpr int WM = BM / 16, PER = WM * (BN / 16) / 8;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> g[PER], u[PER];
    for (int i = 0; i < PER; ++i) { wmma::fill_fragment(g[i], 0.f); wmma::fill_fragment(u[i], 0.f); }
    const bf16* wge = wg + (size_t)t.expert * H * I;
    const bf16* wue = wu + (size_t)t.expert * H * I;
    for (int k0 = 0; k0 < H; k0 += BK) {
        for (int i = threadIdx.x; i < BM * BK; i += 256) {
            const int r = i / BK, c = i % BK;
            sx[r][c] = t.row + r < t.end ? x[(size_t)(t.row + r) * H + k0 + c] : bf16(0.f);
        }
        for (int i = threadIdx.x; i < BK * BN; i += 256) {
            const int r = i / BN, c = i % BN;
            sg[r][c] = wge[(size_t)(k0 + r) * I + col0 + c];
            su[r][c] = wue[(size_t)(k0 + r) * I + col0 + c];
        }
        __syncthreads();
        for (int kk = 0; kk < BK; kk += 16) {
            for (int i = 0; i < PER; ++i) {
                const int f = warp * PER + i, m = f % WM * 16, n = f / WM * 16;
                wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16, wmma::row_major> a;
                wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16, wmma::row_major> b;
                wmma::load_matrix_sync(a, &sx[m][kk], BK + 8);
                wmma::load_matrix_sync(b, &sg[kk][n], BN + 8);
                wmma::mma_sync(g[i], a, b, g[i]);
                wmma::load_matrix_sync(b, &su[kk][n], BN + 8);
                wmma::mma_sync(u[i], a, b, u[i]);
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < PER; ++i) {
        const int f = warp * PER + i, m = f % WM * 16, n = f / WM * 16;
        wmma::store_matrix_sync(&cg[m][n], g[i], BN, wmma::mem_row_major);
        wmma::store_matrix_sync(&cu[m][n], u[i], BN, wmma::mem_row_major);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < BM * BN; i += 256) {
        const int r = i / BN, c = i % BN;
        if (t.row + r < t.end) {
            const float a = cg[r][c];
            out[(size_t)(t.row + r) * I + col0 + c] = __float2bfloat16(a / (1.f + __expf(-a)) * cu[r][c]);
        }
    }
}

class Planner {
  public:
    explicit Planner(int experts) : host_(torch::empty({experts + 1}, torch::TensorOptions().dtype(torch::kInt).pinned_memory(true))) {}

    const std::vector<Tile>& plan(const torch::Tensor& offsets, int bm) {
        host_.copy_(offsets, /*non_blocking=*/true);
        AT_CUDA_CHECK(cudaStreamSynchronize(at::cuda::getCurrentCUDAStream()));
        const int* o = host_.data_ptr<int>();
        tiles_.clear();
        for (int e = 0; e + 1 < host_.numel(); ++e)
            for (int r = o[e]; r < o[e + 1]; r += bm) tiles_.push_back(Tile{e, r, o[e + 1], 0});
        return tiles_;
    }

  private:
    torch::Tensor host_;
    std::vector<Tile> tiles_;
};

class Moe {
  public:
    Moe(int64_t experts) : planner_(experts) {}
    torch::Tensor operator()(torch::Tensor x, torch::Tensor offsets, torch::Tensor wg, torch::Tensor wu) {
        constexpr int BM = 64, BN = 64;
        const auto& tiles = planner_.plan(offsets, BM);
        const int H = x.size(1), I = wg.size(2);
        auto out = torch::empty({x.size(0), I}, x.options());
        if (tiles.empty()) return out;
        const int64_t bytes = tiles.size() * sizeof(Tile);
        auto staged = torch::from_blob(const_cast<Tile*>(tiles.data()), {bytes}, torch::kByte).to(x.device());
        moe<BM, BN><<<dim3(I / BN, tiles.size()), 256, 0, at::cuda::getCurrentCUDAStream()>>>(
            p(x), p(wg), p(wu), const_cast<bf16*>(p(out)), reinterpret_cast<const Tile*>(staged.data_ptr<uint8_t>()), H, I);
        return out;
    }
  private:
    static const bf16* p(const torch::Tensor& t) { return reinterpret_cast<const bf16*>(t.data_ptr()); }
    Planner planner_;
};

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    py::class_<Moe>(m, "Moe").def(py::init<int64_t>(), py::arg("experts")).def("__call__", &Moe::operator());
}
"""

ext = load_inline("moe_planner", "", CUDA)


class Model(nn.Module):
    def __init__(self, T_total, H, I, E, K):
        super().__init__()
        self.W_gate = nn.Parameter(torch.zeros(E, H, I, dtype=torch.bfloat16))
        self.W_up = nn.Parameter(torch.zeros(E, H, I, dtype=torch.bfloat16))
        self.moe = ext.Moe(experts=E)

    def forward(self, hidden_states, expert_offsets):
        return self.moe(hidden_states, expert_offsets, self.W_gate, self.W_up)
