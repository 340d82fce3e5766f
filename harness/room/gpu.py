"""The device nodes of one GPU, by its UUID."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

from harness.room.base import RoomError

__all__ = ["nodes_of"]

DRIVER = Path("/proc/driver/nvidia/gpus")
DEVICES = Path("/dev")
SHARED = ("nvidiactl", "nvidia-uvm")  # those of all GPUs, without which CUDA does not start


def nodes_of(uuid: str) -> tuple[Path, ...]:
    """The nodes with which CUDA finds one GPU of this machine, and no other. Raises RoomError."""
    minor = _minors().get(uuid.lower())
    if minor is None:
        minor = _minor_from_library(uuid)
    if minor is None:
        raise RoomError(f"there is no GPU {uuid[:100]} on this machine; `nvidia-smi -L` lists them")
    nodes = tuple(DEVICES / name for name in (*SHARED, f"nvidia{minor}"))
    missing = [str(node) for node in nodes if not node.exists()]
    if missing:
        raise RoomError(
            f"the GPU {uuid} cannot be given to a room: {missing[0]} is missing; start the driver's modules"
        )
    return nodes


def _minors() -> dict[str, int]:
    """The minor numbers of GPUs by UUID, as the driver's files have them."""
    found = {}
    for file in DRIVER.glob("*/information"):
        try:
            text = file.read_text()
        except OSError:
            continue
        uuid = re.search(r"^GPU UUID:\s*(\S+)$", text, re.MULTILINE)
        minor = re.search(r"^Device Minor:\s*(\d+)$", text, re.MULTILINE)
        if uuid and minor:
            found[uuid[1].lower()] = int(minor[1])
    return found


def _minor_from_library(uuid: str) -> int | None:
    """The same from the management library, where the driver's files cannot be read."""
    try:
        nvml: Any = importlib.import_module("pynvml")
        nvml.nvmlInit()
    except Exception:  # it is not installed, or finds no driver: its errors are classes of its own
        return None
    try:
        return int(nvml.nvmlDeviceGetMinorNumber(nvml.nvmlDeviceGetHandleByUUID(uuid)))
    except nvml.NVMLError:
        return None
    finally:
        nvml.nvmlShutdown()
