"""What the host reads of a tensor: its attributes, its numbers, and the devices it names."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from kbh_lint.base import dtypes, ir
from kbh_lint.base.values import DType
from kbh_lint.host.torch import recording, tensor_views, whole_numbers
from kbh_lint.host.values import checksums, tensor_arguments
from kbh_lint.host.values.escapes import Version
from kbh_lint.host.values.library_objects import Storage
from kbh_lint.host.values.named_objects import Device
from kbh_lint.host.values.objects import LibObject
from kbh_lint.host.values.tensors import Placed, Tensor, Unknown, row_major

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

# Where the named results of operations with several stand: torch.sort(x).values.
RESULTS = {"values": 0, "indices": 1, "Q": 0, "R": 1, "U": 0, "S": 1, "Vh": 2, "V": 2, "LU": 0, "pivots": 1, "L": 0,
           "atom": 0, "tma_tensor": 1}  # fmt: skip


@lru_cache(maxsize=64)
def device(kind: str) -> LibObject:
    """The torch.device of a kind: the same object each time, so that it finds what it was a key of."""
    return Device("torch.device", {"type": kind, "index": 0})


def scalar(interp: Run, name: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """item, tolist, equal, allclose: the host learns something of the content."""
    inputs = tensor_arguments.tensors_in(args)
    known = inputs[0].attrs.get("value") if inputs and name == "item" else None
    if known is not None:
        return known
    if name == "item" and inputs:
        known = checksums.comparison(interp, inputs[0].storage.content)
        if known is not None:
            return known
    interp.note("host-read", {"symbol": f"torch.Tensor.{name}"}, loc)
    contents = tuple(t.storage.content for t in inputs)
    if name == "item" and inputs and "holds" in inputs[0].attrs:
        return interp.assume(loc, inputs[0].attrs["holds"], contents)
    if name in ("allclose", "equal"):
        # a self-check against a reference passes: the assumed world; a copy kept to notice changes notices them
        known = checksums.same_tensors(interp, inputs[0], inputs[1]) if len(inputs) > 1 else None
        return interp.assume(loc, True, contents) if known is None else known
    if (
        name == "tolist"
        and inputs
        and inputs[0].shape
        and len(inputs[0].shape) == 1
        and isinstance(inputs[0].shape[0], int)
    ):
        count, start, known_range = min(inputs[0].shape[0], 4096), _start(inputs[0]), inputs[0].attrs.get("range")
        made = [Unknown(contents, "an element", known_range, interp.trace.round, reading="element")
                for _ in range(count)]  # fmt: skip
        at = [None if start is None else start + i for i in range(count)]
        return [whole_numbers.element(one, inputs[0], i) for one, i in zip(made, at, strict=True)]
    known_range = inputs[0].attrs.get("range") if inputs and name == "item" else None
    reading = name if name == "numpy" else ""
    value = Unknown(contents, f"a tensor's {name}", known_range, interp.trace.round, reading=reading)
    alone = name == "item" and inputs and inputs[0].shape in ((), (1,))
    return whole_numbers.element(value, inputs[0], _start(inputs[0])) if alone else value


def _start(tensor: Tensor) -> int | None:
    """Which element of its storage a view begins with, where its own follow it one by one."""
    return tensor.offset if tensor.strides in (None, (1,), ()) else None


def attribute(interp: Run, tensor: Tensor, name: str, loc: ir.Loc | None) -> Any:
    """An attribute that is a value; NotImplemented when `name` is a method."""
    if name == "shape":
        if tensor.shape is None:
            return Unknown((), "a shape")
        return tuple(d if d is not None else Unknown((), "a dimension") for d in tensor.shape)
    if name == "dtype":
        return DType(tensor.dtype)
    if name == "device":
        return device(tensor.device)
    if name in ("is_cuda",):
        return tensor.device != "cpu"
    if name in ("T", "mT", "H", "mH"):
        return tensor_views.view(
            interp,
            "transpose" if name.startswith("m") else "t",
            [tensor, -1, -2] if name.startswith("m") else [tensor],
            {},
            loc,
        )
    if name in ("data", "real"):
        return tensor
    if name in ("grad", "grad_fn") and name not in tensor.attrs or name == "_base" and not tensor.is_slice:
        return None
    if name == "is_leaf":
        return True
    if name == "ndim":
        return len(tensor.shape) if tensor.shape is not None else Unknown((), "a rank")
    if name == "_version":
        version = Version(tensor.storage.version)
        version.storage = tensor.storage
        return version
    if name == "itemsize":
        return dtypes.STORED.get(tensor.dtype, 32) // 8
    if name in ("nbytes",):
        return (tensor.numel() or 0) * dtypes.STORED.get(tensor.dtype, 32) // 8
    if name in ("requires_grad", "is_sparse", "is_quantized", "is_meta", "is_mps", "is_nested", "retains_grad"):
        return False
    if name == "layout":
        return LibObject("torch.layout")
    if name == "__dict__":
        return tensor.attrs
    if name in tensor.attrs and name not in ("range", "known", "value", "holds"):
        return tensor.attrs[name]
    return NotImplemented


def meta(name: str) -> Callable[..., Any]:
    def answer(interp: Run, _: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
        tensor = args[0]
        if not isinstance(tensor, Tensor):
            return Unknown((), name)
        if name == "stride":
            strides = tensor.strides if tensor.strides is not None else row_major(tensor.shape)
            if strides is None:
                return Unknown((), "strides")
            values = tuple(s if s is not None else Unknown((), "a stride") for s in strides)
            return values[args[1]] if len(args) > 1 and isinstance(args[1], int) else values
        if name == "size":
            shape = attribute(interp, tensor, "shape", loc)
            if isinstance(shape, Unknown) or len(args) < 2:
                return shape
            return shape[args[1]] if isinstance(args[1], int) else Unknown((), "a dimension")
        if name in ("dim", "ndimension"):
            return attribute(interp, tensor, "ndim", loc)
        if name in ("numel", "nelement", "__len__"):
            if name == "__len__":
                return tensor.shape[0] if tensor.shape else 0
            count = tensor.numel()
            return count if count is not None else Unknown((), "a size")
        if name == "data_ptr":
            interp.note("pointer-read", {"storage": tensor.storage.ident, "call": interp.trace.call_index}, loc)
            placed = Placed(tensor.address)
            placed.contents = recording.steered_by([tensor])
            return placed if placed.contents else tensor.address
        if name == "element_size":
            return dtypes.STORED.get(tensor.dtype, 32) // 8
        if name == "is_contiguous":
            return tensor.is_contiguous()
        if name == "storage_offset":
            return Unknown((), name) if tensor.offset is None else tensor.offset
        if name in ("untyped_storage", "storage", "_typed_storage"):
            return Storage(tensor)
        if name == "is_floating_point":
            return tensor.dtype in dtypes.FLOATS
        if name in ("get_device",):
            return 0
        return Unknown((tensor.storage.content,), name)

    return answer
