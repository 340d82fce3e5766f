# expect: kept
"""Two-kernel CUDA softmax: fp32 exponentials, fp64 block partials, last-block-done finalisation by atomic ticket."""
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load

import os
import tempfile

CODE = """
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#define CHECK_IN(t) TORCH_CHECK(t.is_cuda() && t.is_contiguous(), #t " must be contiguous cuda")

__device__ double warp_sum(double v) {
  for (int o = 16; o; o /= 2) v += __shfl_xor_sync(~0u, v, o);
  return v;
}
__device__ float warp_top(float v) {
  for (int o = 16; o; o /= 2) v = fmaxf(v, __shfl_xor_sync(~0u, v, o));
  return v;
}
__global__ void stats(const float* x, float* pm, double* pd, int n, int chunk) {
  __shared__ float fm[32];
  __shared__ double fd[32];
  const int b = blockIdx.y, p = blockIdx.x, lo = p * chunk, hi = min(n, lo + chunk);
  const float* r = x + (size_t)b * n;
  float m = -INFINITY;
  for (int i = lo + threadIdx.x; i < hi; i += blockDim.x) m = fmaxf(m, r[i]);
  m = warp_top(m);
  if (threadIdx.x % 32 == 0) fm[threadIdx.x / 32] = m;
  __syncthreads();
  m = -INFINITY;
  for (int w = 0; w < blockDim.x / 32; ++w) m = fmaxf(m, fm[w]);
  double d = 0.0;
  for (int i = lo + threadIdx.x; i < hi; i += blockDim.x) d += (double)expf(r[i] - m);
  d = warp_sum(d);
  if (threadIdx.x % 32 == 0) fd[threadIdx.x / 32] = d;
  __syncthreads();
  if (threadIdx.x == 0) {
    double t = 0.0;
    for (int w = 0; w < blockDim.x / 32; ++w) t += fd[w];
    pm[b * gridDim.x + p] = m;
    pd[b * gridDim.x + p] = t;
  }
}
__global__ void apply(const float* x, float* y, const float* pm, const double* pd, int n, int parts) {
  const int b = blockIdx.y;
  float m = -INFINITY;
  for (int p = 0; p < parts; ++p) m = fmaxf(m, pm[b * parts + p]);
  double t = 0.0;
  for (int p = 0; p < parts; ++p) t += pd[b * parts + p] * exp((double)(pm[b * parts + p] - m));
  const float inv = (float)(1.0 / t);
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    y[(size_t)b * n + i] = expf(x[(size_t)b * n + i] - m) * inv;
}
at::Tensor forward(const at::Tensor& x) {
  CHECK_IN(x);
  const int b = x.size(0), n = x.size(1), chunk = 4096, parts = (n + chunk - 1) / chunk;
  auto y = at::empty_like(x);
  auto pm = at::empty({b, parts}, x.options());
  auto pd = at::empty({b, parts}, x.options().dtype(at::kDouble));
  cudaStream_t s = at::cuda::getCurrentCUDAStream();
  stats<<<dim3(parts, b), 256, 0, s>>>(x.data_ptr<float>(), pm.data_ptr<float>(), pd.data_ptr<double>(), n, chunk);
  apply<<<dim3(parts, b), 256, 0, s>>>(x.data_ptr<float>(), y.data_ptr<float>(), pm.data_ptr<float>(), pd.data_ptr<double>(), n, parts);
  return y;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
"""


def _compile():
    folder = os.path.join(tempfile.gettempdir(), "kahan_fp64")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "softmax.cu")
    if not os.path.exists(path) or open(path).read() != CODE:
        with open(path, "w") as f:
            f.write(CODE)
    return load(name="kahan_fp64_softmax", sources=[path], build_directory=folder, extra_cuda_cflags=["-O3"])


class Model(nn.Module):
    _ext = None

    def __init__(self, batch, vocab):
        super().__init__()
        if Model._ext is None and torch.cuda.is_available():
            Model._ext = _compile()

    def forward(self, x):
        return Model._ext.forward(x)
