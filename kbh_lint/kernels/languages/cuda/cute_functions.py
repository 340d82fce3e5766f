"""What the functions of CuTe do in kernels written in C++: tensors over places, copies of tiles, numbers of layouts."""

from __future__ import annotations

from kbh_lint.base import values
from kbh_lint.kernels.core.joins import mix, tuple_of
from kbh_lint.kernels.core.value import NOTHING, UNKNOWN_V, CType, V
from kbh_lint.kernels.languages.cuda import spaces
from kbh_lint.kernels.languages.cuda.libraries import accumulators, registers
from kbh_lint.kernels.languages.cuda.places import Builtin, CppCall
from kbh_lint.kernels.languages.ptx.ptx import copy_bytes


def _nothing(call: CppCall) -> V:
    return UNKNOWN_V


def _tensor(call: CppCall) -> V:
    """A tensor of CuTe that holds nothing yet, or places."""
    return V(ct=CType(name="cute::Tensor"))


def _tensor_over(call: CppCall) -> V:
    """make_tensor(pointer, layout): calls of it are elements and slices."""
    there = call.arg(0)
    if not there.cells and call.explicit:  # make_tensor<T>(layout): in registers
        return registers(call, call.m.types.type_argument(call.explicit[0]).dtype, "registers")
    return there.with_(ct=CType(there.dtype, name="cute::Tensor")) if there.cells else there


def _tile_copy(call: CppCall) -> V:
    """cute::copy(source, target), also with what copies in front; registers for a tile are where the tile is."""
    source, target = ([UNKNOWN_V, UNKNOWN_V] + call.args)[-2:]
    if source.cells and target.cells and source.cells != target.cells:
        copy_bytes(call.m, target, source, call.loc)
    return UNKNOWN_V


def _for_each(call: CppCall) -> V:
    """cute::for_each(sequence, f): `f` of each number of a sequence, or part of a tuple, in turn."""
    m, func, given = call.m, call.arg(1).const, call.arg(0)
    if not isinstance(func, values.Func):
        m.facts.unread("a call of for_each with a function that is not known", call.loc)
        return m.memory.havoc(call.args, "?", call.loc)
    item = mix(list(given.x)) if isinstance(given.x, tuple) and given.x else given.with_(const=NOTHING)

    def turn() -> None:
        m.calls.call_overloads([func], [item], (), [None], call.loc)

    m.statements.control.looped(turn)
    return UNKNOWN_V


def _axpby(call: CppCall) -> V:
    """axpby(alpha, x, beta, y): y = alpha x + beta y, where nothing of y is left of a beta that is zero."""
    alpha, source, beta, target = ([UNKNOWN_V] * 4 + call.args)[-4:]
    if source.cells and target.cells:
        parts = [call.m.memory.read_through(source, call.loc), alpha]
        if beta.const != 0:
            parts += [beta, call.m.memory.read_through(target, call.loc)]
        call.m.memory.write_through(target, mix(parts).with_(ct=None, const=NOTHING), call.loc)
    return UNKNOWN_V


def _tma_partition(call: CppCall) -> V:
    """tma_partition(atom, coordinate, layout, shared, global): the parts of the global and of the shared tensor."""
    return tuple_of([call.args[-1], call.args[-2]]) if len(call.args) > 2 else UNKNOWN_V


def _coordinate(call: CppCall) -> V:
    return mix(call.args) if call.args else UNKNOWN_V


_LAYOUTS = (
    "make_shape make_stride make_layout make_coord make_tile tile_to_shape clear size rank cosize ceil_div round_up "
    "composition make_ordered_layout select take shape stride layout congruent is_static make_tiled_copy "
    "make_tiled_copy_A make_tiled_copy_B make_tiled_copy_C make_cotiled_copy cp_async_fence cp_async_wait "
    "elem_less fill make_cute_packed_stride cutlass::make_cute_packed_stride"
)


_VIEWS = "group_modes coalesce flatten filter filter_zeros tensor as_position_independent_swizzle_tensor"


_CUTE: dict[str, Builtin] = {  # functions of CuTe, which kernels call by these names alone
    **dict.fromkeys(_LAYOUTS.split(), _nothing), "make_identity_tensor": _tensor, "partition_fragment_C": accumulators,
    "make_fragment_like": accumulators, "copy": _tile_copy, "get": _coordinate, "make_tensor": _tensor_over,
    "axpby": _axpby, "tma_partition": _tma_partition, "make_tensor_like": accumulators,
    "make_tiled_mma": lambda call: V(ct=call.arg(0).ct),
    **dict.fromkeys(_VIEWS.split(), lambda call: call.arg(0)), "domain_offset": lambda call: call.arg(1),
    "copy_if": _tile_copy, "copy_aligned": _tile_copy, "for_each": _for_each,
}  # fmt: skip


_ORDINARY = frozenset(
    "select take shape stride layout fill filter flatten coalesce tensor ceil_div round_up composition copy_if axpby "
    "copy_aligned congruent domain_offset for_each".split()
)


def of_cute(call: CppCall) -> Builtin | None:
    """The handler of a function of CuTe; None for other functions. A name that is also an ordinary word counts only
    where the namespace `cute` is in use or an argument is a CuTe tensor."""
    short = call.path.removeprefix("cute::")
    handler = _CUTE.get(short)
    if handler is None or short != call.path or short not in _ORDINARY:
        return handler
    used = {*call.m.types.directives, *spaces.used(call.m.frame.outer)}
    given = any(arg.ct is not None and arg.ct.name == "cute::Tensor" for arg in call.args)
    return handler if "cute" in used or given else None
