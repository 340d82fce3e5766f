"""What a room is: where an agent works, sealed from everything but the proxy that comes in to it."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Protocol

from harness.record.run import RoomRecord

__all__ = ["Files", "Mount", "Room", "RoomError", "RoomSpec", "Usage"]


class RoomError(Exception):
    """A room cannot be had, or something in it cannot be read; the text is one sentence."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A folder or file of this machine that is seen in the room, read-only, under another path."""

    source: Path
    target: PurePosixPath


@dataclass(frozen=True, slots=True)
class RoomSpec:
    """What a room offers and bounds. `gpu` is the UUID of the one GPU whose device nodes are in it, "" for none.

    `disk_bytes` bounds all that is written below /agent, `tmp_bytes` /tmp and /dev/shm each, `memory_bytes` each
    process's private memory (None: no limit, for a GPU), `processes` their number, `file_bytes` one file.
    `python` offers this program's Python with torch and the compilers.
    """

    mounts: tuple[Mount, ...] = ()
    gpu: str = ""
    disk_bytes: int = 4 << 30
    tmp_bytes: int = 1 << 30
    memory_bytes: int | None = 8 << 30
    processes: int = 512
    file_bytes: int = 2 << 30
    python: bool = True


@dataclass(frozen=True, slots=True)
class Usage:
    """What is written below /agent now: bytes of files and their number."""

    bytes: int
    files: int


class Files(Protocol):
    """The files below /agent, from outside. Paths are relative ("workspace/solution.py"). No link is ever followed and
    no path leads out; everything is bounded. Reading goes on working after the room's end, until `Room.close`.
    """

    def write(self, path: str, data: bytes, *, executable: bool = False) -> None:
        """Writes a file, with the folders on the way, so that the agent may change it. Raises RoomError."""

    def read(self, path: str, most: int) -> bytes:
        """The bytes of a plain file. Raises RoomError: missing, a link, no plain file, longer than `most`."""

    def walk(self, path: str, *, most: int = 10_000) -> Sequence[tuple[str, int, int]]:
        """(path, bytes, mtime in ns) of the plain files beneath a folder, in order; links and other kinds are left
        out. Raises RoomError where there are more than `most` entries."""

    def links(self, path: str, *, most: int = 10_000) -> Sequence[tuple[str, str]]:
        """(path, what it leads to) of the symbolic links beneath a folder."""

    def used(self) -> Usage:
        """The bytes and the number of the files below /agent."""


class Room(Protocol):
    """A room with nothing running in it, until `start`. Use as a context manager: leaving it is `close`.

    Paths are those that the agent sees: /agent/workspace and so on where the room is sealed, else folders of this
    machine. Methods may be called from any thread.
    """

    record: RoomRecord
    files: Files
    listener: socket.socket  # of `base_url`; whoever holds it here answers. Nobody else hears what is sealed
    base_url: str
    workspace: PurePosixPath
    home: PurePosixPath
    temporary: PurePosixPath

    def seen(self, path: PurePosixPath) -> PurePosixPath:
        """Where the agent finds what a sealed room has at `path`: a mount, or a folder below /agent."""

    def start(
        self, argv: Sequence[str], *, env: Mapping[str, str], stdin: bytes, stdout: BinaryIO, stderr: BinaryIO
    ) -> None:
        """Starts the agent in the workspace, once. stdout and stderr are given to it as they are (a pipe's end, a
        file). `env` is all of its environment but for HOME, TMPDIR, USER, LOGNAME, SHELL and PATH where it lacks them.
        Raises RoomError."""

    def wait(self, seconds: float) -> int | None:
        """The exit status of the agent (128 + signal) when it ends within a time, else None."""

    def left_over(self) -> int:
        """How many processes besides the agent itself are alive in the room: now, or when the agent ended."""

    def end(self) -> None:
        """Kills the agent and everything it started, however it hides, and returns when nothing is left. Raises
        RoomError where something is."""

    def close(self) -> None:
        """`end`, and gives everything back: files are gone afterwards."""
