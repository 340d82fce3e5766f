"""The tables of operations that Triton kernels call."""

from __future__ import annotations

from collections.abc import Callable

from kbh_lint.dsl.triton import arithmetic as numbers
from kbh_lint.dsl.triton import tiles
from kbh_lint.kernels.core.value import UNKNOWN_V, V, constant
from kbh_lint.kernels.languages.python import arithmetic as shared
from kbh_lint.kernels.languages.python.call import Call, first
from kbh_lint.kernels.languages.python.functions import nothing, whole_range


def _inline_asm(call: Call) -> V:
    from kbh_lint.kernels.languages.python import assembly  # most kernels have none

    return assembly.inline(call)


BUILTINS: dict[str, Callable[[Call], V]] = {
    "load": tiles.load, "store": tiles.store, "make_block_ptr": tiles.block_pointer, "advance": tiles.advance,
    "make_tensor_descriptor": tiles.descriptor, "_experimental_make_tensor_descriptor": tiles.descriptor,
    "load_tensor_descriptor": lambda c: tiles.descriptor_load(c.args[0], Call(c.m, c.args[1:], c.kwargs, c.node)),
    "store_tensor_descriptor": lambda c: tiles.descriptor_store(c.args[0], Call(c.m, c.args[1:], c.kwargs, c.node)),
    "_experimental_descriptor_load": tiles.experimental_load,
    "_experimental_descriptor_store": tiles.experimental_store, "load_ragged": tiles.ragged_load,
    "store_ragged": tiles.ragged_store, "_experimental_reinterpret_tensor_descriptor": tiles.same,
    "atomic_add": tiles.atomic, "atomic_max": tiles.atomic, "atomic_min": tiles.atomic, "atomic_xchg": tiles.atomic,
    "atomic_cas": tiles.atomic, "atomic_and": tiles.atomic, "atomic_or": tiles.atomic, "atomic_xor": tiles.atomic,
    "arange": tiles.index_tile, "program_id": tiles.scalar_index, "num_programs": tiles.scalar_index,
    "full": tiles.filled, "zeros": tiles.zeros, "zeros_like": tiles.like, "full_like": tiles.like,
    "reshape": tiles.reshape, "view": tiles.reshape, "trans": tiles.trans, "permute": tiles.trans,
    "expand_dims": tiles.expand, "broadcast_to": tiles.reshape, "broadcast": tiles.broadcast, "join": tiles.merged,
    "interleave": tiles.merged, "cat": tiles.merged, "split": tiles.split,
    "ravel": lambda c: first(c).with_(shape=None), "cast": numbers.cast, "dot": numbers.dot,
    "dot_scaled": numbers.dot_scaled, "sum": numbers.sum_, "max": numbers.extreme, "min": numbers.extreme,
    "argmax": numbers.argextreme, "argmin": numbers.argextreme, "reduce": numbers.scan,
    "associative_scan": numbers.scan, "cumsum": numbers.cumulative, "cumprod": numbers.cumulative,
    "topk": numbers.whole_job("topk", ""), "sort": numbers.whole_job("sort", ""),
    "softmax": numbers.whole_job("softmax", "exp"), "where": shared.where, "minimum": shared.bound,
    "maximum": shared.bound, "cdiv": numbers.cdiv, "next_power_of_2": numbers.next_power, "fma": shared.fma,
    "inline_asm_elementwise": _inline_asm, "multiple_of": tiles.same, "max_contiguous": tiles.same,
    "max_constancy": tiles.same, "assume": nothing, "static_assert": nothing, "static_print": nothing,
    "device_print": nothing, "device_assert": nothing, "debug_barrier": nothing, "constexpr": first,
    "range": whole_range, "static_range": whole_range, "pointer_type": numbers.pointer_type, "to_tensor": tiles.same,
    "histogram": numbers.argextreme, "tuple": first, "globaltimer": tiles.scalar_index,
    "smid": tiles.scalar_index, "num_threads": tiles.scalar_index, "num_warps": tiles.scalar_index,
    "gdc_wait": nothing, "gdc_launch_dependents": nothing, "inline_asm": _inline_asm,
    "squeeze": lambda c: first(c).with_(shape=None), "unsqueeze": tiles.expand,
    "swizzle2d": lambda c: V( x=(V("i32", "i32", shape=()), V("i32", "i32", shape=())) ),
    "mul": lambda c: c.m.numbers.binary("*", c.args[0], c.args[1], c.loc) if len(c.args) > 1 else UNKNOWN_V,
    "add": lambda c: c.m.numbers.binary("+", c.args[0], c.args[1], c.loc) if len(c.args) > 1 else UNKNOWN_V,
    "sub": lambda c: c.m.numbers.binary("-", c.args[0], c.args[1], c.loc) if len(c.args) > 1 else UNKNOWN_V,
}  # fmt: skip

METHODS: dict[str, Callable[[V, Call], V]] = {
    "to": shared.to, "cast": shared.to, "load": tiles.descriptor_load, "store": tiles.descriptor_store,
    "gather": tiles.descriptor_load, "scatter": tiles.descriptor_store, "atomic_add": tiles.descriptor_store,
    "is_ptr": lambda v, c: constant(bool(v.cells)),
}  # fmt: skip
