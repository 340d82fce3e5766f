"""Tensor core fragments, cub, thrust, cooperative groups and CuTe inside CUDA kernels."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from kbh_lint.base import dtypes, ir
from kbh_lint.kernels.languages.cuda.places import CppCall
from kbh_lint.kernels.languages.cuda.types import is_pointer

if TYPE_CHECKING:
    from kbh_lint.kernels.languages.cuda.run import CudaRun
from kbh_lint.kernels.core.joins import join, mix
from kbh_lint.kernels.core.origins import data_origins, flagged
from kbh_lint.kernels.core.value import NOTHING, UNKNOWN_V, CType, V

# --- tensor core fragments ---


def fragment_fill(call: CppCall) -> V:
    """Models `wmma::fill_fragment(fragment, value)`."""
    m, fragment = call.m, call.arg(0)
    if call.nodes:
        m.names.assign(call.nodes[0], V(fragment.dtype, fragment.dtype, ct=fragment.ct))
    return UNKNOWN_V


def fragment_load(call: CppCall) -> V:
    """Models `wmma::load_matrix_sync(fragment, pointer, ...)`."""
    m, fragment = call.m, call.arg(0)
    value = m.memory.load(call.arg(1), call.arg(1).dtype, call.loc)
    if fragment.dtype != "?" and value.dtype != fragment.dtype and fragment.dtype != "tf32":
        value = m.numbers.bitcast(value, fragment.dtype, call.loc)
    value = value.with_(dtype=fragment.dtype if fragment.dtype != "?" else value.dtype, ct=fragment.ct)
    if call.nodes:
        _put(m, call.nodes[0], value)
    return UNKNOWN_V


def _put(m: CudaRun, node: ir.Expr, value: V) -> None:
    """Writes a whole fragment variable, or an element of an array of them."""
    if isinstance(node, ir.Name) and node.id in m.frame.env and not is_pointer(m.frame.env[node.id].ct):
        old = m.frame.env[node.id]
        if old.x is None:
            m.frame.env[node.id] = value
            return
    place = m.memory.address_of(node)
    m.memory.target = node
    m.memory.store(place, value, m.place, raw=True)
    m.memory.target = None


def fragment_store(call: CppCall) -> V:
    """Models `wmma::store_matrix_sync(pointer, fragment, ...)`."""
    value = call.arg(1)
    call.m.memory.target = call.nodes[0] if call.nodes else None
    call.m.memory.write_through(call.arg(0), value.with_(ct=None), call.loc)
    call.m.memory.target = None
    return UNKNOWN_V


def fragment_product(call: CppCall) -> V:
    """Models `wmma::mma_sync(d, a, b, c)`: records the product and assigns it to `d`."""
    a, b, c = call.arg(1), call.arg(2), call.arg(3)
    rows = dict(a.ct.args).get("rows") if a.ct is not None else None
    made = call.m.products.product(
        "wmma", a, b, c.dtype, call.loc, rows=rows if isinstance(rows, int) else None, a_dtype=a.dtype, b_dtype=b.dtype
    )
    if data_origins(made.origins):
        call.m.facts.add_sum(c.dtype, made.origins, call.loc)
    if call.nodes:
        _put(call.m, call.nodes[0], call.m.products.onto(made, c).with_(ct=c.ct))
    return UNKNOWN_V


# --- libraries ---

_SUMS = {"F32": "f32", "F16": "f16", "S32": "i32"}
MAX_ARGUMENTS = 6  # template arguments inside one another
_WHOLE_JOBS = ("cub::", "thrust::", "cooperative_groups::reduce", "cg::reduce", "cooperative_groups::inclusive_scan")
_ATOM = re.compile(r"SM\d+_(?:\w+_)?\d+x\d+x\d+_(?P<d>F32|F16|S32)(?P<a>[A-Z]+\d+\w*?)(?P<b>(?:F|BF|TF|E|S|U)\d+\w*?)?")


def library(call: CppCall) -> V | None:
    """The result of calling a function of cub, thrust or cooperative groups; None for other functions."""
    path = call.path.lstrip(":")
    if not path.startswith(_WHOLE_JOBS):
        return None
    if path.endswith("::ThreadLoad"):
        return call.m.memory.read_through(call.arg(0), call.loc)
    if path.endswith("::ThreadStore"):
        call.m.memory.write_through(call.arg(0), call.arg(1), call.loc)
        return UNKNOWN_V
    call.m.facts.use(path.replace("cg::", "cooperative_groups::") if path.startswith("cg::") else path, call.loc)
    made = mix(call.args) if call.args else UNKNOWN_V
    if "educe" in path or "scan" in path.lower():
        made = made.with_(origins=flagged(made.origins, "reduce"))
        call.m.facts.add_sum(made.dtype, made.origins, call.loc)
    return made.with_(ct=CType(name=path), x=None)


def _moved(call: CppCall, owner: str, name: str) -> bool:
    """What cub moves between memory and the registers of a group, or from register to register; false for the rest."""
    kind = owner.partition("<")[0].rpartition("::")[2]
    if name == "Load" and kind in ("BlockLoad", "WarpLoad") and len(call.args) > 1:
        read = call.m.memory.read_through(call.arg(0), call.loc)
        _to(call, 1, join(read, call.arg(3)) if len(call.args) > 3 else read)
        return True
    if name == "Store" and kind in ("BlockStore", "WarpStore") and len(call.args) > 1:
        held = call.arg(1)
        _to(call, 0, call.m.memory.read_through(held, call.loc) if is_pointer(held.ct) else held)
        return True
    if kind in ("BlockExchange", "WarpExchange", "BlockShuffle") and len(call.args) > 1:
        held = call.arg(0)
        _to(call, 1, call.m.memory.read_through(held, call.loc) if is_pointer(held.ct) else held)
        return True
    return False


def _to(call: CppCall, position: int, value: V) -> None:
    """Writes to an argument: all of an array, or the variable that it names."""
    target = call.arg(position)
    if is_pointer(target.ct):
        call.m.memory.write_through(target.with_(x=None), value.with_(ct=None, x=None, const=NOTHING), call.loc)
    elif position < len(call.nodes) and call.nodes[position] is not None:
        call.m.names.assign(call.nodes[position], value.with_(const=NOTHING))


_COUNTS = frozenset(
    {
        "sync", "thread_rank", "size", "num_threads", "meta_group_rank", "block_rank", "any", "all", "ballot",
        "group_index", "thread_index", "num_elements", "arrive", "wait", "barrier_wait", "barrier_arrive",
        "producer_acquire", "producer_commit", "consumer_wait", "consumer_release", "quit", "arrive_and_wait",
        "arrive_and_drop", "arrive_and_expect_tx", "try_wait", "dim_blocks", "dim_threads", "block_index",
        "num_blocks", "meta_group_size", "index", "phase", "count", "advance", "stride", "shape", "layout",
    }
)  # fmt: skip
_ORDERS = frozenset({"sync", "wait", "barrier_wait", "consumer_wait", "arrive_and_wait", "try_wait"})


def library_method(call: CppCall, base: V, target: ir.Expr | None) -> V:
    """The result of calling a method of an object whose class the file does not define, such as one of cub."""
    call.m.calls.place = None
    owner = base.ct.name if base.ct is not None else ""
    if owner.startswith(("cub::", "thrust::")):
        return _of_cub(call, owner)
    name = call.path
    if name.startswith("shfl"):
        return call.arg(0).with_(const=NOTHING)
    row = _METHODS.get(name)
    made = row(call, base, target) if row is not None else None
    if made is not None:
        return made
    if row is None and name.startswith(("partition_", "retile_", "make_fragment_")):
        return call.arg(0)  # what lies there, or registers for it
    call.m.facts.unread(f"a call of the method {name}", call.loc)
    return call.m.memory.havoc([base, *call.args], "?", call.loc)


def _of_cub(call: CppCall, owner: str) -> V:
    """A method of a class of CUB or Thrust: what it gives is made of all that it is given."""
    m, name = call.m, call.path
    m.facts.use(owner, call.loc)
    if _moved(call, owner, name):
        return UNKNOWN_V
    held = [v for v in call.args if not is_pointer(v.ct)]
    made = mix([*held, *(m.memory.read_through(v, call.loc) for v in call.args if is_pointer(v.ct))] or [UNKNOWN_V])
    if any(word in name for word in ("Sum", "Reduce", "Scan")):
        m.facts.add_sum(made.dtype, made.origins, call.loc)
        made = made.with_(origins=flagged(made.origins, "reduce"))
    if "Scan" in owner and len(call.args) > 1:
        _to(call, 1, made.with_(ct=None, x=None))
    return made.with_(ct=None, x=None)


def _count(call: CppCall, base: V, target: ir.Expr | None) -> V:
    return V("i32", "i32")


def _ordered(call: CppCall, base: V, target: ir.Expr | None) -> V:
    call.m.memory.alone = False
    return V("i32", "i32")


def _same_memory(call: CppCall, base: V, target: ir.Expr | None) -> V | None:
    return base if base.cells else None


def _loaded(call: CppCall, base: V, target: ir.Expr | None) -> V:
    return call.m.memory.read_through(base, call.loc) if is_pointer(base.ct) else base


def _stored(call: CppCall, base: V, target: ir.Expr | None) -> V | None:
    if not call.args:
        return None
    if target is not None and not base.cells:
        call.m.names.assign(target, call.args[0])
    else:
        call.m.memory.write_through(base, call.args[0], call.loc)
    return UNKNOWN_V


def _tensor_behind(call: CppCall, base: V, target: ir.Expr | None) -> V | None:
    """Of a tensor map: the map, and the tensor behind it."""
    return base.with_(ct=CType(base.dtype, name="cute::Tensor")) if base.cells else None


_Method = Callable[[CppCall, V, "ir.Expr | None"], "V | None"]  # None where it cannot be followed
_METHODS: dict[str, _Method] = {
    **dict.fromkeys(_COUNTS, _count),
    **dict.fromkeys(_ORDERS, _ordered),
    **dict.fromkeys(("data", "get", "begin", "raw", "at", "data_ptr"), _same_memory),
    **dict.fromkeys(("load", "fetch_add", "exchange"), _loaded),
    "store": _stored,
    **dict.fromkeys(("clear", "fill"), lambda call, base, target: UNKNOWN_V),
    # what one thread has of a tiled copy or product
    **dict.fromkeys(
        ("get_slice", "get_thread_slice", "get_thr_slice"), lambda call, base, target: base.with_(const=NOTHING)
    ),
    **dict.fromkeys(("partition_fragment_C", "make_fragment_C"), lambda call, base, target: accumulators(call)),
    **dict.fromkeys(
        ("partition_fragment_A", "partition_fragment_B"),
        lambda call, base, target: registers(call, call.arg(0).dtype, call.path),
    ),
    **dict.fromkeys(("with", "get_tma_tensor"), _tensor_behind),
    "map_shared_rank": lambda call, base, target: call.arg(0),
}


def accumulators(call: CppCall) -> V:
    """A new tensor in registers for sums in fp32."""
    return registers(call, "f32", "accumulators")


def registers(call: CppCall, dtype: str, name: str) -> V:
    """A new tensor in registers, with memory of its own for each place in the code that makes one."""
    cell = call.m.memory.cell((call.m.frame.key, call.loc), "local", name, dtype)
    return V(dtype, dtype, cells=frozenset((cell,)), ct=CType(dtype, name="cute::Tensor"))


def _spelled(kind: CType | None, depth: int = 0) -> str:
    """A type with its arguments: an atom's name stands in those of what is made of it."""
    if kind is None or depth > MAX_ARGUMENTS:
        return ""
    inner = [_spelled(part, depth + 1) for _, part in kind.args if isinstance(part, CType)]
    return f"{kind.name}<{', '.join(inner)}>" if inner else kind.name


def cute_gemm(call: CppCall) -> V:
    """Models `cute::gemm(tiled_mma, A, B, C)` and `gemm(tiled_mma, D, A, B, C)`; the operand types are part of the
    atom's name."""
    m = call.m
    atom = _spelled(call.arg(0).ct)
    found = _ATOM.search(atom)
    tensors = call.args[1:] if found or len(call.args) > 3 else call.args
    if len(tensors) == 4:
        tensors = [*tensors[1:3], tensors[0]]
    held = [m.memory.read_through(v, call.loc) if v.cells and not v.origins else v for v in tensors[:2]]
    a, b = (held + [UNKNOWN_V, UNKNOWN_V])[:2]
    a_type = dtypes.from_cpp(found["a"].lower() + "_t") if found else None
    sums = _SUMS.get(found["d"], "f32") if found else "f32"
    kind = "mma" if found else "cutlass"
    made = m.products.product(kind, a, b, sums, call.loc, a_dtype=a_type or "", b_dtype=a_type or "", opcode=atom)
    if len(tensors) > 2 and tensors[2].cells:
        m.memory.store(tensors[2], made, call.loc, raw=True)
    return made
