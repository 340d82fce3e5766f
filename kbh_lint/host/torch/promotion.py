"""Element types of what torch computes from several operands: the rules of torch.result_type."""

from __future__ import annotations

from collections.abc import Iterable

from kbh_lint.base.dtypes import FLOATS, UNKNOWN
from kbh_lint.base.values import Value
from kbh_lint.host.values.tensors import Tensor, promote

COMPLEX = frozenset({"c64", "c128"})


def is_whole(dtype: str) -> bool:
    """Whether values of this type are integers or booleans."""
    return dtype not in FLOATS and dtype not in COMPLEX and dtype != UNKNOWN


def of_number(value: object) -> str | None:
    """Returns the element type that torch gives a Python number; None for other values."""
    kinds: tuple[tuple[type, str], ...] = ((bool, "bool"), (int, "i64"), (float, "f32"), (complex, "c64"))
    return next((dtype for kind, dtype in kinds if isinstance(value, kind)), None)


def result_type(operands: Iterable[Value]) -> str:
    """Returns the element type of an operation on tensors and numbers. Tensors with dimensions decide, then those
    without, then numbers; a later class counts only where its kind is higher (a float beside integers)."""
    dims: str | None = None
    zeros: str | None = None
    numbers: str | None = None
    for value in operands:
        if isinstance(value, Tensor):
            if value.shape == ():
                zeros = _joined(zeros, value.dtype)
            else:
                dims = _joined(dims, value.dtype)
        elif value is not None and not isinstance(value, str):
            numbers = _joined(numbers, of_number(value) or UNKNOWN)
    return _classes(dims, _classes(zeros, numbers)) or UNKNOWN


def _joined(one: str | None, other: str) -> str:
    return other if one is None else UNKNOWN if UNKNOWN in (one, other) else promote(one, other)


def _classes(high: str | None, low: str | None) -> str | None:
    """The type of a class of operands beside a lower one."""
    if high is None or low is None:
        return high or low
    if high in COMPLEX or high in FLOATS:
        return "c128" if low in COMPLEX and high == "f64" else "c64" if low in COMPLEX and high in FLOATS else high
    if UNKNOWN in (high, low):
        return UNKNOWN
    if high == "bool" or low in FLOATS or low in COMPLEX:
        return promote(high, low)
    return high
