"""How long a sweep took, and for how much of that the devices of this machine were in use.

A GPU is in use in two senses. A grading or a practice run *holds its turn* (`grader.judge.turns`) while it calls the
submission; that is read off the machine's list of locks, which disturbs nobody. *Kernels run* for less of that time;
that is what the driver's management library samples by itself, asked for a few times a minute. What cannot be known
here, such as of other nodes of a cluster, is left out.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import os
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from types import TracebackType
from typing import Any

from grader.judge.turns import lock_path
from harness.record.run import RunRecord
from harness.running.display import clock
from harness.running.target import CPU

__all__ = ["Measured", "Meter", "Used", "measured_text"]

LOCKS = Path("/proc/locks")
LOOK_SECONDS, DRIVER_SECONDS = 0.25, 5.0
STAGES = ("prepare", "agent", "lint", "build", "check", "grade")


@dataclass(frozen=True, slots=True)
class Used:
    """Shares of the wall clock, 0 to 1: a turn on the device was held, kernels ran. None where nobody can say."""

    device: str
    held: float | None = None
    kernels: float | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """What one command did: wall clock, cells that it settled, and for these the mean seconds of each stage."""

    seconds: float
    cells: int
    jobs: int
    stages: dict[str, float]
    used: tuple[Used, ...] = ()

    @property
    def cells_an_hour(self) -> float:
        """How many cells are settled in an hour at this rate."""
        return self.cells * 3600.0 / max(self.seconds, 1e-9)


def measured_text(found: Measured) -> str:
    """Formats a measurement for people, a line for each thing that was measured."""
    rate = f"{found.cells_an_hour:.0f} cells an hour, {found.jobs} at a time"
    lines = [f"{found.cells} cells in {clock(found.seconds)}: {rate}"]
    if found.stages:
        told = ", ".join(f"{name} {seconds:.1f}" for name, seconds in found.stages.items() if seconds >= 0.05)
        lines.append(f"seconds of a cell, in the mean: {told}")
    for one in found.used:
        parts = [] if one.held is None else [f"held by a turn {one.held:.0%} of the time, idle {1 - one.held:.0%}"]
        parts += [] if one.kernels is None else [f"kernels ran {one.kernels:.0%}"]
        if parts:
            lines.append(f"{one.device}: {'; '.join(parts)}")
    return "\n".join(lines) + "\n"


def mean_stages(records: Sequence[RunRecord]) -> dict[str, float]:
    """Mean seconds of each stage of runs."""
    if not records:
        return {}
    return {name: round(mean(float(getattr(one.spent, name)) for one in records), 3) for name in STAGES}


class Meter:
    """Looks at devices from a thread of its own, as a context manager. `devices` are GPUs' UUIDs, or cpu."""

    def __init__(self, devices: Sequence[str], locks: Path = LOCKS) -> None:
        self._devices, self._locks = tuple(dict.fromkeys(devices)), locks
        self._looks = 0
        self._held = dict.fromkeys(self._devices, 0)
        self._driver = _Driver([device for device in self._devices if device != CPU])
        self._over = threading.Event()
        self._began = self._ended = 0.0
        self._thread = threading.Thread(target=self._look, name="kbh-meter", daemon=True)

    def __enter__(self) -> Meter:
        self._began = time.monotonic()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        self._ended = time.monotonic()

    def measured(self, records: Sequence[RunRecord], jobs: int) -> Measured:
        """The measurement; `records` are the runs that settled a cell while it was made."""
        used = tuple(
            Used(device, self._held[device] / self._looks if self._looks else None, self._driver.share(device))
            for device in self._devices
        )
        return Measured(round(self._ended - self._began, 3), len(records), jobs, mean_stages(records), used)

    def _look(self) -> None:
        sees = _sees_locks(self._locks)
        asked = time.monotonic()
        self._driver.ask()  # what was before does not count
        while not self._over.wait(LOOK_SECONDS):
            if sees:
                held = _held(self._locks)
                self._looks += 1
                for device in self._devices:
                    self._held[device] += bool(_inodes(device) & held)
            if time.monotonic() - asked >= DRIVER_SECONDS:
                asked = time.monotonic()
                self._driver.ask()
        self._driver.ask()
        self._driver.close()


def _inodes(device: str) -> set[int]:
    """Those of the files that are locked for a device; torch names a GPU without the driver's prefix, or with it."""
    keys = [device] if device == CPU else [f"gpu {device}", f"gpu {device.removeprefix('GPU-')}"]
    found = set()
    for key in keys:
        with contextlib.suppress(OSError):
            found.add(lock_path(key).stat().st_ino)
    return found


def _held(locks: Path) -> set[int]:
    """The inodes of files of which somebody holds an exclusive lock."""
    found = set()
    with contextlib.suppress(OSError):
        for line in locks.read_text().splitlines():
            words = line.split()
            if len(words) == 8 and words[1] == "FLOCK" and words[3] == "WRITE":
                found.add(int(words[5].rpartition(":")[2]))
    return found


def _sees_locks(locks: Path) -> bool:
    """Whether the machine's list has a lock that is held here: some systems have none, or other inodes in it."""
    try:
        with tempfile.NamedTemporaryFile(dir=lock_path(CPU).parent) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            return os.fstat(file.fileno()).st_ino in _held(locks)
    except OSError:
        return False


class _Driver:
    """What the management library has sampled of GPUs: the share of each sample's time in which kernels ran."""

    def __init__(self, gpus: Sequence[str]) -> None:
        self._nvml: Any = None
        self._handles: dict[str, Any] = {}
        self._last: dict[str, int] = {}
        self._samples: dict[str, list[float]] = {gpu: [] for gpu in gpus}
        if not gpus:
            return
        try:
            self._nvml = importlib.import_module("pynvml")
            self._nvml.nvmlInit()
        except Exception:  # it is not installed, or finds no driver: its errors are classes of its own
            self._nvml = None
            return
        for gpu in gpus:
            with contextlib.suppress(self._nvml.NVMLError):
                self._handles[gpu] = self._nvml.nvmlDeviceGetHandleByUUID(gpu)

    def ask(self) -> None:
        """Reads the utilisation samples since the last call; the first call only notes where they begin."""
        for gpu, handle in self._handles.items():
            since = self._last.get(gpu)
            try:
                _, samples = self._nvml.nvmlDeviceGetSamples(
                    handle, self._nvml.NVML_GPU_UTILIZATION_SAMPLES, since or 0
                )
                found = [(int(one.timeStamp), float(one.sampleValue.uiVal)) for one in samples]
            except self._nvml.NVMLError:
                found = self._now(gpu)
            self._last[gpu] = max([since or 0, *(stamp for stamp, _ in found)])
            if since is not None:
                self._samples[gpu] += [value / 100.0 for stamp, value in found if stamp > since]

    def _now(self, gpu: str) -> list[tuple[int, float]]:
        """The last sample alone, where the driver hands out no others, or has no new ones."""
        try:
            share = self._nvml.nvmlDeviceGetUtilizationRates(self._handles[gpu]).gpu
            return [(time.time_ns() // 1000, float(share))]
        except self._nvml.NVMLError:
            return []

    def share(self, gpu: str) -> float | None:
        """The mean utilisation of a GPU, None without samples."""
        found = self._samples.get(gpu)
        return mean(found) if found else None

    def close(self) -> None:
        """Shuts NVML down, where it was opened."""
        if self._nvml is not None:
            with contextlib.suppress(self._nvml.NVMLError):
                self._nvml.nvmlShutdown()
