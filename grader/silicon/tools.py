"""NVIDIA's cuobjdump and nvdisasm: where they are, and running them on a file within bounds.

They read what a submission's process wrote, so each runs as a process of its own with limits on its time, memory and
output, and what comes back is text.
"""

from __future__ import annotations

import importlib.util
import os
import re
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = ["ToolError", "Tools", "find_tools", "run_tool"]

SECONDS = 60.0
MOST_TEXT = 256 << 20  # bytes of one answer
MOST_MEMORY = 8 << 30
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
    match = _VERSION.search(run_tool([str(found["nvdisasm"]), "--version"]))
    return Tools(found["cuobjdump"], found["nvdisasm"], match.group(1) if match else "unknown")


def _triton() -> Path | None:
    """The folder of programs in triton's package, which is not imported for that."""
    spec = importlib.util.find_spec("triton")
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations))) / "backends" / "nvidia" / "bin"


def run_tool(argv: Sequence[str], *, cwd: Path | None = None, seconds: float = SECONDS, most: int = MOST_TEXT) -> str:
    """What a tool prints. Raises ToolError when it fails, takes longer than `seconds` or prints over `most` bytes."""
    name = Path(argv[0]).name
    environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                argv, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=errors
            )  # fmt: skip
        except OSError as error:
            raise ToolError(f"{name} cannot be started: {error.strerror}") from error
        limits = ((resource.RLIMIT_FSIZE, most), (resource.RLIMIT_AS, MOST_MEMORY), (resource.RLIMIT_CORE, 0))
        for limit, value in limits:
            try:
                resource.prlimit(process.pid, limit, (value, value))
            except (ProcessLookupError, PermissionError):  # it is done; or a lower limit of ours holds already
                break
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise ToolError(f"{name} did not come to an end within {seconds:g} s") from None
        size = output.seek(0, os.SEEK_END)
        if size >= most:
            raise ToolError(f"{name} printed more than {most} bytes")
        output.seek(0)
        errors.seek(0)
        if status != 0:
            said = " ".join(errors.read(2000).decode("utf-8", "replace").split())[:200]
            raise ToolError(f"{name} ended with {status}: {said or 'it says nothing'}")
        return output.read().decode("utf-8", "replace")
