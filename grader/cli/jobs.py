"""Several gradings at a time, each in a process of its own: one is timed while others lint, build and compare.

The processes take turns on a device as any gradings of a machine do (`grader.judge.turns`). Where there are several
GPUs of the target, each process is given the one that the fewest others have. One that crashes ends no other. Needs no
torch.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from grader.cli.board import Board, Step
from kbh_lint.problems import find_target, load_targets

__all__ = ["MOST_JOBS", "Done", "gpus", "graded"]

MOST_JOBS = 64
LEAST_FREE = 4 << 30  # bytes of this machine's memory that must be free before one more begins beside others
STOP_SECONDS = 60.0  # for ending what was started, and for the bundle
TAIL_BYTES, TAIL_CHARACTERS = 4096, 300
ROOT = Path(__file__).resolve().parents[2]
# -P: a file of the current folder, such as a solution triton.py, is not to be imported
WORK = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from grader.cli.worker import work; sys.exit(work())"
LATER = "waiting with the next one: too little of this machine's memory is free"


@dataclass(frozen=True, slots=True)
class Done:
    """How the grading of one submission ended: with a bundle, or why there is none. A fault of ours is not `plain`."""

    bundle: Path | None = None
    error: str = ""
    plain: bool = True


@dataclass(slots=True)
class _Worker:
    name: str
    process: subprocess.Popen[bytes]
    errors: IO[bytes]
    gpu: str
    done: Done | None = None


def graded(
    tasks: Sequence[tuple[Path, str]], argv: Sequence[str], jobs: int, board: Board, *, devices: Sequence[str] = (),
    names: Sequence[str] = (),
) -> Generator[tuple[int, Done], None, None]:  # fmt: skip
    """Grades paths, each with its problem, at most `jobs` at a time with the options `argv`; yields each as it ends.

    `devices` are GPUs to share out (`gpus`); `names`, all different, stand for the paths on the board. Whoever stops
    iterating, or is interrupted, ends all that was started.
    """
    running: dict[int, _Worker] = {}
    told: queue.SimpleQueue[tuple[int, dict[str, Any] | None]] = queue.SimpleQueue()
    begun, short = 0, False
    try:
        while begun < len(tasks) or running:
            while begun < len(tasks) and len(running) < jobs:
                if running and _free_bytes() < LEAST_FREE:
                    if not short:
                        board.say(LATER)
                    short = True
                    break
                path, problem = tasks[begun]
                name = names[begun] if names else str(path)
                running[begun] = _started(begun, name, path, problem, argv, _least(devices, running), told)
                board.begin(name)
                begun += 1
            index, message = told.get()
            worker = running[index]
            if message is not None:
                _heard(worker, message, board)
                continue
            del running[index]
            board.end(worker.name)
            yield index, _ended(worker)
    finally:
        _stop(list(running.values()))


def _started(
    index: int, name: str, path: Path, problem: str, argv: Sequence[str], gpu: str,
    told: queue.SimpleQueue[tuple[int, dict[str, Any] | None]],
) -> _Worker:  # fmt: skip
    errors = tempfile.TemporaryFile()  # noqa: SIM115
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", WORK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
        env={**os.environ, **({"CUDA_VISIBLE_DEVICES": gpu} if gpu else {})},
        start_new_session=True,  # a terminal's Ctrl-C comes to the command alone, which ends its workers once
    )  # fmt: skip
    assert process.stdin is not None
    order = {"argv": list(argv), "path": str(path), "problem": problem}
    with contextlib.suppress(OSError):  # it is gone already, as will be seen
        process.stdin.write(json.dumps(order).encode() + b"\n")
        process.stdin.flush()
    threading.Thread(target=_listen, args=(index, process, told), daemon=True).start()
    return _Worker(name, process, errors, gpu)


def _listen(
    index: int, process: subprocess.Popen[bytes], told: queue.SimpleQueue[tuple[int, dict[str, Any] | None]]
) -> None:  # fmt: skip
    assert process.stdout is not None
    for line in process.stdout:
        with contextlib.suppress(ValueError):
            told.put((index, json.loads(line)))
    process.wait()
    told.put((index, None))


def _heard(worker: _Worker, message: dict[str, Any], board: Board) -> None:
    if "step" in message:
        board(worker.name, Step(*map(str, message["step"])))
    elif "bundle" in message:
        worker.done = Done(Path(message["bundle"]))
    elif message["plain"]:
        worker.done = Done(error=str(message["error"]))
    else:
        why = f"a fault of kbh itself ({message['type']}); grade it alone to see where"
        worker.done = Done(error=why, plain=False)


def _ended(worker: _Worker) -> Done:
    _closed(worker)
    if worker.done is not None:
        return worker.done
    code = worker.process.returncode
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
    said = _tail(worker.errors)
    why = f"the process of its grading {how}{f' ({said})' if said else ''}; grade it alone to see where"
    return Done(error=why, plain=False)


def _tail(errors: IO[bytes]) -> str:
    size = errors.seek(0, os.SEEK_END)
    errors.seek(max(size - TAIL_BYTES, 0))
    lines = errors.read().decode("utf-8", "replace").strip().splitlines()
    return lines[-1][:TAIL_CHARACTERS] if lines else ""


def _closed(worker: _Worker) -> None:
    with contextlib.suppress(OSError):
        assert worker.process.stdin is not None
        worker.process.stdin.close()


def _stop(workers: Sequence[_Worker]) -> None:
    """Ends processes as Ctrl-C does, so that each ends what it started; by force where one does not."""
    for worker in workers:
        _closed(worker)
        worker.process.terminate()
    try:
        for worker in workers:
            with contextlib.suppress(subprocess.TimeoutExpired):
                worker.process.wait(STOP_SECONDS)
    finally:
        for worker in workers:
            worker.process.kill()


def _least(devices: Sequence[str], running: dict[int, _Worker]) -> str:
    """The GPU that the fewest processes have; empty where there is nothing to choose."""
    busy = Counter(worker.gpu for worker in running.values())
    return min(devices, key=lambda device: busy[device], default="")


def _free_bytes() -> int:
    """Bytes of memory that could be had without swapping; plenty where the system does not say."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    return 1 << 62


def gpus(target: str, hardware: Path) -> list[str]:
    """The GPUs of this machine that a target names, by UUID; none where there is only one, or nobody can say."""
    if target == "cpu":
        return []
    try:
        said = subprocess.run(
            ["nvidia-smi", "--query-gpu=index,uuid,name", "--format=csv,noheader"],
            capture_output=True, text=True, timeout=30, check=True,
        ).stdout  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return []
    rows = [tuple(part.strip() for part in line.split(",", 2)) for line in said.splitlines()]
    found = [(row[0], row[1], row[2]) for row in rows if len(row) == 3]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        names = [name.strip() for name in visible.split(",")]
        found = [one for one in found if one[0] in names or any(n and one[1].startswith(n) for n in names)]
    if target != "auto":
        targets = load_targets(hardware)
        named = find_target(targets, target)
        found = [one for one in found if named is not None and find_target(targets, one[2]) == named]
    return [uuid for _, uuid, _ in found] if len(found) > 1 else []
