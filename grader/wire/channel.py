"""The tensors that judge and candidate share: slots in sealed shared memory.

They lie in memory files of the judge, whose descriptors travel with frames (`grader.wire.frames`) from judge to
candidate and never back. They are sealed against shrinking, so that a child cannot make the judge's mapping fault. The
judge takes every byte in them as written by an enemy.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

__all__ = ["Memory", "Slot", "Specified", "Views", "layout", "size_of", "slots_from_json", "slots_to_json"]

ALIGNMENT = 512  # what torch gives its own tensors on a GPU; wide loads and descriptors count on it
POISON = 0xFF  # NaN in every float format of the deck, -1 in the integers


class Specified(Protocol):
    """A tensor that a contract describes: `kbh_lint.problems.TensorSpec` fits."""

    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...


@dataclass(frozen=True, slots=True)
class Slot:
    """Where a tensor lies in a memory file, in bytes."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    offset: int

    @property
    def nbytes(self) -> int:
        """Bytes of the tensor."""
        return torch.Size(self.shape).numel() * self.dtype.itemsize


def layout(specs: Iterable[Specified], dtypes: Mapping[str, torch.dtype], offset: int = 0) -> tuple[Slot, ...]:
    """Places one after the other from `offset` on, each at a multiple of ALIGNMENT."""
    slots = []
    for spec in specs:
        slot = Slot(spec.name, dtypes[spec.dtype], tuple(spec.shape), offset)
        slots.append(slot)
        offset += -(-slot.nbytes // ALIGNMENT) * ALIGNMENT
    return tuple(slots)


def size_of(slots: Sequence[Slot]) -> int:
    """Bytes that the slots take in shared memory, with the padding behind the last."""
    return slots[-1].offset + -(-slots[-1].nbytes // ALIGNMENT) * ALIGNMENT if slots else 0


def slots_to_json(slots: Iterable[Slot]) -> list[list[Any]]:
    """The slots as the judge sends them to the candidate."""
    return [[s.name, str(s.dtype).removeprefix("torch."), list(s.shape), s.offset] for s in slots]


def slots_from_json(rows: Iterable[Sequence[Any]]) -> tuple[Slot, ...]:
    """The reverse of `slots_to_json`."""
    return tuple(Slot(name, getattr(torch, dtype), tuple(shape), offset) for name, dtype, shape, offset in rows)


class Views:
    """The candidate's side of a memory file: tensors over it, each a storage of its own, at addresses that stay."""

    def __init__(self, fd: int, size: int) -> None:
        self.size = size
        self._address = _map(None, size, fd, mmap.MAP_SHARED)

    def tensor(self, slot: Slot) -> Tensor:
        """The tensor of a slot; writes go to the shared memory. It must not be used after `close`."""
        if slot.nbytes == 0:
            return torch.empty(slot.shape, dtype=slot.dtype)
        place = (ctypes.c_ubyte * slot.nbytes).from_address(self._address + slot.offset)
        return torch.frombuffer(place, dtype=torch.uint8).view(slot.dtype).view(slot.shape)

    def replace(self, fd: int) -> None:
        """Maps another file of the same size over the same addresses: tensors made before now show what it holds."""
        _map(self._address, self.size, fd, mmap.MAP_SHARED | _MAP_FIXED)

    def warm(self) -> None:
        """Does nothing: a CPU looks pages up where it needs them, and that is in the time of an empty call as well."""

    def close(self) -> None:
        """Does nothing: the memory stays mapped until the process ends, since a tensor that a submission kept must not
        fault.
        """


_MAP_FIXED = 0x10
_FAILED = ctypes.c_void_p(-1).value
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


def _map(address: int | None, size: int, fd: int, flags: int) -> int:
    place = _libc.mmap(address, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, fd, 0)
    if place is None or place == _FAILED:
        number = ctypes.get_errno()
        raise OSError(number, f"a memory file cannot be mapped: {os.strerror(number)}")
    return int(place)


class Memory:
    """The judge's side: a new memory file; `fd` is what the candidate gets. Needs Linux."""

    def __init__(self, name: str, size: int) -> None:
        self.size = max(size, mmap.PAGESIZE)
        self.fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.fd, self.size)
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        self._map = mmap.mmap(self.fd, self.size)

    def tensor(self, slot: Slot) -> Tensor:
        """The tensor of a slot; writes go to the shared memory."""
        if slot.nbytes == 0:
            return torch.empty(slot.shape, dtype=slot.dtype)
        raw = torch.frombuffer(self._map, dtype=torch.uint8, count=slot.nbytes, offset=slot.offset)
        return raw.view(slot.dtype).view(slot.shape)

    def raw(self, size: int, offset: int = 0) -> Tensor:
        """`size` bytes from `offset` on."""
        return torch.frombuffer(self._map, dtype=torch.uint8, count=max(size, 1), offset=offset)[:size]

    def poison(self, size: int, offset: int = 0) -> None:
        """Overwrites `size` bytes with a pattern that no right output has."""
        self.raw(size, offset).fill_(POISON)

    def close(self) -> None:
        """Gives up the descriptor; the memory goes when the last mapping does."""
        os.close(self.fd)
