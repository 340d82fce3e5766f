"""A CUDA extension that looks like a pipeline of kernels: CUB's device-wide segmented sort does all of the work."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <cub/device/device_segmented_radix_sort.cuh>

#include <tuple>

__global__ void number_columns(int* columns, int* starts, int rows, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * n) columns[i] = i % n;
    if (i <= rows) starts[i] = i * n;
}

__global__ void take_first(const float* sorted, const int* columns, float* values, int64_t* indices, int n, int k) {
    const long long row = blockIdx.x;
    for (int i = threadIdx.x; i < k; i += blockDim.x) {
        values[row * k + i] = sorted[row * n + i];
        indices[row * k + i] = columns[row * n + i];
    }
}

std::tuple<torch::Tensor, torch::Tensor> topk(torch::Tensor x, int64_t k) {
    const auto stream = c10::cuda::getCurrentCUDAStream();
    const int rows = x.size(0), n = x.size(1), total = rows * n;
    const auto ints = x.options().dtype(torch::kInt);
    auto columns = torch::empty({total}, ints), sorted_columns = torch::empty({total}, ints);
    auto starts = torch::empty({rows + 1}, ints);
    auto sorted = torch::empty_like(x), values = torch::empty({rows, k}, x.options());
    auto indices = torch::empty({rows, k}, x.options().dtype(torch::kLong));
    number_columns<<<(total + 255) / 256, 256, 0, stream>>>(columns.data_ptr<int>(), starts.data_ptr<int>(), rows, n);
    size_t bytes = 0;
    torch::Tensor scratch;
    for (int pass = 0; pass < 2; ++pass) {
        void* room = pass ? scratch.data_ptr() : nullptr;
        C10_CUDA_CHECK(cub::DeviceSegmentedRadixSort::SortPairsDescending(
            room, bytes, x.data_ptr<float>(), sorted.data_ptr<float>(), columns.data_ptr<int>(),
            sorted_columns.data_ptr<int>(), total, rows, starts.data_ptr<int>(), starts.data_ptr<int>() + 1, 0, 32,
            stream.stream()));
        if (!pass) scratch = torch::empty({(int64_t)bytes}, x.options().dtype(torch::kByte));
    }
    take_first<<<rows, 64, 0, stream>>>(sorted.data_ptr<float>(), sorted_columns.data_ptr<int>(),
                                        values.data_ptr<float>(), indices.data_ptr<int64_t>(), n, (int)k);
    return {values, indices};
}
"""

extension = load_inline(
    name="device_sort_topk",
    cpp_sources="std::tuple<torch::Tensor, torch::Tensor> topk(torch::Tensor x, int64_t k);",
    cuda_sources=CUDA,
    functions=["topk"],
    extra_cuda_cflags=["-O3"],
)


class Model(nn.Module):
    """x [batch, n] f32 -> values [batch, k] f32 in descending order, indices [batch, k] i64."""

    def __init__(self, batch: int, n: int, k: int) -> None:
        super().__init__()
        self.k = k
        self.register_buffer("_dummy", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return extension.topk(x, self.k)
