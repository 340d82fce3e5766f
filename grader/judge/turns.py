"""One at a time on a device: no two gradings of one machine are timed at once, whoever runs them.

The lock is advisory: a file of the machine for each GPU (by its UUID) and one for the CPU, held with flock while a
submission is called, timed or not, and not while it is linted or imported. The system lets go of it when the process
that holds it ends, however it ends, and no process of a submission inherits it.

Calls by which nothing is timed, as those of a build that tunes nothing, share the device with others of their kind:
they hold the lock shared (`together`), and what is timed holds it alone.

Who waits gets the device in order. flock alone has none, so each who waits holds a ticket: a file beside the lock whose
name says when it is due, held with flock too. The device is taken by the one whose ticket is due first among those that
are held; a ticket that nobody holds is of a process that was killed, and is taken away.

A grading is due when it began, in each of its turns: what began first ends first, and others use the device while it
builds. One that builds for long lets others go before it (`judge.compiling`), and is then due when it asks again.

Nsight Compute gives no counters to two at once, from when the first begins to use the device. Who counts holds a second
lock of the device for as long (`counters`), which is taken before the device is.

A practice run, which an agent asks for while it works, is due HEAD_START seconds after it comes: gradings go before the
practice that waits, and practice goes in the order in which it came. A practice run that has waited for that long goes
before gradings that come later, so neither can keep the other away for ever. No call is interrupted: who bounds
practice is the judge of the agents (harness.judging).
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import secrets
import stat
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import torch

__all__ = [
    "HEAD_START", "Standing", "alone", "counters", "counters_at_once", "device_key", "grading", "lock_path",
    "practising", "together", "turn", "wanted",
]  # fmt: skip

Standing = Literal["asked", "held", "free"]

PLACE = "KBH_LOCK_DIR"  # the variable that names another folder, for containers that share a GPU
FOLDER = "/tmp"  # not TMPDIR: it must be the same place for everybody on the machine
HEAD_START = 600.0
TRIES = 100  # for a ticket that others took for a left-over before it was locked
_TICKET = re.compile(r"-\d{20}-[0-9a-f]{8}\.ticket")
_HELD: Counter[str] = Counter()  # turns of this process, which share one lock
_LOCKS: dict[str, int | None] = {}  # their descriptors; None where there is none to be had
_ALONE = threading.Lock()
_ASKING: list[int] = []  # threads of this process that wait for it
_TAKING = threading.Lock()  # whoever comes meanwhile finds the lock taken
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _Practice:
    """A practice run of this process: when it came, and who is told of its turns."""

    came: float
    tell: Callable[[Standing], None]


_PRACTICE: list[_Practice] = []
_GRADINGS: list[float] = []  # when those of this process began, on the clock time.monotonic()


def device_key(device: str | torch.device) -> str:
    """What names a device on this machine: a GPU's UUID, or "cpu"."""
    if str(device).partition(":")[0] == "cpu":
        return "cpu"
    import torch

    return f"gpu {torch.cuda.get_device_properties(device).uuid}"


def lock_path(key: str) -> Path:
    """The file that is locked exclusively while somebody has a turn on the device of this `device_key`."""
    folder = Path(os.environ.get(PLACE) or FOLDER)
    return folder / f"kbh-turn-{hashlib.sha256(key.encode()).hexdigest()[:16]}.lock"


@contextlib.contextmanager
def practising(came: float | None = None, tell: Callable[[Standing], None] = lambda _: None) -> Iterator[None]:
    """Inside the block every turn of this process is a practice run's, which yields to gradings. `came` is on the clock
    time.monotonic().

    `tell` is called when a turn is asked for, held and free again, so that its caller can bound it.
    """
    _PRACTICE.append(_Practice(time.monotonic() if came is None else came, tell))
    try:
        yield
    finally:
        _PRACTICE.pop()


@contextlib.contextmanager
def grading() -> Iterator[None]:
    """Inside the block every turn of this process has its place in the queue from the block's start on, however late it
    is asked for.
    """
    _GRADINGS.append(time.monotonic())
    try:
        yield
    finally:
        _GRADINGS.pop()


def wanted(device: str | torch.device) -> bool:
    """Whether anybody waits for the device, in this process or another."""
    line = _line(device_key(device))
    return bool(_ASKING) or bool(line.before(f"{line.stem}-{'9' * 20}-{'g' * 8}.ticket"))  # a name after all others


@contextlib.contextmanager
def turn(device: str | torch.device, wait: Say = lambda _: None, *, afresh: bool = False) -> Iterator[None]:
    """Holds the device exclusively inside the block; `wait` is told, in one sentence, what it waits for.

    `afresh` queues by the time of this call, not by when its grading began. Where there is no lock to be had, as on a
    system without a folder that all may write to, that is told and nothing is held. Turns of one process share the
    lock, and the last to end lets go of it.
    """
    key = device_key(device)
    with _TAKING:
        if key not in _LOCKS:
            _tell("asked")
            _LOCKS[key] = _lock(key, wait, afresh, fcntl.LOCK_EX)
            _tell("held")
        _HELD[key] += 1
    try:
        yield
    finally:
        with _TAKING:
            _HELD[key] -= 1
            if not _HELD[key]:
                del _HELD[key]
                lock = _LOCKS.pop(key)
                if lock is not None:
                    os.close(lock)
                _tell("free")


@contextlib.contextmanager
def alone(device: str | torch.device, wait: Say = lambda _: None, *, afresh: bool = False) -> Iterator[None]:
    """As `turn`, and exclusive among the threads of this process as well."""
    _ASKING.append(threading.get_ident())
    try:
        _ALONE.acquire()
    finally:
        _ASKING.remove(threading.get_ident())
    try:
        with turn(device, wait, afresh=afresh):
            yield
    finally:
        _ALONE.release()


@contextlib.contextmanager
def together(device: str | torch.device, wait: Say = lambda _: None, *, afresh: bool = False) -> Iterator[None]:
    """Holds the device for calls that nobody times: others may hold it so at the same time, and nobody has a `turn`
    meanwhile.

    A practice run, whose turns are counted, has the device alone.
    """
    if _PRACTICE:
        with alone(device, wait, afresh=afresh):
            yield
        return
    _ASKING.append(threading.get_ident())
    try:
        lock = _lock(device_key(device), wait, afresh, fcntl.LOCK_SH)
    finally:
        _ASKING.remove(threading.get_ident())
    try:
        yield
    finally:
        if lock is not None:
            os.close(lock)


@contextlib.contextmanager
def counters(device: str | torch.device, wait: Say = lambda _: None) -> Iterator[None]:
    """Holds the performance counters of a device inside the block; `wait` is told what it waits for. Where there is no
    lock to be had nothing is held.
    """
    lock = _open(lock_path(f"{device_key(device)} counters"))
    try:
        if lock is not None and not _locked(lock):
            wait("waiting for another grading that counts on this GPU")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        if lock is not None:
            os.close(lock)


def counters_at_once(device: str | torch.device) -> contextlib.ExitStack | None:
    """Takes the counters of a device, until the returned stack is closed; None if somebody else has them."""
    held = contextlib.ExitStack()
    lock = _open(lock_path(f"{device_key(device)} counters"))
    if lock is not None:
        held.callback(os.close, lock)
        if not _locked(lock):
            held.close()
            return None
    return held


def _lock(key: str, wait: Say, afresh: bool, kind: int) -> int | None:
    """A descriptor that holds the lock of a device; None, which is told, where none can be had."""
    path = lock_path(key)
    lock = _open(path)
    if lock is None:
        wait(f"no lock can be had in {path.parent}, so nothing keeps other gradings from running at the same time")
        return None
    try:
        _take(lock, _Line(path.parent, path.stem), "this CPU" if key == "cpu" else "this GPU", wait, afresh, kind)
    except BaseException:
        os.close(lock)
        raise
    return lock


def _line(key: str) -> _Line:
    path = lock_path(key)
    return _Line(path.parent, path.stem)


def _tell(standing: Standing) -> None:
    if _PRACTICE:
        _PRACTICE[-1].tell(standing)


def _take(lock: int, line: _Line, name: str, wait: Say, afresh: bool, kind: int) -> None:
    """Waits for those who are due before, then for the lock, until nobody who is due before has come meanwhile."""
    began, told = time.monotonic(), False
    due = _PRACTICE[-1].came + HEAD_START if _PRACTICE else _GRADINGS[-1] if _GRADINGS and not afresh else began
    with line.ticket(due) as mine:
        while True:
            before = line.before(mine)
            if not before and _locked(lock, kind):
                break
            if not told:
                wait(_waiting(name, len(before)))
                told = True
            if before:
                line.await_end(before[0])
                continue
            fcntl.flock(lock, kind)
            if not line.before(mine):
                break
            fcntl.flock(lock, fcntl.LOCK_UN)
    if told:
        wait(f"waited {time.monotonic() - began:.0f} s for {'a turn' if _PRACTICE else 'another grading'}")


def _waiting(name: str, before: int) -> str:
    what = "a turn on" if _PRACTICE else "another grading that is being timed on"
    more = f"; {before} {'waits' if before == 1 else 'wait'} before this one" if before else ""
    return f"waiting for {what} {name}{more}"


def _locked(fd: int, kind: int = fcntl.LOCK_EX) -> bool:
    """Whether a lock could be taken at once."""
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False


@dataclass(frozen=True, slots=True)
class _Line:
    """Those who wait for one device: files in a folder that all may write to, so what lies there may be anybody's."""

    folder: Path
    stem: str

    @contextlib.contextmanager
    def ticket(self, due: float) -> Iterator[str]:
        """Holds a ticket; its name is "" where none can be made, and then there is no order."""
        name, fd = self._made(max(int(due * 1e9), 0))
        try:
            yield name
        finally:
            if fd is not None:
                with contextlib.suppress(OSError):
                    (self.folder / name).unlink()
                os.close(fd)

    def _made(self, due: int) -> tuple[str, int | None]:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        for _ in range(TRIES):
            name = f"{self.stem}-{due:020d}-{secrets.token_hex(4)}.ticket"
            try:
                fd = os.open(self.folder / name, flags, 0o644)
            except OSError:
                break
            with contextlib.suppress(OSError):
                os.fchmod(fd, 0o644)  # whatever the umask: others must be able to wait for it
            fcntl.flock(fd, fcntl.LOCK_EX)
            if os.fstat(fd).st_nlink:
                return name, fd
            os.close(fd)  # somebody found it before it was locked
        return "", None

    def before(self, mine: str) -> list[str]:
        """The held tickets that are due before `mine`, the last of them first."""
        if not mine:
            return []
        try:
            names = [entry.name for entry in os.scandir(self.folder) if entry.name.startswith(f"{self.stem}-")]
        except OSError:
            return []
        earlier = [name for name in names if _TICKET.fullmatch(name, len(self.stem)) and name < mine]
        return [name for name in sorted(earlier, reverse=True) if self._is_held(name)]

    def _is_held(self, name: str) -> bool:
        """Whether somebody holds a ticket; one that nobody holds is taken away."""
        fd = self._opened(name)
        if fd is None:
            return False
        try:
            if not _locked(fd, fcntl.LOCK_SH):
                return True
            with contextlib.suppress(OSError):
                (self.folder / name).unlink()
            return False
        finally:
            os.close(fd)

    def await_end(self, name: str) -> None:
        """Returns when nobody holds a ticket any longer."""
        fd = self._opened(name)
        if fd is not None:
            try:
                fcntl.flock(fd, fcntl.LOCK_SH)
            finally:
                os.close(fd)

    def _opened(self, name: str) -> int | None:
        """A descriptor of a plain file; None for anything else, which counts as nobody's."""
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            fd = os.open(self.folder / name, flags)
        except OSError:
            return None
        if stat.S_ISREG(os.fstat(fd).st_mode):
            return fd
        os.close(fd)
        return None


def _open(path: Path) -> int | None:
    """A descriptor of a lock file that anybody may have made; it is never written to, nor deleted."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    for _ in range(2):
        try:
            lock = os.open(path, flags)
        except FileNotFoundError:
            with contextlib.suppress(OSError):
                made = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o644)
                os.fchmod(made, 0o644)  # whatever the umask: others must be able to lock it
                return made
            continue
        except OSError:
            return None
        if stat.S_ISREG(os.fstat(lock).st_mode):
            return lock
        os.close(lock)
        return None
    return None
