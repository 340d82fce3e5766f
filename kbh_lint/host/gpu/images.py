"""Machine code for a GPU that a program holds as bytes and gives to the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.host.effects import artifacts, foreign
from kbh_lint.host.values.cpp_objects import Slot
from kbh_lint.host.values.objects import Blob
from kbh_lint.host.values.tensors import Tensor

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

NAME = "a cubin in the text"
LOADERS = ("cuModuleLoadData", "cuModuleLoadFatBinary", "cuLibraryLoadData", "cudaLibraryLoadData")
FINDERS = ("cuModuleGetFunction", "cuLibraryGetKernel", "cuLibraryGetModule", "cuKernelGetFunction", "cudaLibraryGet")
_MAGIC = (b"\x7fELF", b"\x50\xed\x55\xba")  # a cubin, and several of them with their architectures


def is_image(value: object) -> bool:
    """Whether bytes, or an array of byte values, begin as an image of machine code does."""
    if isinstance(value, list):
        head = value[:4]
        value = bytes(head) if len(head) == 4 and all(type(n) is int and 0 <= n < 256 for n in head) else b""
    return isinstance(value, (bytes, bytearray)) and bytes(value[:4]) in _MAGIC


def call(interp: Run, name: str, args: list[Any], loc: ir.Loc | None) -> Any:
    """Models a driver function that loads an image of machine code, finds a kernel in it or launches one; returns
    whether `name` is such a call."""
    plain = [arg.get() if isinstance(arg, Slot) else arg for arg in args]
    if name.startswith(LOADERS):
        if not any(is_image(value) for value in plain[1:]):
            return False
        return _put(args, Blob(artifacts.without_source(interp, NAME, loc), loc))
    blob = next((value for value in plain if isinstance(value, Blob)), None)
    if blob is None:
        return False
    if name.startswith(FINDERS):
        symbol = next((value for value in plain[1:] if isinstance(value, (str, bytes))), "")
        symbol = symbol.decode("utf-8", "replace") if isinstance(symbol, bytes) else str(symbol)
        return _put(args, Blob(":".join(part for part in (blob.path, symbol) if part), loc))
    if name.startswith(("cuLaunchKernel", "cudaLaunchKernel", "cuLaunchCooperativeKernel")):
        given = foreign.handed(interp, [value for value in plain if value is not blob])
        foreign.run_blob(interp, blob, given or _unwritten(interp), loc)
        return True
    return False


def _unwritten(interp: Run) -> list[Tensor]:
    """The tensors of this call that hold nothing yet. A kernel writes to some memory: where its arguments lead nowhere
    that is known, it may be to any of these."""
    contents = [(view, view.storage.content) for view in interp.memory.views.values()]
    return [view for view, held in contents if held.label == "empty" and held.call == interp.trace.call_index]


def _put(args: list[Any], value: Blob) -> bool:
    """Stores what a function gives through the address that is its first argument."""
    if args and isinstance(args[0], Slot):
        args[0].set(value)
    return True
