"""GPU memory that judge and candidate share: one driver allocation a region, handed over as a file descriptor.

A descriptor of the driver's virtual memory management names one allocation and nothing beside it; torch's and CUDA's
own handles for sharing would name a whole segment of the judge's allocator. A candidate maps a region at addresses that
it reserves once. `VmmViews.replace` puts another allocation at the same addresses: tensors and captured graphs that
hold the addresses then read the new values, which were nowhere in the candidate's reach before. The judge takes every
byte of a region as written by an enemy.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any

import torch
from torch import Tensor

from grader.wire.channel import POISON, Slot
from grader.wire.driver import GpuError, bound, constant, make, ordinal

__all__ = ["VmmMemory", "VmmViews"]


PAGE = 2 << 20  # the granularity of the driver's allocations


def _properties(number: int) -> Any:
    """Of an allocation: device memory that can leave the process as a POSIX file descriptor."""
    properties = make("CUmemAllocationProp")
    properties.type = constant("CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED")
    properties.requestedHandleTypes = constant("CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR")
    properties.location.type = constant("CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE")
    properties.location.id = number
    return properties


def _rounded(size: int, granularity: int) -> int:
    """`size` as the driver can map it: a positive multiple of its granularity."""
    return max(-(-size // granularity), 1) * granularity


class _Bytes:
    """What torch makes a tensor from without a copy; holds the region, so that no tensor outlives its addresses."""

    def __init__(self, owner: _Region, address: int, size: int) -> None:
        self.owner = owner
        self.__cuda_array_interface__ = {
            "shape": (size,), "typestr": "|u1", "data": (address, False), "strides": None, "version": 3,
        }  # fmt: skip


class _Region:
    """A reserved range of addresses of one device, with one allocation mapped at it. Raises GpuError."""

    def __init__(self, size: int, device: str | torch.device) -> None:
        number = ordinal(device)
        self.device = torch.device("cuda", number)
        self._properties = _properties(number)
        minimum = constant("CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM")
        granularity = bound("cuMemGetAllocationGranularity")(self._properties, minimum)
        self.size = _rounded(size, granularity)
        self._access = make("CUmemAccessDesc")
        self._access.location = self._properties.location
        self._access.flags = constant("CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE")
        self._map, self._unmap = bound("cuMemMap"), bound("cuMemUnmap")
        self._set_access, self._release = bound("cuMemSetAccess"), bound("cuMemRelease")
        self._import, self._free = bound("cuMemImportFromShareableHandle"), bound("cuMemAddressFree")
        self._kind = constant("CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR")
        self._mapped = False
        self.address = int(bound("cuMemAddressReserve")(self.size, granularity, 0, 0))

    def _place(self, handle: object) -> None:
        """Maps an allocation and gives up the handle: from then on the mapping alone keeps it."""
        try:
            self._map(self.address, self.size, 0, handle, 0)
            self._mapped = True
            self._set_access(self.address, self.size, [self._access], 1)
        finally:
            self._release(handle)

    def tensor(self, slot: Slot) -> Tensor:
        """The tensor of a slot, a storage of its own; writes go to the shared memory, in stream order."""
        if slot.nbytes == 0:
            return torch.empty(slot.shape, dtype=slot.dtype, device=self.device)
        return self.raw(slot.nbytes, slot.offset).view(slot.dtype).view(slot.shape)

    def raw(self, size: int, offset: int = 0) -> Tensor:
        """`size` bytes from `offset` on."""
        if min(size, offset) < 0 or offset + size > self.size:
            raise ValueError(f"{size} bytes from {offset} on lie outside a region of {self.size}")
        return self._bytes(offset, size) if size else torch.empty(0, dtype=torch.uint8, device=self.device)

    def _bytes(self, offset: int, size: int) -> Tensor:
        return torch.as_tensor(_Bytes(self, self.address + offset, size), device=self.device)

    def close(self) -> None:
        """Gives the memory and its addresses up once the device is idle; no tensor over them may be used after it."""
        if not self.address:
            return
        with contextlib.suppress(RuntimeError):  # a context that a kernel has broken holds no work to wait for
            torch.cuda.synchronize(self.device)
        address, self.address = self.address, 0
        try:
            if self._mapped:
                self._unmap(address, self.size)
        finally:
            self._free(address, self.size)


class VmmViews(_Region):
    """The candidate's side: the allocation that `fd` names, at addresses that stay. The caller closes `fd`."""

    def __init__(self, fd: int, size: int, device: str | torch.device = "cuda") -> None:
        super().__init__(size, device)
        try:
            self._place(self._import(fd, self._kind))
        except GpuError:
            self.close()
            raise
        self._sum = torch.sum

    def warm(self) -> None:
        """Reads a byte of each page, in stream order.

        After `replace` the device knows none of the addresses, and a kernel that streams through them waits for each.
        """
        self._sum(self.raw(self.size)[::PAGE])

    def replace(self, fd: int) -> None:
        """Maps another allocation of the same size over the same addresses: every tensor made before reads that one.

        The device must be idle. The caller closes `fd`. Raises GpuError, after which the region is not mapped.
        """
        handle = self._import(fd, self._kind)
        try:
            self._unmap(self.address, self.size)
            self._mapped = False
        except GpuError:
            self._release(handle)
            raise
        self._place(handle)


class VmmMemory(_Region):
    """The judge's side: a new allocation. `fd` is what a candidate inherits or is sent; `size` is what it maps."""

    def __init__(self, name: str, size: int, device: str | torch.device = "cuda") -> None:
        super().__init__(size, device)
        self.name, self.fd = name, -1
        try:
            handle = bound("cuMemCreate")(self.size, self._properties, 0)
            try:
                self.fd = int(bound("cuMemExportToShareableHandle")(handle, self._kind, 0))
                os.set_inheritable(self.fd, False)
            except BaseException:
                self._release(handle)
                raise
            self._place(handle)
        except BaseException:
            self.close()
            raise

    def poison(self, size: int, offset: int = 0) -> None:
        """Overwrites bytes with a pattern that no right output has, in stream order."""
        self.raw(size, offset).fill_(POISON)

    def close(self) -> None:
        """Gives up the descriptor and this process's mapping; the memory goes when the last mapping of it does."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)
        super().close()
