# expect: kept
"""nvcc builds a TORCH_LIBRARY shared object which torch.ops.load_library loads; a thin namespace class wraps the op."""
import subprocess
import sysconfig
import tempfile
from pathlib import Path

import torch
import torch.nn as nn

SRC = r"""
#include <torch/library.h>
#include <ATen/ATen.h>
#include <cuda_bf16.h>

__global__ void mm(const unsigned char* x, const unsigned char* w, const float* s, __nv_bfloat16* y, int M, int N, int K) {
  const int lane = threadIdx.x, g = lane / 4, t = lane % 4;
  const size_t r = blockIdx.y * 16 + g, c = blockIdx.x * 8 + g;
  float d[4] = {};
  for (int k = 0; k < K; k += 32) {
    unsigned a[4], b[2];
    a[0] = *(const unsigned*)(x + r * K + k + t * 4);
    a[1] = *(const unsigned*)(x + (r + 8) * K + k + t * 4);
    a[2] = *(const unsigned*)(x + r * K + k + 16 + t * 4);
    a[3] = *(const unsigned*)(x + (r + 8) * K + k + 16 + t * 4);
    b[0] = *(const unsigned*)(w + c * K + k + t * 4);
    b[1] = *(const unsigned*)(w + c * K + k + 16 + t * 4);
    asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
  for (int i = 0; i < 4; ++i) {
    const int rr = blockIdx.y * 16 + g + (i / 2) * 8, cc = blockIdx.x * 8 + t * 2 + i % 2;
    if (rr < M) y[(size_t)rr * N + cc] = __float2bfloat16(d[i] * s[cc]);
  }
}

static at::Tensor run(at::Tensor x, at::Tensor w, at::Tensor s) {
  auto y = at::empty({x.size(0), w.size(0)}, x.options().dtype(at::kBFloat16));
  mm<<<dim3(w.size(0) / 8, (x.size(0) + 15) / 16), 32>>>((const unsigned char*)x.data_ptr(), (const unsigned char*)w.data_ptr(),
      s.data_ptr<float>(), (__nv_bfloat16*)y.data_ptr(), x.size(0), w.size(0), x.size(1));
  return y;
}
TORCH_LIBRARY_FRAGMENT(k1ops, m) {
  m.def("fp8_mm(Tensor x, Tensor w, Tensor s) -> Tensor");
}
TORCH_LIBRARY_IMPL(k1ops, CUDA, m) {
  m.impl("fp8_mm", run);
}
"""


def build() -> Path:
    out = Path(tempfile.mkdtemp(prefix="k1ops"))
    source = out / "ops.cu"
    source.write_text(SRC)
    library = out / "libk1ops.so"
    root = Path(torch.__file__).parent
    flags = ["-shared", "-O3", "-Xcompiler", "-fPIC", f"-I{root}/include", f"-I{sysconfig.get_paths()['include']}"]
    subprocess.check_call(["nvcc", *flags, str(source), "-o", str(library)])
    return library


torch.ops.load_library(str(build()))


def padded(t):
    extra = -t.shape[1] % 32
    return torch.nn.functional.pad(t.view(torch.uint8), (0, extra)) if extra else t


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.ones(N))

    def forward(self, x):
        return torch.ops.k1ops.fp8_mm.default(padded(x), padded(self.weight), self.weight_scale)
