"""What judge and candidate say to each other: frames over a socket pair.

A frame is a fixed header, up to MAX_NUMBERS doubles and up to MAX_TEXT bytes of UTF-8. Nothing that the candidate sends
is unpickled or evaluated; text from it is only ever shown, without control characters. Needs no torch, so that a
process can be started before it is imported.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

__all__ = [
    "ChannelError", "Frame", "Kind", "clean_text", "is_answer", "receive", "receive_with", "send",
]  # fmt: skip

MAX_NUMBERS = 512
MAX_TEXT = 1 << 16
MAX_DESCRIPTORS = 3
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
    COMPILED = 25  # wait for the compilers of a process that collects; brings nothing


# What the submission's process may say to a question besides that all went well.
TROUBLES = frozenset({Kind.FAULT, Kind.ERROR, Kind.REFUSED})


def is_answer(question: Kind, answer: Kind) -> bool:
    """Whether this kind of answer fits the question: DONE to a call, whose outputs are in place then, and READY to any
    other; trouble fits all."""
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
