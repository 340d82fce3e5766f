"""Arguments of a launch as an evaluated kernel holds them: tensors as memory, structs by fields."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kbh_lint.base import dtypes, ir, values
from kbh_lint.base.values import UNKNOWN, Buffer, Value
from kbh_lint.kernels.numeric import ctypes, layouts, ops
from kbh_lint.kernels.numeric.state import MODES, OTHER, Chained, CType, Frame, Memory, Obj, Ptr

if TYPE_CHECKING:
    from kbh_lint.kernels.numeric.machine import Machine


def parameter(m: Machine, name: str, ref: object, value: object, frame: Frame) -> Value:
    """A kernel argument as this evaluation holds it: a tensor as a pointer to memory, a struct by its fields."""
    if isinstance(value, Buffer):
        kind = ctypes.scalar(value.dtype)
        if isinstance(ref, ir.TypeRef):
            seen = m.ctypes.resolve(ir.TypeRef(ref.name, ref.args, ref.loc, ref.member), frame)
            kind = kind if seen is OTHER else layouts.laid(m, seen)
        shared = m.tensors.get(value.storage)
        made = Ptr(Memory(name, "param", kind), 0, kind) if shared is None else _handed(m, name, shared, kind)
        made.rest = _accessed(m, ref, frame)
        return made
    if isinstance(value, values.Descriptor):
        kind = ctypes.scalar(value.dtype)
        return Ptr(m.tensors.get(value.storage) or Memory(name, "param", kind), UNKNOWN, kind)
    if isinstance(value, tuple | list):
        return tuple(parameter(m, f"{name}.{i}", None, v, frame) for i, v in enumerate(value))
    value = _number(m, value)
    if isinstance(ref, ir.TypeRef):
        kind = m.ctypes.resolve(ref, frame)
        if kind.kind == "pointer" and value is None:
            return None
        if kind.kind == "pointer" and not isinstance(value, Ptr):
            inner = layouts.laid(m, kind.inner or OTHER)
            return Ptr(Memory(name, "param", inner), 0, inner)
        if kind.kind == "struct" and (value is UNKNOWN or isinstance(value, values.StructArg)):
            return _parameters(m, name, kind, value.fields if isinstance(value, values.StructArg) else ())
        return m.ctypes.convert(value, kind)
    return value


def _number(m: Machine, value: object) -> Value:
    """A number of the host, as the type that it was given."""
    if isinstance(value, values.Scalar) and value.dtype in dtypes.FLOATS and isinstance(value.value, float):
        return m.ctypes.convert(value.value, ctypes.scalar(value.dtype))
    return ops.wrapped(value)


def _accessed(m: Machine, ref: object, frame: Frame) -> tuple[int, ...]:
    """The dimensions of torch's accessor of a tensor, which are indexed one by one; none for a pointer."""
    if not isinstance(ref, ir.TypeRef) or not ref.name.rstrip("3264").endswith("TensorAccessor") or len(ref.args) < 2:
        return ()
    rank = m.ctypes.template_argument(ref.args[1], frame)
    return (ctypes.ROW,) * rank if isinstance(rank, int) and 0 < rank <= 8 else ()


def _handed(m: Machine, name: str, shared: Chained, kind: CType) -> Ptr:
    """A tensor that another launch uses too: its cells are counted alike in both, or what is read there is doubtful."""
    size = kind.unit or dtypes.BITS.get(kind.dt, 0) // 8
    unit = size or (kind.struct.node if kind.kind == "struct" else kind.kind)
    start = m.starts.get(name)
    at = start // size if start is not None and size and start % size == 0 else start if start == 0 else UNKNOWN
    shared.doubtful = shared.doubtful or at is UNKNOWN or shared.unit not in (None, unit)
    shared.unit = unit
    shared.doubtful = shared.doubtful or shared.puts > 0 and bool(shared.modes) != m.dialect.elements
    shared.modes = MODES if m.dialect.elements else ()
    return Ptr(shared, shared.at(at) if isinstance(at, int) else at, kind)


def _parameters(m: Machine, name: str, kind: CType, given: Iterable[tuple[str, Any]] = (), depth: int = 0) -> Any:
    """A struct of kernel parameters: its pointers point to what they are `given`, or to memory of their own."""
    made = m.ctypes.zero(kind)
    if not isinstance(made, Obj) or depth > ctypes.MAX_DEPTH:
        return made
    for member in m.types.classes.fields(kind):
        stmt = member.node
        if not isinstance(stmt, ir.Decl) or stmt.type is None or stmt.name not in made.fields:
            continue
        frame = Frame([{}], member.owner.env, True, 0)
        path = f"{name}.{stmt.name}"
        held = m.ctypes.resolve(stmt.type, frame)
        value = dict(given).get(stmt.name, UNKNOWN)
        array = made.fields[stmt.name]
        if stmt.type.dims:
            for i, item in enumerate(value if isinstance(value, tuple) and isinstance(array, Ptr) else ()):
                array.mem.put(i, parameter(m, f"{path}.{i}", replace(stmt.type, dims=()), item, frame))
            continue
        if held.kind == "struct":
            inside = value.fields if isinstance(value, values.StructArg) else ()
            made.fields[stmt.name] = _parameters(m, path, held, inside, depth + 1)
        elif value is not UNKNOWN:
            made.fields[stmt.name] = parameter(m, path, stmt.type, value, frame)
        elif held.kind == "pointer":
            inner = layouts.laid(m, held.inner or OTHER)
            made.fields[stmt.name] = Ptr(Memory(path, "param", inner), 0, inner)
        elif held.kind == "float":
            made.fields[stmt.name] = m.ctypes.convert(UNKNOWN, held)
    return made
