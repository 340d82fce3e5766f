"""How large types of C++ are, and where they may lie: numbers, packed vectors, pointers, arrays of these."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from kbh_lint.base import dtypes, ir
from kbh_lint.cpp.domain import Domain, Scope, Type

POINTER = 8  # bytes
MOST_ALIGNED = 16  # bytes; CUDA's vectors of 32 bytes are two of 16


def size(kind: Type) -> int | None:
    """The bytes of a value of a type, where the language or CUDA's headers say it; not of classes of the text."""
    if kind.pointers:
        return POINTER
    bits = dtypes.BITS.get(kind.base) if isinstance(kind.base, str) else None
    return None if bits is None else max(bits // 8, 1) * kind.lanes


def alignment(kind: Type) -> int | None:
    """What the address of a value of a type is a multiple of."""
    whole = size(kind)
    if whole is None or kind.pointers or not whole & (whole - 1):
        return whole if whole is None else min(whole, MOST_ALIGNED)
    return whole // kind.lanes  # three lanes lie as their numbers do


def measured(domain: Domain, ref: ir.TypeRef, scope: Scope, *, aligned: bool = False) -> int | None:
    """`sizeof(T)`, or `alignof(T)`, of a type as it is written; None where that is not known."""
    if ref.pointers and ref.dims:
        return None  # an array of pointers, or a pointer to an array
    kind = domain.named(replace(ref, dims=()), scope)
    key = None if kind is None else domain.key(kind)
    one = (alignment if aligned else size)(key) if isinstance(key, Type) else None
    counts = [] if aligned else [domain.argument(dim, "value", scope) for dim in ref.dims]
    keys = [None if count is None else domain.key(count) for count in counts]
    known = [count for count in keys if isinstance(count, int)]
    return one * prod(known) if one is not None and len(known) == len(keys) else None
