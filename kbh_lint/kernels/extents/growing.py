"""How what a kernel works out depends on offsets: not at all, growing with them, falling, or in any other way.

A number grows where it is no smaller for larger offsets, and a condition grows where it still holds for them.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum


class Unsure(Exception):
    """Raised where something depends on offsets in a way that is not known."""


class How(Enum):
    """How a value depends on offsets."""

    NOT = "not"
    MORE = "a number that grows"
    LESS = "a number that falls"
    HOLDS = "a condition that still holds for larger ones"
    FAILS = "a condition that may no longer hold"
    DATA = "numbers that are worked out where such a condition holds"
    FIRST = "the address of the first offset"
    PLACE = "the address of one of them"
    KNOWN = "the address of one that all legal offsets have in common"


POINTERS = (How.FIRST, How.PLACE, How.KNOWN)
CONDITIONS = (How.HOLDS, How.FAILS)
_TURNED = {How.MORE: How.LESS, How.LESS: How.MORE, How.HOLDS: How.FAILS, How.FAILS: How.HOLDS, How.NOT: How.NOT}


def turned(how: How) -> How:
    """How `-x` or `not x` depends on offsets if `x` depends on them as `how` says."""
    if how not in _TURNED:
        raise Unsure
    return _TURNED[how]


def together(ways: Iterable[How]) -> How:
    """How a value depends on offsets that is computed from values depending on them in these `ways` and grows with
    each: a sum, a maximum, a conjunction, or a choice by a test without offsets."""
    found = {how for how in ways if how is not How.NOT}
    if len(found) > 1:
        raise Unsure
    return found.pop() if found else How.NOT


def met(one: How, other: How) -> How:
    """How a variable depends on offsets behind a branch, given how it does on either path."""
    if one is other:
        return one
    if {one, other} & set(POINTERS):
        raise Unsure
    found = {one, other} - {How.NOT}
    return found.pop() if len(found) == 1 else How.DATA


def compared(op: str, left: How, right: How) -> How:
    """How the comparison `left op right` depends on offsets, given how its sides do."""
    if left is right is How.NOT:
        return How.NOT
    if {left, right} <= {How.NOT, How.DATA}:
        return How.DATA
    if op in (">", ">="):
        left, right = right, left
    elif op not in ("<", "<="):
        raise Unsure
    way = together((turned(left), right))  # `left < right` still holds for a larger right side
    if way not in (How.MORE, How.LESS):
        raise Unsure
    return How.HOLDS if way is How.MORE else How.FAILS


def under(around: How, test: How) -> How:
    """How the code under a condition `test` depends on offsets, inside code that depends on them as `around` says."""
    if test not in (How.NOT, *CONDITIONS):
        raise Unsure
    return How.FAILS if How.FAILS in (around, test) else How.HOLDS if How.HOLDS in (around, test) else How.NOT
