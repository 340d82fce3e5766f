# expect: flagged dead-decoy-kernel
"""A CuTe DSL kernel is compiled and kept, but the result is that of a library."""

import cutlass
import cutlass.cute as cute
import torch
import torch.nn as nn
from cutlass.cute.nvgpu import warpgroup
from cutlass.cute.runtime import from_dlpack


@cute.kernel
def gemm_kernel(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor, mma: cute.TiledMma):
    tid, _, _ = cute.arch.thread_idx()
    bm, bn, _ = cute.arch.block_idx()
    smem = cutlass.utils.SmemAllocator()
    sa = smem.allocate_tensor(a.element_type, cute.make_layout((128, 128)), 128)
    sb = smem.allocate_tensor(b.element_type, cute.make_layout((128, 128)), 128)
    ga = cute.local_tile(a, (128, 128), (bm, None))
    gb = cute.local_tile(b, (128, 128), (bn, None))
    gc = cute.local_tile(c, (128, 128), (bm, bn))
    thr = mma.get_slice(tid)
    acc = mma.make_fragment_C(thr.partition_C(gc))
    for k in range(cute.size(ga, mode=[2])):
        cute.autovec_copy(ga[None, None, k], sa)
        cute.autovec_copy(gb[None, None, k], sb)
        cute.arch.sync_threads()
        fa, fb = mma.make_fragment_A(thr.partition_A(sa)), mma.make_fragment_B(thr.partition_B(sb))
        cute.gemm(mma, acc, fa, fb, acc)
        warpgroup.wait_group(0)
    thr.partition_C(gc).store(acc.load().to(c.element_type))


@cute.jit
def host(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
    op = warpgroup.MmaF8Op(
        a.element_type, b.element_type, cutlass.Float32, (64, 128, 32), warpgroup.OperandSource.SMEM,
        warpgroup.OperandMajorMode.K, warpgroup.OperandMajorMode.K,
    )
    gemm_kernel(a, b, c, cute.make_tiled_mma(op)).launch(grid=(32, 32, 1), block=(128, 1, 1))


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.ones(N))
        self.compiled = None

    def forward(self, x):
        if self.compiled is None:
            y = torch.empty((x.shape[0], self.weight.shape[0]), dtype=torch.bfloat16, device=x.device)
            self.compiled = cute.compile(host, from_dlpack(x), from_dlpack(self.weight), from_dlpack(y))
        return (x.to(torch.bfloat16) @ self.weight.to(torch.bfloat16).T) * self.weight_scale.to(torch.bfloat16)
