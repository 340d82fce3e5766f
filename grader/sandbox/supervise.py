"""A submission's own process: started fresh in a sandbox, bounded in time, ended with everything that it started.

The child gets a snapshot of the submission in a scratch folder, an environment of a few variables, caches of its own
and one end of a socket pair; nothing else is inherited.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path, PurePosixPath

from grader.sandbox import Jail, Sandbox, cutlass, seen_at
from grader.sandbox.base import CheckError
from grader.sandbox.disk import ScratchWatch
from grader.sandbox.jail import descendants
from grader.sandbox.launch import let_go
from grader.wire.frames import ChannelError, Frame, Kind, clean_text, is_answer, receive, send

__all__ = ["Child", "ChildGone", "Purse", "environment"]

KEPT_VARIABLES = (
    "CC", "CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES", "CXX", "LANG", "LD_LIBRARY_PATH", "MAX_JOBS",
    "NVIDIA_DRIVER_CAPABILITIES", "NVIDIA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "PATH", "TORCHINDUCTOR_COMPILE_THREADS",
    "TORCH_CUDA_ARCH_LIST", "TRITON_LIBCUDA_PATH", "TRITON_PTXAS_PATH", "TZ",
)  # fmt: skip
TAIL_CHARACTERS = 1500
LINE_BYTES = 4096
LOG_BYTES = 256 << 10  # kept of each end of what a submission prints
CPU_DATA_BYTES, GPU_DATA_BYTES = 12 << 30, 64 << 30  # private memory on the host
CACHE_FOLDERS = {
    "TRITON_CACHE_DIR": "triton", "TORCH_EXTENSIONS_DIR": "extensions", "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "CUDA_CACHE_PATH": "cuda",
}  # fmt: skip
STILL_SECONDS = 0.5  # between two looks at a process that we keep from running
# The package by its place, so that the folder above it needs neither be listed nor stay on the path.
BOOT = (
    "import sys; from importlib import util; root, *rest = sys.argv[1].split(':'); "
    "sys.path += [p for p in rest if p not in sys.path]; "
    "spec = util.spec_from_file_location('grader', root + '/grader/__init__.py'); "
    "sys.modules['grader'] = util.module_from_spec(spec); spec.loader.exec_module(sys.modules['grader']); "
    "from grader.candidate.serve import main; main()"
)


class ChildGone(Exception):
    """The submission's process ended, hung or broke the protocol; `str` is one sentence, `detail` what it printed."""

    def __init__(self, message: str, detail: str = "", *, late: bool = False) -> None:
        super().__init__(message)
        self.detail = detail
        self.late = late


def environment(scratch: Path) -> dict[str, str]:
    """The child's variables: a few of ours, and home, temporary and cache folders under `scratch`, which are made."""
    kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    programs = os.path.dirname(sys.executable)
    kept["PATH"] = os.pathsep.join([programs, kept.get("PATH", os.defpath)])
    folders = {"HOME": "work/home", "TMPDIR": "work/tmp"}
    folders |= {name: f"caches/{folder}" for name, folder in CACHE_FOLDERS.items()}
    for name, folder in folders.items():
        (scratch / folder).mkdir(parents=True, exist_ok=True)
        kept[name] = str(scratch / folder)
    return kept | {"TRITON_CACHE_AUTOTUNING": "1"}  # what the build tuned is not tuned anew in each process


@dataclass(slots=True)
class Purse:
    """Seconds that a process may keep the judge waiting for one kind of work: in all, and what is left of them.

    `work` stands in messages, after "did not finish".
    """

    whole: float
    left: float
    work: str = ""

    @classmethod
    def of(cls, seconds: float, work: str = "") -> Purse:
        """A purse with all of its `seconds` left."""
        return cls(seconds, seconds, work)

    def limit(self, wanted: float | None) -> float:
        """The seconds that one piece of work may take: what is left, and at most `wanted`."""
        left = max(self.left, 0.001)
        return left if wanted is None else min(wanted, left)

    def passed(self, limit: float) -> str:
        """The end of a message on a limit that was exceeded: the whole purse when that ran out, else `limit`."""
        return f"{self.work} within {self.whole if limit >= self.left else limit:.3g} s".strip()


def _elsewhere(sandbox: Sandbox, submission: Path | None, write: Sequence[Path]) -> dict[Path, PurePosixPath]:
    """Where a submission's process sees its folders, if that is not where they lie."""
    seen = seen_at(sandbox)
    if seen is None or submission is None:
        return {}
    return {submission: seen / "submission"} | {folder: seen / "run" / folder.name for folder in write}


def _as_seen(text: str, also: Mapping[Path, PurePosixPath]) -> str:
    """A path as the process sees it; any other text as it is."""
    for folder, seen in also.items():
        if text == str(folder) or text.startswith(f"{folder}/"):
            return f"{seen}{text[len(str(folder)) :]}"
    return text


def _installed(package: str) -> Path:
    """The folder of an installed package, which is not imported. Raises CheckError."""
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise CheckError(f"{package} is not installed")
    return Path(found.submodule_search_locations[0]).resolve()


class Child:
    """A running candidate. `budget` is the wall-clock time in seconds that it may keep the judge waiting, in all.

    What is asked with a purse of its own is taken from that, and not from the budget.
    """

    def __init__(
        self, arguments: Sequence[str], *, sandbox: Sandbox, scratch: Path, read: Sequence[Path], cwd: Path,
        budget: float, gpu: bool = False, boot: str = BOOT, submission: Path | None = None,
    ) -> None:  # fmt: skip
        self.link, theirs = socket.socketpair()
        self._purse = Purse.of(budget)
        self._seq = 0
        self._sandbox = sandbox
        self._closed = False
        self._main = 0  # the number of the process itself, where it is known
        self._stopped: float | None = None  # since when we keep it from running
        self._idle = 0.0  # seconds for which we did
        root, libraries = Path(__file__).resolve().parents[2], _installed("torch").parent
        places = f"{root}:{libraries}"  # -I leaves out a user's site-packages
        command = [sys.executable, "-I", "-u", "-c", boot, places, str(theirs.fileno()), *arguments]
        variables, headers = environment(scratch), cutlass.find()
        if headers is not None:
            variables, read = variables | headers.variables(variables), (*read, *headers.folders)
        write = (scratch / "work", scratch / "caches")
        also = _elsewhere(sandbox, submission, write)
        jail = Jail(
            read=tuple(read), write=write, gpu=gpu, data_bytes=GPU_DATA_BYTES if gpu else CPU_DATA_BYTES,
            also=tuple(also.items()),
        )  # fmt: skip
        command, cwd = [_as_seen(part, also) for part in command], Path(_as_seen(str(cwd), also))
        variables = {name: _as_seen(value, also) for name, value in variables.items()}
        reader, writer = os.pipe()
        with theirs, os.fdopen(writer, "wb") as output:
            self._noise = _Noise(reader)
            self._process = sandbox.spawn(
                command, env=variables, cwd=cwd, fds=(theirs.fileno(),), jail=jail, output=output
            )
        process = self._process
        self._scratch = ScratchWatch(
            jail.write, lambda: [pid for pid, _ in descendants(process.pid)], lambda: let_go(process),
            [also[folder] for folder in write if folder in also],
        )  # fmt: skip

    def begin(self, budget: float) -> None:
        """Replaces the time budget of the process by a new one: what it did before was our own work."""
        self._purse = Purse.of(budget)

    def ask(
        self, kind: Kind, doing: str, *, text: str = "", numbers: tuple[float, ...] = (),
        descriptors: Sequence[int] = (), limit: float | None = None, purse: Purse | None = None,
    ) -> Frame:  # fmt: skip
        """Asks one question and waits for its answer, at most `limit` seconds; ends the process when that fails.

        Raises ChildGone.
        """
        self._seq += 1
        limit = (purse or self._purse).limit(limit)
        with contextlib.suppress(OSError):  # a child that is gone is noticed when its answer is awaited
            self.link.settimeout(max(limit, 0.001))
            send(self.link, Frame(kind, self._seq, numbers, text), descriptors)
        answer = self.wait(doing, limit, purse)
        if answer.seq != self._seq:
            raise self._gone(f"answered a question that was not asked while it was to {doing}")
        if not is_answer(kind, answer.kind):
            raise self._gone(f"answered {kind.name} with {answer.kind.name} while it was to {doing}")
        return answer

    def wait(self, doing: str, limit: float | None = None, purse: Purse | None = None) -> Frame:
        """The next frame; `doing` completes "while it was to ..." in messages. Raises ChildGone."""
        began, purse, idle = time.monotonic(), purse or self._purse, self._stood_still()
        limit = purse.limit(limit)
        try:
            return self._received(began + limit - idle)
        except TimeoutError:
            raise self._gone(f"did not finish {purse.passed(limit)}; it was to {doing}", late=True) from None
        except EOFError:
            raise self._gone(f"{self._ending()} while it was to {doing}") from None
        except ChannelError:
            raise self._gone(f"wrote on the grader's channel while it was to {doing}") from None
        finally:
            purse.left -= time.monotonic() - began - (self._stood_still() - idle)

    def _received(self, deadline: float) -> Frame:
        """The next frame, at most until then and as long again as the process is kept from running."""
        while True:
            until = deadline + self._stood_still()
            try:
                return receive(self.link, until if self._stopped is None else time.monotonic() + STILL_SECONDS)
            except TimeoutError:
                if self._stopped is None and time.monotonic() >= deadline + self._stood_still():
                    raise

    def _stood_still(self) -> float:
        since = self._stopped
        return self._idle + (0.0 if since is None else time.monotonic() - since)

    def processes(self) -> list[int]:
        """The numbers of the process and of those that it started, where the sandbox can tell."""
        if self._closed:
            return []
        with contextlib.suppress(OSError):
            return self._sandbox.alive(self._process)
        return []

    def stop(self) -> bool:
        """Stops the process itself (SIGSTOP) until `go_on`, and nothing that it started; returns whether that was
        possible.
        """
        found = self.processes()
        self._main = self._main or (found[0] if found else 0)
        if self._main not in found:
            return False
        with contextlib.suppress(OSError):
            os.kill(self._main, signal.SIGSTOP)
            self._stopped = time.monotonic()
            return True
        return False

    def go_on(self) -> None:
        """Lets a stopped process run again; the time between does not count against its limits."""
        if self._stopped is None:
            return
        with contextlib.suppress(OSError):
            if self._main in self.processes():
                os.kill(self._main, signal.SIGCONT)
        self._idle, self._stopped = self._stood_still(), None

    def leave(self, seconds: float) -> None:
        """Asks the process to end by itself and waits for that, at most so long; then `close`."""
        with contextlib.suppress(OSError):
            send(self.link, Frame(Kind.STOP, self._seq + 1))
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self._exited():
            time.sleep(0.01)
        self.close()

    def close(self) -> None:
        """Kills the process and everything that it started, and waits for it."""
        if self._closed:
            return
        self._closed = True
        self._scratch.close()
        self._sandbox.end(self._process)
        self.link.close()

    @property
    def log(self) -> str:
        """What the process printed: the first and the last part, when it was much."""
        return self._noise.text()

    def _gone(self, message: str, *, late: bool = False) -> ChildGone:
        self.close()
        return ChildGone(f"the submission {message}", clean_text(self.log, TAIL_CHARACTERS), late=late)

    def _exited(self) -> os.waitid_result | None:
        """How the process ended, if it has. It is looked at without reaping it, so that its number stays taken."""
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)

    def _ending(self) -> str:
        if self._scratch.over:
            return self._scratch.over
        until = time.monotonic() + 5.0
        while time.monotonic() < until:
            ended = self._exited()
            if ended is None:
                time.sleep(0.02)
            elif ended.si_code == os.CLD_EXITED and ended.si_status > 128:  # as a sandbox tells its child's end
                return f"was killed by {_signal_name(ended.si_status - 128)}"
            elif ended.si_code == os.CLD_EXITED:
                return f"ended its process (exit status {ended.si_status})"
            else:
                return f"was killed by {_signal_name(ended.si_status)}"
        return "closed the grader's channel"


class _Noise:
    """Reads what a child prints, so that it can neither fill a disk nor block; keeps LOG_BYTES of each end."""

    def __init__(self, reader: int) -> None:
        self._first, self._last = bytearray(), bytearray()
        self._dropped = 0
        self._thread = threading.Thread(target=self._drain, args=(reader,), daemon=True)
        self._thread.start()

    def text(self) -> str:
        """What the process has printed so far; all of it once the process has ended."""
        self._thread.join(1.0)
        first, last = bytes(self._first), bytes(self._last)
        if self._dropped:  # whole lines beside the gap, so that no half of a secret escapes being taken out
            first = first[: max(first.rfind(b"\n"), LOG_BYTES - LINE_BYTES)]
            last = last[min(last.find(b"\n") % (LOG_BYTES + 1), LINE_BYTES) :]
            first += f"\n[about {self._dropped} bytes left out]\n".encode()
        return (first + last).decode("utf-8", "replace")

    def _drain(self, reader: int) -> None:
        with os.fdopen(reader, "rb", buffering=0) as pipe:
            while part := pipe.read(1 << 16):
                room = LOG_BYTES - len(self._first)
                self._first += part[:room]
                self._last += part[room:]
                excess = len(self._last) - LOG_BYTES
                if excess > 0:
                    self._dropped += excess
                    del self._last[:excess]


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
