"""What Gluon has beside Triton's built-ins: shared and tensor memory, asynchronous copies, matrix instructions.

Layouts say which thread holds what, and nothing of values: they are opaque. A memory descriptor is a value with the
cell behind it, so that loads and stores through any of its views are those of the whole allocation.
"""

from __future__ import annotations

from collections.abc import Callable

from kbh_lint.base import values
from kbh_lint.kernels.core.joins import tuple_of
from kbh_lint.kernels.core.value import NOTHING, UNKNOWN_V, V, constant
from kbh_lint.kernels.languages.python.call import Call, first
from kbh_lint.ops.catalogue import OPERATIONS
from kbh_lint.ops.operation import spelled

PREFIX = "triton.experimental.gluon."
LANGUAGE = "triton.experimental.gluon.language"
MAX_WORKERS = 8


def layout(call: Call) -> V:
    """The value of a function that makes a layout."""
    return constant(values.Sym("gluon.layout"))


def nothing(call: Call) -> V:
    """Models a call without effect; its result is None."""
    return constant(None)


def allocate(call: Call) -> V:
    """The value of `allocate_shared_memory(element type, shape, layout, value)` or `allocate_tensor_memory(...)`."""
    dtype, shape = call.dtype(0, "element_ty"), call.shape(call.get(1, "shape"))
    cell = call.m.memory.at_place(call.loc, "shared", f"memory at {call.loc[1]}", dtype)
    made = V(dtype, dtype, cells=frozenset((cell,)), shape=shape)
    value = call.get(3, "value")
    if value is not None and value.const is not None:
        call.m.memory.store(made, value, call.loc)
    return made


def is_memory(value: V) -> bool:
    """Whether a value is a descriptor of shared or tensor memory, and neither a tile nor a pointer into an argument."""
    return bool(value.cells) and all(cell.kind != "param" for cell in value.cells)


def held(call: Call, value: V) -> V:
    """The tile that an operand of a matrix instruction holds, in shared memory or in registers."""
    return call.m.memory.load(value, "?", call.loc).with_(shape=value.shape, const=NOTHING) if value.cells else value


def copy_async(call: Call) -> V:
    """Models an asynchronous copy between shared memory and an argument's tensor; the function's name says which is the
    source."""
    places = [v for v in (*call.args, *call.kwargs.values()) if v.cells and v.dtype != "i64"]
    if len(places) < 2:
        return constant(None)
    into_memory = "to_shared" in call.name
    places.sort(key=lambda v: is_memory(v) == into_memory)
    source, target = places[0], places[-1]
    call.m.memory.store(target, call.m.memory.load(source, "?", call.loc).with_(const=NOTHING), call.loc)
    return constant(None)


def matrix(opcode: str) -> Callable[[Call], V]:
    """The handler of a matrix instruction that returns the accumulator, such as warpgroup_mma and mma_v2."""

    def run(call: Call) -> V:
        a, b = (held(call, call.get(i, name) or UNKNOWN_V) for i, name in ((0, "a"), (1, "b")))
        acc = call.get(2, "acc") or UNKNOWN_V
        made = call.m.products.product(
            "mma", a, b, _accumulator(a, acc), call.loc, rows=call.m.tiles.rows(a), opcode=opcode
        )
        made = call.m.products.accumulate(acc, made, acc.dtype, call.loc, call.m.frame.loops > 0)
        return call.m.products.onto(made, acc).with_(shape=acc.shape)

    return run


def tensor_memory_mma(call: Call) -> V:
    """Models `tcgen05_mma(a, b, accumulator)`, whose accumulator is in tensor memory."""
    a, b = (held(call, call.get(i, name) or UNKNOWN_V) for i, name in ((0, "a"), (1, "b")))
    acc = call.get(2, "acc") or UNKNOWN_V
    made = call.m.products.product(
        "mma", a, b, _accumulator(a, acc), call.loc, rows=call.m.tiles.rows(a), opcode="tcgen05.mma"
    )
    call.m.memory.store(acc, made, call.loc)
    return constant(None)


def _accumulator(a: V, acc: V) -> str:
    return acc.dtype if acc.dtype != "?" else "i32" if a.dtype in ("i8", "u8") else "f32"


def waited(call: Call) -> V:
    """The value of `warpgroup_mma_wait(pending, deps)`: the accumulators `deps`."""
    deps = call.get(1, "deps")
    if deps is None:
        return constant(None)
    items = deps.x if isinstance(deps.x, tuple) else (deps,)
    return items[0] if len(items) == 1 else tuple_of(list(items))


def partitions(call: Call) -> V:
    """Models `warp_specialize([(function, arguments), ...], ...)`: executes every partition."""
    pairs = first(call).x
    if not isinstance(pairs, tuple) or not all(isinstance(p.x, tuple) and len(p.x) == 2 for p in pairs):
        call.m.facts.unread("a warp specialisation whose partitions are not listed", call.loc)
        return UNKNOWN_V
    for pair in pairs[:MAX_WORKERS]:
        given = pair.x[1].x if isinstance(pair.x[1].x, tuple) else (pair.x[1],)
        call.m.calls.call_value(pair.x[0], Call(call.m, list(given), {}, call.node))
    return constant(None)


BUILTINS: dict[str, Callable[[Call], V]] = spelled(
    OPERATIONS,
    "gluon",
    {
        "allocate_shared": allocate, "same": first, "wgmma": matrix("wgmma.mma_async"), "mma": matrix("mma.sync"),
        "waited": waited, "tcgen05": tensor_memory_mma, "copy": copy_async, "partitions": partitions,
        "layout_of_registers": layout, "sync": nothing,
    },
)  # fmt: skip


def view(base: V, call: Call) -> V:
    """The value of `memory.index(i)`: one of several buffers."""
    return base.with_(shape=base.shape[1:] if base.shape else None)


METHODS: dict[str, Callable[[V, Call], V]] = {
    "index": view,
    "slice": lambda base, call: base.with_(shape=None),
    "subslice": lambda base, call: base.with_(shape=None),
    "_reinterpret": lambda base, call: base.with_(shape=None),
    "get_reg_layout": lambda base, call: layout(call),
}


def symbol(path: str, call: Call) -> V | None:
    """The result of calling a function under `triton.experimental.gluon`; None for those that are Triton's own."""
    name = path.rpartition(".")[2]
    if name.endswith("Layout"):
        return layout(call)
    handler = BUILTINS.get(name)
    return handler(call) if handler is not None else None
