"""A room as it is held from outside, sealed or not: its first program, the agent that this becomes, and their end."""

from __future__ import annotations

import contextlib
import fcntl
import marshal
import os
import select
import socket
import struct
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Any, BinaryIO

from grader.sandbox.base import Jail, Sandbox, SandboxError
from grader.sandbox.launch import first_command, first_program
from harness.record.run import RoomRecord
from harness.room.base import Files, RoomError

__all__ = ["First", "HeldRoom", "Inside", "start_first"]

FIRST_PROGRAM = Path(__file__).with_name("inside.py")
START_SECONDS = 30.0
ANSWER_BYTES = 1 << 16
SAID_BYTES = 1 << 12
MOST_DESCRIPTORS = 8
USER = "kbh"
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True, slots=True)
class Inside:
    """What the agent sees. `seen` gives the place of a path of a sealed room."""

    base_url: str
    workspace: PurePosixPath
    home: PurePosixPath
    temporary: PurePosixPath
    seen: Callable[[PurePosixPath], PurePosixPath]


@dataclass(frozen=True, slots=True)
class First:
    """The first program of a room, which waits. `said` is what it and the sandbox print, `left` a pipe that tells how
    many processes were alive when it ended, `told` what it said, `descriptors` what it sent.
    """

    sandbox: Sandbox
    process: subprocess.Popen[bytes]
    pid: int
    link: socket.socket
    said: BinaryIO
    left: int
    told: Mapping[str, Any]
    descriptors: Sequence[int]

    def end(self) -> None:
        """Ends the process and all that it started. Raises SandboxError."""
        self.sandbox.end(self.process)

    def close(self) -> None:
        """Closes what this end holds, but for `descriptors`."""
        self.link.close()
        self.said.close()
        os.close(self.left)


def start_first(sandbox: Sandbox, jail: Jail, folders: Sequence[str], address: tuple[str, int] | None) -> First:
    """Starts a room with its first program, which opens the folders and listens. Raises SandboxError."""
    with ExitStack() as stack:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        stack.callback(theirs.close)
        kept = stack.enter_context(ExitStack())
        kept.callback(ours.close)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        ours.settimeout(START_SECONDS)
        said = kept.enter_context(os.fdopen(os.memfd_create("kbh-said", os.MFD_CLOEXEC), "w+b", buffering=0))
        left, report = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        kept.callback(os.close, left)
        stack.callback(os.close, report)
        program = first_program(
            FIRST_PROGRAM, {"link": theirs.fileno(), "folders": list(folders), "address": address}
        )  # fmt: skip
        stack.callback(os.close, program)
        try:
            process = sandbox.spawn(
                first_command(jail, program), env={}, cwd=Path("/"), fds=[theirs.fileno(), program], jail=jail,
                output=said, report=report,
            )  # fmt: skip
        except SandboxError as error:
            raise SandboxError(_printed(said) or str(error)) from None
        kept.callback(sandbox.end, process)
        theirs.close()
        told, descriptors, pid = _first_words(ours)
        for descriptor in descriptors:
            kept.callback(os.close, descriptor)
        if "error" in told or len(descriptors) != len(folders) + (address is not None):
            raise SandboxError(told.get("error") or _printed(said) or "its first program ended at once")
        kept.pop_all()
        return First(sandbox, process, pid, ours, said, left, told, descriptors)


def _first_words(link: socket.socket) -> tuple[dict[str, Any], list[int], int]:
    """What the first program says and sends, and its number here. Nothing where it ended."""
    ancillary = socket.CMSG_SPACE(MOST_DESCRIPTORS * 4) + socket.CMSG_SPACE(12)
    descriptors: list[int] = []
    pid = -1
    try:
        data, extra, _, _ = link.recvmsg(ANSWER_BYTES, ancillary, socket.MSG_CMSG_CLOEXEC)
    except OSError:
        return {}, [], pid
    for level, kind, content in extra:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors = [number for (number,) in struct.iter_unpack("i", content[: len(content) // 4 * 4])]
        elif (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
            pid = struct.unpack("3i", content)[0]
    return (marshal.loads(data) if data else {}), descriptors, pid


class HeldRoom:
    """`harness.room.base.Room`. `giving_back` is run at the end, when nothing of the room lives any more."""

    def __init__(
        self, record: RoomRecord, files: Files, listener: socket.socket, inside: Inside, first: First,
        giving_back: ExitStack,
    ) -> None:  # fmt: skip
        self.record, self.files, self.listener = record, files, listener
        self.base_url, self.workspace, self.home = inside.base_url, inside.workspace, inside.home
        self.temporary = inside.temporary
        self.seen = inside.seen
        self._first = first
        self._giving_back = giving_back
        self._handle = os.pidfd_open(first.process.pid)
        self._lock = threading.RLock()
        self._started = self._ended = self._closed = False
        self._left: int | None = None

    def __enter__(self) -> HeldRoom:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(
        self, argv: Sequence[str], *, env: Mapping[str, str], stdin: bytes, stdout: BinaryIO, stderr: BinaryIO
    ) -> None:
        """See `Room`."""
        if not argv:
            raise RoomError("there is no program to start in the room")
        with self._lock:
            if self._started or self._ended:
                raise RoomError("a room runs one agent, once")
            self._started = True
            settings = {"argv": list(argv), "env": {**self._usual(), **env}, "cwd": str(self.workspace)}
            with ExitStack() as stack:
                sent = [_sealed_file(marshal.dumps(settings)), _standard_input(stdin)]
                for descriptor in sent:
                    stack.callback(os.close, descriptor)
                for stream in (stdout, stderr):
                    with contextlib.suppress(OSError):  # so that what the agent starts can open it by its name
                        if self.record.uid != os.getuid():
                            os.fchown(stream.fileno(), self.record.uid, -1)
                    sent.append(stream.fileno())
                self._hand_over(sent)

    def _hand_over(self, descriptors: Sequence[int]) -> None:
        """Has the first program become the agent: its end of the link closes then. Raises RoomError."""
        link = self._first.link
        try:
            socket.send_fds(link, [b"g"], list(descriptors))
            answer = link.recv(ANSWER_BYTES)
        except OSError:
            raise RoomError(f"the room failed before the agent began: {_printed(self._first.said)}") from None
        if answer:
            self.end()
            raise RoomError(f"the agent could not be started in the room: {marshal.loads(answer)['error']}")

    def _usual(self) -> dict[str, str]:
        places = {"HOME": str(self.home), "TMPDIR": str(self.temporary)}
        if self.record.gpu and not self.record.sealed:  # elsewhere there is no node of another one
            places["CUDA_VISIBLE_DEVICES"] = self.record.gpu
        return {**places, "USER": USER, "LOGNAME": USER, "SHELL": "/bin/bash", "PATH": SYSTEM_PATH}

    def wait(self, seconds: float) -> int | None:
        """See `Room`."""
        with self._lock:
            if self._closed:
                return self._first.process.returncode
            handle = os.dup(self._handle)
        try:
            poll = select.poll()
            poll.register(handle, select.POLLIN)
            if not poll.poll(max(seconds, 0.0) * 1000):
                return None
        finally:
            os.close(handle)
        with self._lock:
            return self._first.process.wait()

    def left_over(self) -> int:
        """See `Room`."""
        with self._lock:
            if self._left is None and self._first.process.poll() is not None:
                with contextlib.suppress(OSError, ValueError):
                    self._left = int(os.read(self._first.left, 32))
                self._left = self._left or 0
            return self._count() if self._left is None else self._left

    def _count(self) -> int:
        return len(set(self._first.sandbox.alive(self._first.process)) - {self._first.pid})

    def end(self) -> None:
        """See `Room`."""
        with self._lock:
            if self._ended:
                return
            self._left = self.left_over()
            try:
                self._first.end()
            except SandboxError as error:
                raise RoomError(str(error)) from None
            self._ended = True

    def close(self) -> None:
        """See `Room`."""
        with self._lock:
            if self._closed:
                return
            self.end()
            self._closed = True
            os.close(self._handle)
            self._first.close()
            self.listener.close()
            self._giving_back.close()


def _printed(said: BinaryIO) -> str:
    """The last line that the sandbox printed."""
    size = os.fstat(said.fileno()).st_size
    text = os.pread(said.fileno(), SAID_BYTES, max(size - SAID_BYTES, 0)).decode("utf-8", "replace")
    return next((line.strip()[:300] for line in reversed(text.splitlines()) if line.strip()), "")


def _standard_input(data: bytes) -> int:
    return _sealed_file(data) if data else os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)


def _sealed_file(data: bytes) -> int:
    """A descriptor of a memory file with this content, which nobody can change."""
    fd = os.memfd_create("kbh-given", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with os.fdopen(os.dup(fd), "wb") as file:
        file.write(data)
    os.lseek(fd, 0, os.SEEK_SET)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL)
    return fd
