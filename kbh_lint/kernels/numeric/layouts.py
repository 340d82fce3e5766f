"""Structs as they lie in memory that launches hand on: numbers of one size, each in a cell of its own.

So a struct, a vector and single elements that mean the same bytes mean the same cells.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kbh_lint.base import dtypes, ir
from kbh_lint.base.values import UNKNOWN
from kbh_lint.cpp import layout
from kbh_lint.kernels.numeric.state import CType, Frame, Obj, Ptr, Reference

if TYPE_CHECKING:
    from kbh_lint.kernels.numeric.machine import Machine

MAX_DEPTH = 4
MAX_CELLS = 32
MAX_LANES = 4


def laid(m: Machine, kind: CType, depth: int = 0) -> CType:
    """`kind` with the memory cell of each field, if it is a struct of numbers that all have one size; `kind` itself
    otherwise."""
    if kind.kind != "struct" or kind.parts or depth > MAX_DEPTH:
        return kind
    key = m.types.key(kind)
    if key is None:
        return kind
    known = m.layouts.get(key)
    if known is None:
        m.layouts[key] = kind  # a struct that is in itself cannot be
        known = m.layouts[key] = _laid(m, kind, depth)
    return known


def _laid(m: Machine, kind: CType, depth: int) -> CType:
    made = m.types.classes.of(kind)
    whole = None if made is None or made.union or made.bases else layout.of_class(m.types, made)
    if made is None or whole is None:
        return kind
    unit, end = 0, 0
    parts: list[tuple[str, int, CType]] = []
    for member in made.fields:
        node = member.node
        if not isinstance(node, ir.Decl) or node.type is None or node.type.dims or node.type.reference:
            return kind
        scope = Frame([{}], member.owner.env, True, 0)
        inner = laid(m, m.ctypes.resolve(node.type, scope), depth + 1)
        size, multiple = bytes_of(inner), layout.measured(m.types, node.type, scope, aligned=True)
        if not size or multiple is None or size != (unit or size) or inner.lanes > MAX_LANES and not inner.parts:
            return kind
        unit = size
        at = -(-end // multiple) * multiple
        end = at + unit * inner.lanes
        parts.append((node.name, at // unit, inner))
    if not unit or whole[0] % unit or whole[0] // unit > MAX_CELLS:
        return kind
    return replace(kind, lanes=whole[0] // unit, parts=tuple(parts), unit=unit)


def bytes_of(kind: CType) -> int:
    """How many bytes a memory cell of type `kind` has; 0 for types that are no numbers."""
    return kind.unit or (dtypes.BITS.get(kind.dt, 0) // 8 if kind.kind in ("float", "int", "bool", "vec") else 0)


def part(ptr: Ptr, at: int, inner: CType) -> Ptr:
    """The place `at` cells behind `ptr`, as a pointer to the type `inner`."""
    return Ptr(ptr.mem, ptr.off + at if isinstance(ptr.off, int) else UNKNOWN, inner)


def in_place(ptr: Ptr) -> Obj:
    """The struct behind a pointer as an object whose fields refer to its cells in memory."""
    return Obj({name: Reference(part(ptr, at, inner)) for name, at, inner in ptr.type.parts}, ptr.type)
