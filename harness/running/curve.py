"""What the contents that a solution had tell of a run: whether it is a known one, and how it got faster."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.contamination.resemblance import known_library, near_identical
from harness.judging.base import Ask, JudgeLimits
from harness.judging.pool import JudgePool, Spent
from harness.record.archive import ArchiveError, RunFolder
from harness.record.events import FileChanged, Finding, Graded, JudgeUsed
from harness.record.run import RunRecord
from harness.running.prepare import Prepared
from harness.running.workspace import CUDA, SOLUTION

__all__ = ["Snapshot", "chosen", "resembles", "snapshots", "timed"]

MOST_COMPARED = 40  # snapshots that a finding's step is looked for in


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A content of solution.py, with the hashes of the other sources as they were then."""

    sha256: str
    step: int
    elapsed: float
    files: Mapping[str, str]


def snapshots(folder: RunFolder) -> Iterator[Snapshot]:
    """Each content that solution.py had, once, in the order in which they came."""
    files: dict[str, str] = {}
    seen: set[str] = set()
    for event in folder.events():
        data = event.data
        if not isinstance(data, FileChanged):
            continue
        if data.sha256:
            files[data.path] = data.sha256
        else:
            files.pop(data.path, None)
        if data.path == SOLUTION and data.sha256 and data.sha256 not in seen:
            seen.add(data.sha256)
            yield Snapshot(data.sha256, event.step, event.elapsed, dict(files))


def resembles(prepared: Prepared, folder: RunFolder, record: RunRecord) -> list[Finding]:
    """Findings for known solutions that the final solution is nearly identical to, each with the first step of those
    compared since which it was, and for functions of libraries in it."""
    request = prepared.request
    text = (folder.path / SOLUTION).read_text(encoding="utf-8", errors="replace")
    sidecars = [
        path.read_text(encoding="utf-8", errors="replace")
        for path in sorted(folder.path.iterdir())
        if path.suffix in CUDA and path.is_file()
    ]
    library = known_library(
        record.problem, known=request.known, out_dir=request.out, not_by=(record.agent, record.model),
        deck=Path(prepared.problem.path).resolve().parent.parent,
    )  # fmt: skip
    earlier = [(one.step, _text(folder, one.sha256)) for one in _spread(list(snapshots(folder)), MOST_COMPARED)]
    return near_identical(text, library, sidecars=sidecars, earlier=earlier)


def chosen(folder: RunFolder, most: int) -> list[Snapshot]:
    """The snapshots to time: none that the agent had timed itself, nor the last; spread over the run."""
    known = {
        event.data.solution
        for event in folder.events()
        if (isinstance(event.data, JudgeUsed) and event.data.score is not None) or isinstance(event.data, Graded)
    }
    return _spread([one for one in snapshots(folder) if one.sha256 not in known], most)


async def timed(prepared: Prepared, pool: JudgePool, folder: RunFolder, record: RunRecord, most: int) -> int:
    """Times earlier contents of the solution as a practice benchmark, for the progress curve; returns how many."""
    limits = JudgeLimits()
    done = 0
    for one in chosen(folder, most):
        try:
            files = {name: base64.b64encode(folder.get(digest)).decode() for name, digest in one.files.items()}
        except ArchiveError:
            continue
        ask = Ask(
            "benchmark", str(Path(prepared.problem.path).resolve()), "cpu" if record.target == "cpu" else "cuda",
            record.target, files, time.monotonic(), limits.turn_s, limits.work_s, limits.seeds, False, limits.sandbox,
        )  # fmt: skip
        answer = await pool.ask(prepared.device(record.gpu), ask, lambda _: None, Spent())
        told = Graded(one.sha256, answer.outcome, "", answer.score, "", final=False)
        folder.append(told, step=one.step, seen="run", elapsed=one.elapsed)
        done += 1
    return done


def _text(folder: RunFolder, digest: str) -> str:
    try:
        return folder.get(digest).decode("utf-8", "replace")
    except ArchiveError:
        return ""


def _spread(found: list[Snapshot], most: int) -> list[Snapshot]:
    """At most so many, evenly, the first and the last among them."""
    if len(found) <= most:
        return found
    if most < 2:
        return found[-most:] if most else []
    return [found[round(at * (len(found) - 1) / (most - 1))] for at in range(most)]
