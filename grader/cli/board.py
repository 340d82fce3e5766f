"""What `kbh grade --jobs` shows while it works: what each grading is at, or waits for, by the name of its file."""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import monotonic
from typing import NamedTuple, TextIO

from grader.cli.display import QUIET_SECONDS, WIDTH, WORDS, tick
from kbh_lint.report.text import one_line

__all__ = ["Board", "Step"]


class Step(NamedTuple):
    """A `grader.grading.job.Progress` as a worker tells it; see there."""

    stage: str
    state: str
    text: str
    of: str


class Board:
    """One line for each grading that runs, on a terminal; elsewhere lines of what has to wait, or of all."""

    def __init__(
        self, *, verbose: bool = False, stream: TextIO | None = None, clock: Callable[[], float] = monotonic
    ) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._live, self._verbose, self._clock = self._stream.isatty(), verbose, clock
        self._begun = clock()
        self._now: dict[str, str] = {}
        self._since: dict[str, float] = {}
        self._shown = 0

    def begin(self, name: str) -> None:
        """Adds a grading to the lines that run."""
        self._now[name], self._since[name] = "starting", self._clock()
        self._draw([])

    def __call__(self, name: str, step: Step) -> None:
        """Shows one step of a grading."""
        label = f"{WORDS.get(step.stage, step.stage)} {step.of}".strip()
        text = one_line(step.text)
        said = []
        if step.state == "done":
            said = [f"{one_line(name)}: {tick(self._stream)} {label:<14} {text}".rstrip()]
        elif step.state == "wait" and not self._live:  # else a long silence would have no reason
            said = [f"{one_line(name)}: {label}: {text}"]
        self._now[name] = f"{label} {text}".strip()
        self._draw(said if self._live or self._verbose or step.state == "wait" else [])

    def say(self, text: str) -> None:
        """Writes a sentence about all gradings."""
        self._draw([text])

    def end(self, name: str) -> None:
        """Takes a grading that has ended out of the lines that run."""
        self._now.pop(name, None)
        self._since.pop(name, None)
        self._draw([])

    def clear(self) -> None:
        """Erases the lines of running gradings from the terminal."""
        if self._shown:
            self._stream.write(f"\x1b[{self._shown}A\x1b[J")
            self._stream.flush()
            self._shown = 0

    def _draw(self, said: list[str]) -> None:
        self.clear()
        for line in said:
            self._stream.write(line + "\n")
        if self._live and self._clock() - self._begun >= QUIET_SECONDS:
            for name, now in self._now.items():
                line = f"    {one_line(name)[-WIDTH // 2 :]}  {now}"[:WIDTH]
                self._stream.write(f"{line}  {self._clock() - self._since[name]:.0f} s\n")
            self._shown = len(self._now)
        self._stream.flush()
