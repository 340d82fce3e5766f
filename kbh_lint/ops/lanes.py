"""What runs over several threads, or over the elements of a tile: reductions, shuffles, products, whole algorithms."""

from __future__ import annotations

from kbh_lint.ops.operation import Operation, op

LANES: tuple[Operation, ...] = (
    # --- between threads
    op("shuffle", "lanes", cuda="__shfl __shfl_xor __shfl_down __shfl_up",
       cute="shuffle_sync shuffle_sync_up shuffle_sync_down shuffle_sync_bfly", ptx="shfl"),
    op("shuffle_masked", "lanes", cuda="__shfl_sync __shfl_xor_sync __shfl_down_sync __shfl_up_sync"),
    op("lane_reduce", "lanes", cuda="__reduce_add_sync __reduce_min_sync __match_any_sync"),
    op("lane_or", "lanes", cuda="__reduce_or_sync"),
    op("lane_max", "lanes", cuda="__reduce_max_sync"),
    op("redux", "lanes", ptx="redux"),
    op("vote", "lanes",
       cuda="__any_sync __all_sync __ballot_sync __syncthreads_or __syncthreads_and __syncthreads_count"),
    op("warp_reduction", "lanes", cute="warp_reduction warp_reduction_sum warp_reduction_max"),
    op("fold_expression", "lanes", cuda="..."),
    # --- over a tile
    op("sum", "lanes", cutile="sum", triton="sum", tilelang="reduce_sum"),
    op("sum_of_sizes", "lanes", tilelang="reduce_abssum"),
    op("cumulative", "lanes", cutile="cumsum", triton="cumsum", tilelang="cumsum"),
    op("cumulative_product", "lanes", cutile="cumprod", triton="cumprod"),
    op("product_of", "lanes", cutile="prod"),
    op("reduce_max", "lanes", cutile="max", triton="max", tilelang="reduce_max"),
    op("reduce_min", "lanes", cutile="min", triton="min", tilelang="reduce_min"),
    op("reduce_absmax", "lanes", tilelang="reduce_absmax"),
    op("argmax", "lanes", cutile="argmax argmin", triton="argmax argmin histogram"),
    op("reduce", "lanes", cutile="reduce scan", triton="reduce associative_scan"),
    # --- products of matrices
    op("dot", "product", cutile="mma matmul", triton="dot"),
    op("dot_scaled", "product", cutile="mma_scaled", triton="dot_scaled"),
    op("gemm", "product", cute="gemm mma_atom_call", tilelang="gemm"),
    op("gemm_others", "product", tilelang="gemm_v1 gemm_v2 wgmma_gemm tcgen05_gemm"),
    op("mma", "product", gluon="mma_v2", cuda="mma_sync", ptx="mma wmma"),
    op("wgmma", "product", gluon="warpgroup_mma", ptx="wgmma"),
    op("tcgen05", "product", gluon="tcgen05_mma", ptx="tcgen05"),
    op("dot_of_bytes", "product", cuda="__dp4a __dp2a_lo __dp2a_hi", ptx="dp4a"),
    # --- whole algorithms
    op("topk", "job", triton="topk"),
    op("sort", "job", triton="sort"),
    op("standard.sort_impl", "job", triton="sort_impl"),
    op("bitonic_merge", "job", triton="bitonic_merge _bitonic_merge _bitonic_merge_hypercube"),
    op("softmax", "job", flag="exp", triton="softmax"),
)  # fmt: skip
