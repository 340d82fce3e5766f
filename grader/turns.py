"""One at a time on a device: no two gradings of one machine are timed at once, whoever runs them.

The lock is advisory: a file of the machine for each GPU (by its UUID) and one for the CPU, held with flock while a
submission is called, timed or not, and not while it is linted or imported. The system lets go of it when the process
that holds it ends, however it ends, and no process of a submission inherits it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import stat
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

__all__ = ["device_key", "turn"]

PLACE = "KBH_LOCK_DIR"  # the variable that names another folder, for containers that share a GPU
FOLDER = "/tmp"  # not TMPDIR: it must be the same place for everybody on the machine
_HELD: Counter[str] = Counter()  # turns of this process, which share one lock
_LOCKS: dict[str, int | None] = {}  # their descriptors; None where there is none to be had
_TAKING = threading.Lock()  # whoever comes meanwhile finds the lock taken


def device_key(device: str | torch.device) -> str:
    """What names a device on this machine: a GPU's UUID, or "cpu"."""
    if str(device).partition(":")[0] == "cpu":
        return "cpu"
    import torch

    return f"gpu {torch.cuda.get_device_properties(device).uuid}"


@contextlib.contextmanager
def turn(device: str | torch.device, wait: Callable[[str], None] = lambda _: None) -> Iterator[None]:
    """Holds the device; `wait` is told, in one sentence, that it has to be waited for.

    Where there is no lock to be had, as on a system without a folder that all may write to, that is told and nothing is
    held. Turns of one process share the lock, and the last to end lets go of it.
    """
    key = device_key(device)
    with _TAKING:
        if key not in _LOCKS:
            folder = Path(os.environ.get(PLACE) or FOLDER)
            lock = _open(folder / f"kbh-turn-{hashlib.sha256(key.encode()).hexdigest()[:16]}.lock")
            if lock is None:
                wait(f"no lock can be had in {folder}, so nothing keeps other gradings from running at the same time")
            else:
                try:
                    _take(lock, "this CPU" if key == "cpu" else "this GPU", wait)
                except BaseException:
                    os.close(lock)
                    raise
            _LOCKS[key] = lock
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


def _take(lock: int, name: str, wait: Callable[[str], None]) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        wait(f"waiting for another grading that is being timed on {name}")
        began = time.monotonic()
        fcntl.flock(lock, fcntl.LOCK_EX)
        wait(f"waited {time.monotonic() - began:.0f} s for another grading")


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
