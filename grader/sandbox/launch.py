"""Starts `jail.py`, with its settings in a memory file, as all kinds of sandbox do."""

from __future__ import annotations

import contextlib
import marshal
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any, BinaryIO

from grader.sandbox.base import Jail, SandboxError
from grader.sandbox.control import Group, make_group
from grader.sandbox.places import interpreter
from grader.sandbox.users import give

__all__ = ["Restriction", "first_command", "first_program", "let_go", "memory_file", "release", "start"]

LOADER = "import marshal, sys; code, given = marshal.load(open(int(sys.argv[1]), 'rb')); exec(code); main(given)"
ADDRESS_SPACE_BYTES = 8 << 30  # beyond private memory: libraries and what is reserved; bounds shared memory too
OPEN_FILES = 4096
JAIL = Path(__file__).with_name("jail.py")
LOCKED_BYTES = 64 << 20
_GROUPS: dict[int, Group] = {}  # of the processes that run
_LINES: dict[int, int] = {}  # their ends of pipes that nobody else holds: with the judge these end, and so do they
USER_NAMES = {"LOGNAME": "kbh", "USER": "kbh"}  # the user has no line in /etc/passwd


@dataclass(frozen=True, slots=True)
class Restriction:
    """What `jail.py` does to itself. `rules` and `landlock` are Landlock's."""

    uid: int | None = None
    read_all: bool = False
    namespace: bool = False  # whether it is the first process of a namespace of processes
    landlock: tuple[int, int, int] | None = None
    rules: Sequence[tuple[Path, int]] = ()
    seccomp: bytes = b""
    own_processes: bool = True  # whether the limit on processes counts only this submission's
    extra: Mapping[str, str] = field(default_factory=dict)  # variables that mark the process


def start(
    prefix: Sequence[str],
    restriction: Restriction,
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    fds: Sequence[int],
    jail: Jail,
    output: BinaryIO,
    also: Sequence[int] = (),
    close: Sequence[int] = (),
    report: int | None = None,
) -> subprocess.Popen[bytes]:
    """Runs `prefix`, which gets the descriptors `also`, and then `jail.py` with these settings. Raises SandboxError.

    What may be written is given to the user that the process will run as. `jail.py` closes the descriptors `close`
    that come to it from `prefix`. The process ends with this one, and when it is released. When the program ends by
    itself, how many of those that it started are alive then is written to the descriptor `report`.
    """
    if restriction.uid is not None:
        for folder in jail.write:
            give(folder, restriction.uid)
    limits = _limits(jail, restriction.own_processes)
    group = make_group(jail, limits["NPROC"])
    with contextlib.ExitStack() as stack:
        wait, go = os.pipe2(os.O_CLOEXEC)
        stack.callback(os.close, wait)
        line = stack.enter_context(contextlib.ExitStack())
        line.callback(os.close, go)
        settings: dict[str, Any] = {
            "argv": list(argv),
            "env": {**USER_NAMES, **env, **restriction.extra},
            "cwd": str(cwd.absolute()),
            "keep": list(fds),
            "limits": limits,
            "uid": restriction.uid,
            "read_all": restriction.read_all,
            "namespace": restriction.namespace,
            "landlock": restriction.landlock,
            "rules": [[str(path), rights] for path, rights in restriction.rules],
            "seccomp": restriction.seccomp,
            "judge": wait,
            "close": list(close),
            "report": [] if report is None else [report],
        }
        config = first_program(JAIL, settings)
        stack.callback(os.close, config)
        command = [*prefix, *first_command(jail, config)]
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=_own_environment(),
                cwd="/",
                pass_fds=[config, wait, *fds, *also, *close, *settings["report"]],
                start_new_session=True,
            )
        except OSError as error:
            if group is not None:
                group.close()
            raise SandboxError(f"{command[0]} could not be started: {error.strerror}") from None
        if group is not None:
            group.take(process.pid)
            _GROUPS[process.pid] = group
        os.write(go, b"g")
        _LINES[process.pid] = go
        line.pop_all()
    return process


def let_go(process: subprocess.Popen[bytes]) -> None:
    """Tells a started process to end by itself, with all below it; kills at once what is in its control group, where it
    has one.
    """
    line = _LINES.pop(process.pid, None)
    if line is not None:
        os.close(line)
    if process.pid in _GROUPS:
        _GROUPS[process.pid].kill()


def release(process: subprocess.Popen[bytes]) -> None:
    """Forgets a process that was ended. Raises SandboxError when something is left in its control group."""
    let_go(process)
    group = _GROUPS.pop(process.pid, None)
    if group is not None:
        group.close()


def first_program(source: Path, settings: dict[str, Any]) -> int:
    """A descriptor of a program with a function `main`, and of what that is called with, for `first_command`.

    So the program needs no path inside, and no time to be compiled.
    """
    return memory_file("kbh-first", marshal.dumps((_compiled(source), settings)))


def first_command(jail: Jail, descriptor: int) -> list[str]:
    """How Python is started with a `first_program`."""
    return [interpreter(jail), "-I", "-S", "-c", LOADER, str(descriptor)]


@cache
def _compiled(source: Path) -> CodeType:
    return compile(source.read_bytes(), source.name, "exec", dont_inherit=True)


def memory_file(name: str, data: bytes) -> int:
    """A descriptor from which `data` can be read once."""
    fd = os.memfd_create(name, os.MFD_CLOEXEC)
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _own_environment() -> dict[str, str]:
    """For the sandbox's own programs: enough to find their libraries, and nothing of the user's."""
    return {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "PATH") if name in os.environ}


def _limits(jail: Jail, own_processes: bool) -> dict[str, int]:
    """The limits of each process, by the names that `resource` has for them."""
    limits = {
        "CORE": 0,
        "FSIZE": jail.file_bytes,
        "NOFILE": OPEN_FILES,
        "MEMLOCK": LOCKED_BYTES,
        "MSGQUEUE": 0,
        "NICE": 0,
        "NPROC": jail.processes + 2 * (os.cpu_count() or 1) + (0 if own_processes else _running()),
        "RTPRIO": 0,
    }
    if jail.data_bytes is not None:
        limits["DATA"] = jail.data_bytes
    if jail.data_bytes is not None and not jail.gpu and jail.layout is None:  # GPU, Node and Bun reserve terabytes
        limits["AS"] = jail.data_bytes + ADDRESS_SPACE_BYTES
    return limits


def _running() -> int:
    """Threads that run as this user now."""
    count = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                lines = dict(line.split(":", 1) for line in (entry / "status").read_text().splitlines())
                if lines["Uid"].split()[0] == str(os.getuid()):
                    count += int(lines["Threads"])
    return count
