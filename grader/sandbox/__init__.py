"""Where a submission's process runs: in the best kind of sandbox that this machine has.

`choose` gives the best that works on this machine, tried with a process of its own that checks what it can reach.
What the best one lacks stands in its record. `docs/grading.md` says what each kind holds against.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from grader.record.sandboxes import TRAITS, SandboxName
from grader.sandbox.base import SEEN, Jail, Paired, Sandbox, SandboxError
from grader.sandbox.control import groups_work
from grader.sandbox.kinds import MAKERS
from grader.sandbox.places import searched
from grader.sandbox.reap import harden_judge

__all__ = ["Jail", "Sandbox", "SandboxError", "Wanted", "choose", "harden_judge", "second", "seen_at"]

Wanted = SandboxName
PROBE_SECONDS = 60.0
OUTPUT_BYTES = 1 << 16
PROGRAM = Path(__file__).resolve().parents[1]
PROBE = """
import importlib.util, os, sys
judge, uid, closed, gpu, scratch = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "closed", sys.argv[4], sys.argv[5]
program, *libraries = sys.argv[6:]
open(os.path.join(program, "candidate", "serve.py")).close()
sys.path += libraries
assert importlib.util.find_spec("torch") is not None, "torch cannot be found"
assert os.getuid() == uid, f"the user is {os.getuid()} instead of {uid}"
with open(os.path.join(scratch, "probe"), "w") as file:
    file.write("x")
def denied(what, path, mode):
    try:
        open(path, mode).close()
    except OSError:
        return
    raise AssertionError(f"{what} is open to it")
if closed:
    denied("the judge's memory", f"/proc/{judge}/mem", "rb")
    denied("a file beside its folder", os.path.join(os.path.dirname(scratch), "outside"), "r")
    denied("the root of the file system", "/kbh-probe", "w")
if gpu == "gpu":
    import ctypes
    code = ctypes.CDLL("libcuda.so.1").cuInit(0)
    assert code == 0, f"CUDA does not start in it, cuInit gives {code}"
print("held")
"""


def choose(*, device: str, wanted: Wanted = "auto") -> Sandbox:
    """The best sandbox that works here for a device ("cpu", "cuda", "cuda:0"), or the one that is wanted.

    Raises SandboxError when there is none: a GPU gets one that is not closed only where it is asked for.
    """
    return _choose(device.startswith("cuda"), wanted)


@cache
def _choose(gpu: bool, wanted: Wanted) -> Sandbox:
    kinds = [kind for kind in TRAITS if kind == wanted or wanted == "auto" and (TRAITS[kind].closed or not gpu)]
    reasons: list[str] = []
    bound = "memory is limited for each process alone" if not groups_work() else "a control group limits memory in sum"
    for name in kinds:
        try:
            sandbox = MAKERS[name]((*reasons, bound))
            _probe(sandbox, gpu)
            return sandbox
        except SandboxError as error:
            reasons.append(f"no {name}: {error}")
    hint = "; install bubblewrap, or use a kernel with Landlock" if wanted == "auto" else ""
    raise SandboxError(f"no sandbox works on this machine ({'; '.join(reasons)}){hint}")


def seen_at(sandbox: Sandbox) -> PurePosixPath | None:
    """Where processes of every grading find what they are given, because compilers note paths; None where that is
    under the paths that it has outside.
    """
    kind: Sandbox = getattr(sandbox, "inner", sandbox)  # what starts the process, below a profiler
    return SEEN if kind.record.traits.own_paths else None


def second(sandbox: Sandbox, place: int = 1) -> Sandbox | None:
    """The same kind for a process at the same time as one in `sandbox`: as another user, so that neither's limits count
    the other; None where processes are not kept apart well enough for two. Each `place` has another user.

    Raises SandboxError.
    """
    return sandbox.second(place) if isinstance(sandbox, Paired) else None


def _probe(sandbox: Sandbox, gpu: bool) -> None:
    """Runs a process in the sandbox that looks at what it can reach. Raises SandboxError."""
    closed = "closed" if sandbox.record.traits.closed else "open"
    with tempfile.TemporaryDirectory(prefix="kbh-probe-") as folder, tempfile.TemporaryFile() as output:
        scratch = Path(folder) / "scratch"
        scratch.mkdir()
        (Path(folder) / "outside").touch()
        used = "gpu" if gpu and sandbox.record.traits.closed else "cpu"
        arguments = [os.getpid(), sandbox.record.uid, closed, used, scratch, PROGRAM, *searched()]
        try:
            status = _status(sandbox, [str(argument) for argument in arguments], scratch, gpu, output)
        except SandboxError as error:
            raise SandboxError(f"{error} ({_last_line(output)})") from None
        said = _last_line(output)
    if status != 0 or said != "held":
        raise SandboxError(f"its probe failed ({said or f'exit status {status}'})")


def _status(sandbox: Sandbox, arguments: Sequence[str], scratch: Path, gpu: bool, output: BinaryIO) -> int:
    """The exit status of the probe; -1 when it hangs. Raises SandboxError."""
    process = sandbox.spawn(
        [sys.executable, "-I", "-c", PROBE, *arguments],
        env={name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ},
        cwd=scratch,
        fds=[],
        jail=Jail((), (scratch,), gpu=gpu),
        output=output,
    )
    try:
        return process.wait(PROBE_SECONDS)
    except subprocess.TimeoutExpired:
        return -1
    finally:
        sandbox.end(process)


def _last_line(output: BinaryIO) -> str:
    output.seek(0)
    lines = output.read(OUTPUT_BYTES).decode("utf-8", "replace").split("\n")
    return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "")
