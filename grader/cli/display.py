"""What `kbh grade` shows while it works: stages with ticks on a terminal, plain lines elsewhere if asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, TextIO

from kbh_lint.report.text import one_line

if TYPE_CHECKING:
    from grader.grading.progress import Progress

__all__ = ["Display", "tick"]

QUIET_SECONDS = 2.0  # a grading that is over sooner shows nothing
WIDTH = 100
WORDS = {
    "read": "submission", "lint": "lint", "sandbox": "sandbox", "build": "build", "trial": "trial",
    "evidence": "evidence", "score": "verdict", "baseline": "baseline",
}  # fmt: skip


class Display:
    """Takes the steps of gradings one after another. `verbose` prints lines where there is no terminal."""

    def __init__(
        self, *, verbose: bool = False, stream: TextIO | None = None, clock: Callable[[], float] = monotonic
    ) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._live = self._stream.isatty()
        self._verbose, self._clock = verbose, clock
        self._begun = clock()
        self._done: list[str] = []  # finished stages that are not printed yet
        self._shown = False

    def start(self, name: str) -> None:
        """Shows that the grading of `name` begins."""
        self._begun, self._done = self._clock(), [one_line(name)]

    def __call__(self, step: Progress) -> None:
        """Shows one step."""
        label = f"{WORDS[step.stage]} {step.of}".strip()
        text = one_line(step.text)
        if step.state == "done":
            self._done.append(f"  {tick(self._stream)} {label:<14} {text}".rstrip())
        if not self._live:
            if step.state == "wait":  # else a long silence would have no reason
                self._done.append(f"  {label}: {text}")
            if self._verbose or step.state == "wait":
                self._lines()
            return
        if self._clock() - self._begun < QUIET_SECONDS:
            return
        self.clear()
        self._lines()
        if step.state != "done":
            seconds = self._clock() - self._begun
            self._stream.write(f"\r    {label:<14} {text}"[:WIDTH] + f"  {seconds:.0f} s\x1b[K")
            self._shown = True
        self._stream.flush()

    def clear(self) -> None:
        """Erases the line of the running step."""
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._shown = False

    def _lines(self) -> None:
        for line in self._done:
            self._stream.write(line + "\n")
        self._done = []


def tick(stream: TextIO) -> str:
    """The mark of a finished stage that the encoding of `stream` can show."""
    try:
        "✓".encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return "+"
    return "✓"
