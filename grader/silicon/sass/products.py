"""The matrix instructions of NVIDIA's chips: what each form multiplies, read from its modifiers.

The forms are those that ptxas writes for every `mma`, `wgmma` and `tcgen05.mma` of PTX 9.0 on sm_80 to sm_120a, and
those that the disassembler itself can name. The fifth generation (`UTC*MMA`, sm_100) takes its element types from a
descriptor in a register, so its opcode names a class of types and no more.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from kbh_lint.base import dtypes

__all__ = ["Product", "read_product"]


@dataclass(frozen=True, slots=True)
class Product:
    """One form: `a` and `b` are operand types, or a class of types where a descriptor holds them; `shape` is M, N, K as
    the instruction writes it, empty where a descriptor holds it; `accumulator` likewise."""

    family: str
    shape: str
    a: str
    b: str
    accumulator: str
    sparse: bool = False
    scaled: bool = False

    @property
    def types(self) -> frozenset[str]:
        """The operand types."""
        return frozenset({self.a, self.b})

    def may_be_of(self, types: frozenset[str]) -> bool:
        """Whether both operands are of some of these types, as far as the form tells."""
        return self.types <= types or self.a == self.b and bool(_BY_DESCRIPTOR.get(self.a, frozenset()) & types)


_FLOAT8 = "E4M3|E5M2|E3M2|E2M3|E2M1"
_INT = "[SU][84]"
_SPARSE = r"(?P<sp>SP\.(?:REGOFFSET\.)?)?"
_GROUP = r"\d{2,3}x\d{1,3}x\d{1,3}"  # wgmma's shapes are written with an x
# `a` and `b` name operand types; `both` one type for the two; `acc` the accumulator.
_FORMS: Mapping[str, re.Pattern[str]] = {
    family: re.compile(pattern)
    for family, pattern in {
        "HMMA": rf"{_SPARSE}(?P<shape>884|1684|1688|16816|16832)\.(?P<acc>F16|F32)"
        r"(?:\.(?P<both>BF16|TF32))?",
        "IMMA": rf"{_SPARSE}(?P<shape>8816|8832|16816|16832|16864|168128)\.(?P<a>{_INT})"
        rf"\.(?P<b>{_INT})(?:\.SAT)?",
        "DMMA": r"(?P<shape>884|8x8x4|16x8x4|16x8x8|16x8x16)(?:\.R[MPZ])?",
        "BMMA": r"(?P<shape>88128|168128|168256)\.(?:XOR|AND)\.POPC",
        "QMMA": rf"(?P<sf>SF\.)?{_SPARSE}(?P<shape>16816|16832|16864)\.(?P<acc>F16|F32)"
        rf"\.(?P<a>{_FLOAT8})\.(?P<b>{_FLOAT8})(?:\.E8)?",
        "OMMA": rf"(?P<sf>SF)\.{_SPARSE}(?P<shape>16864|168128)\.(?P<acc>F32)"
        r"\.(?P<a>E2M1|E0M3)\.(?P<b>E2M1|E0M3)\.(?:E8|UE4M3)(?:\.4X)?",
        "HGMMA": rf"{_SPARSE}(?P<shape>{_GROUP})\.(?P<acc>F16|F32)(?:\.(?P<both>BF16|TF32))?",
        "QGMMA": rf"{_SPARSE}(?P<shape>{_GROUP})\.(?P<acc>F16|F32)\.(?P<a>E4M3|E5M2)\.(?P<b>E4M3|E5M2)",
        "IGMMA": rf"{_SPARSE}(?P<shape>{_GROUP})\.(?P<a>[SU]8)\.(?P<b>[SU]8)(?:\.SAT)?",
        "BGMMA": rf"(?P<shape>{_GROUP})\.AND\.POPC",
        "UTCHMMA": r"(?:2CTA|WS|ASHIFT)?(?:\.WS|\.ASHIFT)*",
        "UTCIMMA": r"(?:2CTA|WS|ASHIFT)?(?:\.WS|\.ASHIFT)*",
        "UTCQMMA": r"(?:2CTA|WS|ASHIFT)?(?:\.WS|\.ASHIFT)*",
        "UTCOMMA": r"(?:2CTA)?(?:(?:^|\.)4X)?",
    }.items()
}
_BOTH: Mapping[str, str] = {
    "HMMA": "f16", "HGMMA": "f16", "DMMA": "f64", "BMMA": "b1", "BGMMA": "b1",
    "UTCHMMA": "f16|bf16|tf32", "UTCIMMA": "i8", "UTCQMMA": "f8f6f4", "UTCOMMA": "f4",
}  # fmt: skip
# What a class of types stands for, of those that a product may be promised in.
_BY_DESCRIPTOR: Mapping[str, frozenset[str]] = {
    "f8f6f4": dtypes.group("fp8") | dtypes.group("fp6") | dtypes.group("fp4"),
    "f4": dtypes.group("fp4"),
}
_ACCUMULATOR: Mapping[str, str] = {"DMMA": "f64", "IMMA": "s32", "BMMA": "s32", "IGMMA": "s32", "BGMMA": "s32"}


def read_product(opcode: str) -> Product | None:
    """What a matrix instruction multiplies; None for a form that is not known."""
    family, _, modifiers = opcode.partition(".")
    form = _FORMS.get(family)
    match = form.fullmatch(modifiers) if form is not None else None
    if match is None:
        return None
    found = match.groupdict()
    both = (found.get("both") or _BOTH.get(family, "")).lower() if "a" not in found else ""
    return Product(
        family,
        found.get("shape") or "",
        (found.get("a") or both).lower(),
        (found.get("b") or both).lower(),
        (found.get("acc") or _ACCUMULATOR.get(family, "")).lower(),
        bool(found.get("sp")),
        bool(found.get("sf")),
    )
