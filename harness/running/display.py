"""What `kbh run` shows meanwhile: on a terminal one line that says how far each run is, elsewhere a line a stage."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

from kbh_lint.report.text import one_line

__all__ = ["Display", "clock"]

WIDTH = 110
EVERY_SECONDS = 0.2


def clock(seconds: float) -> str:
    """A length of time for people: 3:07, or 1:02:33."""
    whole = int(seconds)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes}:{whole % 60:02d}"


class Display:
    """Takes what runs tell. `now` is a clock in seconds; lines that stay go to `stream`."""

    def __init__(self, stream: TextIO | None = None, now: Callable[[], float] = time.monotonic) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._live = self._stream.isatty()
        self._now = now
        self._at: dict[str, str] = {}
        self._shown = False
        self._last = -1.0

    def stage(self, run: str, text: str) -> None:
        """Writes a line, which stays, that a run enters a stage."""
        self._clear()
        self._stream.write(f"{run}  {one_line(text)}\n")
        self._stream.flush()
        self._draw()

    def at(self, run: str, text: str) -> None:
        """Shows how far a run is within its stage, on a terminal only."""
        self._at[run] = one_line(text)
        if self._live and self._now() - self._last >= EVERY_SECONDS:
            self._clear()
            self._draw()

    def over(self, run: str) -> None:
        """Takes a run that is over out of the line."""
        self._at.pop(run, None)
        self._clear()
        self._draw()

    def clear(self) -> None:
        """Erases the line."""
        self._at.clear()
        self._clear()

    def _clear(self) -> None:
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._shown = False

    def _draw(self) -> None:
        if self._live and self._at:
            self._last = self._now()
            text = "   ".join(f"{run}: {text}" if len(self._at) > 1 else text for run, text in self._at.items())
            self._stream.write(text[:WIDTH])
            self._stream.flush()
            self._shown = True
