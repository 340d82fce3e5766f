"""Operations on whole numbers whose result is the same whatever a tensor holds, or whatever it holds up to a number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kbh_lint.base.dtypes import INTS
from kbh_lint.base.values import Value
from kbh_lint.host.values.tensors import Tensor

ALL = 1 << 64
_CLAMPS = frozenset(("clamp", "clip"))
_TIMES = frozenset(("mul", "multiply", "bitwise_and", "__and__"))


def _given(args: Sequence[Value], kwargs: Mapping[str, Value], at: int, name: str) -> int | None:
    value = args[at] if len(args) > at else kwargs.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _settled(name: str, args: Sequence[Value], kwargs: Mapping[str, Value]) -> bool:
    """Whether a tensor of whole numbers, the first argument, leaves nothing in the result: times zero, or between
    limits that leave one number."""
    if not args or not isinstance(args[0], Tensor) or args[0].dtype not in INTS:
        return False
    if name in _TIMES:
        return _given(args, kwargs, 1, "other") == 0
    if name in _CLAMPS:
        low, high = _given(args, kwargs, 1, "min"), _given(args, kwargs, 2, "max")
        return low is not None and high is not None and low >= high
    return False


def least(name: str, args: Sequence[Value], kwargs: Mapping[str, Value]) -> int | None:
    """Returns the bound below which all numbers give the same result as the bound itself; `ALL` where every number
    gives the same, None without a bound."""
    if _settled(name, args, kwargs):
        return ALL
    if name in _CLAMPS or name == "clamp_min":
        return _given(args, kwargs, 1, "min")
    return None
