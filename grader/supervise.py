"""A submission's own process: started fresh, bounded in time, ended with everything that it started.

The child gets a snapshot of the submission in a scratch folder, an environment of a few variables, caches of its own
and the descriptors it is handed; nothing else is inherited. It is no sandbox: the file system and the network are those
of the user.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from grader.channel import ChannelError, Frame, Kind, clean_text, receive, send
from kbh_lint.source.submissions import BadInput, Submission, discover

__all__ = ["CheckError", "Child", "ChildGone", "Snapshot", "environment", "remove", "snapshot"]

KEPT_VARIABLES = (
    "CC", "CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES", "CXX", "LANG", "LD_LIBRARY_PATH", "MAX_JOBS",
    "NVIDIA_DRIVER_CAPABILITIES", "NVIDIA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "PATH", "TORCHINDUCTOR_COMPILE_THREADS",
    "TORCH_CUDA_ARCH_LIST", "TRITON_LIBCUDA_PATH", "TRITON_PTXAS_PATH", "TZ",
)  # fmt: skip
TAIL_BYTES = 4096
TAIL_CHARACTERS = 1500
BOOT = (
    "import os, sys; first, *rest = sys.argv[1].split(os.pathsep); sys.path.insert(0, first); "
    "sys.path += [p for p in rest if p not in sys.path]; sys.argv[1] = first; "
    "from grader.candidate import main; main()"
)


class CheckError(Exception):
    """A check could not be made: the file, the problem or this machine is to blame; the text is one sentence."""


class ChildGone(Exception):
    """The submission's process ended, hung or broke the protocol; `str` is one sentence, `detail` what it printed."""

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The submission as it is linted and run: `file` in a folder that holds its sidecars too."""

    file: Path
    text: str
    sha256: str


def snapshot(solution: Path, folder: Path) -> Snapshot:
    """Copies a submission and its sidecars, as the linter reads them, into `folder`. Raises CheckError.

    The file is called solution.py there, whatever its name was, so that it can never hide a library.
    """
    found: Submission | BadInput = next(discover([solution]))
    if isinstance(found, BadInput):
        raise CheckError(found.message)
    remove(folder)
    folder.mkdir(parents=True)
    contents = {name: sidecar.text for name, sidecar in found.sidecars.items() if not sidecar.binary}
    for name, text in {**contents, "solution.py": found.text}.items():
        target = folder / name
        if not target.resolve().is_relative_to(folder.resolve()):
            raise CheckError(f"{solution}: the sidecar {name} lies outside the submission's folder")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        target.chmod(stat.S_IRUSR)
    return Snapshot(folder / "solution.py", found.text, found.sha256)


def environment(scratch: Path) -> dict[str, str]:
    """The child's variables: a few of ours, and home, temporary and cache folders under `scratch`."""
    kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    programs = os.path.dirname(sys.executable)
    kept["PATH"] = os.pathsep.join([programs, kept.get("PATH", os.defpath)])
    folders = {
        "HOME": "home",
        "TMPDIR": "tmp",
        "TRITON_CACHE_DIR": "triton",
        "TORCH_EXTENSIONS_DIR": "extensions",
        "TORCHINDUCTOR_CACHE_DIR": "inductor",
        "CUDA_CACHE_PATH": "cuda",
    }
    for name, folder in folders.items():
        (scratch / folder).mkdir(parents=True, exist_ok=True)
        kept[name] = str(scratch / folder)
    return kept


class Child:
    """A running candidate. `budget` is the wall-clock time in seconds that it may keep the judge waiting, in all."""

    def __init__(
        self, arguments: Sequence[str], *, fds: Sequence[int], scratch: Path, cwd: Path, budget: float, boot: str = BOOT
    ) -> None:
        self.link, theirs = socket.socketpair()
        self.budget = self._left = budget
        self._noise = scratch / "output.txt"
        self._seq = 0
        root, libraries = Path(__file__).resolve().parent.parent, Path(torch.__file__).resolve().parent.parent
        places = os.pathsep.join([str(root), str(libraries)])  # -I leaves out a user's site-packages
        command = [sys.executable, "-I", "-c", boot, places, str(theirs.fileno()), *arguments]
        with theirs, self._noise.open("wb") as noise:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=noise,
                stderr=subprocess.STDOUT,
                env=environment(scratch),
                cwd=cwd,
                pass_fds=(theirs.fileno(), *fds),
                start_new_session=True,
            )

    def ask(self, kind: Kind, doing: str, *, text: str = "", numbers: tuple[float, ...] = ()) -> Frame:
        """Asks one question and waits for its answer. Raises ChildGone, and ends the process then."""
        self._seq += 1
        with contextlib.suppress(OSError):  # a child that is gone is noticed when its answer is awaited
            self.link.settimeout(None)
            send(self.link, Frame(kind, self._seq, numbers, text))
        answer = self.wait(doing)
        if answer.seq != self._seq:
            raise self._gone(f"answered a question that was not asked while it was to {doing}")
        return answer

    def wait(self, doing: str) -> Frame:
        """The next frame; `doing` completes "while it was to ..." in messages."""
        began = time.monotonic()
        try:
            return receive(self.link, began + self._left)
        except TimeoutError:
            raise self._gone(f"did not finish within {self.budget:g} s; it was to {doing}") from None
        except EOFError:
            raise self._gone(f"{self._ending()} while it was to {doing}") from None
        except ChannelError:
            raise self._gone(f"wrote on the grader's channel while it was to {doing}") from None
        finally:
            self._left -= time.monotonic() - began

    def close(self) -> None:
        """Kills the process and all of its group, and waits for it."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self.link.close()

    def _gone(self, message: str) -> ChildGone:
        self.close()
        return ChildGone(f"the submission {message}", self._tail())

    def _ending(self) -> str:
        """How the process ended. It is looked at without reaping it, so that its group's number stays taken."""
        until = time.monotonic() + 5.0
        while time.monotonic() < until:
            ended = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is None:
                time.sleep(0.02)
            elif ended.si_code == os.CLD_EXITED:
                return f"ended its process (exit status {ended.si_status})"
            else:
                return f"was killed by {_signal_name(ended.si_status)}"
        return "closed the grader's channel"

    def _tail(self) -> str:
        """The last lines that the process printed."""
        try:
            with self._noise.open("rb") as noise:
                noise.seek(max(0, os.fstat(noise.fileno()).st_size - TAIL_BYTES))
                return clean_text(noise.read(TAIL_BYTES).decode("utf-8", "replace"), TAIL_CHARACTERS)
        except OSError:
            return ""


def remove(folder: Path) -> None:
    """Deletes a scratch folder, whatever the submission did to it."""
    shutil.rmtree(folder, ignore_errors=True)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
