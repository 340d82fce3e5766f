"""What a submission's own stopwatch showed in the build, shown again in every later process.

A kernel that a submission tunes by timing candidates takes one configuration in this process and another in the next:
two candidates are as fast, and noise decides. Results then differ in bits from process to process, and nothing that is
seen beside a profiler is of the program that was timed. Triton's own tuner keeps its choices among the caches of the
build. For tuners of a submission's own the readings are kept there that they chose by: seconds between two events of a
GPU, and what the clocks of `time` say to the submission's own files. In later processes the same line is told the same,
in the same order, while the module is imported, a model is made, and in its first calls; in all other calls clocks tell
the time.

A reading proves nothing, and nothing is scored by it. A submission may write the file, as any of its caches: it then
misleads itself alone.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch

from grader.wire.channel import Slot

__all__ = ["FILE", "FIRST_CALLS", "Readings", "stage_of", "watch"]

FILE = "readings.json"  # in the folder of a build's caches
FIRST_CALLS = 2  # of each model, in which it may tune
MOST = 50_000  # readings that are kept
MOST_BYTES = 4 << 20  # of a file that is read
CLOCKS = ("monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time", "process_time_ns", "time",
          "time_ns")  # fmt: skip
TIMERS = ("timeit.py", "triton/testing.py", "torch/utils/benchmark/utils/timer.py")  # that read clocks for others

Reading = float | int


class Readings:
    """The readings of one process: noted where there is no file of an earlier one, else told again.

    `folder` holds the submission, `file` is where readings are kept. Nothing of either is touched before `begin`.
    """

    def __init__(self, folder: Path, file: Path) -> None:
        self._folder, self._file = f"{folder}/", file
        self._told: dict[str, dict[str, list[Reading]]] | None = None  # by stage and line; None in a build
        self._noted: dict[str, dict[str, list[Reading]]] = {}
        self._count = 0
        self._stage = ""
        self._at: Counter[str] = Counter()

    def begin(self) -> None:
        """Reads what an earlier process kept, where there is any."""
        self._told = _read(self._file)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """While the submission does what may tune it: importing, making a model, a first call. Stages of one name are
        told the same, each from its beginning; of several in a build the first is kept."""
        keeps = self._told is None and name not in self._noted
        self._stage, self._at = name if keeps or self._told is not None else "", Counter()
        try:
            yield
        finally:
            self._stage = ""
            if keeps:
                noted = self._noted.setdefault(name, {})
                if noted:
                    self._write()

    def reading(self, said: Reading, path: str, line: int) -> Reading:
        """What the line is told in place of what a clock `said`."""
        if not self._stage:
            return said
        place = self._place(path, line)
        if self._told is None:
            if self._count < MOST:
                self._count += 1
                self._noted.setdefault(self._stage, {}).setdefault(place, []).append(said)
            return said
        known = self._known(place)
        at = self._at[place]
        self._at[place] += 1
        return known[at] if at < len(known) else said

    def asks(self, path: str) -> bool:
        """Whether a file's questions for the time are those of the submission."""
        return bool(self._stage) and (path.startswith(self._folder) or path.endswith(TIMERS))

    def _place(self, path: str, line: int) -> str:
        own = path.removeprefix(self._folder) if path.startswith(self._folder) else "/".join(path.split("/")[-2:])
        return f"{own}:{line}"

    def _known(self, place: str) -> list[Reading]:
        """What was noted of a line in this stage; where it was reached in another one alone, what it was told there."""
        assert self._told is not None
        here = self._told.get(self._stage, {}).get(place)
        if here is not None:
            return here
        elsewhere = [lines[place] for lines in self._told.values() if place in lines]
        return elsewhere[0] if len(elsewhere) == 1 else []

    def _write(self) -> None:
        part = self._file.with_name(f"{self._file.name}.part")
        try:
            part.write_text(json.dumps(self._noted), encoding="utf-8")
            part.replace(self._file)
        except (OSError, ValueError):
            part.unlink(missing_ok=True)


def _read(file: Path) -> dict[str, dict[str, list[Reading]]] | None:
    """What a file holds, where it is one of ours."""
    try:
        if file.stat().st_size > MOST_BYTES:
            return None
        found: object = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return {
        str(stage): {str(place): values for place, values in lines.items() if _are_readings(values)}
        for stage, lines in found.items()
        if isinstance(lines, dict)
    } if isinstance(found, dict) else None  # fmt: skip


def _are_readings(values: object) -> bool:
    return isinstance(values, list) and all(type(one) in (int, float) and math.isfinite(one) for one in values)


def watch(readings: Readings) -> None:
    """Has what reads a clock in this process ask `readings` what it is told: events of a GPU, and the module `time`."""
    between = torch.cuda.streams.Event.elapsed_time

    def elapsed_time(self: torch.cuda.streams.Event, end_event: torch.cuda.streams.Event) -> Reading:
        said: Reading = between(self, end_event)
        caller = sys._getframe(1)
        return readings.reading(said, caller.f_code.co_filename, caller.f_lineno)

    elapsed_time.__doc__ = between.__doc__
    setattr(torch.cuda.streams.Event, elapsed_time.__name__, elapsed_time)
    for name in CLOCKS:
        setattr(time, name, _clock(readings, getattr(time, name)))


def _clock(readings: Readings, clock: Callable[[], Reading]) -> Callable[[], Reading]:
    def told() -> Reading:
        said = clock()
        caller = sys._getframe(1)
        path = caller.f_code.co_filename
        return readings.reading(said, path, caller.f_lineno) if readings.asks(path) else said

    told.__name__, told.__doc__ = clock.__name__, clock.__doc__
    return told


def stage_of(init: Sequence[object], inputs: Iterable[Slot]) -> str:
    """A name for a shape, the same in each process: what models are made with, and the inputs."""
    tensors = [(slot.name, str(slot.dtype), slot.shape) for slot in inputs]
    return json.dumps([init, tensors], separators=(",", ":"))
