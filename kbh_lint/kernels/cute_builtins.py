"""What CuTe DSL kernels call: views, memory, copies, matrix products, functions of numbers, and their methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kbh_lint import values
from kbh_lint.kernels import cute_ops as ops
from kbh_lint.kernels import triton_numbers as numbers
from kbh_lint.kernels.ptx import triton_asm
from kbh_lint.kernels.triton_builtins import BUILTINS
from kbh_lint.kernels.triton_call import Call, first
from kbh_lint.kernels.value import (
    HANDLE,
    LITERAL,
    NOTHING,
    UNKNOWN_V,
    CType,
    Struct,
    V,
    constant,
    flagged,
    join,
    leaves,
    tuple_of,
    union,
)

if TYPE_CHECKING:
    from kbh_lint.kernels.cute import CuteMachine

Builtin = Callable[[Call], V]
Method = Callable[[V, Call], V]
_INTRINSICS = {"i8": "i8", "i4": "i4", "u8": "u8", "f4e2m1": "e2m1", "f8e4m3": "e4m3"}


def machine(call: Call) -> CuteMachine:
    """The machine of a call, which is one of CuTe's."""
    made: Any = call.m
    return made  # type: ignore[no-any-return]


def held(call: Call, value: V) -> V:
    """The numbers of a tensor: what is in its memory, or the value itself when it lies in no memory."""
    if isinstance(value.x, tuple) and value.x:  # an operand with its scale factors
        value = value.x[0]
    made = value.const
    if value.x is HANDLE or isinstance(made, values.Made) and made.path != ops.COORDINATES:
        call.m.unread("a read of memory that is not known", call.loc)
    return call.m.load(value, "?", call.loc).with_(const=NOTHING, shape=None) if value.cells else value


# --- memory ---


def view(call: Call) -> V:
    """Another look at a tensor, a layout or coordinates."""
    given = [*call.args, *call.kwargs.values()]
    base = next((v for v in given if v.cells), None)  # domain_offset takes the coordinate first
    if base is None:
        found = next((v for v in given if isinstance(v.const, values.Made)), first(call))
        known = found.x is HANDLE or isinstance(found.const, values.Made) or isinstance(found.x, tuple)
        return found if known else constant(values.Made(ops.LAYOUT))
    made = base
    for index in given:
        for leaf in leaves(index):
            if leaf.origins and not leaf.cells:
                made = made.with_(origins=union(made.origins, leaf.origins))
    return made.with_(shape=None)


def make_tensor(call: Call) -> V:
    """make_tensor(pointer, layout); over a number it is a tensor of coordinates."""
    base = first(call)
    return view(call) if base.cells else coordinates(call)


def recast(call: Call) -> V:
    """recast_tensor(tensor, type), recast_ptr(pointer, swizzle, dtype=type): the same bits."""
    base = first(call)
    dtype = next((v.const.name for v in (*call.args[1:], *call.kwargs.values()) if _is_type(v)), base.dtype)
    return base.with_(dtype=dtype)


def fragment(call: Call) -> V:
    """make_rmem_tensor(layout, type): registers."""
    return machine(call).memory("local", call.dtype(1, "dtype"), call.loc)


def fragment_like(call: Call) -> V:
    """make_fragment_like(tensor, type)."""
    like = first(call)
    if not like.cells and isinstance(like.const, values.Made) and not call.get(1, "dtype"):
        return like
    return machine(call).memory("local", call.dtype(1, "dtype", like.dtype), call.loc)


def shared(position: int) -> Builtin:
    """Memory of a thread block, of the type that is given at a position."""

    def run(call: Call) -> V:
        named = "element_type" if "element_type" in call.kwargs else "dtype"
        return machine(call).memory("shared", call.dtype(position, named), call.loc)

    return run


def allocate(base: V, call: Call) -> V:
    """SmemAllocator.allocate(struct or number of bytes)."""
    wanted = first(call).const
    if isinstance(wanted, values.Made) and wanted.path == ops.STRUCT:
        fields = {}
        for name, dtype in wanted.fields:
            known = dtype.name if isinstance(dtype, values.DType) else "?"
            fields[name] = machine(call).memory("shared", known, call.loc, name)
        return V(x=Struct(fields, CType()))
    dtype = wanted.name if isinstance(wanted, values.DType) else "?"
    return machine(call).memory("shared", dtype, call.loc)


def copied(source: int) -> Builtin:
    """A copy from the argument at a position to the next one; bits stay what they are."""

    def run(call: Call) -> V:
        a, b = call.get(source, "src") or UNKNOWN_V, call.get(source + 1, "dst") or UNKNOWN_V
        pairs = list(zip(a.x, b.x, strict=False)) if isinstance(a.x, tuple) and isinstance(b.x, tuple) else [(a, b)]
        atom = call.args[0].const if source else None
        for one, other in pairs:
            _copy(call, one, other, isinstance(atom, values.Made) and bool(atom.get("reduce")))
        return constant(None)

    return run


def _copy(call: Call, source: V, target: V, reduces: bool) -> None:
    m = call.m
    if not target.cells:
        m.unread("a copy to memory that is not known", call.loc)
        return
    if not source.cells and isinstance(source.const, values.Made):
        return  # coordinates
    value = held(call, source)
    for leaf in leaves(call.kwargs.get("pred", UNKNOWN_V)):
        value = value.with_(origins=union(value.origins, flagged(leaf.origins, "index")))
    if reduces:
        value = m.accumulate(UNKNOWN_V, value, target.dtype, call.loc, True)
    m.store(target, m.bitcast(value, target.dtype, call.loc), call.loc, raw=True)


def inline_asm(call: Call) -> V:
    """llvm.inline_asm(result type, operands, text, constraints, ...)."""
    wanted = first(call)
    types = wanted.x if isinstance(wanted.x, tuple) else (wanted,)
    result = tuple_of([t if _is_type(t) else constant(values.DType("?")) for t in types])
    arguments = [call.get(2, "asm_string") or UNKNOWN_V, call.get(3, "constraints") or UNKNOWN_V]
    return triton_asm(Call(call.m, [*arguments, call.get(1, "operands_") or UNKNOWN_V, result], {}, call.node))


# --- products ---


def instruction(path: str, call: Call) -> V:
    """A matrix instruction made inside the kernel."""
    made = first(call).const
    if isinstance(made, values.Made) and made.path == ops.MMA:  # make_tiled_mma(operation, ...)
        return first(call)
    types = []
    for value in call.args:
        if _is_type(value):
            call.m.decide(value)
            types.append(value.const.name)
    return constant(ops.instruction(path, types, ops.named_types({k: v.const for k, v in call.kwargs.items()})))


def gemm(call: Call) -> V:
    """gemm(instruction, d, a, b, c): d = a b + c. The instruction's types count; else those of the operands."""
    made = first(call).const
    known = made if isinstance(made, values.Made) and made.path == ops.MMA else values.Made(ops.MMA)
    target = call.get(1, "d") or UNKNOWN_V
    a, b, c = (held(call, call.get(2 + i, name) or UNKNOWN_V) for i, name in enumerate("abc"))
    types = {name: known.get(name, "?").replace("?", "") for name in ("a", "b", "accumulator")}
    mode = "tf32" if types["a"] == "tf32" else ""
    if not types["a"] and "?" in (a.dtype, b.dtype):
        call.m.unread("a matrix product on types that are not known", call.loc)
    accumulator = types["accumulator"] or (target.dtype if target.dtype != "?" else "f32")
    m = call.m
    product = m.product(
        known.get("kind", "mma"), a.with_(x=None), b.with_(x=None), accumulator, call.loc,
        a_dtype="f32" if mode else types["a"], b_dtype="f32" if mode else types["b"],
        opcode=known.get("opcode", ""), mode=mode,
    )  # fmt: skip
    product = m.accumulate(c, product, accumulator, call.loc, m.frame.loops > 0)
    m.store(target, join(product, c.with_(const=NOTHING, x=None)), call.loc)
    return constant(None)


def operand(side: str) -> Method:
    """make_fragment_A(tensor): registers for a warp's instruction, else a descriptor of the same memory."""

    def run(base: V, call: Call) -> V:
        tensor, made = first(call), base.const
        by_descriptor = bool(tensor.cells) and all(cell.kind == "shared" for cell in tensor.cells)
        opcode = made.get("opcode", "") if isinstance(made, values.Made) else ""
        if by_descriptor and opcode != "mma.sync":
            return tensor
        dtype = made.get(side, "?") if isinstance(made, values.Made) else "?"
        dtype = tensor.dtype if dtype in ("?", "tf32") and tensor.dtype != LITERAL else dtype
        return machine(call).memory("local", dtype, call.loc)

    return run


# --- numbers ---


def size(call: Call) -> V:
    """size, rank, ceil_div and the like: a whole number, exact where all it is made of is."""
    consts = [v.const for v in call.args]
    name = call_name(call)
    if len(consts) == 2 and all(isinstance(n, int) for n in consts) and consts[1] > 0 and "div" in name:
        return constant(-(-consts[0] // consts[1]))
    if name == "size" and len(consts) == 1 and isinstance(consts[0], int):
        return call.args[0]
    origins = UNKNOWN_V.origins
    for value in call.args:
        for leaf in leaves(value):
            if not leaf.cells:
                origins = union(origins, leaf.origins)
    return V("i32", "i32", origins, shape=())


def three(call: Call) -> V:
    """thread_idx() and its kin."""
    return V(x=(V("i32", "i32", shape=()),) * 3)


def truth(call: Call) -> V:
    """elem_less, any_, all_, isinstance: a truth that nothing decides here, from data where it is made of data."""
    origins = UNKNOWN_V.origins
    for value in call.args:
        for leaf in leaves(value):
            origins = union(origins, held(call, leaf).origins if leaf.cells else leaf.origins)
    return V("bool", "bool", origins)


def filled(call: Call) -> V:
    """full(shape, value, type), full_like(tensor, value, type): registers of one value."""
    like, value = first(call), call.get(1, "fill_value") or constant(0)
    dtype = call.dtype(2, "dtype", like.dtype if like.dtype not in ("?", LITERAL) else value.dtype)
    made = call.m.convert(value, dtype, call.loc)
    return V(dtype, dtype, made.origins, made.casts)


def emptied(call: Call) -> V:
    """zeros_like(tensor, type)."""
    dtype = call.dtype(1, "dtype", first(call).dtype)
    return V(dtype, dtype)


def warp_reduction(call: Call) -> V:
    """warp_reduction(value, operation), warp_reduction_sum(value)."""
    name = call_name(call)
    wanted = call.get(1, "op")
    path = str(getattr(wanted.const, "path", "")) if wanted is not None else ""
    return _reduced(call, first(call), path or name)


def reduce(base: V, call: Call) -> V:
    """values.reduce(ReductionOp.ADD, initial value, profile)."""
    wanted = call.get(0, "op")
    initial = call.get(1, "init_val") or UNKNOWN_V
    made = _reduced(call, held(call, base), str(getattr(wanted.const, "path", "")) if wanted is not None else "")
    return join(made, initial.with_(const=NOTHING, x=None)) if initial.origins else made


def _reduced(call: Call, value: V, operation: str) -> V:
    how = operation.rpartition(".")[2].lower()
    if any(word in how for word in ("max", "min")):
        return value.with_(origins=flagged(value.origins, "max"), x=None, shape=())
    if not any(word in how for word in ("add", "sum", "mul")):
        call.m.unread(f"a reduction by {how or 'an unknown function'}", call.loc)
    return call.m.accumulate(UNKNOWN_V, value, value.dtype, call.loc, True).with_(shape=(), const=NOTHING)


def packed(operation: str) -> Builtin:
    """add_packed_f32x2((a, b), (c, d)) and its kin: the same of both."""

    def run(call: Call) -> V:
        columns = [v.x if isinstance(v.x, tuple) else (v, v) for v in call.args[:3]]
        made = []
        for items in zip(*columns, strict=False):
            one = Call(call.m, list(items), {}, call.node)
            binary = operation != "fma" and len(items) > 1
            made.append(call.m.binary(operation, items[0], items[1], call.loc) if binary else numbers.fma(one))
        return tuple_of(made)

    return run


def atomic(call: Call) -> V:
    """atomic_add(pointer, value) and its kin."""
    pointer, value = call.get(0, "ptr") or UNKNOWN_V, call.get(1, "val") or UNKNOWN_V
    if "add" in call_name(call):
        value = call.m.accumulate(UNKNOWN_V, value, pointer.dtype, call.loc, True)
    call.m.store(pointer, value, call.loc)
    return held(call, pointer)


def converted(path: str, call: Call) -> V | None:
    """cvt_i8_bf16_intrinsic(values, count) and its kin: a conversion that the name spells out."""
    words = path.rpartition(".")[2].split("_")
    if len(words) < 3 or words[0] != "cvt" or words[1] not in _INTRINSICS:
        return None
    value = held(call, first(call))
    if words[1] == "i4":
        value = call.m.add_unpack(value, call.loc)
    target = {"bf16": "bf16", "f16": "f16", "f32": "f32", "f16x2": "f16", "bf16x2": "bf16"}.get(words[2])
    return call.m.convert(value, target, call.loc) if target is not None else None


def epilogue(call: Call) -> V:
    """Partitions of an epilogue: (copy, what is read, registers or shared memory that it goes to)."""
    tensors = [v for v in (*call.args, *call.kwargs.values()) if v.cells]
    atom = constant(values.Made(ops.COPY))
    if not tensors:
        return V(x=(atom, V(x=HANDLE), V(x=HANDLE)))
    inner = tensors[-1] if "smem" in call_name(call) else machine(call).memory("local", tensors[0].dtype, call.loc)
    return V(x=(atom, tensors[0], inner))


def call_name(call: Call) -> str:
    """The name a call is spelled with."""
    return str(getattr(call.node.func, "name", getattr(call.node.func, "id", "")))


def coordinates(call: Call) -> V:
    return constant(values.Made(ops.COORDINATES))


def layout(call: Call) -> V:
    return constant(values.Made(ops.LAYOUT))


def layout_of_threads(call: Call) -> V:
    return V(x=(constant(values.Made(ops.LAYOUT)), constant(values.Made(ops.LAYOUT))))


def copy_atom(call: Call) -> V:
    made = first(call).const
    return first(call) if isinstance(made, values.Made) and made.path == ops.COPY else constant(values.Made(ops.COPY))


def nothing(call: Call) -> V:
    return constant(None)


def load(base: V, call: Call) -> V:
    return held(call, base)


def store(base: V, call: Call) -> V:
    value = call.get(0, "data") or UNKNOWN_V
    call.m.store(base, held(call, value), call.loc)
    return constant(None)


def to(base: V, call: Call) -> V:
    """values.to(type); of a tensor's layout or a pointer it says nothing."""
    return numbers.to(held(call, base), call)


def bitcast(base: V, call: Call) -> V:
    return call.m.bitcast(held(call, base), call.dtype(0, "dtype"), call.loc)


def own(base: V, call: Call) -> V:
    return base


def argument(base: V, call: Call) -> V:
    """A partition of what is given."""
    return view(call)


def typed(base: V, call: Call) -> V:
    """storage.field.get_tensor(layout, swizzle=, dtype=)."""
    return base.with_(dtype=call.dtype(-1, "dtype", base.dtype))


def accumulators(base: V, call: Call) -> V:
    """make_fragment_C(shape): registers, or tensor memory, of the accumulator's type."""
    dtype = base.const.get("accumulator", "?") if isinstance(base.const, values.Made) else "?"
    return machine(call).memory("local", dtype, call.loc)


def _is_type(value: V) -> bool:
    return isinstance(value.const, values.DType)


def _named(names: str, handler: Any) -> dict[str, Any]:
    return dict.fromkeys(names.split(), handler)


FUNCTIONS: dict[str, Builtin] = {
    **_named(
        "local_tile local_partition zipped_divide tiled_divide logical_divide flat_divide composition group_modes "
        "select append prepend append_ones prepend_ones slice_ dice domain_offset coalesce flatten filter filter_zeros "
        "logical_product zipped_product tiled_product flat_product raked_product blocked_product unflatten "
        "transform_partitioned_tensor_layout slice_and_offset "
        "as_position_independent_swizzle_tensor",
        view,
    ),
    "make_tensor": make_tensor, "recast_tensor": recast, "recast_ptr": recast, "make_identity_tensor": coordinates,
    **_named("make_fragment make_rmem_tensor", fragment),
    **_named("make_fragment_like make_rmem_tensor_like", fragment_like),
    **_named("alloc_smem get_dyn_smem retrieve_tmem_ptr", shared(0)),
    **_named("copy copy_atom_call", copied(1)), **_named("basic_copy autovec_copy", copied(0)),
    "basic_copy_if": copied(1), **_named("gemm mma_atom_call", gemm), "inline_asm": inline_asm,
    **_named("epilogue_tmem_copy_and_partition epilogue_smem_copy_and_partition", epilogue),
    "tma_partition": lambda c: V(x=(c.get(3, "smem_tensor") or UNKNOWN_V, c.get(4, "gmem_tensor") or UNKNOWN_V)),
    **_named("full full_like", filled), **_named("zeros_like ones_like empty_like", emptied),
    **_named(
        "size cosize rank depth ceil_div round_up crd2idx size_in_bytes shape get product lane_idx warp_idx popc "
        "canonical_warp_idx canonical_lane_idx warp_group_idx block_idx_in_cluster get_dyn_smem_size "
        "canonical_warp_group_idx make_layout_image_mask max_common_vector idx2crd vote_ballot_sync "
        "create_tma_multicast_mask get_smem_capacity_in_bytes clz",
        size,
    ),
    **_named(
        "thread_idx block_idx block_dim grid_dim cluster_idx cluster_dim block_in_cluster_idx block_in_cluster_dim",
        three,
    ),
    **_named("elem_less any_ all_ and_ or_ not_ is_static is_major leading_dim vote_any_sync vote_all_sync", truth),
    **_named("range range_constexpr range_dynamic for_generate", BUILTINS["range"]),
    **_named("const_expr dynamic_expr as_numeric assume make_warp_uniform rcp_approx make_ptr", first),
    **_named("shuffle_sync shuffle_sync_up shuffle_sync_down shuffle_sync_bfly", first),
    **_named("warp_reduction warp_reduction_sum warp_reduction_max", warp_reduction),
    **_named("where select_", numbers.where), **_named("fmax fmin max min minimum maximum", numbers.bound),
    "fma": numbers.fma, "fma_packed_f32x2": packed("fma"), "mul_packed_f32x2": packed("*"),
    "add_packed_f32x2": packed("+"), "sub_packed_f32x2": packed("-"),
    **_named("atomic_add atomic_max atomic_min atomic_exch atomic_cas atomic_or atomic_and red_add", atomic),
    **_named(
        "make_layout make_ordered_layout make_identity_layout make_composed_layout make_swizzle tile_to_shape "
        "make_smem_layout_atom make_smem_layout make_smem_layout_a make_smem_layout_b make_smem_layout_epi "
        "recast_layout right_inverse left_inverse complement max_common_layout get_nonswizzle_portion",
        layout,
    ),
    "make_layout_tv": layout_of_threads,
    **_named(
        "make_copy_atom make_tiled_copy make_tiled_copy_tv make_tiled_copy_A make_tiled_copy_B make_tiled_copy_C "
        "make_tiled_copy_S make_tiled_copy_D make_tiled_copy_C_atom make_tmem_copy make_s2t_copy make_cotiled_copy "
        "get_smem_store_op get_tmem_load_op sm90_get_smem_store_op get_tmem_copy_properties",
        copy_atom,
    ),
    **_named("printf print_tensor print prefetch prefetch_descriptor static_assert pretty_str", nothing),
}  # fmt: skip

METHODS: dict[str, Method] = {
    "load": load, "store": store, "fill": store, "to": to, "bitcast": bitcast, "reduce": reduce, "allocate": allocate,
    **_named("get_slice broadcast_to reshape align data_ptr ir_value mark_layout_dynamic get_scalar", own),
    **_named("partition_S partition_D partition_A partition_B partition_C retile retile_S retile_D", argument),
    "make_fragment_A": operand("a"), "make_fragment_B": operand("b"), "make_fragment_C": accumulators,
    "get_tensor": typed,
    **_named("allocate_tensor allocate_array retrieve_ptr", lambda base, call: shared(0)(call)),
    **_named("set toint partition_shape_A partition_shape_B partition_shape_C", lambda base, call: nothing(call)),
}  # fmt: skip


def symbol(path: str, call: Call) -> V:
    """Calls something of module `cutlass` by its full path."""
    name = path.rpartition(".")[2]
    if ops.is_instruction(path):
        return instruction(path, call)
    handler = FUNCTIONS.get(name)
    if handler is not None:
        return handler(call)
    done = converted(path, call)
    if done is not None:
        return done
    if name.endswith("Op"):
        return constant(values.Made(ops.COPY, (("reduce", "Reduce" in name),)))
    if name.startswith(("make_tiled_tma_atom", "make_im2col_tma_atom")):
        return V(x=(constant(values.Made(ops.COPY)), call.get(1, "gmem_tensor") or UNKNOWN_V))
    if any(v.cells for v in call.args):
        return machine(call).opaque_call(path, call)
    made = numbers.elementwise_name(call, name)
    return made if made is not UNKNOWN_V else machine(call).opaque_call(path, call)
