"""What a launch is told beside its arguments, in brackets or in a call: grid, block, shared memory and stream."""

from __future__ import annotations

from collections.abc import Sequence

from kbh_lint.base.records import dataclass
from kbh_lint.base.values import Value
from kbh_lint.host.values.cpp_objects import Dim3, Slot
from kbh_lint.host.values.objects import LibObject

_AXES = ("X", "Y", "Z")
_OF_DRIVER = "gridDimX gridDimY gridDimZ blockDimX blockDimY blockDimZ sharedMemBytes"
# Structs of the runtime, the driver and CUTLASS that say how a kernel is launched: their fields in their order.
STRUCTS = {
    "cudaLaunchConfig_t": "gridDim blockDim dynamicSmemBytes stream attrs numAttrs",
    "cudaKernelNodeParams": "func gridDim blockDim sharedMemBytes kernelParams extra",
    "cudaLaunchParams": "func gridDim blockDim args sharedMem stream",
    "ClusterLaunchParams": "grid_dims block_dims cluster_dims dynamic_smem_size_in_bytes cuda_stream",
    "CUlaunchConfig": f"{_OF_DRIVER} hStream attrs numAttrs",
    "CUDA_KERNEL_NODE_PARAMS": f"func {_OF_DRIVER} kernelParams extra kern ctx",
}
_SHARED = ("dynamicSmemBytes", "sharedMemBytes", "dynamic_smem_size_in_bytes")
_STREAM = ("stream", "hStream", "cuda_stream")


@dataclass(frozen=True, slots=True)
class Settings:
    """Grid and block as `dim3`, as a number, or as a tuple of numbers (None where they are not known), the bytes of
    dynamic shared memory, and the stream (None and zero are the caller's)."""

    grid: Value = None
    block: Value = None
    shared: Value = 0
    stream: Value = 0


@dataclass(frozen=True, slots=True)
class Called:
    """What a call that launches is given: its settings, and the arguments of the kernel; None for an array of them that
    could not be followed."""

    settings: Settings
    arguments: list[Value] | None


def struct(name: str, items: Sequence[Value]) -> LibObject:
    """A struct of `STRUCTS` from what stands in braces; sizes that are left out are `dim3`'s own."""
    fields = STRUCTS[name].split()
    sizes = {field: Dim3("dim3", dict.fromkeys("xyz", 1)) for field in fields if field in ("gridDim", "blockDim")}
    return LibObject.by_path(f"cpp:{name}", {**sizes, **dict(zip(fields, items, strict=False))})


def of_struct(held: Value) -> Settings:
    """What a struct of settings says."""
    held = _value(held)
    if not isinstance(held, LibObject):
        return Settings()

    def field(names: Sequence[str], other: Value) -> Value:
        return next((_value(held.attrs[name]) for name in names if name in held.attrs), other)

    def size(of: str) -> Value:
        axes = tuple(_value(held.attrs.get(f"{of}Dim{axis}", 1)) for axis in _AXES)
        apart = any(f"{of}Dim{axis}" in held.attrs for axis in _AXES)
        return axes if apart else field((f"{of}Dim", f"{of}_dims"), None)

    return Settings(size("grid"), size("block"), field(_SHARED, 0), field(_STREAM, 0))


def of_call(name: str, args: Sequence[Value], at: int) -> Called | None:
    """What `cudaLaunchKernel`, `cuLaunchKernelEx` and their like are given, whose argument number `at` is the kernel;
    None for other functions."""
    before, after = [_value(one) for one in args[:at]], [_value(one) for one in args[at + 1 :]]
    if name.startswith("launch_kernel_on_cluster"):
        return Called(of_struct(next(iter(before), None)), after)
    if not name.startswith(("cudaLaunchKernel", "cudaLaunchCooperativeKernel", "cuLaunch")) or "HostFunc" in name:
        return None
    if "KernelEx" in name:
        settings = of_struct(next(iter(before), None))
        packed = name.startswith("cuLaunch") or "ExC" in name
        return Called(settings, _laid(after, 0) if packed else after)
    if name.startswith("cuLaunch"):
        shared, stream = (*after[6:8], 0, 0)[:2]
        return Called(Settings(tuple(after[:3]), tuple(after[3:6]), shared, stream), _laid(after, 8))
    grid, block = (*after[:2], None, None)[:2]
    shared, stream = (*after[3:5], 0, 0)[:2]
    return Called(Settings(grid, block, shared, stream), _laid(after, 2))


def _laid(args: Sequence[Value], at: int) -> list[Value] | None:
    """The arguments that an array of addresses leads to; none where there is no array."""
    array = args[at] if len(args) > at else None
    if array is None or type(array) is int and array == 0:
        return []
    return [_value(one) for one in array] if isinstance(array, (list, tuple)) else None


def _value(held: Value) -> Value:
    return held.get() if isinstance(held, Slot) else held
