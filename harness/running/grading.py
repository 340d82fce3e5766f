"""Grades a run's solution in a process of its own: `kbh grade` on the run's archive, as a person would."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grader.record.bundle import redact
from harness.record.archive import RECORD
from harness.running.request import RunRequest

__all__ = ["Grading", "cells", "grade_run"]

GRADE = "from grader.cli.grade import main; import sys; raise SystemExit(main(sys.argv[1:]))"
MOST_OUTPUT = 64 << 20
MOST_LINE = 1 << 16
END_SECONDS = 30.0
_STAGE = re.compile(r"^\s+\S (submission|lint|sandbox|build|trial|evidence|verdict|baseline)\b(.*)$")


@dataclass(frozen=True, slots=True)
class Grading:
    """What the grader answered. `trouble` is one sentence where it could not grade. `stages` are seconds of wall clock.

    `cell` is the grader's JSON of it; `bundle` the name of the folder under record/cells.
    """

    cell: Mapping[str, Any] | None
    bundle: str = ""
    trouble: str = ""
    seconds: float = 0.0
    stages: Mapping[str, float] = field(default_factory=dict)

    @property
    def outcome(self) -> str:
        """The cell's outcome, "" without one."""
        return str(self.cell["outcome"]) if self.cell else ""

    @property
    def reason(self) -> str:
        """The reason for the outcome, in the grader's words."""
        return str(self.cell["reason"]) if self.cell else self.trouble

    @property
    def verdict(self) -> str:
        """The verdict of the cell, by all layers that looked."""
        return str(self.cell["verdict"]["verdict"]) if self.cell else ""

    def score(self, name: str) -> float | None:
        """One of the cell's scores, None where it has none."""
        found = (self.cell or {}).get("scores") or {}
        return float(found[name]) if isinstance(found.get(name), (int, float)) else None

    def spent(self) -> tuple[float, float, float]:
        """(build, check, rest) in seconds: the compile stage, the calls that are compared and timed, all else."""
        build = self.stages.get("build", 0.0)
        check = self.stages.get("trial", 0.0)
        return build, check, max(self.seconds - build - check - self.stages.get("lint", 0.0), 0.0)


def cells(run: Path) -> Path:
    """The folder of a run's bundles."""
    return run / RECORD / "cells"


async def grade_run(
    run: Path, request: RunRequest, target: str, say: Callable[[str], None], *, gpu: str = ""
) -> Grading:
    """Grades the archive `run` on a target, on the GPU of that UUID where one is named.

    Never raises for what the grader says; cancelling it ends the grader.
    """
    words = ["--problem", request.problem, "--target", target, "--format", "json", "-v"]
    words += ["--out", str(cells(run)), *(["--strict"] if request.strict else [])]
    words += ["--samples", str(request.samples)] if request.samples is not None else []
    words += [] if request.evidence else ["--no-evidence"]
    words += ["--problems-dir", str(request.problems_dir)] if request.problems_dir is not None else []
    began = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", GRADE, *words, str(run),
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        start_new_session=True, limit=MOST_LINE, env={**os.environ, **({"CUDA_VISIBLE_DEVICES": gpu} if gpu else {})},
    )  # fmt: skip
    try:
        told, data = await asyncio.gather(_stages(process, say, began), _read(process))
        await process.wait()
    finally:
        if process.returncode is None:
            await _end(process)
    return _answer(data, told, round(time.monotonic() - began, 3))


async def _stages(process: asyncio.subprocess.Process, say: Callable[[str], None], began: float) -> tuple[Any, ...]:
    """Seconds by stage, from when the grader told that each was done, and the last line that was none of these."""
    assert process.stderr is not None
    stages: dict[str, float] = {}
    last, since = "", began
    while line := await _line(process.stderr):
        found = _STAGE.match(line)
        if found is None:
            last = line.strip() or last
            continue
        now = time.monotonic()
        stages[found[1]] = round(stages.get(found[1], 0.0) + now - since, 3)
        since = now
        say(f"{found[1]} {found[2].strip()}".strip())
    return stages, last


async def _line(stream: asyncio.StreamReader) -> str:
    """The next line; of one that is too long, a piece."""
    try:
        data = await stream.readuntil(b"\n")
    except asyncio.IncompleteReadError as error:
        data = error.partial
    except asyncio.LimitOverrunError as error:
        data = await stream.readexactly(max(error.consumed, 1)) + b"\n"
    return data.decode("utf-8", "replace")


async def _read(process: asyncio.subprocess.Process) -> bytes:
    assert process.stdout is not None
    parts: list[bytes] = []
    size = 0
    while part := await process.stdout.read(1 << 16):
        size += len(part)
        if size <= MOST_OUTPUT:
            parts.append(part)
    return b"".join(parts)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Asks the grader to end, which ends all that it started, and makes it."""
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), END_SECONDS)
        except TimeoutError:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


def _answer(data: bytes, told: Sequence[Any], seconds: float) -> Grading:
    stages, last = told
    try:
        answer = json.loads(data)
        found = answer["cells"][0] if answer["cells"] else None
        errors = [str(text) for text in answer["errors"]]
    except (ValueError, KeyError, TypeError):
        sentence = last.removeprefix("kbh grade: error: ") or "the grader ended without an answer"
        return Grading(None, trouble=redact(sentence)[:500], seconds=seconds, stages=stages)
    if found is None:
        trouble = errors[0] if errors else "the grader gave no result"
        return Grading(None, trouble=redact(trouble)[:500], seconds=seconds, stages=stages)
    return Grading(found["cell"], Path(found["bundle"]).name, "", seconds, stages)
