"""NVIDIA's cuobjdump and nvdisasm: where they are, and running them on a file within bounds.

They read what a submission's process wrote and were not made for hostile files. So each runs in the same kind of
sandbox as the submission, sees the one file and no network, and has limits on its time, memory and output. What comes
back is text, and files that are looked at as hostile.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import BinaryIO

from grader.sandbox import Jail, Sandbox, SandboxError

__all__ = ["ToolError", "Tools", "find_tools", "run_tool"]

SECONDS = 60.0
LOOKS_SECONDS = 0.25  # between two looks at how much a tool has printed
MOST_TEXT = 256 << 20  # bytes of one answer
MOST_ERRORS = 1 << 16
MOST_MEMORY = 4 << 30  # private memory of each process
MOST_PROCESSES = 16
LOST = 125  # exit status of a sandbox that could not be set up
# The program's words on what went wrong go into a file of their own, so that the answer is the answer alone.
SPLIT = 'exec "$@" 2>errors'
_VERSION = re.compile(r"\bV(\d+\.\d+\.\d+)\b")


class ToolError(Exception):
    """A tool is missing, or did not come to a good end; the message is one sentence."""


@dataclass(frozen=True, slots=True)
class Tools:
    """The two programs and the version of nvdisasm, which decides what it can name."""

    cuobjdump: Path
    nvdisasm: Path
    version: str


def find_tools() -> Tools:
    """The tools inside triton's package, else those of CUDA_HOME, else those on the PATH.

    Raises ToolError when either is missing everywhere.
    """
    return _found(os.environ.get("CUDA_HOME", ""), os.environ.get("PATH", ""))


@cache
def _found(cuda_home: str, search: str) -> Tools:
    folders = [folder for folder in (_triton(), Path(cuda_home) / "bin" if cuda_home else None) if folder]
    folders += [Path("/usr/local/cuda/bin")]
    found: dict[str, Path] = {}
    for name in ("cuobjdump", "nvdisasm"):
        places = [folder / name for folder in folders] + [
            Path(place) for place in [shutil.which(name, path=search)] if place
        ]
        usable = [place for place in places if place.is_file() and os.access(place, os.X_OK)]
        if not usable:
            raise ToolError(
                f"{name} was not found in triton's package, in CUDA_HOME or on the PATH: install triton or CUDA"
            )
        found[name] = usable[0]
    return Tools(found["cuobjdump"], found["nvdisasm"], _version(found["nvdisasm"]))


def _version(program: Path) -> str:
    """What it says of itself; it reads no file for that."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        said = subprocess.run([program, "--version"], capture_output=True, timeout=SECONDS, check=False).stdout
        match = _VERSION.search(said[:MOST_ERRORS].decode("utf-8", "replace"))
        if match is not None:
            return match.group(1)
    return "unknown"


def _triton() -> Path | None:
    """The folder of programs in triton's package, which is not imported for that."""
    spec = importlib.util.find_spec("triton")
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations))) / "backends" / "nvidia" / "bin"


def run_tool(
    argv: Sequence[str], sandbox: Sandbox, *, read: Sequence[Path] = (), work: Path | None = None,
    seconds: float = SECONDS, most: int = MOST_TEXT,
) -> str:  # fmt: skip
    """What a tool prints. It may read the files and folders `read`, and write below `work`, where it is started.

    Raises ToolError when it fails, takes longer than `seconds` or prints over `most` bytes.
    """
    name = Path(argv[0]).name
    with contextlib.ExitStack() as stack:
        output = stack.enter_context(tempfile.TemporaryFile())
        place = work or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kbh-tool-")))
        place.chmod(0o755)
        jail = Jail(
            (*read, Path(argv[0]).parent), (place,), data_bytes=MOST_MEMORY, processes=MOST_PROCESSES, file_bytes=most,
            tmp_bytes=1 << 20,
        )  # fmt: skip
        command = ["/bin/sh", "-c", SPLIT, "sh", *argv]
        with _running(command, sandbox, place, jail, output, name) as process:
            status = _ended(process, output, name, seconds, most)
        output.seek(0)
        text = output.read().decode("utf-8", "replace")
        if status != 0:
            said = _errors(place / "errors") or (text if status == LOST else "")
            raise ToolError(f"{name} ended with {status}: {' '.join(said.split())[-200:] or 'it says nothing'}")
        with contextlib.suppress(OSError):
            (place / "errors").unlink()
        return text


def _ended(process: subprocess.Popen[bytes], output: BinaryIO, name: str, seconds: float, most: int) -> int:
    """The status of a process at its end. Raises ToolError as soon as it lasts too long or has printed too much."""
    until = time.monotonic() + seconds
    status: int | None = None
    while status is None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = process.wait(max(0.0, min(LOOKS_SECONDS, until - time.monotonic())))
        if os.fstat(output.fileno()).st_size >= most:
            raise ToolError(f"{name} printed more than {most} bytes")
        if status is None and time.monotonic() >= until:
            raise ToolError(f"{name} did not come to an end within {seconds:g} s")
    return status


@contextlib.contextmanager
def _running(
    command: Sequence[str], sandbox: Sandbox, place: Path, jail: Jail, output: BinaryIO, name: str
) -> Iterator[subprocess.Popen[bytes]]:
    """The process, which has ended with all that it started when the block is left."""
    environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TMPDIR": str(place), "HOME": str(place)}
    try:
        process = sandbox.spawn(command, env=environment, cwd=place, fds=(), jail=jail, output=output)
    except SandboxError as error:
        raise ToolError(f"{name} cannot be started: {error}") from error
    try:
        yield process
    finally:
        try:
            sandbox.end(process)
        except SandboxError as error:
            raise ToolError(f"{name} cannot be ended: {error}") from error


def _errors(path: Path) -> str:
    """What a tool said of itself, from a file that it may have exchanged."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    with os.fdopen(descriptor, "rb") as file:
        return file.read(MOST_ERRORS).decode("utf-8", "replace")
