"""Ends processes together with all that they started, and makes this process one that can."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import time
from pathlib import Path

from grader.sandbox.base import SandboxError
from grader.sandbox.jail import FORGET_ROUNDS, descendants, kill

__all__ = ["MARK", "collect", "end_namespace", "end_tree", "harden_judge", "number", "readable"]

END_SECONDS = 20.0
SUPERVISOR_SECONDS = 2.0  # that a supervisor has to end by itself
MARK = "KBH_SANDBOX"  # variable that a supervised process and its children carry
PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 4, 36


def harden_judge() -> None:
    """Closes this process's memory to other processes of its user, and makes it the parent of orphans below it."""
    libc = ctypes.CDLL(None, use_errno=True)
    for option, value in ((PR_SET_DUMPABLE, 0), (PR_SET_CHILD_SUBREAPER, 1)):
        if libc.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)) != 0:
            raise SandboxError(f"this process could not be closed to others: {os.strerror(ctypes.get_errno())}")


def readable(fd: int, seconds: float) -> bool:
    """Whether a descriptor can be read, or its process has ended, within a time."""
    poll = select.poll()  # select cannot take the high numbers that a judge with many regions has
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def number(process: int) -> int:
    """The number of the process that a descriptor names, -1 when it has ended."""
    lines = Path(f"/proc/self/fdinfo/{process}").read_text().splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith("Pid:")), -1)


def end_namespace(process: subprocess.Popen[bytes], first: int | None) -> None:
    """Ends a process and the process namespace whose first process the descriptor `first` names. Closes `first`."""
    process.kill()
    process.wait()
    if first is None:
        return
    try:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(first, signal.SIGKILL)
        if not readable(first, END_SECONDS):
            raise SandboxError("the submission's processes could not be ended")
        with contextlib.suppress(ChildProcessError):  # it is ours only where this process adopts orphans
            os.waitid(os.P_PIDFD, first, os.WEXITED | os.WNOHANG)
    finally:
        os.close(first)


def end_tree(process: subprocess.Popen[bytes], mark: str | None) -> None:
    """Ends a supervisor, all below it, and the orphans with the variable MARK=`mark`. Raises SandboxError.

    The supervisor was let go of and does the same from nearer by. Without a mark it was ended before, and nothing
    happens.
    """
    if mark is None:
        return
    until = time.monotonic() + END_SECONDS
    patience = time.monotonic() + SUPERVISOR_SECONDS
    killed: set[int] = set()
    beside: tuple[set[int], set[int]] = (set(), set())  # what need not be looked at again
    rounds = 0
    while True:
        rounds += 1
        if rounds % FORGET_ROUNDS == 0:
            beside = (set(), set())
        left = descendants(process.pid, beside[0]) if process.poll() is None else []
        orphans = descendants(os.getpid(), beside[1])
        left += [(pid, group) for pid, group in orphans if pid != process.pid and _marked(pid, mark)]
        kill(left)
        killed |= {pid for pid, _ in left}
        if not left and process.poll() is not None:
            break
        if not left and time.monotonic() > patience:
            process.kill()
        if time.monotonic() > until:
            raise SandboxError("the submission's processes could not be ended")
        time.sleep(0.0001)
    for pid in killed:  # those that this process adopted
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def collect(uid: int) -> None:
    """Reaps children of this process that have ended and ran as `uid`, a user that nothing but submissions runs as."""
    own = str(os.getpid())
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError, KeyError, ValueError):
            status = dict(line.split(":", 1) for line in (entry / "status").read_text().splitlines())
            if status["PPid"].strip() == own and status["Uid"].split()[0] == str(uid) and "Z" in status["State"]:
                os.waitpid(int(entry.name), os.WNOHANG)


def _marked(pid: int, mark: str) -> bool:
    with contextlib.suppress(OSError):
        return f"{MARK}={mark}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return False
