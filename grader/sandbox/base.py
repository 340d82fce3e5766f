"""What a sandbox is: a way to start a submission's process with little, and to end it with everything it started.

A further kind is a module of `grader.sandbox.kinds`, whose head says all that one must do.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Protocol, runtime_checkable

from grader.record.cell import SandboxRecord

__all__ = ["SEEN", "CheckError", "Jail", "Layout", "Paired", "Sandbox", "SandboxError"]

SEEN = PurePosixPath("/kbh-scratch")  # what a candidate is given lies here, wherever it lies outside


class SandboxError(Exception):
    """A sandbox cannot be had or did not hold on this machine; the text is one sentence."""


class CheckError(Exception):
    """A check could not be made: the file, the problem or this machine is to blame; the text is one sentence."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A file system for an agent: with nothing of this program in it, and with loopback sockets and memory files.

    `mounts` are seen read-only under another path, `files` have these contents, `folders` are empty, belong to whoever
    makes the sandbox, and hold so many bytes. The interpreter is always there; `libraries` adds its packages and the
    compilers. `nodes` are device nodes. Only bubblewrap can do it.
    """

    mounts: tuple[tuple[Path, PurePosixPath], ...] = ()
    files: tuple[tuple[PurePosixPath, bytes], ...] = ()
    folders: tuple[tuple[PurePosixPath, int], ...] = ()
    nodes: tuple[Path, ...] = ()
    libraries: bool = True


@dataclass(frozen=True, slots=True)
class Jail:
    """What one process may touch, and how much it may use.

    `read` and `write` are folders or files beyond those that Python, torch and the compilers need; what is in `write`
    is given to the user that the process runs as. Sizes are in bytes: `data_bytes` is the private memory of each
    process (None: no limit, for a GPU, whose runtime reserves far more than it uses), `file_bytes` the largest file,
    `tmp_bytes` what fits into /tmp and /dev/shm where the sandbox makes its own. `profiler` adds the device nodes that
    a profiler needs, and sockets on the loopback of a network of its own. `layout` is None for a candidate. `also` are
    folders of `read` and `write` that are seen under another path too, where the kind of sandbox can do that.
    """

    read: tuple[Path, ...]
    write: tuple[Path, ...]
    gpu: bool = False
    data_bytes: int | None = None
    processes: int = 256
    file_bytes: int = 4 << 30
    tmp_bytes: int = 2 << 30
    profiler: bool = False
    layout: Layout | None = None
    also: tuple[tuple[Path, PurePosixPath], ...] = ()


class Sandbox(Protocol):
    """One kind of sandbox on this machine."""

    @property
    def record(self) -> SandboxRecord:
        """The kind of this sandbox and what it lacks, for the cell."""

    def spawn(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        fds: Sequence[int],
        jail: Jail,
        output: BinaryIO,
        report: int | None = None,
    ) -> subprocess.Popen[bytes]:
        """Starts `argv` with exactly `env` and the descriptors `fds`, which keep their numbers. Raises SandboxError.

        What it prints goes to `output`. The process that is returned is the one to wait for: its exit status is that
        of `argv`, or 128 plus the number of the signal that killed it. With the judge it ends, and all it started.
        When it ends by itself, how many of those that it started are alive then is written to the descriptor `report`.
        `launch.start` does all of this but for what is special to a kind.
        """

    def alive(self, process: subprocess.Popen[bytes]) -> list[int]:
        """The numbers, in this process's table, of `process` and of what it started, as far as they are running."""

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """Kills the process and everything that it started, and waits until none is left. Raises SandboxError."""


@runtime_checkable
class Paired(Protocol):
    """A kind that keeps two processes apart well enough to run both at a time."""

    def second(self, place: int) -> Sandbox:
        """A sandbox for a process that runs at the same time, as the user of another `place`. Raises SandboxError."""
