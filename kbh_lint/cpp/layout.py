"""How large types of C++ are, and where they may lie: numbers, packed vectors, pointers, classes, arrays of these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from kbh_lint.base import dtypes, ir
from kbh_lint.cpp.domain import Bound, Domain, Scope, Type
from kbh_lint.cpp.members import Class, Member

POINTER = 8  # bytes
MAX_DEPTH = 8  # classes in one another
MOST_ALIGNED = 16  # bytes; CUDA's vectors of 32 bytes are two of 16


def size(kind: Type) -> int | None:
    """The size in bytes of a pointer, a number or a packed vector type; None for classes of the text."""
    if kind.pointers:
        return POINTER
    bits = dtypes.BITS.get(kind.base) if isinstance(kind.base, str) else None
    return None if bits is None else max(bits // 8, 1) * kind.lanes


def alignment(kind: Type) -> int | None:
    """The alignment in bytes of a pointer, a number or a packed vector type; None for classes of the text."""
    whole = size(kind)
    if whole is None or kind.pointers or not whole & (whole - 1):
        return whole if whole is None else min(whole, MOST_ALIGNED)
    return whole // kind.lanes  # three lanes lie as their numbers do


def array(one: int | None, sizes: Sequence[int | None]) -> int | None:
    """The size in bytes of an array with dimensions `sizes`, whose elements have `one` byte each; None where
    unknown."""
    known = [size for size in sizes if size is not None]
    return one * prod(known) if one is not None and known and len(known) == len(sizes) else None


def measured(domain: Domain, ref: ir.TypeRef, scope: Scope, *, aligned: bool = False, depth: int = 0) -> int | None:
    """The value of `sizeof(T)` or, if `aligned`, `alignof(T)`, for a type in the source; None where unknown."""
    if ref.pointers and ref.dims:
        return None  # an array of pointers, or a pointer to an array
    kind = domain.named(replace(ref, dims=()), scope)
    inside = () if kind is None or ref.pointers else domain.extents(kind)  # of an alias of an array
    kind = domain.pointed(kind, len(inside)) if inside else kind
    key = None if kind is None else domain.key(kind)
    one = (alignment if aligned else size)(key) if isinstance(key, Type) else None
    if isinstance(key, Type) and isinstance(key.base, int) and not key.pointers:
        made = domain.classes.of(kind)
        found = None if made is None or depth > MAX_DEPTH else of_class(domain, made, depth + 1)
        one = None if found is None else found[aligned]
    counts = [] if aligned else [domain.argument(dim, "value", scope) for dim in ref.dims]
    keys = [None if count is None else domain.key(count) for count in counts] + [*(() if aligned else inside)]
    known = [count for count in keys if isinstance(count, int)]
    return one * prod(known) if one is not None and len(known) == len(keys) else None


def of_class(domain: Domain, made: Class, depth: int = 0) -> tuple[int, int] | None:
    """The size and the alignment in bytes of a class of the text; None where unknown: with virtual functions, bit
    fields, or fields that may lie in the padding of a base."""
    asked = [
        _asked(word.value) for name, word in made.node.keywords if name == "aligned" and isinstance(word, ir.Const)
    ]
    methods = [func.node for member in made.members.values() for func in member.funcs]
    if None in asked or made.parts or any("virtual" in method.attributes for method in methods):
        return None
    end, widest = 0, max([1, *(n for n in asked if n is not None)])
    parts = [_of_base(domain, base, depth) for base in made.bases]
    for part in [*parts, *(_of_field(domain, one, depth) for one in made.own)]:
        if part is None:
            return None
        bytes_, multiple = part
        start = 0 if made.union else -(-end // multiple) * multiple
        end, widest = max(end, start + bytes_) if made.union else start + bytes_, max(widest, multiple)
    return max(-(-end // widest) * widest, 1 if not asked else widest), widest


def _asked(word: object) -> int | None:
    """The number in `alignas(16)`."""
    number = str(word).partition("(")[2].rpartition(")")[0].strip()
    return int(number) if number.isdigit() else None


def _of_base(domain: Domain, kind: Bound, depth: int) -> tuple[int, int] | None:
    """What a base takes: nothing where it is empty; one that ends in padding may have a field of the derived class
    there."""
    made = domain.classes.of(kind)
    if made is None or depth > MAX_DEPTH:
        return None
    found = of_class(domain, made, depth + 1)
    if found is None or not made.fields:
        return found if found is None else (0, 1)
    last = _of_field(domain, made.fields[-1], depth + 1)
    tight = last is not None and last[1] == found[1]
    return found if tight else None


def _of_field(domain: Domain, member: Member, depth: int) -> tuple[int, int] | None:
    node = member.node
    if not isinstance(node, ir.Decl) or node.type is None or node.bits is not None or depth > MAX_DEPTH:
        return None
    if any("align" in word for word in node.storage):
        return None
    if node.type.reference:
        return POINTER, POINTER
    scope = domain.scope(member.owner.env, {})
    bytes_ = measured(domain, node.type, scope, depth=depth)
    multiple = measured(domain, node.type, scope, aligned=True, depth=depth)
    return None if bytes_ is None or multiple is None else (bytes_, multiple)
