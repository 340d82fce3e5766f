"""What CuTe DSL kernels call, by name: functions and methods, and the matrix products themselves."""

from __future__ import annotations

from typing import Any

from kbh_lint.base import values
from kbh_lint.dsl.cute import arithmetic as own
from kbh_lint.dsl.cute import instructions as ops
from kbh_lint.dsl.cute import memory
from kbh_lint.dsl.tensors import kinds
from kbh_lint.dsl.tensors.memory import held, is_type
from kbh_lint.kernels.core.joins import tuple_of
from kbh_lint.kernels.core.value import UNKNOWN_V, V, constant
from kbh_lint.kernels.languages.python import arithmetic as numbers
from kbh_lint.kernels.languages.python.assembly import inline
from kbh_lint.kernels.languages.python.call import Builtin, Call, Method, first
from kbh_lint.kernels.languages.python.functions import whole_range
from kbh_lint.ops.catalogue import OPERATIONS
from kbh_lint.ops.operation import spelled


def inline_asm(call: Call) -> V:
    """Models `llvm.inline_asm(result type, operands, text, constraints, ...)`; returns the outputs."""
    wanted = first(call)
    types = wanted.x if isinstance(wanted.x, tuple) else (wanted,)
    result = tuple_of([t if is_type(t) else constant(values.DType("?")) for t in types])
    arguments = [call.get(2, "asm_string") or UNKNOWN_V, call.get(3, "constraints") or UNKNOWN_V]
    return inline(Call(call.m, [*arguments, call.get(1, "operands_") or UNKNOWN_V, result], {}, call.node))


def instruction(path: str, call: Call) -> V:
    """The matrix instruction that a call inside the kernel makes."""
    made = first(call).const
    if isinstance(made, kinds.Mma):  # make_tiled_mma(operation, ...)
        return first(call)
    types = []
    for value in call.args:
        if is_type(value):
            call.m.facts.decide(value)
            types.append(value.const.name)
    return constant(ops.instruction(path, types, ops.named_types({k: v.const for k, v in call.kwargs.items()})))


def gemm(call: Call) -> V:
    """Models `gemm(instruction, d, a, b, c)`: d = a b + c. Types that the instruction does not fix are those of the
    operands."""
    made = first(call).const
    known = made if isinstance(made, kinds.Mma) else kinds.Mma()
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
    m.memory.store(target, m.products.onto(product, c), call.loc)
    return constant(None)


def _named(names: str, handler: object) -> dict[str, Any]:
    return dict.fromkeys(names.split(), handler)


FUNCTIONS: dict[str, Builtin] = spelled(
    OPERATIONS,
    "cute",
    {
        "view": memory.view, "make_tensor": memory.make_tensor, "make_pointer": memory.make_pointer,
        "recast": memory.recast,
        "coordinates": memory.coordinates, "allocate_registers": memory.fragment,
        "allocate_registers_like": memory.fragment_like, "allocate_shared": memory.shared(0),
        "allocate_tensor_memory": memory.tensor_memory(0), "copy_by_atom": memory.copied(1),
        "copy_masked": memory.copied(1), "copy": memory.copied(0), "gemm": gemm, "assembly": inline_asm,
        "epilogue_parts": memory.epilogue, "epilogue": memory.stored_epilogue,
        "tma_partition": lambda c: V(x=(c.get(3, "smem_tensor") or UNKNOWN_V, c.get(4, "gmem_tensor") or UNKNOWN_V)),
        "full": own.filled, "zeros_like": own.emptied, "ones_like": own.emptied, "size": own.size,
        "ceil_div": own.size, "lane_index": own.size, "warp_index": own.size, "block_in_cluster": own.size,
        "popc": own.size, "clz": own.size, "thread_index": own.three, "block_indices": own.three,
        "block_sizes": own.three, "grid_sizes": own.three, "cluster_sizes": own.three, "predicate": own.truth,
        "truth": own.truth, "range": whole_range, "range_for_generated": whole_range, "same": first, "repeat": first,
        "rcp": first, "shuffle": first, "warp_reduction": own.warp_reduction, "where": numbers.where,
        "max": numbers.bound, "min": numbers.bound, "fma": numbers.fma, "packed_fma": own.packed("fma"),
        "layout": memory.layout, "layout_of_threads": memory.layout_of_threads, "copy_atom": memory.copy_atom,
        "check": memory.nothing, "annotation": memory.nothing,
    },
    {"arithmetic": lambda op: own.packed(op.symbol), "atomic": lambda op: own.atomic},
)  # fmt: skip

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
    """The result of calling a function of the module `cutlass` by its full path."""
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
        return constant(kinds.Copy(fields=(("reduce", "Reduce" in name),)))
    if name.startswith(("make_tiled_tma_atom", "make_im2col_tma_atom")):
        return V(x=(constant(kinds.Copy()), call.get(1, "gmem_tensor") or UNKNOWN_V))
    if any(v.cells for v in call.args):
        return call.m.calls.opaque_call(path, call)
    made = numbers.elementwise_name(call, name)
    return made if made is not UNKNOWN_V else call.m.calls.opaque_call(path, call)
