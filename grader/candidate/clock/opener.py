"""Opens a gate after a while although every Python thread may be stuck.

An extension that waits for the device holds the interpreter's lock, so a Python thread could not open the gate that the
device waits at. The C library's timers run a function on a thread of their own; the function here is `time`, which
writes the time, a number that is not 0, where its argument points.
"""

from __future__ import annotations

import ctypes
import time
from typing import Any

__all__ = ["Opener"]

SIGEV_THREAD = 2
MARGIN_S = 1e-3
LATE_S = 1.0


class _Event(ctypes.Structure):
    """`struct sigevent` of glibc on 64-bit Linux: 64 bytes."""

    _fields_ = [
        ("value", ctypes.c_void_p),
        ("signo", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("function", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("rest", ctypes.c_char * 32),
    ]


class _Times(ctypes.Structure):
    """`struct itimerspec`: the period and the first expiry, each in seconds and nanoseconds."""

    _fields_ = [(name, ctypes.c_long) for name in ("period_s", "period_ns", "first_s", "first_ns")]


class Opener:
    """Writes something other than 0 into the eight bytes at `address` when armed for longer than it was given."""

    def __init__(self, address: int) -> None:
        self._library = ctypes.CDLL(None, use_errno=True)
        self._word = ctypes.c_uint64.from_address(address)
        self._timer = ctypes.c_void_p()
        self._set: Any = self._library.timer_settime
        self._delete: Any = self._library.timer_delete
        self._now = time.monotonic
        self._off = _Times()
        self._late = 0.0
        function = ctypes.cast(self._library.time, ctypes.c_void_p)
        event = _Event(address, 0, SIGEV_THREAD, function, None, b"")
        self._check(self._library.timer_create(time.CLOCK_MONOTONIC, ctypes.byref(event), ctypes.byref(self._timer)))

    def arm(self, seconds: float) -> None:
        """Starts the timer."""
        first, part = divmod(seconds, 1.0)
        self._late = self._now() + seconds - MARGIN_S
        self._check(self._set(self._timer, 0, ctypes.byref(_Times(0, 0, int(first), int(part * 1e9))), None))

    def disarm(self) -> bool:
        """Stops the timer; returns True when it had fired already, and so opened the gate."""
        if self._now() < self._late:
            self._check(self._set(self._timer, 0, ctypes.byref(self._off), None))
            return False
        most = self._now() + LATE_S
        while not self._word.value and self._now() < most:  # its thread may not have run yet, and must not run later
            pass
        return True

    def close(self) -> None:
        """Gives the timer up."""
        timer, self._timer = self._timer, ctypes.c_void_p()
        if timer:
            self._check(self._delete(timer))

    def _check(self, result: int) -> None:
        if result:
            raise OSError(ctypes.get_errno(), "the gate's timer cannot be set")
