"""What computes no numbers of data: places, sizes, loops, barriers, checks."""

from __future__ import annotations

from kbh_lint.ops.operation import Operation, op

CONTROL: tuple[Operation, ...] = (
    # --- where in the grid
    op("index_tile", "size", cutile="arange", triton="arange"),
    op("program_id", "size", cutile="bid", triton="program_id"),
    op("num_programs", "size", cutile="num_blocks", triton="num_programs"),
    op("device_counters", "size", triton="smid num_threads num_warps"),
    op("clock", "size", cuda="clock64 clock", triton="globaltimer"),
    op("block_indices", "size", cute="block_idx cluster_idx block_in_cluster_idx"),
    op("cluster_sizes", "size", cute="cluster_dim block_in_cluster_dim"),
    op("thread_index", "size", cute="thread_idx"),
    op("block_sizes", "size", cute="block_dim"),
    op("grid_sizes", "size", cute="grid_dim"),
    op("lane_index", "size", cute="lane_idx", tilelang="get_lane_idx"),
    op("warp_index", "size", cute="warp_idx canonical_warp_idx", tilelang="get_warp_idx"),
    op("block_in_cluster", "size", cute="block_idx_in_cluster"),
    op("bound_index", "size", tilelang="get_thread_binding get_block_binding"),
    op("kernel_indices", "size", tilelang="Kernel"),
    op("swizzle", "size", triton="swizzle2d"),
    # --- sizes and layouts
    op("ceil_div", "size", cutile="cdiv", triton="cdiv", cute="ceil_div", tilelang="ceildiv cdiv"),
    op("next_power_of_2", "size", triton="next_power_of_2"),
    op("size", "size", tilelang="floordiv floormod truncdiv truncmod symbolic dynamic shift_right_index",
       cutile="num_tiles",
       cute="size cosize rank depth round_up crd2idx size_in_bytes shape get product canonical_lane_idx "
            "warp_group_idx get_dyn_smem_size canonical_warp_group_idx make_layout_image_mask max_common_vector "
            "idx2crd vote_ballot_sync create_tma_multicast_mask get_smem_capacity_in_bytes"),
    op("size_of", "size", cuda="sizeof"),
    op("alignment", "size", cuda="alignof"),
    op("pack_size", "size", cuda="sizeof..."),
    op("state", "size",
       cuda="canonical_warp_idx_sync canonical_warp_idx canonical_warp_group_idx canonical_lane_idx elect_one_sync "
            "block_rank_in_cluster block_id_in_cluster cudaDeviceGetAttribute cudaGetDevice cudaGetErrorString "
            "cudaGetErrorName cudaGetLastError cudaPeekAtLastError __activemask __float2int __isShared "
            "__nvvm_get_smem_pointer __match_all_sync"),
    op("predicate", "size", cute="elem_less"),
    op("truth", "size", cute="any_ all_ and_ or_ not_ is_static is_major leading_dim vote_any_sync vote_all_sync"),
    op("layout", "size",
       cute="make_layout make_ordered_layout make_identity_layout make_composed_layout make_swizzle tile_to_shape "
            "make_smem_layout_atom make_smem_layout make_smem_layout_a make_smem_layout_b make_smem_layout_epi "
            "recast_layout right_inverse left_inverse complement max_common_layout get_nonswizzle_portion"),
    op("layout_of_threads", "size", cute="make_layout_tv"),
    op("layout_of_registers", "size", gluon="get_tmem_reg_layout get_default_for to_linear_layout"),
    op("copy_atom", "size",
       cute="make_copy_atom make_tiled_copy make_tiled_copy_tv make_tiled_copy_A make_tiled_copy_B "
            "make_tiled_copy_C make_tiled_copy_S make_tiled_copy_D make_tiled_copy_C_atom make_tmem_copy "
            "make_s2t_copy make_cotiled_copy get_smem_store_op get_tmem_load_op sm90_get_smem_store_op "
            "get_tmem_copy_properties"),
    # --- types
    op("cast", "cast", cutile="astype astile", triton="cast", tilelang="Cast cast"),
    op("reinterpret", "cast", tilelang="reinterpret"),
    op("reinterpret_descriptor", "cast", triton="_experimental_reinterpret_tensor_descriptor"),
    op("bitcast", "cast", cutile="bitcast"),
    op("pointer_type", "cast", triton="pointer_type"),
    op("int_type", "cast", triton="get_int_dtype"),
    op("to_tensor", "cast", triton="to_tensor"),
    op("hint", "cast", cutile="assume_divisible_by", triton="multiple_of max_contiguous max_constancy"),
    op("constexpr", "cast", cutile="static_eval static_iter ensure_constant", triton="constexpr"),
    op("tuple", "cast", triton="tuple"),
    op("infinity", "cast", cuda="infinity", tilelang="infinity"),
    op("limit", "cast", cuda="lowest epsilon denorm_min __int_as_float_const", tilelang="max_value min_value"),
    op("same", "cast", cute="assume const_expr dynamic_expr make_warp_uniform as_numeric",
       gluon="convert_layout set_auto_layout warpgroup_mma_init",
       cuda="__builtin_expect __builtin_expect_with_probability C10_LIKELY C10_UNLIKELY"),
    op("repeat", "cast", cute="repeat_like"),
    op("assembly", "control", triton="inline_asm_elementwise", cute="inline_asm"),
    op("assembly_alone", "control", triton="inline_asm"),
    op("to_bits", "cast", cuda="__float_as_int __float_as_uint __double_as_longlong __half_as_ushort bit_cast"),
    op("from_bits_f32", "cast", cuda="__int_as_float __uint_as_float"),
    op("from_bits_f64", "cast", cuda="__longlong_as_double __hiloint2double"),
    op("to_f64", "cast", cuda="__int2double_rn __uint2double_rn __ll2double_rn"),
    op("to_f32", "cast",
       cuda="__int2float_rn __uint2float_rn __double2float_rn __half2float __bfloat162float __ll2float_rn"),
    op("to_f16", "cast", cuda="__float2half_rn __float2half"),
    op("to_bf16", "cast", cuda="__float2bfloat16_rn __float2bfloat16"),
    op("to_i32", "cast", cuda="__float2int_rn __float2int_rz __float2int_rd __float2int_ru __float2uint_rn"),
    op("cvt", "cast", ptx="cvt"),
    # --- loops and partitions
    op("range", "control", triton="range static_range", cute="range range_constexpr range_dynamic",
       tilelang="serial Serial unroll Unroll Pipelined vectorized Vectorized"),
    op("range_for_generated", "control", cute="for_generate", tilelang="Persistent"),
    op("parallel", "control", tilelang="Parallel grid"),
    op("partitions", "control", gluon="warp_specialize"),
    op("waited", "control", gluon="warpgroup_mma_wait"),
    # --- nothing of numbers
    op("barrier", "control", cute="sync_threads sync_warp barrier cluster_arrive cluster_wait fence_proxy",
       cuda="__syncthreads __syncwarp __threadfence __threadfence_block __threadfence_system __pipeline_wait_prior "
            "__pipeline_arrive_on cudaGridDependencySynchronize grid_dependency_wait __barrier_sync cp_async_wait "
            "__cluster_barrier_arrive __cluster_barrier_wait griddepcontrol_wait sync barrier_arrive_tx "
            "cluster_sync cluster_wait",
       ptx="bar barrier fence membar mbarrier griddepcontrol"),
    op("wait", "control", cuda="wait wait_prior"),
    op("sync", "control", triton="debug_barrier gdc_wait gdc_launch_dependents",
       cutile="grid_dependency_control_launch_dependents grid_dependency_control_wait",
       cuda="__nanosleep this_thread this_thread_block this_grid this_cluster tiled_partition __pipeline_commit "
            "cudaTriggerProgrammaticLaunchCompletion __prefetch_global_l2 coalesced_threads cp_async_fence "
            "labeled_partition binary_partition warpgroup_arrive warpgroup_wait warpgroup_commit_batch "
            "fence_proxy_async fence_proxy_async_shared_cta cp_async_bulk_commit_group cp_async_bulk_wait_group_read "
            "fence_proxy_tensormap_generic cluster_arrive_relaxed cluster_arrive fence_barrier_init "
            "fence_view_async_shared",
       gluon="expect wait arrive init invalidate store_wait commit_group wait_group fence_async_shared "
             "thread_barrier tcgen05_commit allocate_mbarrier mbarrier_arrive bank_conflicts arrive_remote",
       tilelang="sync_threads sync_warp pdl_sync pdl_trigger warpgroup_fence_operand fence_proxy_async "
                "no_set_max_nreg set_max_nreg",
       ptx="nanosleep setmaxnreg elect activemask vote match clusterlaunchcontrol tensormap prefetchu "
           "applypriority discard"),
    op("check", "control", triton="assume static_assert static_print device_print device_assert",
       cutile="printf print assert_ static_assert",
       cuda="printf assert static_assert __trap __brkpt __prof_trigger __builtin_trap __assert_fail "
            "__builtin_unreachable __builtin_assume __assume CUTE_STATIC_ASSERT_V CUTE_STATIC_ASSERT "
            "CUTE_RUNTIME_ASSERT CUTE_INVALID_CONTROL_PATH CUTE_GCC_UNREACHABLE",
       cute="print_tensor printf print static_assert pretty_str", tilelang="print device_assert",
       ptx="trap brkpt pmevent isspacep getctarank"),
    op("set_predicate", "control", ptx="setp"),
    op("annotation", "control",
       tilelang="use_swizzle annotate_layout annotate_restrict_buffers annotate_safe_value reads writes "
                "import_source", cute="from_tensor prefetch prefetch_descriptor",
       ptx=".reg label bra exit ret .pragma .loc alloca .param .local .shared"),
    op("swizzled_layout", "control",
       tilelang="make_swizzled_layout make_wgmma_swizzled_layout make_tcgen05mma_swizzled_layout "
                "make_linear_layout make_full_bank_swizzled_layout make_half_bank_swizzled_layout "
                "make_quarter_bank_swizzled_layout"),
    op("handle", "control",
       cuda="delete free make_pipeline init plus minus multiplies greater less maximum minimum bit_and bit_or "
            "bit_xor cudaGetParameterBuffer quiet_NaN"),
    op("prefetch_line", "control", cuda="__prefetch"),
    op("unread", "control", tilelang="call_extern call_pure_extern call_intrin ptx_mma gemm_sp reduce"),
)  # fmt: skip
