# expect: flagged fp8-upcast-bf16-gemm
"""CuTe DSL for an older tensor core: fp8 tiles are widened in registers and multiplied by the bf16 instruction."""

import cutlass
import cutlass.cute as cute
import torch
import torch.nn as nn
from cutlass.cute.nvgpu import CopyUniversalOp, warp
from cutlass.cute.runtime import from_dlpack

BM, BN, BK, THREADS = 64, 64, 32, 128


@cute.kernel
def widened_gemm(
    x: cute.Tensor, w: cute.Tensor, scale: cute.Tensor, y: cute.Tensor, mma: cute.TiledMma, load_tv: cute.Layout,
    tile_x: cute.Layout, tile_w: cute.Layout,
):
    tid, _, _ = cute.arch.thread_idx()
    bx, by, _ = cute.arch.block_idx()
    smem = cutlass.utils.SmemAllocator()
    sx = smem.allocate_tensor(cutlass.BFloat16, tile_x, byte_alignment=16)
    sw = smem.allocate_tensor(cutlass.BFloat16, tile_w, byte_alignment=16)
    gx = cute.local_tile(x, (BM, BN, BK), (by, bx, None), proj=(1, None, 1))
    gw = cute.local_tile(w, (BM, BN, BK), (by, bx, None), proj=(None, 1, 1))
    gy = cute.local_tile(y, (BM, BN, BK), (by, bx, None), proj=(1, 1, None))
    atom = cute.make_copy_atom(CopyUniversalOp(), x.element_type)
    mover = cute.make_tiled_copy_tv(atom, load_tv, cute.make_layout((1, 16))).get_slice(tid)
    from_x, to_x = mover.partition_S(gx), mover.partition_D(sx)
    from_w, to_w = mover.partition_S(gw), mover.partition_D(sw)
    thr = mma.get_slice(tid)
    tx, tw, ty = thr.partition_A(sx), thr.partition_B(sw), thr.partition_C(gy)
    rx, rw = mma.make_fragment_A(tx), mma.make_fragment_B(tw)
    acc = mma.make_fragment_C(ty)
    acc.fill(0.0)
    matrices = cute.make_copy_atom(warp.LdMatrix8x8x16bOp(False, 4), cutlass.BFloat16)
    read_x = cute.make_tiled_copy_A(matrices, mma).get_slice(tid)
    read_w = cute.make_tiled_copy_B(matrices, mma).get_slice(tid)
    for step in range(cute.size(gx, mode=[2])):
        for source, target in ((from_x, to_x), (from_w, to_w)):
            narrow = cute.make_fragment_like(source[None, None, None, 0])
            cute.copy(atom, source[None, None, None, step], narrow)
            wide = cute.make_fragment_like(narrow, cutlass.BFloat16)
            wide.store(narrow.load().to(cutlass.Float32).to(cutlass.BFloat16))
            cute.autovec_copy(wide, target)
        cute.arch.sync_threads()
        cute.copy(read_x, read_x.partition_S(sx), read_x.retile(rx))
        cute.copy(read_w, read_w.partition_S(sw), read_w.retile(rw))
        cute.gemm(mma, acc, rx, rw, acc)
        cute.arch.sync_threads()
    gs = cute.local_tile(scale, (BN,), (bx,))
    coords = thr.partition_C(cute.make_identity_tensor((BM, BN)))
    for i in cutlass.range_constexpr(cute.size(acc)):
        ty[i] = (acc[i] * gs[coords[i][1]]).to(cutlass.BFloat16)


@cute.jit
def run(x: cute.Tensor, w: cute.Tensor, scale: cute.Tensor, y: cute.Tensor):
    op = warp.MmaF16BF16Op(cutlass.BFloat16, cutlass.Float32, (16, 8, 16))
    mma = cute.make_tiled_mma(op, cute.make_layout((2, 2, 1)), permutation_mnk=(32, 32, 16))
    load_tv = cute.make_ordered_layout((64, 2), order=(1, 0))
    tile_x, tile_w = cute.make_layout((BM, BK), stride=(BK, 1)), cute.make_layout((BN, BK), stride=(BK, 1))
    grid = (cute.ceil_div(y.shape[1], BN), cute.ceil_div(y.shape[0], BM), 1)
    widened_gemm(x, w, scale, y, mma, load_tv, tile_x, tile_w).launch(grid=grid, block=(THREADS, 1, 1))


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.ones(N))
        self.compiled = None

    def forward(self, x):
        y = torch.empty((x.shape[0], self.weight.shape[0]), dtype=torch.bfloat16, device=x.device)
        args = [from_dlpack(t).mark_layout_dynamic() for t in (x, self.weight, self.weight_scale, y)]
        if self.compiled is None:
            self.compiled = cute.compile(run, *args)
        self.compiled(*args)
        return y
