"""The strongest sandbox: bubblewrap gives the process a file system, a process table and a network of its own.

As root no user namespace is made: bubblewrap binds the folders while it may read all of them, keeps three capabilities
for `jail.py` inside, and that becomes a real user without any. Otherwise the kernel must grant user namespaces.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from grader.record.cell import SandboxRecord
from grader.sandbox.base import Jail, SandboxError
from grader.sandbox.jail import descendants
from grader.sandbox.launch import Restriction, let_go, memory_file, release, start
from grader.sandbox.places import Places, gpu_nodes, places
from grader.sandbox.reap import end_namespace, number, readable
from grader.sandbox.seccomp import program
from grader.sandbox.users import leased_uid

__all__ = ["Bubblewrap", "bubblewrap"]

START_SECONDS = 20.0
HIDDEN_BYTES = 1 << 16  # of the empty folder that lies over what is hidden
# No --die-with-parent: bubblewrap's first process waits for a word of the second one and stays for ever where that one
# is killed before. `jail.py` ends when the judge does, and with it everything else.
NAMESPACES = (
    "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--hostname", "kbh",
    "--new-session", "--as-pid-1",
)  # fmt: skip
SHUT = ("--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/")
FOR_JAIL = ("--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", "--cap-add", "CAP_SETPCAP")


@dataclass(frozen=True, slots=True)
class Bubblewrap:
    """Processes in namespaces of their own. `uid` is the real user inside as root, else None."""

    command: str
    uid: int | None
    record: SandboxRecord
    first: dict[int, int] = field(default_factory=dict)  # process -> descriptor of the first process in its namespace

    def spawn(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        fds: Sequence[int],
        jail: Jail,
        output: BinaryIO,
        report: int | None = None,
    ) -> subprocess.Popen[bytes]:
        """See `grader.sandbox.base.Sandbox`."""
        agent = jail.layout is not None
        families = [socket.AF_UNIX, *([socket.AF_INET, socket.AF_INET6] if jail.profiler or agent else [])]
        families += [socket.AF_NETLINK] if agent else []
        seccomp = program(memory_files=jail.gpu or agent, families=families, reach_others=True, shared_user=False)
        restriction = Restriction(uid=self.uid, seccomp=seccomp, namespace=True)
        with contextlib.ExitStack() as stack:
            told, tell = os.pipe2(os.O_CLOEXEC)
            stack.callback(os.close, told)
            with os.fdopen(tell, "wb"):
                files = jail.layout.files if jail.layout is not None else ()
                contents = {path: memory_file("kbh-file", data) for path, data in files}
                given = [*self._arguments(jail, tell), *_written(contents), *SHUT]
                arguments = memory_file("kbh-bwrap", b"\0".join(map(os.fsencode, given)))
                for descriptor in (arguments, *contents.values()):
                    stack.callback(os.close, descriptor)
                prefix = [self.command, "--args", str(arguments)]
                process = start(
                    prefix, restriction, argv, env=env, cwd=cwd, fds=fds, jail=jail, output=output,
                    also=[arguments, tell, *contents.values()], report=report,
                    close=[told],  # with it bubblewrap can write whether or not we still read
                )  # fmt: skip
            self.first[process.pid] = _first_process(process, told)
        return process

    def alive(self, process: subprocess.Popen[bytes]) -> list[int]:
        """See `grader.sandbox.base.Sandbox`: those in the namespace, besides its first one."""
        first = self.first.get(process.pid)
        return [pid for pid, _ in descendants(number(first))] if first is not None and not readable(first, 0) else []

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """Ends the first process of the namespace, with which the kernel ends all others."""
        try:
            end_namespace(process, self.first.pop(process.pid, None))
        finally:
            release(process)

    def second(self, place: int) -> Bubblewrap:
        """See `grader.sandbox.second`. Without root each process has a user namespace, so the same will do."""
        uid = leased_uid(place)
        return self if uid is None else replace(self, uid=uid, record=replace(self.record, uid=uid), first={})

    def _arguments(self, jail: Jail, tell: int) -> Iterator[str]:
        yield from NAMESPACES
        yield from ("--info-fd", str(tell))
        yield from FOR_JAIL if self.uid is not None else ("--unshare-user", "--cap-drop", "ALL")
        yield from ("--proc", "/proc", "--dev", "/dev")
        every = gpu_nodes(jail.profiler) if jail.gpu else ()
        for node in jail.layout.nodes if jail.layout is not None else every:
            yield from ("--dev-bind", str(node), str(node))
        for folder in ("/dev/shm", "/tmp"):
            yield from ("--perms", "1777", "--size", str(jail.tmp_bytes), "--tmpfs", folder)
        for depth in _by_depth(places(jail)):
            yield from depth
        for source, target in jail.also:
            bind = "--bind" if source in jail.write else "--ro-bind"
            yield from (*_above(target), bind, str(source), str(target))
        if jail.layout is not None:
            for source, target in jail.layout.mounts:
                yield from (*_above(target), "--ro-bind", str(source), str(target))
            for own, size in jail.layout.folders:
                yield from (*_above(own), "--perms", "0755", "--size", str(size), "--tmpfs", str(own))


def bubblewrap(notes: tuple[str, ...] = ()) -> Bubblewrap:
    """The sandbox of bubblewrap as this machine has it; `notes` go into its record. Raises SandboxError."""
    command = shutil.which("bwrap")
    if command is None:
        raise SandboxError("bubblewrap is not installed")
    uid = leased_uid()
    record = SandboxRecord("bubblewrap", os.getuid() if uid is None else uid, network=False, notes=notes)
    return Bubblewrap(command, uid, record)


def _by_depth(where: Places) -> Iterator[tuple[str, ...]]:
    """Mounts from the outside in, so that what lies deeper wins, and the folders on the way to them."""
    hidden = (path.resolve() for path in where.hidden)  # nothing can be mounted below a folder's other name
    kinds = dict.fromkeys(hidden, "hidden") | dict.fromkeys(where.read, "read")
    kinds |= dict.fromkeys(where.write, "write")
    mounted: dict[Path, str] = {}
    made = {Path("/")}
    for path in sorted(kinds, key=lambda path: len(path.parts)):
        holder = next((mounted[above] for above in path.parents if above in mounted), None)
        if kinds[path] == holder or (kinds[path] == "hidden" and holder is None):
            continue
        if holder in (None, "hidden"):
            for above in reversed(path.parents):
                if above not in mounted and above not in made:
                    made.add(above)
                    yield ("--perms", "0755", "--dir", str(above))  # left to itself bubblewrap makes them private
        mounted[path] = kinds[path]
        if kinds[path] == "read":
            yield _read_only(path)
        elif kinds[path] == "write":
            yield ("--bind", str(path), str(path))
        else:
            yield ("--perms", "0555", "--size", str(HIDDEN_BYTES), "--tmpfs", str(path))


def _written(contents: Mapping[PurePosixPath, int]) -> Iterator[str]:
    """Files with what is read from descriptors, which only root can write."""
    for path, descriptor in contents.items():
        yield from (*_above(path), "--perms", "0444", "--ro-bind-data", str(descriptor), str(path))


def _above(path: PurePosixPath) -> Iterator[str]:
    """The folders on the way to a path, where they are missing."""
    for above in reversed(path.parents[:-1]):
        yield from ("--perms", "0755", "--dir", str(above))


def _read_only(path: Path) -> tuple[str, ...]:
    """Another name of a folder stays another name: what is hidden in the folder is then hidden under both."""
    target = path.resolve()
    return ("--ro-bind", str(path), str(path)) if target == path else ("--symlink", str(target), str(path))


def _first_process(process: subprocess.Popen[bytes], told: int) -> int:
    """A descriptor of the first process of the namespace, as bubblewrap tells it. Raises SandboxError."""
    data = b""
    while readable(told, START_SECONDS):
        part = os.read(told, 4096)
        data += part
        if not part or data.rstrip().endswith(b"}"):
            break
    with contextlib.suppress(ValueError, KeyError, TypeError, ProcessLookupError):
        return os.pidfd_open(int(json.loads(data)["child-pid"]))
    let_go(process)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(START_SECONDS)
    process.kill()
    process.wait()
    release(process)
    raise SandboxError("bubblewrap could not make the namespaces of the submission's process")
