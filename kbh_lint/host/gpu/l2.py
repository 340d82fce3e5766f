"""Settings of the L2 cache that outlive a kernel: windows whose accesses persist, the share of the cache set aside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kbh_lint.base import ir
from kbh_lint.base.values import Sym, Value
from kbh_lint.host.values.cpp_objects import Pointer, Slot
from kbh_lint.host.values.objects import LibObject
from kbh_lint.host.values.tensors import Storage, Tensor

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

_SETTERS = ("StreamSetAttribute", "GraphKernelNodeSetAttribute", "LaunchKernelEx")
DEEPEST = 6  # structs and lists inside one another that are looked into
_LIMITS = ("DeviceSetLimit", "CtxSetLimit")


def noticed(interp: Run, name: str, args: Sequence[Value], loc: ir.Loc | None) -> None:
    """Notes a call of the runtime or the driver that sets or resets persisting L2 accesses."""
    if "ResetPersistingL2Cache" in name:
        interp.note("l2", {"kind": "reset", "call": interp.trace.call_index}, loc)
        return
    if not any(word in name for word in (*_SETTERS, *_LIMITS)):
        return
    words = " ".join(_symbols(args)).replace("_", "").lower()
    if any(word in name for word in _LIMITS):
        if "persistingl2" in words:
            kind = "reset" if args[1:] and args[-1] == 0 else "limit"
            interp.note("l2", {"kind": kind, "call": interp.trace.call_index}, loc)
    elif "accesspolicywindow" in words:
        kind = "window" if "accesspropertypersisting" in words else "reset"
        storages = _storages(interp, _windows(args) or args)
        interp.note("l2", {"kind": kind, "call": interp.trace.call_index, "storages": storages}, loc)


def _windows(value: Value, depth: int = 0) -> list[Value]:
    """The beginnings of the windows among arguments: of a launch, the kernel's own arguments are none of them."""
    if isinstance(value, Slot):
        value = value.get()
    if isinstance(value, LibObject):
        if "hitProp" in value.attrs:
            return [value.attrs.get("base_ptr")]
        value = list(value.attrs.values())
    if isinstance(value, (list, tuple)) and depth < DEEPEST:
        return [found for item in value[:64] for found in _windows(item, depth + 1)]
    return []


def _storages(interp: Run, value: Value, depth: int = 0) -> list[Storage]:
    """The memory that arguments point to, also from fields of structs."""
    if isinstance(value, Slot):
        value = value.get()
    if isinstance(value, Pointer):
        return [value.tensor.storage]
    if isinstance(value, LibObject):
        value = list(value.attrs.values())
    if isinstance(value, (list, tuple)) and depth < DEEPEST:
        return [storage for item in value[:64] for storage in _storages(interp, item, depth + 1)]
    tensor = value if isinstance(value, Tensor) else interp.tensor_at(value)
    return [tensor.storage] if tensor is not None else []


def _symbols(value: Value, depth: int = 0) -> list[str]:
    """The symbols among arguments, also inside structs, lists and addresses, with the names of fields."""
    if isinstance(value, Slot):
        value = value.get()
    if isinstance(value, Sym):
        return [value.path]
    if depth >= DEEPEST:
        return []
    if isinstance(value, (list, tuple)):
        return [s for item in value[:64] for s in _symbols(item, depth + 1)]
    if isinstance(value, LibObject):
        inner = [s for name, item in list(value.attrs.items())[:64] for s in (name, *_symbols(item, depth + 1))]
        return [value.path, *inner]
    return []
