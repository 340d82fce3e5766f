"""The form of outputs: one tensor or several, of what type, shape, layout and memory. No value is looked at here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

__all__ = ["Expected", "output_faults", "outputs_of"]


@dataclass(frozen=True, slots=True)
class Expected:
    """What one output must be: its name for messages, element type and shape."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]


def outputs_of(returned: object, count: int) -> tuple[Any, ...]:
    """The outputs that forward returned: the items of a tuple or list where `count` is not 1, anything else as one
    output.

    A caller that unpacks several cannot tell a list or a named tuple from a tuple. What a class of the submission's own
    would do on being unpacked is passed over.
    """
    for kind in (tuple, list) if count != 1 else ():
        if issubclass(type(returned), kind):
            return tuple(kind.__iter__(returned))  # type: ignore[arg-type]
    return (returned,)


def output_faults(
    outputs: object, expected: Sequence[Expected], device: torch.device, held: Mapping[str, Tensor]
) -> list[str]:
    """Faults of type, number, shape, element type, device, layout, gradient and sharing; `held`: inputs and state."""
    tensors = outputs_of(outputs, len(expected))
    if len(expected) > 1 and not issubclass(type(outputs), (tuple, list)):
        return [f"forward must return a tuple of {len(expected)} tensors, not {_kind(outputs)}"]
    if len(tensors) != len(expected):
        return [f"forward must return {len(expected)} tensors, not {len(tensors)}"]
    faults: list[str] = []
    for tensor, wanted in zip(tensors, expected, strict=True):
        faults += _tensor_faults(tensor, wanted, device)
    if not faults:
        faults += _sharing([t for t in tensors if isinstance(t, Tensor)], expected, held)
    return faults


def _tensor_faults(tensor: object, wanted: Expected, device: torch.device) -> list[str]:
    name = wanted.name
    if type(tensor) is not Tensor:
        return [f"{name} must be a torch.Tensor, not {_kind(tensor)}"]
    faults = []
    if tuple(tensor.shape) != wanted.shape:
        faults.append(f"{name} has the shape {_sizes(tensor.shape)} instead of {_sizes(wanted.shape)}")
    if tensor.dtype != wanted.dtype:
        faults.append(f"{name} is {_dtype(tensor.dtype)} instead of {_dtype(wanted.dtype)}")
    if tensor.device.type != device.type or (device.index is not None and tensor.device.index != device.index):
        faults.append(f"{name} is on {tensor.device} instead of {device}")
    if tensor.layout != torch.strided:
        faults.append(f"{name} is not a dense tensor")
    elif not tensor.is_contiguous():
        faults.append(f"{name} is not contiguous (strides {_sizes(tensor.stride())})")
    elif tensor.is_conj() or tensor.is_neg():
        faults.append(f"{name} is a lazy view")
    if tensor.requires_grad:
        faults.append(f"{name} requires a gradient")
    return faults


def _sharing(tensors: Sequence[Tensor], expected: Sequence[Expected], held: Mapping[str, Tensor]) -> list[str]:
    faults = []
    for position, (tensor, wanted) in enumerate(zip(tensors, expected, strict=True)):
        faults += [f"{wanted.name} shares memory with {name}" for name, t in held.items() if _overlap(tensor, t)]
        later = zip(tensors[position + 1 :], expected[position + 1 :], strict=True)
        faults += [f"{wanted.name} shares memory with {other.name}" for t, other in later if _meet(tensor, t)]
    return faults


def _overlap(tensor: Tensor, other: Tensor) -> bool:
    """Whether a contiguous tensor lies on bytes of another tensor's storage."""
    if tensor.device != other.device or tensor.numel() == 0 or other.numel() == 0:
        return False
    first, length = tensor.data_ptr(), tensor.numel() * tensor.itemsize
    storage = other.untyped_storage()
    return first < storage.data_ptr() + storage.nbytes() and storage.data_ptr() < first + length


def _meet(first: Tensor, second: Tensor) -> bool:
    """Whether two contiguous tensors have bytes in common; parts of one allocation that do not meet are fine."""
    a, b = first.data_ptr(), second.data_ptr()
    ends = a + first.numel() * first.itemsize, b + second.numel() * second.itemsize
    return first.device == second.device and a < ends[1] and b < ends[0]


def _kind(value: object) -> str:
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"[:120]


def _sizes(sizes: Sequence[int]) -> str:
    return "[" + ", ".join(str(int(n)) for n in sizes) + "]"


def _dtype(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
