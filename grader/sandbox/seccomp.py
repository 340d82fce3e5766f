"""The system calls that a submission's process may not make, as a classic BPF program for seccomp(2).

The list follows what container runtimes deny (calls that reach other processes, the kernel, its keys, its namespaces
or its clock), plus what a grader must: sockets, System V memory that outlives its process, and, where the judge runs
as the same user, the scheduling and the limits of other processes. A wrong machine kills the process, since the
numbers below would then mean other calls. Numbers: asm/unistd_64.h and asm-generic/unistd.h of Linux 6.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Sequence

__all__ = ["ARCHITECTURES", "NUMBERS", "program"]

# name: (x86_64, aarch64); None where the machine has no such call
NUMBERS: dict[str, tuple[int | None, int | None]] = {
    # other processes
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "pidfd_getfd": (438, 438),
    "kcmp": (312, 272), "process_madvise": (440, 440), "process_mrelease": (448, 448), "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    # the kernel
    "perf_event_open": (298, 241), "bpf": (321, 280), "userfaultfd": (323, 282), "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "init_module": (175, 105),
    "finit_module": (313, 273), "delete_module": (176, 106), "kexec_load": (246, 104), "kexec_file_load": (320, 294),
    "reboot": (169, 142), "swapon": (167, 224), "swapoff": (168, 225), "acct": (163, 89), "quotactl": (179, 60),
    "quotactl_fd": (443, 443), "settimeofday": (164, 170), "clock_settime": (227, 112), "adjtimex": (159, 171),
    "clock_adjtime": (305, 266), "sethostname": (170, 161), "setdomainname": (171, 162), "iopl": (172, None),
    "ioperm": (173, None), "syslog": (103, 116), "vhangup": (153, 58), "lookup_dcookie": (212, 18),
    "modify_ldt": (154, None), "uselib": (134, None), "nfsservctl": (180, 42), "memfd_secret": (447, 447),
    # file systems and namespaces
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "move_mount": (429, 429),
    "open_tree": (428, 428), "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "mount_setattr": (442, 442), "unshare": (272, 97), "setns": (308, 268), "chroot": (161, 51),
    "fanotify_init": (300, 262), "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264),
    # keys; memory and queues that stay when their process is gone
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219), "shmget": (29, 194), "semget": (64, 190),
    "msgget": (68, 186), "mq_open": (240, 180),
    # looked at with their arguments, or denied on some targets only
    "mknod": (133, None), "mknodat": (259, 33), "socketpair": (53, 199), "connect": (42, 203),
    "socket": (41, 198), "clone": (56, 220), "clone3": (435, 435), "ioctl": (16, 29), "personality": (135, 92),
    "memfd_create": (319, 279), "setpriority": (141, 140), "ioprio_set": (251, 30), "sched_setaffinity": (203, 122),
    "sched_setscheduler": (144, 119), "sched_setparam": (142, 118), "sched_setattr": (314, 274),
    "prlimit64": (302, 261),
}  # fmt: skip
CONDITIONAL = (
    "clone", "clone3", "connect", "ioctl", "ioprio_set", "memfd_create", "mknod", "mknodat", "personality",
    "prlimit64", "sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler", "setpriority",
    "socket", "socketpair",
)  # fmt: skip
DENIED = tuple(name for name in NUMBERS if name not in CONDITIONAL)

ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column of NUMBERS, AUDIT_ARCH
X32_BIT = 0x40000000  # calls of the 32-bit pointer ABI on x86_64: the same numbers with this bit

# struct seccomp_data: nr, arch, instruction pointer, six arguments of 64 bits (both machines are little endian)
_NR, _ARCH, _ARGUMENTS = 0, 4, 16
_LOAD, _AND, _JUMP_EQUAL, _JUMP_GREATER_EQUAL, _JUMP_SET, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_KILL, _ALLOW, _ERRNO = 0x80000000, 0x7FFF0000, 0x00050000
_NEW_NAMESPACES = 0x7E020080  # CLONE_NEW*: user, pid, net, ipc, uts, cgroup, mount, time
_PERSONALITY_QUERY = 0xFFFFFFFF
_FILE_TYPE, _FIFO = 0xF000, 0x1000
_SOCKET_TYPE, _CONNECTED = 0xF, (1, 5)  # SOCK_STREAM, SOCK_SEQPACKET: these send nowhere but to their other end
_NETLINK, _ROUTES = 16, 0  # of the kernel's own sockets only those that list addresses
_ALL = 0xFFFFFFFF
_TERMINAL_INPUT = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX: they type into a terminal

Code = list[tuple[int, int, int, int]]  # operation, jump if true, jump if false, operand


def program(
    *,
    memory_files: bool,
    families: Sequence[int],
    reach_others: bool,
    shared_user: bool,
    machine: str | None = None,
) -> bytes:
    """The filter as an array of struct sock_filter. Raises ValueError for a machine without a table.

    `memory_files` allows memfd_create, whose pages no limit of a process bounds; `families` are those of the sockets
    that it allows. `reach_others` is for a network and a file system of its own: without it no socket can be connected
    or can send elsewhere. `shared_user` also denies what changes other processes of the same user.
    """
    machine = machine or os.uname().machine
    if machine not in ARCHITECTURES:
        raise ValueError(f"there is no table of system calls for {machine}")
    column, audit = ARCHITECTURES[machine]
    denied = [*DENIED, *([] if memory_files else ["memfd_create"]), *([] if reach_others else ["connect"])]
    bodies: dict[str, Code] = {name: [_error(errno.EPERM)] for name in denied}
    bodies["clone3"] = [_error(errno.ENOSYS)]  # its flags lie in memory; libc falls back
    bodies["clone"] = _never(0, _JUMP_SET, [_NEW_NAMESPACES])
    bodies["ioctl"] = _never(1, _JUMP_EQUAL, _TERMINAL_INPUT)
    bodies["personality"] = _only((0, _ALL, (0, _PERSONALITY_QUERY)))
    bodies["mknod"] = _only((1, _FILE_TYPE, (_FIFO,)))
    bodies["mknodat"] = _only((2, _FILE_TYPE, (_FIFO,)))
    bodies["socket"] = _only((0, _ALL, families), *([] if reach_others else [(1, _SOCKET_TYPE, _CONNECTED)]))
    if _NETLINK in families:
        routes = _only((2, _ALL, (_ROUTES,)))
        first = [(_LOAD, 0, 0, _ARGUMENTS), (_JUMP_EQUAL, 0, len(routes), _NETLINK)]
        bodies["socket"] = [*first, *routes, *bodies["socket"]]
    if not reach_others:
        bodies["socketpair"] = _only((1, _SOCKET_TYPE, _CONNECTED))
    if shared_user:  # zero is the calling process itself
        bodies["ioprio_set"] = [_error(errno.EPERM)]
        bodies["setpriority"] = _only((0, _ALL, (0,)), (1, _ALL, (0,)))
        for name in ("sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr", "prlimit64"):
            bodies[name] = _only((0, _ALL, (0,)))
    code: Code = [(_LOAD, 0, 0, _ARCH), (_JUMP_EQUAL, 1, 0, audit), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, _NR)]
    if machine == "x86_64":
        code += [(_JUMP_GREATER_EQUAL, 0, 1, X32_BIT), (_RETURN, 0, 0, _KILL)]
    for name, body in bodies.items():
        code += _when(NUMBERS[name][column], body)
    code.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("<HBBI", *step) for step in code)


def _error(number: int) -> tuple[int, int, int, int]:
    return (_RETURN, 0, 0, _ERRNO | number)


def _when(number: int | None, body: Code) -> Code:
    """`body` for the call `number`; it must end in a return. The call's number stays loaded for what follows."""
    return [] if number is None else [(_JUMP_EQUAL, 0, len(body), number), *body]


def _only(*checks: tuple[int, int, Sequence[int]]) -> Code:
    """Allows a call whose arguments, by number and under a mask, are each one of some values.

    The kernel's own parameters are 32 bits wide, so only the low half is looked at.
    """
    code: Code = []
    for index, mask, values in checks:
        code += [(_LOAD, 0, 0, _ARGUMENTS + 8 * index), (_AND, 0, 0, mask)]
        code += [(_JUMP_EQUAL, len(values) - i, 0, value) for i, value in enumerate(values)]
        code.append(_error(errno.EPERM))
    return [*code, (_RETURN, 0, 0, _ALLOW)]


def _never(index: int, jump: int, values: Sequence[int]) -> Code:
    """Denies a call of which an argument is one of some values, or has one of their bits."""
    tests = [(jump, len(values) - i, 0, value) for i, value in enumerate(values)]
    return [(_LOAD, 0, 0, _ARGUMENTS + 8 * index), *tests, (_RETURN, 0, 0, _ALLOW), _error(errno.EPERM)]
