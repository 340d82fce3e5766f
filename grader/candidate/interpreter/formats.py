"""bf16 and fp8 on a machine without them: values are carried as fp32 that lie on the narrow type's grid.

Rounding is to nearest even, as the GPU's conversions round. Conversions to fp8 saturate (`cvt.rn.satfinite`), those to
bf16 overflow to infinity; NaN stays NaN in both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["BF16", "E4M3", "E5M2", "NARROW", "Array", "Narrow", "truncate_tf32"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Narrow:
    """A narrow floating-point format: its Triton name, fraction bits, least exponent, largest value, stored bytes."""

    name: str
    fraction: int
    least: int
    largest: float
    storage: type[np.unsignedinteger[Any]]
    saturates: bool

    def round(self, values: Array) -> Array:
        """The nearest values of the format, ties to even, as fp32."""
        if self.name == "bf16" and values.dtype == np.float32:
            return _round_bf16(values)
        wide = values.astype(np.float64)
        exponent = np.frexp(wide)[1] - 1
        step = np.ldexp(1.0, np.maximum(exponent, self.least) - self.fraction)
        rounded = np.rint(wide / step) * step
        rounded = np.where(np.isfinite(wide), rounded, wide)
        limit = self.largest if self.saturates else np.inf
        over = np.abs(rounded) > self.largest
        result: Array = np.where(over, np.copysign(limit, rounded), rounded).astype(np.float32)
        return result

    def truncate(self, values: Array) -> Array:
        """The nearest values of the format towards zero, as fp32; finite values stay finite."""
        wide = values.astype(np.float64)
        exponent = np.frexp(wide)[1] - 1
        step = np.ldexp(1.0, np.maximum(exponent, self.least) - self.fraction)
        cut = np.clip(np.trunc(wide / step) * step, -self.largest, self.largest)
        result: Array = np.where(np.isfinite(wide), cut, wide).astype(np.float32)
        return result

    def decode(self, stored: Array) -> Array:
        """The fp32 values of stored bits."""
        if self.name == "bf16":
            return (stored.astype(np.uint32) << np.uint32(16)).view(np.float32)
        table: Array = _TABLES[self.name]
        return table[stored]

    def encode(self, values: Array) -> Array:
        """fp32 on the grid -> stored bits. The sign of zero is kept; every NaN becomes one quiet NaN."""
        values = np.ascontiguousarray(values, dtype=np.float32)
        bits = values.view(np.uint32)
        if self.name == "bf16":
            nan = np.isnan(values)
            return np.where(nan, 0x7FC0, bits >> np.uint32(16)).astype(np.uint16)
        magnitude = np.abs(values)
        with np.errstate(invalid="ignore"):
            small = np.rint(magnitude * 2.0 ** (self.fraction - self.least))
            normal = ((bits & np.uint32(0x7FFFFFFF)) >> np.uint32(23 - self.fraction)).astype(np.int64)
            shifted = normal - ((126 + self.least) << self.fraction)
            code = np.where(magnitude < 2.0**self.least, np.nan_to_num(small), shifted).astype(np.int64)
        code = np.where(np.isinf(values), 0x7C, code)  # only e5m2 has an infinity
        code = np.where(np.isnan(values), 0x7F, code)
        return (code | (np.signbit(values).astype(np.int64) << 7)).astype(np.uint8)


def _round_bf16(values: Array) -> Array:
    """The bits of an fp32 rounded at the 16th; one pass over integers, since this runs after every operation."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    carried = bits + (((bits >> np.uint32(16)) & np.uint32(1)) + np.uint32(0x7FFF))
    rounded = (carried & np.uint32(0xFFFF0000)).view(np.float32)
    nan = np.isnan(values)
    if nan.any():
        rounded = np.where(nan, np.float32(np.nan), rounded)
    return rounded


def truncate_tf32(values: Array) -> Array:
    """fp32 with the low 13 bits cleared: what a tensor core reads of an fp32 operand of a tf32 product."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return (bits & np.uint32(0xFFFFE000)).view(np.float32)


BF16 = Narrow("bf16", 7, -126, 3.3895313892515355e38, np.uint16, saturates=False)
E4M3 = Narrow("fp8e4nv", 3, -6, 448.0, np.uint8, saturates=True)
E5M2 = Narrow("fp8e5", 2, -14, 57344.0, np.uint8, saturates=True)
NARROW = {form.name: form for form in (BF16, E4M3, E5M2)}
"""The formats by the name of their Triton type. Other fp8 types are not carried: NVIDIA's GPUs do not have them."""


def _table(form: Narrow) -> Array:
    """All 256 values of an fp8 format by their bits, from the definition of the format."""
    code = np.arange(256)
    fraction = code & ((1 << form.fraction) - 1)
    exponent = (code & 0x7F) >> form.fraction
    value = np.where(
        exponent == 0,
        fraction * 2.0 ** (form.least - form.fraction),
        (1 + fraction / (1 << form.fraction)) * 2.0 ** (exponent + form.least - 1.0),
    )
    if form.name == "fp8e4nv":
        value[(code & 0x7F) == 0x7F] = np.nan
    else:
        value[(code & 0x7F) == 0x7C] = np.inf
        value[(code & 0x7F) > 0x7C] = np.nan
    return np.where(code & 0x80, -value, value).astype(np.float32)


_TABLES = {"fp8e4nv": _table(E4M3), "fp8e5": _table(E5M2)}
