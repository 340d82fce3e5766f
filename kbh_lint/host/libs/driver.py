"""The CUDA driver and nvrtc reached from Python: through ctypes, and through the cuda-python bindings.

Both end in the same functions as C++ host code does, so they are followed by the same means (`cpp.libraries.library`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import Value
from kbh_lint.host.cpp.names import FAILURE
from kbh_lint.host.gpu import images
from kbh_lint.host.values.cpp_objects import Pointer, Slot
from kbh_lint.host.values.equality import FAILED, SUCCESS
from kbh_lint.host.values.modelled import Library, Site
from kbh_lint.host.values.named_objects import CCell
from kbh_lint.host.values.objects import LibObject
from kbh_lint.host.values.tensors import Tensor
from kbh_lint.host.values.unknowns import Packed

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

MAX_ARRAY = 4096
_MAKERS = (
    "cuModuleGetFunction", "cuLibraryGetKernel", "nvrtcCreateProgram", "cuMemAlloc", "cuTensorMapEncodeTiled",
    *images.LOADERS,
)  # fmt: skip
_STRUCTS = ("AttrValue", "AttributeValue", "LaunchAttribute", "ccessPolicyWindow")
_STATUS_ONLY = (
    "cuCtxReset", "cuCtxSet", "cuStreamSet", "cudaCtxReset", "cudaDeviceSet", "cudaStreamSet",
    "cuLaunch", "cuMemcpy", "cuMemset", "cuFuncSet", "cuInit", "nvrtcCompile", "nvrtcDestroy",
    "nvrtcGetCUBIN", "nvrtcGetPTX",
)  # fmt: skip


def cell(value: Value = 0) -> LibObject:
    """Makes a ctypes object: a value that C functions can replace when they are given its address."""
    return CCell("ctypes.cell", {"value": value})


def array(count: int, args: list[Value]) -> list[Value]:
    """Makes an object of an array type, `(ctypes.c_void_p * 4)(...)`."""
    return list(args) or [0] * max(0, min(count, MAX_ARRAY))


def call(interp: Run, name: str, args: list[Any], loc: ir.Loc | None) -> Any:
    """Calls a function of libcuda, libcudart, libnvrtc or libcublas through ctypes or torch; returns the status 0
    (success), or another one where the call fails on every GPU."""
    return int(_answer(interp, name, [argument(interp, a) for a in args], loc) is FAILURE)


def _answer(interp: Run, name: str, given: list[Value], loc: ir.Loc | None) -> Value:
    """Calls a function of the driver and the like from Python, where programs also opt in to more shared memory."""
    interp.cpp.opted_in = interp.cpp.opted_in or name.endswith("SetAttribute")
    return interp.cpp.library(name, (), given, loc)


class Bindings(Library):
    """cuda-python: the functions of the driver and nvrtc, which return (status, value ...) and do not write through
    addresses."""

    def other(self, site: Site) -> Value:
        """Answers a call without a fitting model (`Library.other`): any function, type or constant of the bindings."""
        run, path, name, args = site.run, site.path, site.name, site.args
        if name.endswith(_STRUCTS):
            return LibObject.by_path(f"cpp:{name}")
        if name[:1].isupper() or "_" in name:
            return args[0] if len(args) == 1 and isinstance(args[0], (int, Tensor)) else LibObject.by_path(path)
        held = cell(LibObject.by_path(path, {"pointers": run.cpp.pointers([argument(run, a) for a in args])}))
        given = [argument(run, a) for a in [*args, *site.kwargs.values()]]
        # a launch may get its arguments as (values, ctypes of the values)
        given = [a[0] if isinstance(a, list) and len(a) == 2 and isinstance(a[0], list) else a for a in given]
        if name in _MAKERS:
            _answer(run, name, [Slot(held.attrs, "value"), *given], site.loc)
            return (SUCCESS, held.attrs["value"])
        if _answer(run, name, given, site.loc) is FAILURE:
            return (FAILED,)
        alone = name.startswith(_STATUS_ONLY) and not name.endswith("Size")
        return (SUCCESS,) if alone else (SUCCESS, held.attrs["value"])


def argument(interp: Run, value: Value) -> Value:
    """Returns a Python value as a C function gets it: addresses are pointers to what lives there."""
    if isinstance(value, (bytes, bytearray)):
        return value if images.is_image(value) else bytes(value).decode("utf-8", "replace")
    if isinstance(value, int) and not isinstance(value, bool):
        tensor = interp.tensor_at(value)
        return Pointer(tensor, tensor.dtype) if tensor is not None else value
    if isinstance(value, CCell):
        return value.attrs["value"]
    if isinstance(value, Packed):  # the addresses of the arguments of a launch, or one of them
        given = [argument(interp, one) for one in value.numbers]
        return given if isinstance(value.numbers[0], Packed) else given[0]
    if isinstance(value, Slot):
        held = value.get()
        found = interp.tensor_at(held)
        return Pointer(found, found.dtype) if found is not None else value
    if isinstance(value, (list, tuple)):
        return [argument(interp, v) for v in value][:MAX_ARRAY]
    return value
