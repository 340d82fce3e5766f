"""Memory in CuTe DSL kernels: tensors and their views, registers, shared and tensor memory, copies between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbh_lint.base import values
from kbh_lint.dsl.tensors import kinds
from kbh_lint.dsl.tensors.memory import TENSOR_MEMORY, held, is_type, struct_fields
from kbh_lint.kernels.core.origins import flagged, union
from kbh_lint.kernels.core.value import HANDLE, LITERAL, UNKNOWN_V, V, constant, leaves
from kbh_lint.kernels.languages.ptx.cache_policy import ENCODED_LAST
from kbh_lint.kernels.languages.python.arithmetic import pointer_name
from kbh_lint.kernels.languages.python.call import Builtin, Call, Method, first

if TYPE_CHECKING:
    pass


def view(call: Call) -> V:
    """The value of a function that makes a view: the same tensor, layout or coordinates."""
    given = [*call.args, *call.kwargs.values()]
    base = next((v for v in given if v.cells), None)  # domain_offset takes the coordinate first
    if base is None:
        found = next((v for v in given if isinstance(v.const, values.Made)), first(call))
        known = found.x is HANDLE or isinstance(found.const, values.Made) or isinstance(found.x, tuple)
        return found if known else constant(kinds.Layout())
    made = base
    for index in given:
        for leaf in leaves(index):
            if leaf.origins and not leaf.cells:
                made = made.with_(origins=union(made.origins, leaf.origins))
    return made.with_(shape=None)


def make_tensor(call: Call) -> V:
    """The value of `make_tensor(pointer, layout)`; with a number in place of the pointer, a tensor of coordinates."""
    base = first(call)
    return view(call) if base.cells else coordinates(call)


def make_pointer(call: Call) -> V:
    """The value of `make_ptr(type, address, ...)`: a pointer into the memory that the address leads to, or into unknown
    memory."""
    dtype = next((v.const.name for v in call.args if is_type(v)), "?")
    address = next((v for v in call.args if not is_type(v)), UNKNOWN_V)
    cells = address.cells or frozenset((call.m.memory.param_cell(pointer_name(address), -1, dtype, dtype),))
    return V(dtype, dtype, flagged(address.origins, "index"), address.casts, cells=cells)


def recast(call: Call) -> V:
    """The value of `recast_tensor(tensor, type)` or `recast_ptr(pointer, swizzle, dtype=type)`: the same bits as
    another type."""
    base = first(call)
    dtype = next((v.const.name for v in (*call.args[1:], *call.kwargs.values()) if is_type(v)), base.dtype)
    return base.with_(dtype=dtype)


def fragment(call: Call) -> V:
    """The value of `make_rmem_tensor(layout, type)`: a tensor in registers."""
    return call.m.memory.tensor("local", call.dtype(1, "dtype"), call.loc)


def fragment_like(call: Call) -> V:
    """The value of `make_fragment_like(tensor, type)`: a tensor in registers."""
    like = first(call)
    if not like.cells and isinstance(like.const, values.Made) and not call.get(1, "dtype"):
        return like
    return call.m.memory.tensor("local", call.dtype(1, "dtype", like.dtype), call.loc)


def shared(position: int) -> Builtin:
    """The handler of a function that allocates shared memory; the argument at `position` is the element type."""

    def run(call: Call) -> V:
        named = "element_type" if "element_type" in call.kwargs else "dtype"
        return call.m.memory.tensor("shared", call.dtype(position, named), call.loc)

    return run


def tensor_memory(position: int) -> Builtin:
    """The handler of `retrieve_tmem_ptr(type, ...)`: tensor memory, which all warps of a block share; the argument at
    `position` is the element type."""

    def run(call: Call) -> V:
        dtype = call.dtype(position, "element_type" if "element_type" in call.kwargs else "dtype")
        return call.m.memory.tensor("shared", dtype, call.loc, TENSOR_MEMORY, one=True).with_(dtype=dtype)

    return run


def allocate(base: V, call: Call) -> V:
    """The value of `SmemAllocator.allocate(struct or number of bytes)`."""
    wanted = first(call).const
    if isinstance(wanted, kinds.StructType):
        return struct_fields(wanted, call)
    dtype = wanted.name if isinstance(wanted, values.DType) else "?"
    return call.m.memory.tensor("shared", dtype, call.loc)


def copied(source: int) -> Builtin:
    """The handler of a copy from the argument at position `source` to the next one; the data keeps its bits."""

    def run(call: Call) -> V:
        a, b = call.get(source, "src") or UNKNOWN_V, call.get(source + 1, "dst") or UNKNOWN_V
        pairs = list(zip(a.x, b.x, strict=False)) if isinstance(a.x, tuple) and isinstance(b.x, tuple) else [(a, b)]
        atom = call.args[0].const if source else None
        for one, other in pairs:
            _copy(call, one, other, isinstance(atom, values.Made) and bool(atom.get("reduce")))
            if source and call.kwargs.get("cache_policy", UNKNOWN_V).const == ENCODED_LAST:
                call.m.facts.add_hint(one, call.loc)
        return constant(None)

    return run


def _copy(call: Call, source: V, target: V, reduces: bool) -> None:
    m = call.m
    if not target.cells:
        m.facts.unread("a copy to memory that is not known", call.loc)
        return
    if isinstance(source.const, kinds.Coordinates):
        return
    value = held(call, source)
    for leaf in leaves(call.kwargs.get("pred", UNKNOWN_V)):
        value = value.with_(origins=union(value.origins, flagged(leaf.origins, "index")))
    if reduces:
        value = m.products.add_in_memory(value, target.dtype, call.loc)
    m.memory.store(target, m.numbers.bitcast(value, target.dtype, call.loc), call.loc, raw=True)


def operand(side: str) -> Method:
    """The handler of `make_fragment_A(tensor)` and the like (`side` is the operand): registers for a warp's
    instruction, else a descriptor of the same memory."""

    def run(base: V, call: Call) -> V:
        tensor, made = first(call), base.const
        by_descriptor = bool(tensor.cells) and all(cell.kind == "shared" for cell in tensor.cells)
        opcode = made.get("opcode", "") if isinstance(made, values.Made) else ""
        if by_descriptor and opcode != "mma.sync":
            return tensor
        dtype = made.get(side, "?") if isinstance(made, values.Made) else "?"
        dtype = tensor.dtype if dtype in ("?", "tf32") and tensor.dtype != LITERAL else dtype
        return call.m.memory.tensor("local", dtype, call.loc)

    return run


def epilogue(call: Call) -> V:
    """The value of a function that partitions an epilogue: the copy, the tensor to read, and the registers or shared
    memory to write."""
    tensors = [v for v in (*call.args, *call.kwargs.values()) if v.cells]
    atom = constant(kinds.Copy())
    if not tensors:
        return V(x=(atom, V(x=HANDLE), V(x=HANDLE)))
    inner = tensors[-1] if "smem" in call.name else call.m.memory.tensor("local", tensors[0].dtype, call.loc)
    return V(x=(atom, tensors[0], inner))


def stored_epilogue(call: Call) -> V:
    """Models an epilogue that the library runs: it stores the accumulators to the argument's tensor, converted to its
    type."""
    tensors = [v for v in (*call.args, *call.kwargs.values()) if v.cells]
    targets = [v for v in tensors if any(cell.kind == "param" for cell in v.cells)]
    sources = [v for v in tensors if v not in targets]
    if len(targets) != 1 or not sources:
        return call.m.calls.not_read(f"a call of {call.name}", call)
    for source in sources:
        value = held(call, source)
        if value.origins:
            call.m.memory.store(targets[0], value, call.loc)
    return constant(None)


def coordinates(call: Call) -> V:
    """The value of a function that makes a tensor of coordinates."""
    return constant(kinds.Coordinates())


def layout(call: Call) -> V:
    """The value of a function that makes a layout."""
    return constant(kinds.Layout())


def layout_of_threads(call: Call) -> V:
    """The value of a function that makes two layouts, such as `make_layout_tv`."""
    return V(x=(constant(kinds.Layout()), constant(kinds.Layout())))


def copy_atom(call: Call) -> V:
    """The value of a function that makes a copy operation."""
    made = first(call).const
    return first(call) if isinstance(made, kinds.Copy) else constant(kinds.Copy())


def nothing(call: Call) -> V:
    """Models a call without effect; its result is None."""
    return constant(None)


def load(base: V, call: Call) -> V:
    """The value of `tensor.load()`."""
    return held(call, base)


def store(base: V, call: Call) -> V:
    """Models `tensor.store(data)`."""
    value = call.get(0, "data") or UNKNOWN_V
    call.m.memory.store(base, held(call, value), call.loc)
    return constant(None)


def same(base: V, call: Call) -> V:
    """The value of a method that returns its object."""
    return base


def argument(base: V, call: Call) -> V:
    """The value of a partition that is called with a tensor: a view of that tensor."""
    return view(call)


def typed(base: V, call: Call) -> V:
    """The value of `storage.field.get_tensor(layout, swizzle=, dtype=)`."""
    return base.with_(dtype=call.dtype(-1, "dtype", base.dtype))


def accumulators(base: V, call: Call) -> V:
    """The value of `make_fragment_C(shape)`: registers or tensor memory of the accumulator's type."""
    dtype = base.const.get("accumulator", "?") if isinstance(base.const, values.Made) else "?"
    return call.m.memory.tensor("local", dtype, call.loc)
