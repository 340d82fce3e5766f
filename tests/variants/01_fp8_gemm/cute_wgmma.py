# expect: kept
"""fp8 GEMM in CuTe DSL: both operands travel by TMA to shared memory and feed the e4m3 warpgroup instruction."""

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute
import cutlass.pipeline as pipeline
import cutlass.utils as utils
import cutlass.utils.hopper_helpers as sm90_utils
import torch
import torch.nn as nn
from cutlass.cute.nvgpu import cpasync, warpgroup
from cutlass.cute.runtime import from_dlpack

TILE_M, TILE_N, TILE_K, STAGES, THREADS = 128, 128, 128, 4, 256


class RowScaledGemm:
    def __init__(self, acc_dtype=cutlass.Float32):
        self.acc_dtype = acc_dtype
        self.tile = (TILE_M, TILE_N, TILE_K)

    @cute.jit
    def __call__(self, a: cute.Tensor, b: cute.Tensor, scale: cute.Tensor, c: cute.Tensor, stream: cuda.CUstream):
        self.a_dtype, self.b_dtype, self.c_dtype = a.element_type, b.element_type, c.element_type
        if cutlass.const_expr(self.a_dtype.width != 8):
            raise TypeError("operands must be fp8")
        tiled_mma = sm90_utils.make_trivial_tiled_mma(
            self.a_dtype,
            self.b_dtype,
            utils.LayoutEnum.from_tensor(a).sm90_mma_major_mode(),
            utils.LayoutEnum.from_tensor(b).sm90_mma_major_mode(),
            self.acc_dtype,
            (2, 1, 1),
            tiler_mn=(64, TILE_N),
        )
        a_layout = sm90_utils.make_smem_layout_a(utils.LayoutEnum.from_tensor(a), self.tile, self.a_dtype, STAGES)
        b_layout = sm90_utils.make_smem_layout_b(utils.LayoutEnum.from_tensor(b), self.tile, self.b_dtype, STAGES)
        load = cpasync.CopyBulkTensorTileG2SOp()
        atom_a, ma = cpasync.make_tiled_tma_atom(load, a, cute.slice_(a_layout, (None, None, 0)), (TILE_M, TILE_K))
        atom_b, mb = cpasync.make_tiled_tma_atom(load, b, cute.slice_(b_layout, (None, None, 0)), (TILE_N, TILE_K))

        @cute.struct
        class Storage:
            bars: cute.struct.MemRange[cutlass.Int64, STAGES * 2]
            sa: cute.struct.Align[cute.struct.MemRange[self.a_dtype, cute.cosize(a_layout)], 1024]
            sb: cute.struct.Align[cute.struct.MemRange[self.b_dtype, cute.cosize(b_layout)], 1024]

        self.storage = Storage
        grid = cute.ceil_div((*c.shape, 1), (TILE_M, TILE_N, 1))
        self.kernel(atom_a, ma, atom_b, mb, scale, c, tiled_mma, a_layout, b_layout).launch(
            grid=grid, block=[THREADS, 1, 1], stream=stream
        )

    @cute.kernel
    def kernel(
        self,
        atom_a: cute.CopyAtom,
        ma: cute.Tensor,
        atom_b: cute.CopyAtom,
        mb: cute.Tensor,
        scale: cute.Tensor,
        mc: cute.Tensor,
        tiled_mma: cute.TiledMma,
        a_layout: cute.ComposedLayout,
        b_layout: cute.ComposedLayout,
    ):
        tidx, _, _ = cute.arch.thread_idx()
        bm, bn, _ = cute.arch.block_idx()
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        if warp == 0:
            cpasync.prefetch_descriptor(atom_a)
            cpasync.prefetch_descriptor(atom_b)
        storage = utils.SmemAllocator().allocate(self.storage)
        per_stage = cute.size_in_bytes(self.a_dtype, cute.slice_(a_layout, (None, None, 0)))
        per_stage += cute.size_in_bytes(self.b_dtype, cute.slice_(b_layout, (None, None, 0)))
        pipe = pipeline.PipelineTmaAsync.create(
            barrier_storage=storage.bars.data_ptr(),
            num_stages=STAGES,
            producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread),
            consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, THREADS // 32),
            tx_count=per_stage,
            cta_layout_vmnk=cute.make_layout((1, 1, 1, 1)),
        )
        sa = storage.sa.get_tensor(a_layout.outer, swizzle=a_layout.inner)
        sb = storage.sb.get_tensor(b_layout.outer, swizzle=b_layout.inner)
        ga = cute.local_tile(ma, self.tile, (bm, bn, None), proj=(1, None, 1))
        gb = cute.local_tile(mb, self.tile, (bm, bn, None), proj=(None, 1, 1))
        gc = cute.local_tile(mc, self.tile, (bm, bn, None), proj=(1, 1, None))
        gs = cute.local_tile(scale, (TILE_N,), (bn,))
        one = cute.make_layout(1)
        ta_s, ta_g = cpasync.tma_partition(atom_a, 0, one, cute.group_modes(sa, 0, 2), cute.group_modes(ga, 0, 2))
        tb_s, tb_g = cpasync.tma_partition(atom_b, 0, one, cute.group_modes(sb, 0, 2), cute.group_modes(gb, 0, 2))
        thr = tiled_mma.get_slice(tidx)
        frag_a = tiled_mma.make_fragment_A(thr.partition_A(sa))
        frag_b = tiled_mma.make_fragment_B(thr.partition_B(sb))
        tc_g = thr.partition_C(gc)
        acc = cute.make_rmem_tensor(tc_g.shape, self.acc_dtype)
        steps = cute.size(ga, mode=[2])
        fill = pipeline.make_pipeline_state(pipeline.PipelineUserType.Producer, STAGES)
        read = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, STAGES)
        if warp == 0:
            for _ in cutlass.range(cutlass.min(STAGES, steps), unroll=1):
                self.fetch(pipe, fill, atom_a, ta_g, ta_s, atom_b, tb_g, tb_s)
                fill.advance()
        tiled_mma.set(warpgroup.Field.ACCUMULATE, False)
        for _ in cutlass.range(steps, unroll=1):
            pipe.consumer_wait(read)
            warpgroup.fence()
            for block in cutlass.range_constexpr(cute.size(frag_a, mode=[2])):
                at = (None, None, block, read.index)
                cute.gemm(tiled_mma, acc, frag_a[at], frag_b[at], acc)
                tiled_mma.set(warpgroup.Field.ACCUMULATE, True)
            warpgroup.commit_group()
            warpgroup.wait_group(0)
            pipe.consumer_release(read)
            read.advance()
            if warp == 0 and fill.count < steps:
                self.fetch(pipe, fill, atom_a, ta_g, ta_s, atom_b, tb_g, tb_s)
                fill.advance()
        coords = thr.partition_C(cute.make_identity_tensor((TILE_M, TILE_N)))
        out = cute.make_rmem_tensor(acc.shape, self.c_dtype)
        for i in cutlass.range_constexpr(cute.size(acc)):
            out[i] = (acc[i] * gs[coords[i][1]]).to(self.c_dtype)
        cute.autovec_copy(out, tc_g)

    @cute.jit
    def fetch(self, pipe, state, atom_a, ta_g, ta_s, atom_b, tb_g, tb_s):
        pipe.producer_acquire(state)
        bar = pipe.producer_get_barrier(state)
        cute.copy(atom_a, ta_g[(None, state.count)], ta_s[(None, state.index)], tma_bar_ptr=bar)
        cute.copy(atom_b, tb_g[(None, state.count)], tb_s[(None, state.index)], tma_bar_ptr=bar)
        pipe.producer_commit(state)


def as_fp8(tensor):
    view = from_dlpack(tensor.view(torch.uint8), assumed_align=16)
    view.element_type = cutlass.Float8E4M3FN
    return view.mark_layout_dynamic(leading_dim=1)


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.register_buffer("weight", torch.zeros(N, K, dtype=torch.float8_e4m3fn))
        self.register_buffer("weight_scale", torch.ones(N))
        self.gemm = RowScaledGemm()
        self.compiled = {}

    def forward(self, x):
        (m, k), n = x.shape, self.weight.shape[0]
        y = torch.empty((m, n), dtype=torch.bfloat16, device=x.device)
        stream = cuda.CUstream(torch.cuda.current_stream().cuda_stream)
        args = (as_fp8(x), as_fp8(self.weight), from_dlpack(self.weight_scale), from_dlpack(y), stream)
        if k not in self.compiled:
            self.compiled[k] = cute.compile(self.gemm, *args)
        self.compiled[k](*args)
        return y
