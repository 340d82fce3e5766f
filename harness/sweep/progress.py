"""What `kbh sweep` shows meanwhile: a line for every cell that ends, and how far all of them are.

On a terminal the second is a few lines that rich writes over, with one for each cell that runs: what it is at, and for
how long. Elsewhere it is one line every half a minute, so a log can be read too.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from textwrap import shorten
from typing import TextIO

from rich.console import Console, ConsoleDimensions
from rich.live import Live
from rich.text import Text

from grader.record.words import fraction
from harness.archive import Facts
from harness.record.run import RunRecord
from harness.running.display import WIDTH, clock
from harness.sweep.ledger import Known, Ledger
from kbh_lint.report.text import clean, one_line

__all__ = ["Progress", "dollars"]

LIVE_SECONDS, LINE_SECONDS = 0.5, 30.0
ROWS, SPARE = 24, 2  # of a terminal that does not say how many it has; and those that are left to what stands above
DETAIL = 240
GRADES = "grading"


def dollars(ledger: Ledger) -> str:
    """What the runs of a sweep cost so far."""
    unknown = f" and {ledger.unpriced} runs of unknown cost" if ledger.unpriced else ""
    return f"${ledger.cost:.2f}{unknown}"


def _why(run: RunRecord | Facts) -> str:
    """How a run ended and why, on one line; what is left out shows."""
    return shorten(f"{run.ending}: {run.detail}", DETAIL, placeholder=" ...")


class Progress:
    """Takes what a sweep tells. `jobs` is how many cells run at a time; `now` is a clock in seconds."""

    def __init__(
        self, ledger: Ledger, jobs: int, stream: TextIO | None = None, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._ledger, self._jobs = ledger, jobs
        self._stream = sys.stderr if stream is None else stream
        self._live = self._stream.isatty()
        self._now, self._last = now, now()
        self._began: dict[str, float] = {}
        self._at: dict[str, str] = {}
        self._grading: set[str] = set()
        self._took: list[float] = []
        self._shown: Live | None = None

    def started(self, known: Known) -> None:
        """Shows that a cell was placed."""
        self._began[known.cell.key] = self._now()
        self._at[known.cell.key] = ""

    def teller(self, known: Known) -> Callable[[str], None]:
        """The function that takes what a run reports of its stages."""

        def say(text: str) -> None:
            if text.startswith(GRADES):
                self._grading.add(known.cell.key)
            if known.cell.key in self._at:
                self._at[known.cell.key] = text

        return say

    def settled(self, known: Known) -> None:
        """Shows that a cell is settled."""
        took = self._over(known)
        found = known.settled
        assert found is not None
        score = "" if found.roofline_fraction is None else f"  {fraction(found.roofline_fraction)} of the roofline"
        why = "" if found.outcome == "PASS" else f"  {_why(found)}"
        self._line(f"{found.outcome:<4}  {known.cell.label}{score}{why}  ({took})")

    def again(self, known: Known, record: RunRecord) -> None:
        """Shows that a run ended without saying anything of the agent, so that its cell is run again."""
        took = self._over(known)
        self._line(f"{record.outcome:<4}  {known.cell.label}  {_why(record)}  ({took}); again")

    def lost(self, known: Known, why: str) -> None:
        """Shows that a process or node ended and took a cell's run with it."""
        self._grading.discard(known.cell.key)
        self._at.pop(known.cell.key, None)
        self.note(f"{known.cell.label}: {why}")

    def note(self, text: str) -> None:
        """Shows another line that stays."""
        self._line(f"      {text}")

    def tick(self, running: int, waiting: int) -> None:
        """Shows how far the sweep is, if it is time for that."""
        now = self._now()
        if now - self._last >= (LIVE_SECONDS if self._live else LINE_SECONDS):
            self._last = now
            self._draw(self.status(running, waiting))

    def status(self, running: int, waiting: int) -> list[str]:
        """How far everything is, in two parts: of the cells that are over, and of the others."""
        every = self._ledger.known.values()
        counts = Counter(known.settled.outcome for known in every if known.settled is not None)
        kinds = Counter(known.settled.ending for known in every if known.settled and known.settled.outcome == "ERR")
        why = ", ".join(f"{count} {ending}" for ending, count in kinds.most_common())
        return [
            f"{sum(counts.values())} of {len(self._ledger.known)} settled: {counts['PASS']} passed, "
            f"{counts['FAIL']} failed" + (f", {counts['ERR']} no result ({why})" if why else ""),
            f"{running} running" + (f" ({len(self._grading)} in grading)" if self._grading else "")
            + f", {waiting} waiting; {dollars(self._ledger)}; {self._left(running + waiting)}",
        ]  # fmt: skip

    def clear(self) -> None:
        """Erases the lines."""
        if self._shown is not None:
            self._shown.stop()
            self._shown = None

    def _left(self, cells: int) -> str:
        if not self._took:
            return "time left not known yet"
        return f"about {clock(cells * sum(self._took) / len(self._took) / max(self._jobs, 1))} left"

    def _over(self, known: Known) -> str:
        self._grading.discard(known.cell.key)
        self._at.pop(known.cell.key, None)
        began = self._began.pop(known.cell.key, None)
        if began is None:
            return "another process had it"
        self._took.append(self._now() - began)
        return clock(self._took[-1])

    def _line(self, text: str) -> None:
        self.clear()
        self._stream.write(f"{clean(text)}\n")
        self._stream.flush()

    def _draw(self, status: list[str]) -> None:
        if self._live:
            self._draw_over([*status, *self._running()])
        else:
            self._stream.write("; ".join(status) + "\n")
            self._stream.flush()

    def _draw_over(self, lines: list[str]) -> None:
        size = self._size()
        if len(lines) > size.lines - SPARE:
            lines = [*lines[: max(size.lines - SPARE - 1, 2)], "    and others"]
        if self._shown is None:
            console = Console(file=self._stream, force_terminal=True, highlight=False)
            self._shown = Live(
                console=console, transient=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False
            )
            self._shown.start()
        self._shown.console.size = ConsoleDimensions(size.columns - 1, size.lines)
        self._shown.update(Text("\n".join(lines), no_wrap=True, overflow="ellipsis"), refresh=True)

    def _size(self) -> os.terminal_size:
        try:
            size = os.get_terminal_size(self._stream.fileno())
        except (OSError, ValueError):
            size = os.terminal_size((0, 0))
        return os.terminal_size((size.columns or WIDTH, size.lines or ROWS))

    def _running(self) -> list[str]:
        """A line for each cell that runs, the one that began first before all."""
        return [
            f"  {clock(self._now() - self._began[key])}  {one_line(f'{self._ledger.known[key].cell.label}  {at}')}"
            for key, at in self._at.items()
        ]
