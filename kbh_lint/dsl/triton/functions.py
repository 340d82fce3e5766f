"""The tables of operations that Triton kernels call."""

from __future__ import annotations

from collections.abc import Callable

from kbh_lint.dsl.triton import arithmetic as numbers
from kbh_lint.dsl.triton import tiles
from kbh_lint.kernels.core.value import UNKNOWN_V, V, constant
from kbh_lint.kernels.languages.python import arithmetic as shared
from kbh_lint.kernels.languages.python import assembly
from kbh_lint.kernels.languages.python.call import Call, first
from kbh_lint.kernels.languages.python.functions import nothing, whole_range
from kbh_lint.ops.catalogue import OPERATIONS
from kbh_lint.ops.operation import spelled


def _inline_asm(call: Call) -> V:
    return assembly.inline(call)


def _operator(symbol: str) -> Callable[[Call], V]:
    def run(call: Call) -> V:
        return call.m.numbers.binary(symbol, call.args[0], call.args[1], call.loc) if len(call.args) > 1 else UNKNOWN_V

    return run


BUILTINS: dict[str, Callable[[Call], V]] = spelled(
    OPERATIONS,
    "triton",
    {
        "load": tiles.load, "store": tiles.store, "block_pointer": tiles.block_pointer, "advance": tiles.advance,
        "descriptor": tiles.descriptor, "load_experimental": tiles.experimental_load,
        "load_descriptor": lambda c: tiles.descriptor_load(c.args[0], Call(c.m, c.args[1:], c.kwargs, c.node)),
        "store_descriptor": lambda c: tiles.descriptor_store(c.args[0], Call(c.m, c.args[1:], c.kwargs, c.node)),
        "store_experimental": tiles.experimental_store, "load_ragged": tiles.ragged_load,
        "store_ragged": tiles.ragged_store, "reinterpret_descriptor": tiles.same, "index_tile": tiles.index_tile,
        "program_id": tiles.scalar_index, "num_programs": tiles.scalar_index, "device_counters": tiles.scalar_index,
        "clock": tiles.clock,
        "full": tiles.filled, "zeros": tiles.zeros, "zeros_like": tiles.like, "full_like": tiles.like,
        "reshape": tiles.reshape, "transpose": tiles.trans, "expand_dims": tiles.expand, "broadcast": tiles.broadcast,
        "join": tiles.merged, "split": tiles.split, "ravel": lambda c: first(c).with_(shape=None),
        "squeeze": lambda c: first(c).with_(shape=None), "cast": numbers.cast, "dot": numbers.dot,
        "dot_scaled": numbers.dot_scaled, "sum": numbers.sum_, "reduce_max": numbers.extreme,
        "reduce_min": numbers.extreme, "argmax": numbers.argextreme, "reduce": numbers.scan,
        "cumulative": numbers.cumulative, "cumulative_product": numbers.cumulative, "where": shared.where,
        "max": shared.bound, "min": shared.bound, "ceil_div": numbers.cdiv, "next_power_of_2": numbers.next_power,
        "fma": shared.fma, "assembly": _inline_asm, "assembly_alone": _inline_asm, "hint": tiles.same,
        "to_tensor": tiles.same, "check": nothing, "sync": nothing, "constexpr": first, "tuple": first,
        "range": whole_range, "pointer_type": numbers.pointer_type, "int_type": numbers.int_type,
        "swizzle": lambda c: V(x=(V("i32", "i32", shape=()), V("i32", "i32", shape=()))),
    },
    {
        "arithmetic": lambda op: _operator(op.symbol),
        "atomic": lambda op: tiles.atomic,
        "job": lambda op: numbers.whole_job(op.name, op.flag),
    },
)  # fmt: skip

METHODS: dict[str, Callable[[V, Call], V]] = {
    "to": shared.to, "cast": shared.to, "load": tiles.descriptor_load, "store": tiles.descriptor_store,
    "gather": tiles.descriptor_load, "scatter": tiles.descriptor_store, "atomic_add": tiles.descriptor_store,
    "is_ptr": lambda v, c: constant(bool(v.cells)),
}  # fmt: skip
