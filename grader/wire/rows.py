"""The judge's reading and writing of rows: the tensors of one call, or the weights of one model, in shared memory.

A region (`grader.wire.memory.SharedMemory`) holds rows of one form, one after the other.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from grader.wire.channel import Slot, size_of
from grader.wire.memory import SharedMemory

__all__ = ["Row"]

MOST_INT64 = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Row:
    """Where the tensors of a row lie, from its beginning on."""

    slots: tuple[Slot, ...]

    @property
    def stride(self) -> int:
        """Bytes from one row to the next."""
        return size_of(self.slots)

    @property
    def real_bytes(self) -> int:
        """The bytes of a row's tensors, without the gaps between them."""
        return sum(slot.nbytes for slot in self.slots)

    def write(self, memory: SharedMemory, index: int, tensors: Mapping[str, Tensor]) -> None:
        """Copies tensors to row `index` of a region. Raises ValueError for one of another type or shape."""
        begin = index * self.stride
        for slot in self.slots:
            tensor = tensors[slot.name]
            if tensor.dtype != slot.dtype or tuple(tensor.shape) != slot.shape:
                raise ValueError(f"{slot.name} as {tensor.dtype} {list(tensor.shape)}")
            memory.tensor(replace(slot, offset=slot.offset + begin)).copy_(tensor)

    def changed(self, memory: SharedMemory, index: int, tensors: Mapping[str, Tensor]) -> list[str]:
        """Names of the tensors of row `index` that do not hold these values, byte for byte."""
        offset, slots = index * self.stride, [slot for slot in self.slots if slot.nbytes]
        same = [(memory.raw(one.nbytes, offset + one.offset) == _bytes(tensors[one.name])).all() for one in slots]
        held = torch.stack(same).tolist() if same else []  # asked for at once: a device is waited for once
        return [slot.name for slot, one in zip(slots, held, strict=True) if not one]

    def copied(self, memory: SharedMemory, index: int) -> Tensor:
        """A copy of the bytes of row `index`."""
        return memory.raw(self.stride, index * self.stride).clone()

    def split(self, taken: Tensor) -> tuple[Tensor, ...]:
        """Splits the bytes of a row into its tensors."""
        return tuple(
            taken[slot.offset : slot.offset + slot.nbytes].view(slot.dtype).view(slot.shape) for slot in self.slots
        )

    def empty(self, device: torch.device) -> dict[str, Tensor]:
        """New uninitialised tensors of these types and shapes, by name."""
        return {slot.name: torch.empty(slot.shape, dtype=slot.dtype, device=device) for slot in self.slots}

    def sampled(self, rows: int, count: int) -> Tensor:
        """Offsets in a region of `count` bytes of each of the first `rows` rows, drawn at random now: [rows, count]."""
        slots = [slot for slot in self.slots if slot.nbytes]
        ends = torch.tensor([slot.nbytes for slot in slots]).cumsum(0)
        starts = torch.tensor([slot.offset + slot.nbytes for slot in slots]) - ends
        drawn = torch.frombuffer(bytearray(secrets.token_bytes(8 * rows * count)), dtype=torch.int64)
        byte = (drawn & MOST_INT64).remainder(int(ends[-1])).view(rows, count)  # 2^63 is far more than the bytes
        which = (byte[..., None] >= ends).sum(-1)  # torch.bucketize wakes other threads, which takes 8 ms on a host
        return torch.arange(rows)[:, None] * self.stride + byte + starts[which]


def _bytes(tensor: Tensor) -> Tensor:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)
