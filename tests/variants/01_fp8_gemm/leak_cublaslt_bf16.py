# expect: flagged library-gemm-wrapper,fp8-upcast-bf16-gemm
"""C++ extension that casts with at:: and calls cublasLtMatmul in bf16."""
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cublasLt.h>
__global__ void scale_cols(const float* acc, const float* s, __nv_bfloat16* y, long total, int n) {
  long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
  if (i < total) y[i] = __float2bfloat16(acc[i] * s[i % n]);
}
torch::Tensor mm(torch::Tensor x, torch::Tensor w, torch::Tensor s) {
  auto a = x.to(torch::kBFloat16).contiguous();
  auto b = w.to(torch::kBFloat16).contiguous();
  const int64_t m = a.size(0), k = a.size(1), n = b.size(0);
  auto acc = torch::empty({m, n}, a.options().dtype(torch::kFloat32));
  auto y = torch::empty({m, n}, a.options());
  cublasLtHandle_t handle = at::cuda::getCurrentCUDABlasLtHandle();
  cublasLtMatmulDesc_t op;
  cublasLtMatmulDescCreate(&op, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  cublasOperation_t t = CUBLAS_OP_T;
  cublasLtMatmulDescSetAttribute(op, CUBLASLT_MATMUL_DESC_TRANSA, &t, sizeof(t));
  cublasLtMatrixLayout_t la, lb, lc;
  cublasLtMatrixLayoutCreate(&la, CUDA_R_16BF, k, n, k);
  cublasLtMatrixLayoutCreate(&lb, CUDA_R_16BF, k, m, k);
  cublasLtMatrixLayoutCreate(&lc, CUDA_R_32F, n, m, n);
  float alpha = 1.f, beta = 0.f;
  cublasLtMatmul(handle, op, &alpha, b.data_ptr(), la, a.data_ptr(), lb, &beta, acc.data_ptr(), lc, acc.data_ptr(), lc,
                 nullptr, nullptr, 0, at::cuda::getCurrentCUDAStream());
  scale_cols<<<(m * n + 255) / 256, 256>>>(acc.data_ptr<float>(), s.data_ptr<float>(),
      reinterpret_cast<__nv_bfloat16*>(y.data_ptr()), m * n, n);
  return y;
}
"""
lt = load_inline(name="lt_mm", cpp_sources=["torch::Tensor mm(torch::Tensor x, torch::Tensor w, torch::Tensor s);"],
                 cuda_sources=[SRC], functions=["mm"], extra_ldflags=["-lcublasLt"])


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.ones(N))

    def forward(self, x):
        return lt.mm(x, self.weight, self.weight_scale)
