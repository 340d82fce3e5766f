"""Copies, conversions and fills of tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kbh_lint.base import dtypes, ir
from kbh_lint.base.values import DType, Value
from kbh_lint.host.torch import memory_order, recording
from kbh_lint.host.values import tensor_arguments
from kbh_lint.host.values.objects import LibObject
from kbh_lint.host.values.tensors import Content, EventAttrs, Tensor, Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run


def convert(interp: Run, tensor: Tensor, dtype: str, loc: ir.Loc | None, name: str = "to") -> Tensor:
    """Returns a copy of `tensor` converted to another element type."""
    event = recording.record(
        interp, "copy", name, loc, [tensor], {"from": tensor.dtype, "to": dtype, "cast": tensor.dtype != dtype}
    )
    strides = memory_order.following(tensor.shape, [tensor])
    made = recording.make(interp, tensor.shape, dtype, event=event, strides=strides, device=tensor.device)
    made.attrs["range"] = tensor.attrs.get("range")
    return made


def to(interp: Run, name: str, args: Sequence[Value], kwargs: Mapping[str, Value], loc: ir.Loc | None) -> Value:
    """Models `.to(...)`, `.type(...)`, `.cuda()`, `.cpu()`, `.float()` and the like."""
    tensor = args[0] if args else None
    if isinstance(tensor, LibObject) or not isinstance(tensor, Tensor):
        return tensor
    dtype, device, copy = tensor.dtype, tensor.device, bool(kwargs.get("copy", False) is True)
    direct = dtypes.from_torch({"type": ""}.get(name, name))
    if direct is not None:
        dtype = direct
    for value in [*args[1:], *kwargs.values()]:
        if isinstance(value, DType):
            dtype = value.name
        elif isinstance(value, Tensor):
            dtype, device = value.dtype, value.device
        elif isinstance(value, (str, LibObject)):
            device = tensor_arguments.device_of(value, device)
            if isinstance(value, str) and name == "type":
                dtype = dtypes.from_torch(value.rsplit(".", 1)[-1]) or dtype
    if name in ("cpu", "cuda"):
        device = name
    if dtype == tensor.dtype and device == tensor.device and not copy:
        return tensor
    if dtype == tensor.dtype:
        moved = convert(interp, tensor, dtype, loc, name)
        moved.device = device
        moved.attrs = dict(tensor.attrs)
        return moved
    made = convert(interp, tensor, dtype, loc, name)
    made.device = device
    return made


def copy_(interp: Run, name: str, args: Sequence[Value], kwargs: Mapping[str, Value], loc: ir.Loc | None) -> Value:
    """Models `target.copy_(source)`, which converts to the target's element type; a source that nobody knows is
    unread."""
    target = args[0]
    source = args[1] if len(args) > 1 else kwargs.get("src")
    if not isinstance(target, Tensor):
        return target
    inputs = tensor_arguments.tensors_in([source])
    attrs: EventAttrs = {}
    if inputs:
        attrs = {"from": inputs[0].dtype, "to": target.dtype, "cast": inputs[0].dtype != target.dtype}
    unread = not inputs and isinstance(source, (Unknown, LibObject))
    kind, called = ("unread", "what copy_ is given") if unread else ("copy", "copy_")
    event = recording.record(interp, kind, called, loc, inputs, attrs)
    byte_copy = inputs and target.dtype in ("u8", "i8") and inputs[0].dtype in ("u8", "i8")
    recording.write(interp, target, event, dtype=inputs[0].storage.content.dtype if byte_copy else None)
    return target


def fill(interp: Run, name: str, args: Sequence[Value], kwargs: Mapping[str, Value], loc: ir.Loc | None) -> Value:
    """Models zero_, fill_, normal_ and uniform_, which replace the whole content; returns the target."""
    target = args[0]
    if isinstance(target, Tensor) and not target.is_slice:
        overwrite(interp, target, "random" if name in ("normal", "uniform") else "constant")
        recording.addresses(interp, target, args[1:])
    return target


def overwrite(interp: Run, target: Tensor, label: str) -> None:
    """Replaces the content of a tensor by one that `label` describes, unless the tensor shows only a part of its
    storage."""
    storage = target.storage
    if not target.is_slice:
        storage.content = Content(storage, target.dtype, interp.trace.call_index, label)
        storage.version += 1
        for graph in interp.capturing:
            graph.events.append((target, label))


def contiguous(interp: Run, name: str, args: Sequence[Value], kwargs: Mapping[str, Value], loc: ir.Loc | None) -> Value:
    """Models `.contiguous()`, `.clone()` and the like: the tensor itself where it need not be copied, else a copy."""
    tensor = args[0]
    if not isinstance(tensor, Tensor):
        return tensor
    if name == "contiguous" and tensor.is_contiguous():
        return tensor
    event = recording.record(
        interp, "copy", name, loc, [tensor], {"from": tensor.dtype, "to": tensor.dtype, "cast": False}
    )
    strides = memory_order.following(tensor.shape, [tensor]) if name == "clone" else None
    made = recording.make(interp, tensor.shape, tensor.dtype, event=event, strides=strides, device=tensor.device)
    made.storage.content.dtype = tensor.storage.content.dtype
    return made
