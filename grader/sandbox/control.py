"""A control group of the kernel (version 2) for one process: it limits all that the process starts, taken together.

Limits of a process (`launch.py`) count each one alone; a group counts their sum, and ends all at once. It needs root
and a place in the hierarchy whose children have the controllers for memory and processes.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from grader.sandbox.base import Jail, SandboxError
from grader.sandbox.jail import descendants

__all__ = ["Group", "groups_work", "make_group"]

NAME = "kbh-{judge}-{number}"
NEEDED = {"memory", "pids"}
GPU_SHARE = 0.75  # of the machine's memory, where a process has no limit of its own
CLOSE_SECONDS = 20.0
_NUMBERS = itertools.count()


@dataclass(frozen=True, slots=True)
class Group:
    """A group that exists until `close`."""

    folder: Path

    def take(self, pid: int) -> None:
        """Moves a process and all below it into the group; what they start later is in it from the beginning."""
        taken: set[int] = set()
        found = {pid}
        while found - taken:  # what was started while the others were moved is found in the next round
            for one in found - taken:
                with contextlib.suppress(OSError):  # it has ended
                    (self.folder / "cgroup.procs").write_text(str(one))
            taken |= found
            found = {below for below, _ in descendants(pid)}

    def kill(self) -> None:
        """Kills all processes of the group at once, also those that are being forked meanwhile."""
        with contextlib.suppress(OSError):  # kernels before 5.14 cannot
            (self.folder / "cgroup.kill").write_text("1")

    def close(self) -> None:
        """Kills what is still in the group and removes it. Raises SandboxError when something stays."""
        self.kill()
        until = time.monotonic() + CLOSE_SECONDS
        while time.monotonic() < until:
            try:
                self.folder.rmdir()
                return
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(0.001)
        raise SandboxError("the submission's processes could not be ended: their control group is not empty")


def make_group(jail: Jail, processes: int) -> Group | None:
    """A new group with the jail's limits, or None where this machine has no place for one."""
    parent = _parent()
    if parent is None:
        return None
    folder = parent / NAME.format(judge=os.getpid(), number=next(_NUMBERS))
    try:
        folder.mkdir()
        (folder / "memory.max").write_text(str(_memory(jail)))
        (folder / "pids.max").write_text(str(processes))
        for name, value in (("memory.swap.max", "0"), ("memory.oom.group", "1")):
            with contextlib.suppress(OSError):  # not every kernel has them
                (folder / name).write_text(value)
    except OSError:
        with contextlib.suppress(OSError):
            folder.rmdir()
        return None
    return Group(folder)


def groups_work() -> bool:
    """Whether processes get a control group here."""
    group = make_group(Jail((), ()), 1)
    if group is not None:
        group.close()
    return group is not None


def _memory(jail: Jail) -> int:
    """Bytes for all processes together, with what lies in temporary folders."""
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    share = int(GPU_SHARE * pages * size)
    kept = 2 * jail.tmp_bytes + sum(size for _, size in (jail.layout.folders if jail.layout is not None else ()))
    return min(share, jail.data_bytes + kept) if jail.data_bytes is not None else share


@cache
def _parent() -> Path | None:
    """Where groups can be made: the nearest group above this process whose children get the controllers."""
    if os.geteuid() != 0:
        return None
    try:
        root = next(Path(line.split()[4]) for line in _lines("/proc/self/mountinfo") if " - cgroup2 " in line)
        own = next(line.split(":", 2)[2] for line in _lines("/proc/self/cgroup") if line.startswith("0::"))
        here = root / own.strip("/")
        for parent in (here, *here.parents):
            if not parent.is_relative_to(root):
                return None
            if set((parent / "cgroup.subtree_control").read_text().split()) >= NEEDED:
                _sweep(parent)
                return parent
    except (OSError, StopIteration, IndexError):
        pass
    return None


def _sweep(parent: Path) -> None:
    """Removes the groups of judges that are gone."""
    for folder in parent.glob(NAME.format(judge="*", number="*")):
        judge = folder.name.split("-")[1]
        if judge.isdigit() and not Path("/proc", judge).exists():
            with contextlib.suppress(OSError):
                folder.rmdir()


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines()
