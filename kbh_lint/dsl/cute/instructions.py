"""Matrix instructions of CuTe DSL by the names and element types that make them; on the host and in kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kbh_lint.base import dtypes
from kbh_lint.base.values import DType, Made
from kbh_lint.dsl.tensors import kinds

_OPCODES = (
    ("warpgroup", "wgmma.mma_async"), ("hopper", "wgmma.mma_async"), ("sm90", "wgmma.mma_async"),
    ("tcgen05", "tcgen05.mma"), ("blackwell", "tcgen05.mma"), ("sm100", "tcgen05.mma"), ("sm103", "tcgen05.mma"),
    (".warp.", "mma.sync"), ("ampere", "mma.sync"), ("sm120", "mma.sync"), ("sm80", "mma.sync"),
    ("cutlass.utils.make_", "tcgen05.mma"),
)  # fmt: skip
# Element types that the name of an instruction fixes: operands, accumulator.
_FIXED = {
    "MmaTF32Op": ("tf32", "f32"), "MmaMXF4Op": ("e2m1", "f32"), "MmaMXF4NVF4Op": ("e2m1", "f32"),
    "MmaSM120BlockScaledOp": ("?", "f32"),
}  # fmt: skip
_NAMED = ("a_dtype", "b_dtype", "acc_dtype", "ab_dtype", "abacc_dtype")
_BYTES_K = 32  # of one operand's row, for every tensor core instruction of Hopper and later


def is_instruction(path: str) -> bool:
    """Whether the function `path` makes a matrix instruction, as `warpgroup.MmaF8Op` and `make_trivial_tiled_mma`
    do."""
    name = path.rpartition(".")[2]
    return name.startswith("Mma") and name.endswith("Op") or name.startswith("make_") and name.endswith("_tiled_mma")


def instruction(path: str, types: Sequence[str], named: Mapping[str, str]) -> Made:
    """The matrix instruction that the function `path` makes from element types given by position (`types`) or keyword
    (`named`); "?" stands for an unknown type.

    Constructors take one type for both operands, or one for each, and the accumulator's type last if it is not fixed.
    """
    name = path.rpartition(".")[2]
    opcode = next((code for part, code in _OPCODES if part in path), "")
    listed = [t for t in types if t != "e8m0"]
    a = b = accumulator = "?"
    if name in _FIXED:
        (a, accumulator), b = _FIXED[name], _FIXED[name][0]
    elif len(listed) >= 3:
        a, b, accumulator = listed[:3]
    elif len(listed) == 2 and dtypes.BITS.get(listed[1], 0) < 16:  # no accumulator is so narrow
        a, b = listed
    elif len(listed) == 2:
        a = b = listed[0]
        accumulator = listed[1]
    elif listed:
        a = b = listed[0]
        accumulator = {"i8": "i32", "u8": "i32"}.get(a, a if name == "MmaUniversalOp" else "f32")
    a = named.get("a_dtype", named.get("ab_dtype", named.get("abacc_dtype", a)))
    b = named.get("b_dtype", named.get("ab_dtype", named.get("abacc_dtype", b)))
    accumulator = named.get("acc_dtype", named.get("abacc_dtype", accumulator))
    if "blockscaled" in name or "MXF" in name:
        accumulator = "f32"
        b = b if name in _FIXED else a
    kind = "fma" if name == "MmaUniversalOp" else "mma"
    return kinds.Mma(
        fields=(("kind", kind), ("a", a), ("b", b), ("accumulator", accumulator), ("opcode", opcode), ("k", depth(a))),
    )


def named_types(given: Mapping[str, object]) -> dict[str, str]:
    """The element types among the keyword arguments of a constructor, by keyword."""
    return {name: value.name for name, value in given.items() if isinstance(value, DType) and name in _NAMED}


def depth(dtype: str) -> int | None:
    """How many elements along K one tensor-core instruction on operands of type `dtype` multiplies; None where
    unknown."""
    bits = dtypes.BITS.get(dtype)
    return _BYTES_K * 8 // bits if bits else None
