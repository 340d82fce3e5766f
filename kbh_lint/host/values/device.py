"""The GPU that a submission finds: the numbers of a target, and what follows from its architecture."""

from __future__ import annotations

from typing import Any

from kbh_lint.base import architectures
from kbh_lint.base.records import dataclass
from kbh_lint.base.values import Value
from kbh_lint.host.values.objects import LibObject
from kbh_lint.host.values.tensors import Unknown
from kbh_lint.problems import Target

# Attributes of the CUDA runtime and driver, without underscores and prefixes, and the fields of Device.
_ATTRIBUTES = {
    "MULTIPROCESSORCOUNT": "sms", "COMPUTECAPABILITYMAJOR": "major", "COMPUTECAPABILITYMINOR": "minor",
    "MAXSHAREDMEMORYPERBLOCKOPTIN": "shared_per_block", "MAXSHAREDMEMORYPERMULTIPROCESSOR": "shared_per_sm",
    "L2CACHESIZE": "l2", "WARPSIZE": "warp", "MAXTHREADSPERMULTIPROCESSOR": "threads",
}  # fmt: skip
_CPP = {
    "multiProcessorCount": "sms", "major": "major", "minor": "minor", "totalGlobalMem": "memory",
    "sharedMemPerBlockOptin": "shared_per_block", "sharedMemPerMultiprocessor": "shared_per_sm", "l2CacheSize": "l2",
    "warpSize": "warp", "maxThreadsPerMultiProcessor": "threads", "name": "name",
}  # fmt: skip
_TORCH = {
    "multi_processor_count": "sms", "major": "major", "minor": "minor", "total_memory": "memory", "L2_cache_size": "l2",
    "warp_size": "warp", "max_threads_per_multi_processor": "threads", "name": "name",
    "shared_memory_per_block_optin": "shared_per_block", "shared_memory_per_multiprocessor": "shared_per_sm",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Device:
    """The GPU that a submission finds. Sizes are in bytes; an Unknown where nothing is known. The name is never known:
    runs take both sides of tests of it."""

    major: int
    minor: int
    sms: Any
    memory: Any
    l2: Any
    shared_per_block: int
    shared_per_sm: int
    threads: int
    warp: int = 32
    name: Unknown = Unknown((), "the name of the GPU")


def of(capability: tuple[int, int] | None, target: Target | None) -> Device:
    """Returns the device of a compute capability, with the numbers of a target where one is given."""
    found = architectures.of(capability or architectures.DECK[0])
    sms, memory, l2 = (target.sms, target.memory_gib, target.l2_mib) if target is not None else (None, None, None)
    return Device(
        *found.capability,
        _known(sms, 1, "multiprocessors of the GPU"),
        _known(memory, 1 << 30, "memory of the GPU"),
        _known(l2, 1 << 20, "the L2 of the GPU"),
        found.shared_kib << 10,
        (found.shared_kib + 1) << 10,
        found.threads,
    )


def _known(count: float | None, unit: int, what: str) -> Any:
    return Unknown((), what) if count is None else int(count * unit)


def torch_properties(device: Device) -> LibObject:
    """Models torch.cuda.get_device_properties."""
    attrs = {name: getattr(device, field) for name, field in _TORCH.items()}
    return LibObject("torch.cuda.DeviceProperties", {**attrs, "regs_per_multiprocessor": 65536})


def cpp_properties(device: Device) -> dict[str, Value]:
    """Returns the fields of cudaDeviceProp."""
    return {name: getattr(device, field) for name, field in _CPP.items()}


def attribute(device: Device, name: str) -> Any:
    """Models cudaDeviceGetAttribute and the driver's equivalent, for the attribute `name`, such as
    `cudaDevAttrMultiProcessorCount`."""
    plain = name.upper().replace("_", "").replace("CUDADEVATTR", "").replace("CUDEVICEATTRIBUTE", "")
    field = _ATTRIBUTES.get(plain)
    return getattr(device, field) if field else Unknown((), f"the device attribute {name}")
