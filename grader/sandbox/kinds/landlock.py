"""The second best sandbox: Landlock and seccomp, where no namespaces can be had.

The process sees the paths that it needs and no other, has no sockets, and cannot signal what is not its own. It
shares the process table with the machine; another user (where the judge is root) and Landlock keep it from reading
other processes. A supervisor of the judge ends what it leaves.
"""

from __future__ import annotations

import ctypes
import os
import socket
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from grader.record.cell import SandboxRecord
from grader.sandbox.base import Jail, SandboxError
from grader.sandbox.jail import SYS_LANDLOCK_CREATE
from grader.sandbox.kinds.supervised import Supervised
from grader.sandbox.launch import Restriction
from grader.sandbox.places import expand, gpu_nodes, places
from grader.sandbox.seccomp import ARCHITECTURES, program
from grader.sandbox.users import leased_uid

__all__ = ["landlock"]

# Rights over files, LANDLOCK_ACCESS_FS_*
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, TRUNCATE, IOCTL_DEVICE = 1, 2, 4, 8, 1 << 14, 1 << 15
FILE_SYSTEM = ((1, (1 << 13) - 1), (2, 1 << 13), (3, TRUNCATE), (5, IOCTL_DEVICE))  # since which version
READ = EXECUTE | READ_FILE | READ_DIR
DEVICE = READ_FILE | WRITE_FILE | TRUNCATE | IOCTL_DEVICE
MAKE_DEVICES = 1 << 6 | 1 << 11  # character and block devices
NETWORK = (4, 0b11)  # bind and connect of TCP
SCOPES = (6, 0b11)  # abstract sockets and signals
VERSION_FLAG = 1

DEVICES = ("null", "zero", "full", "random", "urandom")
FACTS = (
    "cpuinfo", "devices", "driver", "filesystems", "loadavg", "meminfo", "stat", "sys/kernel/ngroups_max",
    "sys/kernel/osrelease", "sys/vm/overcommit_memory", "uptime", "version",
)  # fmt: skip


def landlock(notes: tuple[str, ...] = ()) -> Supervised:
    """The sandbox of Landlock as this kernel has it; `notes` go into its record. Raises SandboxError."""
    if os.uname().machine not in ARCHITECTURES:
        raise SandboxError(f"there is no table of system calls for {os.uname().machine}")
    version = _version()
    uid = leased_uid()
    if uid is None and version < SCOPES[0]:
        raise SandboxError(f"this kernel's Landlock (version {version}) does not keep signals from the judge")
    other = "within what it is shown it may read what belongs to other users"
    notes += ("it runs as the judge's user" if uid is None else other,)
    record = SandboxRecord("landlock", os.getuid() if uid is None else uid, network=False, notes=notes)
    return Supervised(uid, record, partial(_restriction, version, uid is None))


def _restriction(version: int, shared_user: bool, jail: Jail) -> Restriction:
    """Landlock for the jail's paths, without network and signals to others as far as this version can, and seccomp."""
    handled = (
        sum(rights for since, rights in FILE_SYSTEM if version >= since),
        NETWORK[1] if version >= NETWORK[0] else 0,
        SCOPES[1] if version >= SCOPES[0] else 0,
    )
    families = [socket.AF_UNIX] if jail.gpu else []  # CUDA listens on one and does not start without it
    seccomp = program(memory_files=jail.gpu, families=families, reach_others=False, shared_user=shared_user)
    return Restriction(landlock=handled, rules=tuple(_rules(jail)), seccomp=seccomp)


def _version() -> int:
    """Which Landlock the kernel has. Raises SandboxError when it has none."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    version: int = libc.syscall(
        ctypes.c_long(SYS_LANDLOCK_CREATE), None, ctypes.c_size_t(0), ctypes.c_uint32(VERSION_FLAG)
    )
    if version < 1:
        raise SandboxError("this kernel has no Landlock")
    return version


def _rules(jail: Jail) -> Iterator[tuple[Path, int]]:
    """Paths, and what may be done beneath them."""
    where = places(jail)
    everything = sum(rights for _, rights in FILE_SYSTEM)
    shown, listed = expand(where)
    yield from ((path, READ) for path in shown)
    yield from ((path, READ_DIR) for path in listed)
    yield from ((path, everything & ~MAKE_DEVICES & ~IOCTL_DEVICE) for path in where.write)
    devices = [Path("/dev") / name for name in DEVICES]
    yield from ((path, DEVICE) for path in [*devices, *(gpu_nodes(jail.profiler) if jail.gpu else ())])
    yield from ((Path("/proc") / name, READ) for name in FACTS if (Path("/proc") / name).exists())
    yield Path("/proc/self"), READ | WRITE_FILE | TRUNCATE  # CUDA opens the name of a thread to write it anew
