"""Candidates that are forks of a process which has torch imported: a fresh one takes two seconds of CPU for that.

For tests of what is graded, not of how a process is started and held: those use the sandboxes themselves, as the
hostile submissions do. All that runs after the imports is the real candidate's main.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fcntl import F_DUPFD, fcntl
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO

PR_SET_CHILD_SUBREAPER = 36
MOST_BYTES = 1 << 16
_ASKING = threading.Lock()  # some judges check several submissions side by side


def serve(number: int) -> None:
    """Forks a candidate for each request on a socket, until it is closed. The forks become the judge's own children."""
    from grader.candidate.serve import main

    link = socket.socket(fileno=number)
    while True:
        data, fds, _, _ = socket.recv_fds(link, MOST_BYTES, 2)
        if not data:
            return
        between = os.fork()
        if between == 0:
            pid = os.fork()
            if pid == 0:
                _become(json.loads(data), fds, main)
            link.send(str(pid).encode())
            os._exit(0)
        os.waitpid(between, 0)
        for fd in fds:
            os.close(fd)
        link.send(b"its parent is gone")


def _become(asked: Mapping[str, Any], fds: Sequence[int], main: Callable[[], None]) -> None:
    """What a sandbox and `grader.sandbox.supervise.BOOT` do, but for the imports."""
    code = 1
    try:
        os.setsid()
        link, output = (fcntl(fd, F_DUPFD, 10) for fd in fds)  # out of the way of the numbers that they are to have
        for fd, number in ((output, 1), (output, 2), (link, 3)):
            os.dup2(fd, number)
        os.closerange(4, 4096)
        os.environ.clear()
        os.environ.update(asked["env"])
        os.chdir(asked["cwd"])
        sys.argv = ["-c", asked["places"], "3", *asked["arguments"]]
        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        os._exit(code)


class Warm:
    """A sandbox of the record of another one, which starts what is not a candidate, whose candidates are forks."""

    def __init__(self, real: Any) -> None:
        self.real, self.record = real, real.record
        self.inner = SimpleNamespace(record=replace(real.record, kind="plain"))  # a fork sees the paths of this process
        self._forks: set[int] = set()

    def spawn(
        self, argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, fds: Sequence[int], jail: Any,
        output: BinaryIO, report: int | None = None,
    ) -> subprocess.Popen[bytes]:  # fmt: skip
        from grader.sandbox.supervise import BOOT

        if BOOT not in argv:
            return self.real.spawn(argv, env=env, cwd=cwd, fds=fds, jail=jail, output=output)
        places, _, *arguments = argv[list(argv).index(BOOT) + 1 :]
        asked = {"env": dict(env), "cwd": str(cwd.absolute()), "places": places, "arguments": arguments}
        with _ASKING:
            server = _server(places)
            _adopt_orphans(True)
            try:
                socket.send_fds(server, [json.dumps(asked).encode()], [fds[0], output.fileno()])
                pid = int(server.recv(64))
                server.recv(64)
            finally:
                _adopt_orphans(False)
        process = subprocess.Popen.__new__(subprocess.Popen)
        process.pid, process.returncode, process._child_created = pid, None, False
        self._forks.add(pid)
        return process

    def end(self, process: subprocess.Popen[bytes]) -> None:
        if process.pid not in self._forks:
            self.real.end(process)
            return
        self._forks.remove(process.pid)
        os.killpg(process.pid, signal.SIGKILL)
        os.waitpid(process.pid, 0)


@cache
def _server(places: str) -> socket.socket:
    """The connection to the process that forks; it ends with this one, and imported torch where this one has it."""
    from grader.sandbox.supervise import BOOT

    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    boot = BOOT.removesuffix("main()") + "import runpy; runpy.run_path(sys.argv[3])['serve'](int(sys.argv[2]))"
    with theirs:
        subprocess.Popen(
            [sys.executable, "-I", "-u", "-c", boot, places, str(theirs.fileno()), __file__],
            stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()], start_new_session=True,
        )  # fmt: skip
    return ours


def _adopt_orphans(adopt: bool) -> None:
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(adopt), 0, 0, 0)
