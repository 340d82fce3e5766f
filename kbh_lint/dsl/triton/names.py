"""What triton.language has: names of the version that gradings pin, and those that others had or have."""

from __future__ import annotations

LANGUAGE = frozenset(
    (
        "NVMMASharedLayout PaddedSharedLayout PropagateNan SwizzledSharedLayout TRITON_MAX_TENSOR_NUMEL abs add "
        "advance amd_tensor_descriptor_type arange argmax argmin associative_scan assume atomic_add atomic_and "
        "atomic_cas atomic_max atomic_min atomic_or atomic_xchg atomic_xor bfloat16 bitonic_merge block_type "
        "broadcast broadcast_to cast cat cdiv ceil clamp condition const constexpr constexpr_type core cos "
        "cumprod cumsum debug_barrier device_assert device_print div_rn dot dot_scaled dtype erf exp exp2 "
        "expand_dims extra fdiv flip float16 float32 float64 float8e4b15 float8e4b8 float8e4nv float8e5 "
        "float8e5b16 floor fma full gather histogram inline_asm_elementwise int1 int16 int32 int64 int8 "
        "interleave join load load_tensor_descriptor log log2 make_block_ptr make_tensor_descriptor "
        "map_elementwise math max max_constancy max_contiguous maximum min minimum mul multiple_of num_programs "
        "nvidia_tensor_descriptor_type pair_uniform_to_normal permute philox philox_impl pi32_t pointer_type "
        "program_id rand rand4x randint randint4x randn randn4x random range ravel reduce reduce_or reshape rsqrt "
        "semantic sigmoid sin slice softmax sort split sqrt sqrt_rn squeeze standard static_assert static_print "
        "static_range store store_tensor_descriptor str_to_ty sub sum swizzle2d target_info tensor "
        "tensor_descriptor tensor_descriptor_type to_tensor topk trans tuple tuple_type uint16 uint32 uint64 "
        "uint8 uint_to_uniform_float umulhi unsqueeze view void where xor_sum zeros zeros_like "
    ).split()
)
OTHERS = frozenset(
    (
        "acos acosh argsort asin asinh async_dot async_task atan atan2 atanh bitcast brev byte_perm cbrt clz "
        "copysign cosh cumulative_sum div_rd div_ru div_rz erfc erfinv exp10 "
        "experimental_device_tensormap_create1d experimental_device_tensormap_create2d "
        "experimental_tensormap_fenceproxy_acquire expm1 fast_dividef fast_expf ffs float8 float8e4 float8e5m2 "
        "floordiv fmod full_like gdc_launch_dependents gdc_wait globaltimer hypot inline_asm int_to_ptr isfinited "
        "isinf isnan lgamma libdevice llrint log10 log1p log_softmax make_tma_descriptor mod nearbyint "
        "next_power_of_2 num_threads num_warps nv_tma_desc_type pair popc pow rcp_rn reduce_ rint round sinh smid "
        "sqrt_rd tan tanh tensormap_create tgamma topk_ triton truediv trunc unpack where_ zero "
    ).split()
)


def is_missing(path: str) -> bool:
    """Whether a path is one of triton.language itself that no version has."""
    space, _, name = path.rpartition(".")
    return space == "triton.language" and not name.startswith("_") and name not in LANGUAGE and name not in OTHERS
