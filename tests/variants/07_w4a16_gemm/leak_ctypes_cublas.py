# expect: flagged unfused-dequant-library-gemm
"""Triton expands the weight on every call; cuBLAS is reached through ctypes."""
import ctypes
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def expand(q, s, z, o, N, BN: tl.constexpr):
    k = tl.program_id(0)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    p = tl.load(q + k * N + n)
    sc, ze = tl.load(s + (k // 64) * N + n), tl.load(z + (k // 64) * N + n)
    tl.store(o + 2 * k * N + n, ((p & 15).to(tl.bfloat16) - ze) * sc)
    tl.store(o + (2 * k + 1) * N + n, ((p >> 4).to(tl.bfloat16) - ze) * sc)


_blas = ctypes.CDLL("libcublas.so")
_handle = ctypes.c_void_p()
_blas.cublasCreate_v2(ctypes.byref(_handle))


class Model(nn.Module):
    def __init__(self, M, N, K, group_size=128):
        super().__init__()
        self.register_buffer("w_q", torch.zeros(K // 2, N, dtype=torch.uint8))
        self.register_buffer("scales", torch.ones(K // group_size, N, dtype=torch.bfloat16))
        self.register_buffer("zeros", torch.zeros(K // group_size, N, dtype=torch.bfloat16))

    def forward(self, x):
        m, k = x.shape
        n = self.w_q.shape[1]
        w = torch.empty(k, n, dtype=torch.bfloat16, device=x.device)
        expand[(k // 2, n // 512)](self.w_q, self.scales, self.zeros, w, n, BN=512)
        y = torch.empty(m, n, dtype=torch.bfloat16, device=x.device)
        one, zero = ctypes.c_float(1.0), ctypes.c_float(0.0)
        status = _blas.cublasGemmEx(_handle, 0, 0, n, m, k, ctypes.byref(one), ctypes.c_void_p(w.data_ptr()), 14, n,
                                    ctypes.c_void_p(x.data_ptr()), 14, k, ctypes.byref(zero), ctypes.c_void_p(y.data_ptr()), 14, n, 68, -1)
        if status != 0:
            raise RuntimeError("cublas")
        return y
