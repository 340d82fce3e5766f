"""What torch reads from the arguments of an operation: tensors, element types, devices and sizes."""

from __future__ import annotations

from collections.abc import Sequence

from kbh_lint.base.values import DType, Value
from kbh_lint.host.values.named_objects import Device
from kbh_lint.host.values.tensors import Tensor

_HOLDERS = (list, tuple, dict)


def tensors_in(values: Value, depth: int = 0) -> list[Tensor]:
    """Returns the tensors among arguments, also inside lists, tuples and dicts."""
    if isinstance(values, Tensor):
        return [values]
    found: list[Tensor] = []
    if isinstance(values, dict):
        values = list(values.values())
    if isinstance(values, (list, tuple)) and depth < 4:
        for value in values:
            if isinstance(value, Tensor):
                found.append(value)
            elif isinstance(value, _HOLDERS):
                found.extend(tensors_in(value, depth + 1))
    return found


def dtype_of(value: Value, default: str) -> str:
    """Returns the element type in a dtype argument; `default` for other values."""
    return value.name if isinstance(value, DType) else default


def device_of(value: Value, default: str = "cuda") -> str:
    """Returns `cpu` or `cuda` for a device argument; `default` for other values."""
    if isinstance(value, Device):
        return str(value.attrs.get("type", default))
    if isinstance(value, str):
        return value.split(":")[0]
    return default


def same_device(left: Value, right: Value) -> bool:
    """Whether two device arguments name the same type of device."""
    return device_of(left, "?") == device_of(right, "?")


def size_args(args: Sequence[Value]) -> tuple[Value, ...]:
    """Returns sizes given as (2, 3) or ((2, 3),) as (2, 3); unknown dimensions are None."""
    if len(args) == 1 and isinstance(args[0], (list, tuple)):
        args = args[0]
    return tuple(int(a) if isinstance(a, (int, float)) else None for a in args)
