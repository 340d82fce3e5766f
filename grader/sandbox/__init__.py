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
from contextlib import ExitStack
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from grader.record.sandboxes import REMEDIES, TRAITS, SandboxKind, SandboxName
from grader.sandbox.base import SEEN, Jail, Paired, Sandbox, SandboxError
from grader.sandbox.control import groups_work
from grader.sandbox.kinds import MAKERS
from grader.sandbox.places import searched
from grader.sandbox.reap import harden_judge

__all__ = ["Jail", "Sandbox", "SandboxError", "Wanted", "choose", "harden_judge", "hoped", "second", "seen_at"]

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
_CHOSEN: dict[tuple[bool, Wanted], Sandbox] = {}  # by what was asked for
_BEGUN: dict[tuple[bool, Wanted], tuple[SandboxKind, _Probe]] = {}  # probes that go on


def choose(*, device: str, wanted: Wanted = "auto") -> Sandbox:
    """The best sandbox that works here for a device ("cpu", "cuda", "cuda:0"), or the one that is wanted.

    Raises SandboxError when there is none: a GPU gets one that is not closed only where it is asked for.
    """
    asked = device.startswith("cuda"), wanted
    if asked not in _CHOSEN:
        _CHOSEN[asked] = _chosen(*asked)
    return _CHOSEN[asked]


def hoped(*, device: str, wanted: Wanted = "auto") -> Sandbox:
    """The kind that `choose` tries first, whose probe goes on meanwhile; `choose` waits for that and gives the same
    object where it holds. Until then only processes may be started in it that run nothing of a submission's.

    Raises SandboxError where no kind can be made.
    """
    gpu = device.startswith("cuda")
    if (gpu, wanted) in _CHOSEN:
        return _CHOSEN[gpu, wanted]
    if (gpu, wanted) in _BEGUN:
        return _BEGUN[gpu, wanted][1].sandbox
    reasons: list[str] = []
    for name in _kinds(gpu, wanted):
        try:
            sandbox = _made(name, reasons)
            _BEGUN[gpu, wanted] = name, _Probe(sandbox, gpu)
            return sandbox
        except SandboxError as error:
            reasons.append(f"no {name}: {error}")
    raise SandboxError(_none(reasons, wanted))


def _chosen(gpu: bool, wanted: Wanted) -> Sandbox:
    reasons: list[str] = []
    first, begun = _BEGUN.pop((gpu, wanted), (None, None))
    for name in _kinds(gpu, wanted):
        try:
            probe = begun if begun is not None and name == first else _Probe(_made(name, reasons), gpu)
            probe.wait()
            return probe.sandbox
        except SandboxError as error:
            reasons.append(f"no {name}: {error}")
    raise SandboxError(_none(reasons, wanted))


def _kinds(gpu: bool, wanted: Wanted) -> list[SandboxKind]:
    return [kind for kind in TRAITS if kind == wanted or wanted == "auto" and (TRAITS[kind].closed or not gpu)]


def _made(name: SandboxKind, reasons: Sequence[str]) -> Sandbox:
    bound = "memory is limited for each process alone" if not groups_work() else "a control group limits memory in sum"
    return MAKERS[name]((*reasons, bound))


def _none(reasons: Sequence[str], wanted: Wanted) -> str:
    hint = f"; {REMEDIES}" if wanted == "auto" else ""
    return f"no sandbox works on this machine ({'; '.join(reasons)}){hint}"


def seen_at(sandbox: Sandbox) -> PurePosixPath | None:
    """The path at which processes of every grading find their folder, for compilers that note paths; None where the
    sandbox leaves it at the path that it has outside.
    """
    kind: Sandbox = getattr(sandbox, "inner", sandbox)  # what starts the process, below a profiler
    return SEEN if kind.record.traits.own_paths else None


def second(sandbox: Sandbox, place: int = 1) -> Sandbox | None:
    """A sandbox of the same kind for a process beside one in `sandbox`, run as another user so that limits are counted
    apart; None where two processes are not kept apart well enough. Each `place` has its own user. Raises SandboxError.
    """
    return sandbox.second(place) if isinstance(sandbox, Paired) else None


class _Probe:
    """A process in a sandbox that looks at what it can reach; it is started at once. Raises SandboxError."""

    def __init__(self, sandbox: Sandbox, gpu: bool) -> None:
        self.sandbox = sandbox
        closed = "closed" if sandbox.record.traits.closed else "open"
        used = "gpu" if gpu and sandbox.record.traits.closed else "cpu"
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kbh-probe-")))
            self._output: BinaryIO = stack.enter_context(tempfile.TemporaryFile())
            scratch = folder / "scratch"
            scratch.mkdir()
            (folder / "outside").touch()
            arguments = [os.getpid(), sandbox.record.uid, closed, used, scratch, PROGRAM, *searched()]
            try:
                self._process = sandbox.spawn(
                    [sys.executable, "-I", "-c", PROBE, *map(str, arguments)],
                    env={name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ},
                    cwd=scratch,
                    fds=[],
                    jail=Jail((), (scratch,), gpu=gpu),
                    output=self._output,
                )
            except SandboxError as error:
                raise SandboxError(f"{error} ({_last_line(self._output)})") from None
            self._files = stack.pop_all()

    def wait(self) -> None:
        """Waits for the probe to show that the sandbox holds. Raises SandboxError."""
        with self._files:
            try:
                status = self._status()
            except SandboxError as error:
                raise SandboxError(f"{error} ({_last_line(self._output)})") from None
            said = _last_line(self._output)
        if status != 0 or said != "held":
            raise SandboxError(f"its probe failed ({said or f'exit status {status}'})")

    def _status(self) -> int:
        """The exit status of the probe; -1 when it hangs. Raises SandboxError."""
        try:
            return self._process.wait(PROBE_SECONDS)
        except subprocess.TimeoutExpired:
            return -1
        finally:
            self.sandbox.end(self._process)


def _last_line(output: BinaryIO) -> str:
    output.seek(0)
    lines = output.read(OUTPUT_BYTES).decode("utf-8", "replace").split("\n")
    return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "")
