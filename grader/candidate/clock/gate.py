"""A gate in a stream: the device waits at a word in host memory until a call has been launched as a whole.

So the host's launch time is not in what events or a tracer see of the call. A call that waits for the device would wait
for ever: after GATE_S the gate opens by itself, and sooner once several calls in a row have waited.
"""

from __future__ import annotations

import ctypes

from grader.candidate.clock.opener import Opener
from grader.wire.driver import bound, constant

__all__ = ["GATE_S", "Gate"]

GATE_S = 50e-3  # a call that has not returned by then is taken to wait for the device
SOONER_S, WAITS = 10e-3, 8  # after so many in a row that did: a thousand calls would stand still for a minute
SHUT, OPEN = 0, 1


class Gate:
    """A word in memory that host and device share, and what opens it when the host cannot. Raises GpuError."""

    def __init__(self) -> None:
        self._wait_value, self._free = bound("cuStreamWaitValue32"), bound("cuMemFreeHost")
        self._host = int(bound("cuMemHostAlloc")(8, constant("CU_MEMHOSTALLOC_DEVICEMAP")))
        self._address = bound("cuMemHostGetDevicePointer")(self._host, 0)
        self._word = ctypes.c_uint64.from_address(self._host)
        self._word.value = SHUT
        self._until = constant("CUstreamWaitValue_flags.CU_STREAM_WAIT_VALUE_GEQ").value
        self._opener = Opener(self._host)
        self._waits = 0  # calls in a row that waited

    def shut(self, stream: int) -> None:
        """Makes `stream` wait at the gate: what is enqueued from now on runs after `open`, or when GATE_S or SOONER_S
        have passed.
        """
        self._word.value = SHUT
        self._wait_value(stream, self._address, OPEN, self._until)
        self._opener.arm(GATE_S if self._waits < WAITS else SOONER_S)

    def open(self) -> bool:
        """Lets the stream go on; returns True when the time limit had opened the gate before."""
        waited = self._opener.disarm()
        self._word.value = OPEN
        self._waits = self._waits + 1 if waited else 0
        return waited

    def close(self) -> None:
        """Gives the word up; no stream may wait for it any more."""
        self._opener.close()
        self._free(self._host)
