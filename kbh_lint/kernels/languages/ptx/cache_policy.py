"""What a kernel asks of the L2 cache: policies of PTX, hints of single accesses, properties of libcu++.

A policy is an opaque number that an access is given (`.L2::cache_hint`). Where both sides of a branch make one, it
keeps data only when both do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbh_lint.base import ir
from kbh_lint.frontends import ptx
from kbh_lint.kernels.core.value import KEEPS, LETS_GO, CType, V

if TYPE_CHECKING:
    from kbh_lint.kernels.core.run import Run
    from kbh_lint.kernels.languages.ptx.ptx_products import Registers

LAST = "L2::evict_last"
ENCODED_LAST = 0x14F0_0000_0000_0000  # what createpolicy gives for evict_last: CacheHintSm90 of CUTLASS spells it out
ANNOTATED = ("annotated_ptr",)
PERSISTING = "access_property::persisting"


def create(r: Registers, instr: ptx.Instr) -> None:
    """Executes PTX `createpolicy`, as `createpolicy.fractional.L2::evict_last.b64 policy, 1.0`: the result keeps data
    if the first priority, that of hits, is evict_last."""
    first = next((m for m in instr.modifiers if m.startswith("L2::")), "")
    if instr.operands:
        r.write(instr.operands[0], V("u64", "u64", x=KEEPS if first == LAST else LETS_GO))


def hinted(r: Registers, instr: ptx.Instr) -> bool:
    """Whether a PTX memory access asks the L2 cache to keep its data, by a modifier of its own or by its policy
    operand."""
    if LAST in instr.modifiers:
        return True
    if "L2::cache_hint" not in instr.modifiers or not instr.operands:
        return False
    policy = r.read(instr.operands[-1])
    return policy.x is KEEPS or policy.const == ENCODED_LAST


def prefetch(r: Registers, instr: ptx.Instr) -> None:
    """Executes PTX `prefetch`, as `prefetch.global.L2::evict_last [address]`: records that the cache is asked to keep
    the data."""
    if LAST in instr.modifiers and instr.operands:
        r.m.facts.add_hint(r.read(instr.operands[0]), r.loc)


def constructed(m: Run, ct: CType, items: list[V], loc: ir.Loc) -> None:
    """Records the construction of a libcu++ object: a pointer annotated with a persisting access property asks the
    cache to keep its data."""
    if ct.name.rpartition("::")[2] in ANNOTATED and (_persists(ct) or any(_persists(v.ct) for v in items)):
        for value in items:
            m.facts.add_hint(value, loc)


def property_given(m: Run, args: list[V], loc: ir.Loc) -> V:
    """Models `cuda::associate_access_property(pointer, property)` and `cuda::apply_access_property(pointer, size,
    property)`; returns the pointer."""
    if args and any(_persists(v.ct) or isinstance(v.const, CType) and _persists(v.const) for v in args[1:]):
        m.facts.add_hint(args[0], loc)
    return args[0] if args else V()


def _persists(ct: object) -> bool:
    """Whether a type is the persisting property, or is made with it."""
    if not isinstance(ct, CType):
        return False
    return ct.name.endswith(PERSISTING) or any(_persists(inner) for _, inner in ct.args)
