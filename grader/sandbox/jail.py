"""Runs inside the sandbox before the submission does, from a descriptor that holds it and its settings.

It forks. The child sets limits, drops user, groups and capabilities, restricts itself (no_new_privs, Landlock,
seccomp) and then becomes the program of the settings. The parent collects whatever the program leaves behind, and ends
all of it when the program or the judge ends. It uses the standard library alone, and little of it, since each candidate
pays for its start.
"""

from __future__ import annotations

import ctypes
import os
import resource
import struct
import sys
import time
from collections.abc import Callable

TYPE_CHECKING = False  # importing typing, json, contextlib or signal would double the time that this takes
if TYPE_CHECKING:
    from typing import Any, NoReturn

SIGKILL, SIGCHLD = 9, 17
FAILED = 125  # exit status when the sandbox itself could not be set up

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_SECUREBITS = 1, 4, 24, 28
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 36, 38, 47
PR_CAP_AMBIENT_RAISE, PR_CAP_AMBIENT_CLEAR_ALL = 2, 4
SECURE_BITS = 0x2F  # user 0 gets no capabilities, a change of user changes none; both locked
LAST_CAPABILITY = 63
CAP_DAC_READ_SEARCH, CAP_SETPCAP = 2, 8
CAPABILITY_VERSION = 0x20080522
SECCOMP_SET_MODE_FILTER = 1
SECCOMP_FILTER_FLAG_SPEC_ALLOW = 4  # without it older kernels slow the whole process down
SYS_SECCOMP = {"x86_64": 317, "aarch64": 277}
SYS_LANDLOCK_CREATE, SYS_LANDLOCK_ADD, SYS_LANDLOCK_RESTRICT = 444, 445, 446
LANDLOCK_RULE_PATH_BENEATH = 1
FORGET_ROUNDS = 50  # then all processes are looked at again: one may have lost its parent while it was looked at
LANDLOCK_FILE_RIGHTS = 0x1 | 0x2 | 0x4 | 0x4000 | 0x8000  # execute, write, read, truncate, ioctl of devices

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long


def main(settings: dict[str, Any]) -> NoReturn:
    """Becomes the program that the settings name."""
    try:
        for fd in settings["close"]:
            os.close(fd)
        if not os.read(settings["judge"], 1):  # until the judge has put this process where it belongs
            os._exit(FAILED)
        _supervise(settings)
        _become(settings)
    except (OSError, ValueError, EOFError, KeyError) as error:
        print(f"the sandbox could not be set up: {error}", file=sys.stderr, flush=True)
        os._exit(FAILED)


def _become(settings: dict[str, Any]) -> NoReturn:
    """Restricts this process and executes the program."""
    os.umask(0o022)
    os.chdir(settings["cwd"])
    with open("/proc/self/oom_score_adj", "w") as file:  # when memory is short, this goes first
        file.write("1000")
    ruleset = _ruleset(settings["landlock"], settings["rules"]) if settings["landlock"] else -1
    for name, value in settings["limits"].items():
        _limit(getattr(resource, "RLIMIT_" + name), value)
    _drop(settings["uid"], bool(settings["read_all"]))
    _prctl(PR_SET_NO_NEW_PRIVS, 1)
    _prctl(PR_SET_PDEATHSIG, SIGKILL)  # after the change of user, which clears it
    if os.getppid() != settings["parent"]:
        os._exit(FAILED)
    if ruleset >= 0:
        _call(LIBC.syscall, SYS_LANDLOCK_RESTRICT, ruleset, 0)
        os.close(ruleset)
    if settings["seccomp"]:
        _seccomp(settings["seccomp"])
    os.execve(settings["argv"][0], settings["argv"], settings["env"])


def _limit(which: int, value: int) -> None:
    """Lowers a limit for good; one that is lower already stays."""
    hard = resource.getrlimit(which)[1]
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(which, (value, value))


def _drop(uid: int | None, read_all: bool) -> None:
    """Gives up groups, user and capabilities; `read_all` keeps the right to read what belongs to others."""
    kept = 1 << CAP_DAC_READ_SEARCH if read_all else 0
    if _effective() >> CAP_SETPCAP & 1:
        _prctl(PR_SET_SECUREBITS, SECURE_BITS)
        for capability in range(LAST_CAPABILITY):
            if not kept >> capability & 1:
                LIBC.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    LIBC.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    header = ctypes.create_string_buffer(struct.pack("<Ii", CAPABILITY_VERSION, 0))
    _call(LIBC.capset, header, ctypes.create_string_buffer(struct.pack("<6I", kept, kept, kept, 0, 0, 0)))
    if read_all:
        _prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_DAC_READ_SEARCH)


def _effective() -> int:
    """The capabilities in effect, as bits."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1], 16) for line in file if line.startswith("CapEff:"))


def _ruleset(handled: list[int], rules: list[tuple[str, int]]) -> int:
    """A descriptor that denies what `handled` names (files, network, scopes) but for the rights beneath the paths."""
    attributes = struct.pack(f"<{len(handled)}Q", *handled)
    ruleset = _call(LIBC.syscall, SYS_LANDLOCK_CREATE, ctypes.c_char_p(attributes), len(attributes), 0)
    for path, rights in rules:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        rights &= handled[0] if os.path.isdir(path) else handled[0] & LANDLOCK_FILE_RIGHTS
        beneath = struct.pack("<Qi", rights, descriptor)
        _call(LIBC.syscall, SYS_LANDLOCK_ADD, ruleset, LANDLOCK_RULE_PATH_BENEATH, ctypes.c_char_p(beneath), 0)
        os.close(descriptor)
    return ruleset


def _seccomp(filter_: bytes) -> None:
    """Installs the filter; it cannot be taken off again."""
    code = ctypes.create_string_buffer(filter_, len(filter_))
    program = struct.pack("<HxxxxxxQ", len(filter_) // 8, ctypes.addressof(code))
    number = SYS_SECCOMP[os.uname().machine]
    _call(LIBC.syscall, number, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, ctypes.c_char_p(program))


def _supervise(settings: dict[str, Any]) -> None:
    """Forks. The child goes on as the program; the parent ends here, when the program and all it started are gone.

    It waits for the end of the judge's pipe, which comes whenever and however the judge ends: the signal that the
    kernel sends a child then (PR_SET_PDEATHSIG) is lost where the judge ended before the child asked for it.
    """
    import select
    import signal

    woken, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.signal(SIGCHLD, _noticed)
    signal.set_wakeup_fd(wake)
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    settings["parent"] = os.getpid()
    child = os.fork()
    if child == 0:
        for fd in (settings["judge"], *settings["report"]):
            os.close(fd)
        os.setsid()
        return
    status = FAILED << 8
    try:
        _prctl(PR_SET_DUMPABLE, 0)
        for fd in settings["keep"]:
            os.close(fd)
        if settings["namespace"]:
            _drop(None, False)
        waiting = select.poll()
        for fd in (woken, settings["judge"]):
            waiting.register(fd, select.POLLIN)
        found = None
        while found is None:
            ready = [fd for fd, _ in waiting.poll()]
            if settings["judge"] in ready:  # the judge is gone, or lets go of this
                found = SIGKILL
            else:
                os.read(woken, 4096)
                found = _collected(child)
                if found is not None:
                    for fd in settings["report"]:
                        os.write(fd, b"%d" % len(descendants(os.getpid())))
        status = found
    except OSError as error:
        print(f"the sandbox could not be held: {error}", file=sys.stderr, flush=True)
    finally:
        if not settings["namespace"]:  # the end of a namespace's first process is that of all others
            _end_children()
        os._exit(128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))


def _noticed(number: int, frame: object) -> None:
    """Something ended, as `woken` says."""


def _collected(child: int) -> int | None:
    """Takes note of all dead children; the status of `child`, if it is among them."""
    found = None
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == child:
            found = status
        if pid in (0, child):
            return found


def _end_children() -> None:
    """Kills until nothing is left; what loses its parent becomes a child of this process."""
    others: set[int] = set()
    rounds = 0
    while True:
        rounds += 1
        if rounds % FORGET_ROUNDS == 0:
            others.clear()
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        kill(descendants(os.getpid(), others))
        time.sleep(0.0001)


def descendants(root: int, others: set[int] | None = None) -> list[tuple[int, int]]:
    """Living processes below `root`, each with the process group to kill it by, or with 0 where that is not safe.

    The numbers of all other processes are added to `others`, and later calls with the same set skip them: a caller that
    must be fast calls twice.
    """
    below: dict[int, list[tuple[int, int, bool]]] = {}
    others = set() if others is None else others
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) not in others:
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    state, parent, group_of, *rest = file.read().rpartition(b")")[2].split()
            except (OSError, ValueError):
                continue  # it ended while it was looked at
            living = state not in (b"Z", b"X") or int(rest[14]) > 1  # the first thread may end before the others
            below.setdefault(int(parent), []).append((int(name), int(group_of), living))
    spared = {0, 1, os.getpgid(0), root}
    found, queue = [], [root]
    while queue:
        for pid, group, living in below.pop(queue.pop(), []):
            queue.append(pid)
            if living:
                found.append((pid, 0 if group in spared else group))
    others.update(pid for rows in below.values() for pid, _, _ in rows)
    return found


def kill(found: list[tuple[int, int]]) -> None:
    """Kills processes, and first their groups: that reaches at once also those that are just being made."""
    for send, targets in ((os.killpg, {group for _, group in found if group}), (os.kill, {pid for pid, _ in found})):
        for target in targets:
            try:  # noqa: SIM105
                send(target, SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass


def _prctl(*arguments: int) -> None:
    _call(LIBC.prctl, *arguments, *(0,) * (5 - len(arguments)))


def _call(function: Callable[..., int], *arguments: object) -> int:
    """Calls into libc. Raises OSError."""
    result: int = function(*(ctypes.c_ulong(a) if isinstance(a, int) else a for a in arguments))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
