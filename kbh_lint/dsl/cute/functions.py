"""What CuTe DSL kernels call, by name: functions and methods, and the matrix products themselves."""

from __future__ import annotations

from typing import Any

from kbh_lint.base import values
from kbh_lint.dsl.cute import arithmetic as own
from kbh_lint.dsl.cute import instructions as ops
from kbh_lint.dsl.cute import memory
from kbh_lint.dsl.tensors import kinds
from kbh_lint.dsl.tensors.memory import held, is_type
from kbh_lint.kernels.core.joins import join, tuple_of
from kbh_lint.kernels.core.value import NOTHING, UNKNOWN_V, V, constant
from kbh_lint.kernels.languages.python import arithmetic as numbers
from kbh_lint.kernels.languages.python.assembly import inline
from kbh_lint.kernels.languages.python.call import Builtin, Call, Method, first
from kbh_lint.kernels.languages.python.functions import whole_range


def inline_asm(call: Call) -> V:
    """llvm.inline_asm(result type, operands, text, constraints, ...)."""
    wanted = first(call)
    types = wanted.x if isinstance(wanted.x, tuple) else (wanted,)
    result = tuple_of([t if is_type(t) else constant(values.DType("?")) for t in types])
    arguments = [call.get(2, "asm_string") or UNKNOWN_V, call.get(3, "constraints") or UNKNOWN_V]
    return inline(Call(call.m, [*arguments, call.get(1, "operands_") or UNKNOWN_V, result], {}, call.node))


def instruction(path: str, call: Call) -> V:
    """A matrix instruction made inside the kernel."""
    made = first(call).const
    if isinstance(made, values.Made) and made.path == kinds.MMA:  # make_tiled_mma(operation, ...)
        return first(call)
    types = []
    for value in call.args:
        if is_type(value):
            call.m.facts.decide(value)
            types.append(value.const.name)
    return constant(ops.instruction(path, types, ops.named_types({k: v.const for k, v in call.kwargs.items()})))


def gemm(call: Call) -> V:
    """gemm(instruction, d, a, b, c): d = a b + c. The instruction's types count; else those of the operands."""
    made = first(call).const
    known = made if isinstance(made, values.Made) and made.path == kinds.MMA else values.Made(kinds.MMA)
    target = call.get(1, "d") or UNKNOWN_V
    a, b, c = (held(call, call.get(2 + i, name) or UNKNOWN_V) for i, name in enumerate("abc"))
    types = {name: known.get(name, "?").replace("?", "") for name in ("a", "b", "accumulator")}
    mode = "tf32" if types["a"] == "tf32" else ""
    if not types["a"] and "?" in (a.dtype, b.dtype):
        call.m.facts.unread("a matrix product on types that are not known", call.loc)
    accumulator = types["accumulator"] or (target.dtype if target.dtype != "?" else "f32")
    m = call.m
    product = m.products.product(
        known.get("kind", "mma"), a.with_(x=None), b.with_(x=None), accumulator, call.loc,
        a_dtype="f32" if mode else types["a"], b_dtype="f32" if mode else types["b"],
        opcode=known.get("opcode", ""), mode=mode,
    )  # fmt: skip
    product = m.products.accumulate(c, product, accumulator, call.loc, m.frame.loops > 0)
    m.memory.store(target, join(product, c.with_(const=NOTHING, x=None)), call.loc)
    return constant(None)


def _named(names: str, handler: Any) -> dict[str, Any]:
    return dict.fromkeys(names.split(), handler)


FUNCTIONS: dict[str, Builtin] = {
    **_named(
        "local_tile local_partition zipped_divide tiled_divide logical_divide flat_divide composition group_modes "
        "select append prepend append_ones prepend_ones slice_ dice domain_offset coalesce flatten filter filter_zeros "
        "logical_product zipped_product tiled_product flat_product raked_product blocked_product unflatten "
        "transform_partitioned_tensor_layout get_s2t_smem_desc_tensor slice_and_offset "
        "as_position_independent_swizzle_tensor",
        memory.view,
    ),
    "make_tensor": memory.make_tensor, "recast_tensor": memory.recast, "recast_ptr": memory.recast,
    "make_identity_tensor": memory.coordinates,
    **_named("make_fragment make_rmem_tensor", memory.fragment),
    **_named("make_fragment_like make_rmem_tensor_like", memory.fragment_like),
    **_named("alloc_smem get_dyn_smem", memory.shared(0)), "retrieve_tmem_ptr": memory.tensor_memory(0),
    **_named("copy copy_atom_call", memory.copied(1)), **_named("basic_copy autovec_copy", memory.copied(0)),
    "basic_copy_if": memory.copied(1), **_named("gemm mma_atom_call", gemm), "inline_asm": inline_asm,
    **_named("epilogue_tmem_copy_and_partition epilogue_smem_copy_and_partition", memory.epilogue),
    **_named("epilogue_tma_store epilogue epilogue_store", memory.stored_epilogue),
    "tma_partition": lambda c: V(x=(c.get(3, "smem_tensor") or UNKNOWN_V, c.get(4, "gmem_tensor") or UNKNOWN_V)),
    **_named("full full_like", own.filled), **_named("zeros_like ones_like empty_like", own.emptied),
    **_named(
        "size cosize rank depth ceil_div round_up crd2idx size_in_bytes shape get product lane_idx warp_idx popc "
        "canonical_warp_idx canonical_lane_idx warp_group_idx block_idx_in_cluster get_dyn_smem_size "
        "canonical_warp_group_idx make_layout_image_mask max_common_vector idx2crd vote_ballot_sync "
        "create_tma_multicast_mask get_smem_capacity_in_bytes clz",
        own.size,
    ),
    **_named(
        "thread_idx block_idx block_dim grid_dim cluster_idx cluster_dim block_in_cluster_idx block_in_cluster_dim",
        own.three,
    ),
    **_named("elem_less any_ all_ and_ or_ not_ is_static is_major leading_dim vote_any_sync vote_all_sync", own.truth),
    **_named("range range_constexpr range_dynamic for_generate", whole_range),
    **_named("const_expr dynamic_expr as_numeric assume repeat_like make_warp_uniform rcp_approx make_ptr", first),
    **_named("shuffle_sync shuffle_sync_up shuffle_sync_down shuffle_sync_bfly", first),
    **_named("warp_reduction warp_reduction_sum warp_reduction_max", own.warp_reduction),
    **_named("where select_", numbers.where), **_named("fmax fmin max min minimum maximum", numbers.bound),
    "fma": numbers.fma, "fma_packed_f32x2": own.packed("fma"), "mul_packed_f32x2": own.packed("*"),
    "add_packed_f32x2": own.packed("+"), "sub_packed_f32x2": own.packed("-"),
    **_named("atomic_add atomic_max atomic_min atomic_exch atomic_cas atomic_or atomic_and red_add", own.atomic),
    **_named(
        "make_layout make_ordered_layout make_identity_layout make_composed_layout make_swizzle tile_to_shape "
        "make_smem_layout_atom make_smem_layout make_smem_layout_a make_smem_layout_b make_smem_layout_epi "
        "recast_layout right_inverse left_inverse complement max_common_layout get_nonswizzle_portion",
        memory.layout,
    ),
    "make_layout_tv": memory.layout_of_threads,
    **_named(
        "make_copy_atom make_tiled_copy make_tiled_copy_tv make_tiled_copy_A make_tiled_copy_B make_tiled_copy_C "
        "make_tiled_copy_S make_tiled_copy_D make_tiled_copy_C_atom make_tmem_copy make_s2t_copy make_cotiled_copy "
        "get_smem_store_op get_tmem_load_op sm90_get_smem_store_op get_tmem_copy_properties",
        memory.copy_atom,
    ),
    **_named(
        "printf print_tensor print from_tensor prefetch prefetch_descriptor static_assert pretty_str", memory.nothing
    ),
}  # fmt: skip

METHODS: dict[str, Method] = {
    "load": memory.load,
    "store": memory.store,
    "fill": memory.store,
    "to": own.to,
    "bitcast": own.bitcast,
    "reduce": own.reduce,
    "allocate": memory.allocate,
    **_named("get_slice broadcast_to reshape align data_ptr ir_value mark_layout_dynamic get_scalar", memory.same),
    **_named("partition_S partition_D partition_A partition_B partition_C retile retile_S retile_D", memory.argument),
    "make_fragment_A": memory.operand("a"),
    "make_fragment_B": memory.operand("b"),
    "make_fragment_C": memory.accumulators,
    "get_tensor": memory.typed,
    **_named("allocate_tensor allocate_array", lambda base, call: memory.shared(0)(call)),
    "retrieve_ptr": lambda base, call: memory.tensor_memory(0)(call),
    **_named(
        "set toint free wait_for_alloc relinquish_alloc_permit partition_shape_A partition_shape_B partition_shape_C",
        lambda base, call: memory.nothing(call),
    ),
}


def symbol(path: str, call: Call) -> V:
    """Calls something of module `cutlass` by its full path."""
    name = path.rpartition(".")[2]
    if ops.is_instruction(path):
        return instruction(path, call)
    handler = FUNCTIONS.get(name)
    if handler is not None:
        return handler(call)
    done = own.converted(path, call)
    if done is not None:
        return done
    if name.endswith("Op"):
        return constant(values.Made(kinds.COPY, (("reduce", "Reduce" in name),)))
    if name.startswith(("make_tiled_tma_atom", "make_im2col_tma_atom")):
        return V(x=(constant(values.Made(kinds.COPY)), call.get(1, "gmem_tensor") or UNKNOWN_V))
    if any(v.cells for v in call.args):
        return call.m.calls.opaque_call(path, call)
    made = numbers.elementwise_name(call, name)
    return made if made is not UNKNOWN_V else call.m.calls.opaque_call(path, call)
