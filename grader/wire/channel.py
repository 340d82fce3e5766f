"""What judge and candidate say to each other: frames over a socket pair, tensors in sealed shared memory.

A frame is a fixed header, up to MAX_NUMBERS doubles and up to MAX_TEXT bytes of UTF-8. Nothing that the candidate sends
is unpickled or evaluated; text from it is only ever shown, without control characters. Tensors lie in memory files of
the judge, whose descriptors travel with frames from judge to candidate and never back. They are sealed against
shrinking, so that a child cannot make the judge's mapping fault. The judge takes every byte in them as written by an
enemy.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import socket
import struct
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol

import torch
from torch import Tensor

__all__ = [
    "ChannelError", "Frame", "Kind", "Memory", "Slot", "Specified", "Views", "clean_text", "is_answer", "layout",
    "receive", "receive_with", "send", "size_of", "slots_from_json", "slots_to_json",
]  # fmt: skip

MAX_NUMBERS = 512
MAX_TEXT = 1 << 16
MAX_DESCRIPTORS = 3
ALIGNMENT = 512  # what torch gives its own tensors on a GPU; wide loads and descriptors count on it
POISON = 0xFF  # NaN in every float format of the deck, -1 in the integers
_HEADER = struct.Struct("<4sBxHII")
_MAGIC = b"kbh1"


class ChannelError(Exception):
    """The other side sent something that is not a frame, or nothing in time; the text is one sentence."""


class Kind(IntEnum):
    """What a frame says. Those from LOAD on are the judge's questions, the rest answers."""

    READY = 1
    DONE = 2
    FAULT = 3  # the outputs break the contract
    ERROR = 4  # the submission raised
    REFUSED = 5  # this machine cannot run it
    LOAD = 16  # a model at one shape; brings the memory of state, inputs and outputs
    CALL = 17  # one call on one slot
    PREPARE = 18  # get ready for batches; brings the memory of their inputs and outputs
    STOP = 19
    IMPORT = 20  # import the submission
    GO = 21  # run the batch; brings the memory of its inputs, where that is another one
    FINISH = 22  # this shape is over
    REHEARSE = 23  # take the memory of a batch's inputs as GO does; brings what it has already
    BEGIN = 24  # start using the device, which a process that was started ahead leaves alone until then


# What the submission's process may say to a question besides that all went well.
TROUBLES = frozenset({Kind.FAULT, Kind.ERROR, Kind.REFUSED})


def is_answer(question: Kind, answer: Kind) -> bool:
    """Whether an answer is one to this question: DONE says that outputs are in their places, READY all else."""
    return answer in TROUBLES or answer == (Kind.DONE if question in (Kind.CALL, Kind.GO) else Kind.READY)


_KINDS = frozenset(int(kind) for kind in Kind)


@dataclass(frozen=True, slots=True)
class Frame:
    """One message. An answer repeats the `seq` of its question."""

    kind: Kind
    seq: int
    numbers: tuple[float, ...] = ()
    text: str = ""


def send(link: socket.socket, frame: Frame, descriptors: Sequence[int] = ()) -> None:
    """Writes one frame, with at most MAX_DESCRIPTORS open files; text that is too long is cut."""
    text = frame.text.encode("utf-8", "replace")[:MAX_TEXT]
    numbers = frame.numbers[:MAX_NUMBERS]
    header = _HEADER.pack(_MAGIC, frame.kind, len(numbers), frame.seq, len(text))
    data = header + struct.pack(f"<{len(numbers)}d", *numbers) + text
    if descriptors:
        data = data[socket.send_fds(link, [data], descriptors) :]
    link.sendall(data)


def receive(link: socket.socket, deadline: float | None = None) -> Frame:
    """Reads one frame; `deadline` is on the monotonic clock. Descriptors that come with it are dropped by the kernel.

    Raises EOFError when the other side is gone, TimeoutError after the deadline, ChannelError for bytes that are no
    frame.
    """
    return _frame(_read(link, _HEADER.size, deadline), link, deadline)


def receive_with(link: socket.socket) -> tuple[Frame, list[int]]:
    """The candidate's form: waits for a frame and takes the open files that come with it."""
    header, descriptors, _, _ = socket.recv_fds(link, _HEADER.size, MAX_DESCRIPTORS)
    if not header:
        raise EOFError
    return _frame(header + _read(link, _HEADER.size - len(header), None), link, None), descriptors


def _frame(header: bytes, link: socket.socket, deadline: float | None) -> Frame:
    magic, kind, count, seq, length = _HEADER.unpack(header)
    if magic != _MAGIC or count > MAX_NUMBERS or length > MAX_TEXT or kind not in _KINDS:
        raise ChannelError("what came over the channel is not a message")
    numbers = struct.unpack(f"<{count}d", _read(link, 8 * count, deadline))
    text = _read(link, length, deadline).decode("utf-8", "replace")
    return Frame(Kind(kind), seq, numbers, text)


def _read(link: socket.socket, size: int, deadline: float | None) -> bytes:
    data = bytearray()
    while len(data) < size:
        if deadline is not None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            link.settimeout(left)
        try:
            part = link.recv(size - len(data))
        except ConnectionError:
            part = b""
        if not part:
            raise EOFError
        data += part
    return bytes(data)


def clean_text(text: str, limit: int) -> str:
    """Text from the candidate for people: printable, at most `limit` characters, the end of it where it is longer."""
    shown = "".join(c if c.isprintable() or c == "\n" else "?" for c in text.replace("\t", "    ")).strip()
    return shown if len(shown) <= limit else "..." + shown[-limit:].lstrip()


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
    """Bytes that the slots take, up to where another could begin."""
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
        """A CPU looks pages up where it needs them, and that is in the time of an empty call as well."""

    def close(self) -> None:
        """Leaves the memory mapped until the process ends: a tensor that a submission kept must not fault."""


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
        """Overwrites `size` bytes with what no right output is."""
        self.raw(size, offset).fill_(POISON)

    def close(self) -> None:
        """Gives up the descriptor; the memory goes when the last mapping does."""
        os.close(self.fd)
