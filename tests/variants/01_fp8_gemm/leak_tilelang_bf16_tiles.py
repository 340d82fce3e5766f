# expect: flagged fp8-upcast-bf16-gemm
"""TileLang: fp8 tiles are copied into bf16 tiles, which T.gemm multiplies."""

import tilelang
import tilelang.language as T
import torch
import torch.nn as nn


@tilelang.jit(out_idx=[-1])
def scaled_gemm(M, N, K, bm, bn, bk, dtype="float8_e4m3", accumulate=T.float32):
    @T.prim_func
    def main(
        a: T.Tensor((M, K), dtype), b: T.Tensor((N, K), dtype), s: T.Tensor((N,), "float32"),
        c: T.Tensor((M, N), "bfloat16"),
    ):
        with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm), threads=128) as (bx, by):
            sa = T.alloc_shared((bm, bk), "bfloat16")
            sb = T.alloc_shared((bn, bk), "bfloat16")
            acc = T.alloc_fragment((bm, bn), accumulate)
            out = T.alloc_shared((bm, bn), "bfloat16")
            T.use_swizzle(panel_size=10)
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, bk), num_stages=3):
                T.copy(a[by * bm, k * bk], sa)
                T.copy(b[bx * bn, k * bk], sb)
                T.gemm(sa, sb, acc, transpose_B=True)
            for i, j in T.Parallel(bm, bn):
                acc[i, j] = acc[i, j] * s[bx * bn + j]
            T.copy(acc, out)
            T.copy(out, c[by * bm, bx * bn])

    return main


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.ones(N))
        self.kernels = {}

    def forward(self, x):
        (m, k), n = x.shape, self.weight.shape[0]
        if (m, k) not in self.kernels:
            self.kernels[m, k] = scaled_gemm(m, n, k, 128, 128, 128)
        return self.kernels[m, k](x, self.weight, self.weight_scale)
