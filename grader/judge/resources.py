"""What a device has for a trial: room for slots, a cache to get past, and what it was doing meanwhile."""

from __future__ import annotations

import gc
import importlib
from collections.abc import Callable, Mapping
from typing import Any

import torch

from grader.judge import plan as planning

__all__ = ["cache_bytes", "driver_version", "free_bytes", "give_back", "health", "health_of", "ring_room"]

FIELDS: tuple[tuple[str, Callable[[Any, Any], Any]], ...] = (
    ("sm_mhz", lambda nvml, gpu: nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM)),
    ("memory_mhz", lambda nvml, gpu: nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_MEM)),
    ("power_w", lambda nvml, gpu: nvml.nvmlDeviceGetPowerUsage(gpu) / 1e3),
    ("power_limit_w", lambda nvml, gpu: nvml.nvmlDeviceGetEnforcedPowerLimit(gpu) / 1e3),
    ("celsius", lambda nvml, gpu: nvml.nvmlDeviceGetTemperature(gpu, nvml.NVML_TEMPERATURE_GPU)),
    ("throttle", lambda nvml, gpu: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu)),
    ("processes", lambda nvml, gpu: len(nvml.nvmlDeviceGetComputeRunningProcesses(gpu))),
    ("used_bytes", lambda nvml, gpu: nvml.nvmlDeviceGetMemoryInfo(gpu).used),
)


def free_bytes(device: torch.device) -> tuple[int, int]:
    """(free, all) bytes of a GPU's memory."""
    free, total = torch.cuda.mem_get_info(device)
    return int(free), int(total)


def ring_room(device: torch.device) -> int:
    """How many bytes the slots of a batch may take on `device`."""
    if device.type != "cuda":
        return planning.CPU_RING_BYTES
    return int(free_bytes(device)[0] * planning.GPU_RING_SHARE)


def cache_bytes(device: torch.device) -> int:
    """The device's last-level cache; 0 on a CPU, where reduced shapes fit into it whatever is done."""
    if device.type != "cuda":
        return 0
    return int(torch.cuda.get_device_properties(device).L2_cache_size)


def give_back(device: str | torch.device) -> None:
    """Returns what torch keeps of a GPU's memory, so that the next process finds as much as the first."""
    if torch.device(device).type == "cuda":
        gc.collect()
        torch.cuda.empty_cache()


def health_of(device: torch.device) -> Mapping[str, float]:
    """A GPU's clocks, power, temperature and guests now; nothing of a CPU."""
    return health(device) if device.type == "cuda" else {}


def health(device: str | torch.device = "cuda") -> dict[str, int | float]:
    """Clocks (MHz), power (W), temperature, throttle reasons (NVML's bits), processes and memory in use of one GPU.

    What the management library does not tell is left out; without the package nvidia-ml-py, or without a GPU, that is
    everything.
    """
    if torch.device(device).type != "cuda" or not torch.cuda.is_available():
        return {}
    try:
        nvml: Any = importlib.import_module("pynvml")
        nvml.nvmlInit()
    except Exception:  # the package's own errors are not known without it
        return {}
    place: Any = torch.cuda.get_device_properties(device)
    address = f"{place.pci_domain_id:08X}:{place.pci_bus_id:02X}:{place.pci_device_id:02X}.0"
    told: dict[str, int | float] = {}
    try:
        gpu = nvml.nvmlDeviceGetHandleByPciBusId(address.encode())
        for name, ask in FIELDS:
            try:
                told[name] = ask(nvml, gpu)
            except nvml.NVMLError:
                continue
    except nvml.NVMLError:
        return {}
    finally:
        nvml.nvmlShutdown()
    return told


def driver_version() -> str:
    """The version of the GPU's driver; empty where the management library does not tell it."""
    try:
        nvml: Any = importlib.import_module("pynvml")
        nvml.nvmlInit()
        try:
            told = nvml.nvmlSystemGetDriverVersion()
        finally:
            nvml.nvmlShutdown()
    except Exception:  # the package's own errors are not known without it
        return ""
    return told.decode() if isinstance(told, bytes) else str(told)
