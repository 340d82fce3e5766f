"""CUDA's conversions of numbers, which say in their names what they convert to what."""

from __future__ import annotations

import re

from kbh_lint.base import dtypes
from kbh_lint.kernels.core.joins import mix
from kbh_lint.kernels.core.value import CType, V
from kbh_lint.kernels.languages.cuda.places import CppCall

_NUMBER_NAMES = {
    "float": ("f32", 1), "float2": ("f32", 2), "double": ("f64", 1), "half": ("f16", 1), "half2": ("f16", 2),
    "bfloat16": ("bf16", 1), "bfloat162": ("bf16", 2), "int": ("i32", 1), "uint": ("u32", 1), "ll": ("i64", 1),
    "ull": ("u64", 1), "short": ("i16", 1), "ushort": ("u16", 1), "halfraw": ("f16", 1), "halfraw2": ("f16", 2),
    "halfraw2_rn": ("f16", 2), "bfloat16raw": ("bf16", 1), "bfloat16raw2": ("bf16", 2), "bf16": ("bf16", 1),
    "char": ("i8", 1), "uchar": ("u8", 1), "fp8": ("e4m3", 1), "fp8x2": ("e4m3", 2), "fp8x4": ("e4m3", 4),
    "e4m3": ("e4m3", 1), "e5m2": ("e5m2", 1), "e8m0": ("e8m0", 1), "fp4": ("e2m1", 1), "fp4x2": ("e2m1", 2),
}  # fmt: skip


_NAMES = "|".join(sorted(_NUMBER_NAMES, key=len, reverse=True))


_NUMERIC = re.compile(rf"__(?:nv_cvt_)?(?P<source>{_NAMES})s?(?:_to_|2)(?P<target>{_NAMES})(?:_(?:r[nzud]|rna|sat))*$")


_FROM_FLOATS = re.compile(r"__floats2(?P<target>half2|bfloat162)(?:_rn)?$")


_BIT_MOVE = re.compile(rf"__(?P<source>{_NAMES})_as_(?P<target>{_NAMES})$")


def by_name(call: CppCall, name: str) -> V | None:
    """`__float2bfloat16_rn`, `__nv_cvt_fp8x2_to_halfraw2`, `__uint_as_float`; None for other names."""
    if name.endswith("2float") and name.startswith(("__low", "__high")):
        return call.m.numbers.convert(call.arg(0), "f32", call.loc).with_(ct=None)
    found = _BIT_MOVE.match(name)
    if found:
        return call.m.numbers.bitcast(call.arg(0), _NUMBER_NAMES[found["target"]][0], call.loc).with_(ct=None)
    found = _NUMERIC.match(name) or _FROM_FLOATS.match(name)
    if not found:
        return None
    target, lanes = _NUMBER_NAMES[found["target"]]
    source = found.groupdict().get("source") or "float"
    value = mix(call.args[:2]) if name.startswith("__floats2") else call.arg(0)
    if source.startswith(("fp8", "e4m3", "e5m2")) or "fp8" in found["target"]:
        kinds = " ".join(getattr(node, "id", getattr(node, "name", "")) for node in call.nodes)
        if source.startswith("fp8") and value.content not in dtypes.FP8:
            value = value.with_(content="e5m2" if "E5M2" in kinds else "e4m3", x=None)
        if "fp8" in found["target"]:
            target = "e5m2" if "E5M2" in kinds else "e4m3"
    made = call.m.numbers.convert(value, target, call.loc)
    if "fp8" in found["target"]:
        made = made.with_(dtype="u8" if lanes == 1 else "u16")
    return made.with_(ct=CType(target, lanes) if lanes > 1 else None)
