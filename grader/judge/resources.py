"""What a device has for a trial: room for slots, a cache to get past, and what it was doing meanwhile."""

from __future__ import annotations

import gc
from collections.abc import Mapping

import torch

from grader.judge import plan as planning
from grader.judge.health import health

__all__ = ["cache_bytes", "free_bytes", "give_back", "health_of", "ring_room"]


def free_bytes(device: torch.device) -> tuple[int, int]:
    """(free, all) bytes of a GPU's memory."""
    free, total = torch.cuda.mem_get_info(device)
    return int(free), int(total)


def ring_room(device: torch.device) -> int:
    """Bytes for the slots of a batch."""
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
    if device.type != "cuda":
        return {}

    return health(device)
