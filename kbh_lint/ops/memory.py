"""Memory: what languages call reads, writes, copies, atomics, and the making of memory and of views."""

from __future__ import annotations

from kbh_lint.ops.operation import Operation, op

MEMORY: tuple[Operation, ...] = (
    # --- reads and writes
    op("load", "memory", effect="reads", cutile="load load_advanced_indexing", triton="load", ptx="ld ldu ldmatrix",
       cuda="__ldg __ldcs __ldcg __ldca __ldcv __ldlu __builtin_nontemporal_load ldg"),
    op("store", "memory", effect="writes", cutile="store store_advanced_indexing", triton="store", ptx="st stmatrix",
       cuda="__stcs __stcg __stwb __stwt __builtin_nontemporal_store"),
    op("gather_elements", "memory", effect="reads", cutile="gather"),
    op("scatter_elements", "memory", effect="writes", cutile="scatter"),
    op("load_descriptor", "memory", effect="reads", triton="load_tensor_descriptor"),
    op("store_descriptor", "memory", effect="writes", triton="store_tensor_descriptor"),
    op("load_experimental", "memory", effect="reads", triton="_experimental_descriptor_load"),
    op("store_experimental", "memory", effect="writes", triton="_experimental_descriptor_store"),
    op("load_ragged", "memory", effect="reads", triton="load_ragged"),
    op("store_ragged", "memory", effect="writes", triton="store_ragged"),
    op("copy", "memory", effect="updates", cuda="memcpy __builtin_memcpy __pipeline_memcpy_async memmove",
       tilelang="copy async_copy tma_copy im2col c2d_im2col", cute="basic_copy autovec_copy", ptx="cp",
       gluon="async_copy_global_to_shared async_copy_shared_to_global"),
    op("copy_by_atom", "memory", effect="updates", cute="copy copy_atom_call"),
    op("copy_masked", "memory", effect="updates", cute="basic_copy_if"),
    op("copy_async", "memory", effect="updates",
       cuda="memcpy_async cp_async_bulk_global_to_shared cp_async_bulk_shared_to_global "
            "cp_async_bulk_tensor_1d_global_to_shared cp_async_bulk_tensor_1d_shared_to_global "
            "cp_async_bulk_tensor_2d_global_to_shared cp_async_bulk_tensor_2d_shared_to_global "
            "cp_async_bulk_tensor_3d_global_to_shared cp_async_bulk_tensor_3d_shared_to_global "
            "cp_async_bulk_tensor_4d_global_to_shared cp_async_bulk_tensor_4d_shared_to_global "
            "cp_async_bulk_tensor_5d_global_to_shared cp_async_bulk_tensor_5d_shared_to_global"),
    op("set", "memory", effect="writes", cuda="memset __builtin_memset"),
    op("fill", "memory", effect="writes", tilelang="fill clear"),
    op("fragment_fill", "memory", cuda="fill_fragment"),
    op("fragment_load", "memory", effect="reads", cuda="load_matrix_sync"),
    op("fragment_store", "memory", effect="writes", cuda="store_matrix_sync"),
    op("swap", "memory", effect="updates", cuda="swap"),
    op("epilogue_parts", "memory", cute="epilogue_tmem_copy_and_partition epilogue_smem_copy_and_partition"),
    op("epilogue", "memory", effect="updates", cute="epilogue_tma_store epilogue epilogue_store"),
    op("access_property", "memory", cuda="associate_access_property apply_access_property"),
    op("l2_window", "memory", tilelang="annotate_l2_hit_ratio"),
    # --- atomics
    op("atomic_add", "atomic", effect="updates", triton="atomic_add", tilelang="atomic_add", cute="atomic_add",
       cutile="atomic_add",
       cuda="atomicAdd atomicAdd_system atomicAdd_block"),
    op("atomic_add_others", "atomic", effect="updates", cuda="unsafeAtomicAdd gpuAtomicAdd",
       tilelang="atomic_addx2 atomic_addx4", cute="red_add"),
    op("atomic_max", "atomic", effect="updates", triton="atomic_max", tilelang="atomic_max", cute="atomic_max",
       cutile="atomic_max",
       cuda="atomicMax atomicMax_block atomicMax_system"),
    op("atomic_min", "atomic", effect="updates", triton="atomic_min", tilelang="atomic_min", cute="atomic_min",
       cutile="atomic_min",
       cuda="atomicMin atomicMin_block atomicMin_system"),
    op("atomic_exchange", "atomic", effect="updates", triton="atomic_xchg", cute="atomic_exch", cuda="atomicExch",
       cutile="atomic_xchg"),
    op("atomic", "atomic", effect="updates", triton="atomic_cas atomic_and atomic_or atomic_xor",
       cutile="atomic_cas atomic_and atomic_or atomic_xor",
       cute="atomic_cas atomic_or atomic_and",
       cuda="atomicCAS atomicOr atomicAnd atomicXor atomicSub atomicInc atomicDec"),
    op("atomic_in_place", "atomic", effect="updates", ptx="atom"),
    op("reduce_in_place", "atomic", effect="updates", ptx="red multimem"),
    # --- memory that is made
    op("allocate_shared", "allocation", tilelang="alloc_shared alloc_shared_dyn", cute="alloc_smem get_dyn_smem",
       gluon="allocate_shared_memory allocate_tensor_memory"),
    op("allocate_tensor_memory", "allocation", tilelang="alloc_tmem", cute="retrieve_tmem_ptr"),
    op("allocate_registers", "allocation", tilelang="alloc_fragment alloc_local alloc_buffer",
       cute="make_fragment make_rmem_tensor"),
    op("allocate_registers_like", "allocation", cute="make_fragment_like make_rmem_tensor_like"),
    op("allocate_variable", "allocation", tilelang="alloc_var"),
    op("full", "allocation", cutile="full", triton="full", cute="full full_like"),
    op("full_like", "allocation", triton="full_like"),
    op("zeros", "allocation", cutile="zeros", triton="zeros"),
    op("zeros_like", "allocation", triton="zeros_like", cute="zeros_like empty_like"),
    op("ones", "allocation", cutile="ones"),
    op("ones_like", "allocation", cute="ones_like"),
    op("descriptor", "allocation", triton="make_tensor_descriptor _experimental_make_tensor_descriptor"),
    op("block_pointer", "allocation", triton="make_block_ptr"),
    op("match_buffer", "allocation", tilelang="match_buffer"),
    op("buffer_over", "view", tilelang="Tensor Buffer"),
    op("byte_perm", "move", cuda="__byte_perm", python="byte_perm", ptx="prmt"),
    # --- other views of it
    op("advance", "view", triton="advance"),
    op("view", "view",
       cute="local_tile local_partition zipped_divide tiled_divide logical_divide flat_divide composition "
            "group_modes select append prepend append_ones prepend_ones slice_ domain_offset coalesce flatten "
            "filter filter_zeros dice logical_product zipped_product tiled_product flat_product raked_product "
            "blocked_product unflatten transform_partitioned_tensor_layout get_s2t_smem_desc_tensor "
            "slice_and_offset as_position_independent_swizzle_tensor"),
    op("make_tensor", "view", cute="make_tensor"),
    op("make_pointer", "view", cute="make_ptr"),
    op("recast", "view", cute="recast_tensor recast_ptr"),
    op("coordinates", "view", cute="make_identity_tensor"),
    op("tma_partition", "view", cute="tma_partition"),
    op("reshape", "view", cutile="reshape broadcast_to", triton="reshape view broadcast_to", tilelang="view reshape"),
    op("transpose", "view", cutile="permute transpose", triton="trans permute"),
    op("expand_dims", "view", cutile="expand_dims", triton="expand_dims unsqueeze"),
    op("broadcast", "view", triton="broadcast"),
    op("ravel", "view", triton="ravel"),
    op("extract", "view", cutile="extract"),
    op("squeeze", "view", triton="squeeze"),
    op("join", "move", cutile="cat", triton="join interleave cat"),
    op("split", "move", triton="split"),
    op("flip", "move", python="flip"),
    op("gather", "move", python="gather"),
    op("prefetch", "move", python="prefetch", ptx="prefetch"),
    op("cache_policy", "memory", ptx="createpolicy"),
    op("register", "move", ptx="mov"),
    op("register_elsewhere", "move", ptx="mapa movmatrix"),
    op("address", "view",
       cuda="__cvta_generic_to_global __cvta_shared_to_generic __cvta_global_to_generic cast_smem_ptr_to_uint "
            "__generic_to_shared", ptx="cvta"),
    op("shared_address", "view", cuda="__cvta_generic_to_shared"),
    op("pointer_of", "view",
       cuda="make_smem_ptr make_gmem_ptr make_rmem_ptr make_tensor partition_A partition_B partition_C recast ref "
            "cref local_tile local_partition"),
    op("forward", "view", cuda="move forward addressof as_const"),
    op("aligned", "view", cuda="__builtin_assume_aligned launder"),
    op("to_address", "view", cuda="to_address"),
    op("lane_of_pair", "move",
       cuda="__low2bfloat16 __high2bfloat16 __low2half __high2half __lows2bfloat162 __highs2bfloat162 __lows2half2 "
            "__highs2half2 __low2bfloat162 __high2bfloat162 __low2half2 __high2half2 __bfloat162bfloat162 "
            "__half2half2 __lowhigh2highlow"),
    op("pack", "move",
       cuda="make_float2 make_float3 make_float4 make_int2 make_int4 make_uint2 make_uint3 make_uint4 make_half2 "
            "make_bfloat162 make_double2 make_uchar4 make_char4 make_short2 make_ushort2 make_ushort4 "
            "make_longlong2 make_ulonglong2 make_int3 __halves2half2 __halves2bfloat162 make_ulong2 make_char2 "
            "make_uchar2"),
    op("pack_values", "move", cuda="make_pair make_tuple"),
    op("tie", "move", cuda="tie"),
)  # fmt: skip
