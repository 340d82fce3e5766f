"""Nsight Compute around a submission's process: how it is started there, and what it wrote, read strictly.

It counts in the submission's own process and sandbox, so its text is a claim like everything from there; its form is
checked, and a number that cannot be read is an error, never a zero.
"""

from __future__ import annotations

import csv
import glob
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import BinaryIO

from grader.record.cell import SandboxRecord
from grader.sandbox import Jail, Sandbox
from grader.wire.marks import MARK, Instrument

__all__ = [
    "Launch",
    "Ncu",
    "ProfilerError",
    "Profiled",
    "Unavailable",
    "find_ncu",
    "may_count",
    "parse",
    "report_beside",
]

DRIVER = Path("/proc/driver/nvidia/params")
INSTALLED = ("/opt/nvidia/nsight-compute/*/ncu", "/usr/local/cuda*/nsight-compute-*/ncu")
VERSION_SECONDS = 30.0
MOST_TEXT = 32 << 20  # characters of a report
MOST_LAUNCHES = 20_000
MOST_NAME = 1 << 16
FIXED = ("ID", "Process ID", "Kernel Name", "Block Size", "Grid Size", "Device", "CC")
UNITS: Mapping[str, float] = {
    "": 1.0, "inst": 1.0, "byte": 1.0, "byte/block": 1.0, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "Tbyte": 1e12,
    "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0,
    "nsecond": 1e-9, "usecond": 1e-6, "msecond": 1e-3, "second": 1.0,
}  # fmt: skip
_NUMBER = re.compile(r"(\d{1,3}(,\d{3})+|\d+)(\.\d+)?([eE][+-]?\d{1,3})?", re.ASCII)
_SIZES = re.compile(r"\((\d{1,10}), (\d{1,10}), (\d{1,10})\)", re.ASCII)
_MARK = re.compile(rf"(?<![\w/]){MARK}/(\d{{1,6}})/(\d{{1,6}})(?![\w/])", re.ASCII)
_VERSION = re.compile(r"Version (\d[\w.]{0,40})", re.ASCII)


class ProfilerError(Exception):
    """A profiler is not there, was not allowed to count, or wrote what cannot be read; the text is one sentence."""


class Unavailable(ProfilerError):
    """This machine cannot have that evidence, whatever the submission is."""


@dataclass(frozen=True, slots=True)
class Ncu:
    """An installed Nsight Compute."""

    program: Path
    version: str


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel as it was launched: sizes in blocks and threads, and its metrics in bytes, seconds or counts.

    `model` and `call` number the marked call that it belongs to, from 1 on. `kernel` is the name in the machine code.
    """

    number: int
    model: int
    call: int
    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    capability: str
    metrics: Mapping[str, float]


@cache
def find_ncu() -> Ncu:
    """The newest Nsight Compute of this machine. Raises Unavailable."""
    found = [Path(os.path.realpath(path)) for pattern in INSTALLED for path in glob.glob(pattern)]
    on_path = shutil.which("ncu")
    if on_path is not None:
        found.append(Path(os.path.realpath(on_path)))
    versions: dict[Path, str] = {}
    for program in found:
        if program not in versions and os.access(program, os.X_OK):
            versions[program] = _version(program)
    known = [Ncu(program, version) for program, version in versions.items() if version]
    if not known:
        raise Unavailable("Nsight Compute is not installed on this machine")
    return max(known, key=lambda ncu: [int(part) for part in re.findall(r"\d+", ncu.version)])


def may_count(uid: int) -> bool:
    """Whether the driver lets a user who is not root read counters."""
    try:
        said = DRIVER.read_text("utf-8", "replace")
    except OSError:
        return True  # no driver that says otherwise
    return uid == 0 or re.search(r"^RmProfilingAdminOnly:\s*1\s*$", said, re.MULTILINE) is None


def _version(program: Path) -> str:
    """Its version, or nothing where it does not say."""
    try:
        said = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=VERSION_SECONDS, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    match = _VERSION.search(said.stdout[:4096])
    return match.group(1) if match else ""


@dataclass(frozen=True, slots=True)
class Profiled:
    """A sandbox whose process is told to mark calls for an instrument; Nsight Compute starts it for `counters`.

    `log` is where Nsight Compute writes its table, inside a folder that the process may write to, and beside it its
    report, which also holds the code of the kernels.
    """

    inner: Sandbox
    instrument: Instrument
    ncu: Ncu | None = None
    metrics: tuple[str, ...] = ()
    log: Path | None = None

    @property
    def record(self) -> SandboxRecord:
        """The record of the sandbox that the profiler works in."""
        return self.inner.record

    def spawn(
        self, argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, fds: Sequence[int], jail: Jail,
        output: BinaryIO, report: int | None = None,
    ) -> subprocess.Popen[bytes]:  # fmt: skip
        """See `grader.sandbox.base.Sandbox`."""
        command = [*argv, "--profile", self.instrument]
        read = jail.read
        if self.ncu is not None:
            command = [*self._prefix(self.ncu), *command]
            read = (*read, self.ncu.program.parent)
        jail = replace(jail, profiler=True, read=read)
        env = {**env, "LC_ALL": "C"}
        return self.inner.spawn(command, env=env, cwd=cwd, fds=fds, jail=jail, output=output, report=report)

    def alive(self, process: subprocess.Popen[bytes]) -> list[int]:
        """See `grader.sandbox.base.Sandbox`."""
        return self.inner.alive(process)

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """See `grader.sandbox.base.Sandbox`."""
        self.inner.end(process)

    def _prefix(self, ncu: Ncu) -> list[str]:
        """Clocks stay as they are. Each kernel is run a few times and begins with empty caches each time."""
        return [
            str(ncu.program), "--target-processes", "all", "--profile-from-start", "off", "--replay-mode", "kernel",
            "--clock-control", "none", "--cache-control", "all", "--nvtx", "--metrics", ",".join(self.metrics),
            "--csv", "--page", "raw", "--print-units", "base", "--print-kernel-base", "mangled",
            "--log-file", str(self.log), "--force-overwrite", "--export", str(report_beside(self.log or Path())),
        ]  # fmt: skip


def report_beside(log: Path) -> Path:
    """The path of Nsight Compute's report, from that of its table."""
    return log.with_suffix(".ncu-rep")


def parse(text: str, metrics: Sequence[str]) -> tuple[Launch, ...]:
    """The launches of a report as `ncu --csv --page raw` prints it, in order. Raises ProfilerError.

    Every launch must lie in exactly one marked call and have every metric, in a unit that is known.
    """
    if len(text) > MOST_TEXT:
        raise ProfilerError(f"Nsight Compute wrote more than {MOST_TEXT} characters")
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID",')), None)
    errors = [line for line in lines if line.startswith("==ERROR==")]
    if errors:
        raise ProfilerError(f"Nsight Compute said: {' '.join(errors[0].removeprefix('==ERROR==').split())[:300]}")
    if start is None:
        raise ProfilerError("Nsight Compute counted no kernel")
    try:
        header, *rest = (row for row in csv.reader(lines[start:], strict=True) if row)
    except csv.Error as error:
        raise ProfilerError(f"the report of Nsight Compute is not a table ({error})") from None
    units, body = (rest[0], rest[1:]) if rest else ([], [])
    columns = _columns(header, units, metrics)
    if len(body) > MOST_LAUNCHES:
        raise ProfilerError(f"there are more than {MOST_LAUNCHES} launches in the report of Nsight Compute")
    return tuple(_launch(row, header, columns, metrics, number) for number, row in enumerate(body, 1))


def _columns(header: Sequence[str], units: Sequence[str], metrics: Sequence[str]) -> dict[str, tuple[int, float]]:
    """Where each column is that is needed, and what its numbers are to be multiplied by."""
    columns: dict[str, tuple[int, float]] = {}
    if len(units) != len(header):
        raise ProfilerError("the report of Nsight Compute has no line of units")
    for name in (*FIXED, *metrics):
        if header.count(name) != 1:
            raise ProfilerError(f"the report of Nsight Compute has {header.count(name)} columns {name}")
        index = header.index(name)
        if name in metrics and units[index] not in UNITS:
            raise ProfilerError(f"{name} is in {units[index][:40]!r}, which is not a unit that is known here")
        columns[name] = index, UNITS[units[index]] if name in metrics else 1.0
    return columns


def _launch(
    row: Sequence[str], header: Sequence[str], columns: Mapping[str, tuple[int, float]], metrics: Sequence[str],
    number: int,
) -> Launch:  # fmt: skip
    where = f"line {number} of the report of Nsight Compute"
    if len(row) != len(header):
        raise ProfilerError(f"{where} has {len(row)} fields instead of {len(header)}")
    cell = {name: row[index] for name, (index, _) in columns.items()}
    if not cell["Kernel Name"] or len(cell["Kernel Name"]) > MOST_NAME:
        raise ProfilerError(f"{where} names no kernel")
    others = [value for name, value in zip(header, row, strict=True) if name not in columns]
    marks = {match.groups() for value in others for match in _MARK.finditer(value)}
    if len(marks) != 1:
        raise ProfilerError(f"the kernel in {where} belongs to {len(marks)} marked calls")
    model, call = map(int, marks.pop())
    values = {}
    for name in metrics:
        text = cell[name].strip()
        if not _NUMBER.fullmatch(text) or len(text) > 40:
            raise ProfilerError(f"{name} in {where} is {text[:40]!r}, which is not a number")
        values[name] = float(text.replace(",", "")) * columns[name][1]
    return Launch(
        number, model, call, cell["Kernel Name"], _sizes(cell["Grid Size"], where), _sizes(cell["Block Size"], where),
        cell["CC"][:10], values,
    )  # fmt: skip


def _sizes(text: str, where: str) -> tuple[int, int, int]:
    match = _SIZES.fullmatch(text.strip())
    if match is None:
        raise ProfilerError(f"{where} has {text[:40]!r} for a size")
    x, y, z = (int(part) for part in match.groups())
    return x, y, z
