"""What CUDA's conversions of numbers do, which say in their names what they convert to what."""

from __future__ import annotations

from kbh_lint.base import dtypes
from kbh_lint.kernels.core.joins import mix
from kbh_lint.kernels.core.value import CType, V
from kbh_lint.kernels.languages.cuda.places import CppCall
from kbh_lint.ops import conversions


def by_name(call: CppCall, name: str) -> V | None:
    """The result of the conversion function called `name`, such as `__half2float`; None for other functions."""
    found = conversions.named(name)
    if found is None:
        return None
    source, target, lanes = found.source, found.made, found.lanes
    if found.bits:
        return call.m.numbers.bitcast(call.arg(0), target, call.loc).with_(ct=None)
    value = mix(call.args[:2]) if name.startswith("__floats2") else call.arg(0)
    if found.read in dtypes.FP8 or "fp8" in found.target:
        kinds = " ".join(getattr(node, "id", getattr(node, "name", "")) for node in call.nodes)
        if source.startswith("fp8") and value.content not in dtypes.FP8:
            value = value.with_(content="e5m2" if "E5M2" in kinds else "e4m3", x=None)
        if "fp8" in found.target:
            target = "e5m2" if "E5M2" in kinds else "e4m3"
    made = call.m.numbers.convert(value, target, call.loc)
    if "fp8" in found.target:
        made = made.with_(dtype="u8" if lanes == 1 else "u16")
    return made.with_(ct=CType(target, lanes) if lanes > 1 else None)
