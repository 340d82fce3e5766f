"""CUDA's conversions of numbers whose names say what they convert to what: read by patterns, not from rows."""

from __future__ import annotations

import re
from typing import NamedTuple

_NUMBER_NAMES = {  # how a name spells a type: the type and how many numbers of it
    "float": ("f32", 1), "float2": ("f32", 2), "double": ("f64", 1), "double2": ("f64", 2), "half": ("f16", 1),
    "half2": ("f16", 2), "bfloat16": ("bf16", 1), "bfloat162": ("bf16", 2), "int": ("i32", 1), "uint": ("u32", 1),
    "ll": ("i64", 1), "ull": ("u64", 1), "short": ("i16", 1), "ushort": ("u16", 1), "halfraw": ("f16", 1),
    "halfraw2": ("f16", 2), "halfraw2_rn": ("f16", 2), "bfloat16raw": ("bf16", 1), "bfloat16raw2": ("bf16", 2),
    "bfloat162raw": ("bf16", 2), "bf16raw": ("bf16", 1), "bf162raw": ("bf16", 2), "bf16": ("bf16", 1),
    "char": ("i8", 1), "uchar": ("u8", 1), "fp8": ("e4m3", 1), "fp8x2": ("e4m3", 2), "fp8x4": ("e4m3", 4),
    "e4m3": ("e4m3", 1), "e5m2": ("e5m2", 1), "e8m0": ("e8m0", 1), "e8m0x2": ("e8m0", 2), "fp4": ("e2m1", 1),
    "fp4x2": ("e2m1", 2),
}  # fmt: skip
_NAMES = "|".join(sorted(_NUMBER_NAMES, key=len, reverse=True))
_NUMERIC = re.compile(rf"__(?:nv_cvt_)?(?P<source>{_NAMES})s?(?:_to_|2)(?P<target>{_NAMES})(?:_(?:r[nzud]|rna|sat))*$")
_FROM_FLOATS = re.compile(r"__floats2(?P<target>half2|bfloat162)(?:_rn)?$")
_BIT_MOVE = re.compile(rf"__(?P<source>{_NAMES})_as_(?P<target>{_NAMES})$")


class Conversion(NamedTuple):
    """What a name says: the words of both types (`fp8x2` may be of either fp8 type), the types that they stand for, and
    how many numbers are made; `bits`: bits are read as another type and no number is converted."""

    source: str
    target: str
    read: str
    made: str
    lanes: int
    bits: bool = False


def named(name: str) -> Conversion | None:
    """`__float2bfloat16_rn`, `__nv_cvt_fp8x2_to_halfraw2`, `__uint_as_float`; None for other names."""
    if name.endswith("2float") and name.startswith(("__low", "__high")):
        return Conversion(name.removesuffix("2float").lstrip("_"), "float", "?", "f32", 1)
    moved = _BIT_MOVE.match(name)
    found = moved or _NUMERIC.match(name) or _FROM_FLOATS.match(name)
    if found is None:
        return None
    source = found.groupdict().get("source") or "float"
    made, lanes = _NUMBER_NAMES[found["target"]]
    return Conversion(source, found["target"], _NUMBER_NAMES[source][0], made, lanes, moved is not None)
