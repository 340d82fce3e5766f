"""Memory that judge and candidate share: memory files on a CPU, driver allocations on a GPU, with one interface.

A GPU allocation is exported as a file descriptor. It is one buffer of one size: nothing else of the judge's allocator
comes with it, as it would with the handles of torch or of CUDA's IPC.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from grader.wire.channel import Memory, Slot, Views
from grader.wire.vmm import VmmMemory, VmmViews

__all__ = ["SharedMemory", "SharedViews", "make_memory", "make_views"]


class SharedMemory(Protocol):
    """The judge's side of a region; `fd` is what the candidate gets."""

    fd: int
    size: int

    def tensor(self, slot: Slot) -> Tensor:
        """The tensor of a slot."""
        ...

    def raw(self, size: int, offset: int = 0) -> Tensor:
        """`size` bytes from `offset` on."""
        ...

    def poison(self, size: int, offset: int = 0) -> None:
        """Overwrites `size` bytes with a pattern that no right output has."""
        ...

    def close(self) -> None:
        """Gives the region up; tensors over it must not be used any more."""
        ...


class SharedViews(Protocol):
    """The candidate's side of a region."""

    def tensor(self, slot: Slot) -> Tensor:
        """The tensor of a slot."""
        ...

    def replace(self, fd: int) -> None:
        """Maps another region of the same size over the same addresses."""
        ...

    def warm(self) -> None:
        """Has the device look up where each page lies, so that this is not in the time of what reads them."""
        ...

    def close(self) -> None:
        """Unmaps the region on a GPU; on a CPU it stays mapped, since a tensor that a submission kept would fault."""
        ...


def make_memory(name: str, size: int, device: torch.device) -> SharedMemory:
    """A new region of the judge's on a device."""
    if device.type == "cuda":
        return VmmMemory(name, size, device)
    return Memory(name, size)


def make_views(fd: int, size: int, device: torch.device) -> SharedViews:
    """The candidate's view of a region."""
    if device.type == "cuda":
        return VmmViews(fd, size, device)
    return Views(fd, size)
