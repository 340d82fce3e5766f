"""What tensors over memory hold, and the memory of structs."""

from __future__ import annotations

from kbh_lint.base import values
from kbh_lint.dsl.tensors import kinds
from kbh_lint.kernels.core.value import HANDLE, NOTHING, CType, Struct, Unbound, V
from kbh_lint.kernels.languages.python.call import Call

TENSOR_MEMORY = "tensor memory"


def held(call: Call, value: V) -> V:
    """The data of a tensor, loaded from its memory; for a value that is not in memory, the value itself."""
    if isinstance(value.x, tuple) and value.x:  # an operand with its scale factors
        value = value.x[0]
    made = value.const
    if isinstance(value.x, Unbound):
        call.m.facts.unread(f"what the argument {value.x.path} holds", call.loc)
    if value.x is HANDLE or isinstance(made, values.Made) and not isinstance(made, kinds.Coordinates):
        call.m.facts.unread("a read of memory that is not known", call.loc)
    return call.m.memory.load(value, "?", call.loc).with_(const=NOTHING, shape=None) if value.cells else value


def struct_fields(made: values.Made, call: Call) -> V:
    """A new struct in shared memory, with memory of its own for each field."""
    fields = {}
    for name, dtype in made.fields:
        known = dtype.name if isinstance(dtype, values.DType) else "?"
        fields[name] = call.m.memory.tensor("shared", known, call.loc, name)
    return V(x=Struct(fields, CType()))


def is_type(value: V) -> bool:
    """Whether a value is an element type."""
    return isinstance(value.const, values.DType)
