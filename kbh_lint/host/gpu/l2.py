"""Settings of the L2 cache that outlive a kernel: windows whose accesses persist, the share of the cache set aside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from kbh_lint.base import ir
from kbh_lint.base.values import Sym, Value
from kbh_lint.host.datamodel import c_structs
from kbh_lint.host.values.cpp_objects import Pointer, Slot
from kbh_lint.host.values.objects import LibObject
from kbh_lint.host.values.tensors import Storage, Tensor

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

_SETTERS = ("StreamSetAttribute", "GraphKernelNodeSetAttribute", "LaunchKernelEx")
ATTRIBUTE, LIMIT, PERSISTING = 1, 6, 2  # cudaLaunchAttributeID, cudaLimit and cudaAccessProperty have these numbers
DEEPEST = 6  # structs and lists inside one another that are looked into
_LIMITS = ("DeviceSetLimit", "CtxSetLimit")


class Window(NamedTuple):
    """A window of addresses, and whether accesses in it persist."""

    base: Value
    length: Value
    persists: bool


def noticed(interp: Run, name: str, args: Sequence[Value], loc: ir.Loc | None) -> None:
    """Notes a call of the runtime or the driver that sets or resets persisting L2 accesses."""
    if "ResetPersistingL2Cache" in name:
        interp.note("l2", {"kind": "reset", "call": interp.trace.call_index}, loc)
        return
    if not any(word in name for word in (*_SETTERS, *_LIMITS)):
        return
    words = " ".join(_symbols(args)).replace("_", "").lower()
    if any(word in name for word in _LIMITS):
        if "persistingl2" in words or args and args[0] == LIMIT:
            kind = "reset" if args[1:] and args[-1] == 0 else "limit"
            interp.note("l2", {"kind": kind, "call": interp.trace.call_index}, loc)
        return
    windows = _windows(args) or _in_memory(args)
    if "accesspolicywindow" in words or windows:
        kind = "window" if "accesspropertypersisting" in words or _persist(windows) else "reset"
        kind = "end" if _end(windows) else kind
        storages = _storages(interp, [window.base for window in windows] or args)
        interp.note("l2", {"kind": kind, "call": interp.trace.call_index, "storages": storages}, loc)


def _persist(windows: list[Window]) -> bool:
    return any(window.persists for window in windows)


def _end(windows: list[Window]) -> bool:
    """Whether windows are of no bytes, which ends those before: lines that are in the cache stay, no more come."""
    return bool(windows) and all(type(window.length) is int and window.length == 0 for window in windows)


def _in_memory(args: Sequence[Value]) -> list[Window]:
    """The window that a struct of ctypes or a buffer is, by what lies where CUDA looks for it."""
    if len(args) < 3 or args[1] != ATTRIBUTE:
        return []
    base, count = (c_structs.at(args[2], offset, 8) for offset in (0, 8))
    kinds = [c_structs.at(args[2], offset, 4) for offset in (20, 24)]  # of what hits, of what misses
    return [] if None in (base, kinds[0]) else [Window(base, count, any(map(_persists, kinds)))]


def _persists(kind: Value) -> bool:
    return (
        type(kind) is not bool
        and isinstance(kind, int)
        and kind == PERSISTING
        or (isinstance(kind, Sym) and "persisting" in kind.path.lower())
    )


def _windows(value: Value, depth: int = 0) -> list[Window]:
    """The windows among arguments: of a launch, the kernel's own arguments are none of them."""
    if isinstance(value, Slot):
        value = value.get()
    if isinstance(value, LibObject):
        if "hitProp" in value.attrs or "num_bytes" in value.attrs:
            kinds = [value.attrs.get(name) for name in ("hitProp", "missProp")]
            persists = any(map(_persists, kinds))
            return [Window(value.attrs.get("base_ptr"), value.attrs.get("num_bytes"), persists)]
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
