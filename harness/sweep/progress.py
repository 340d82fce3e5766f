"""What `kbh sweep` shows meanwhile: a line for every cell that ends, and how far all of them are.

On a terminal the second is one line that is written over; elsewhere it comes every half a minute, so a log can be read
too.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import TextIO

from harness.record.run import RunRecord
from harness.running.display import WIDTH, clock
from harness.sweep.ledger import Known, Ledger
from kbh_lint.report.text import one_line

__all__ = ["Progress", "dollars"]

LIVE_SECONDS, LINE_SECONDS = 0.5, 30.0
DETAIL = 160
GRADES = "grading"


def dollars(ledger: Ledger) -> str:
    """What the runs of a sweep cost so far."""
    unknown = f" and {ledger.unpriced} runs of unknown cost" if ledger.unpriced else ""
    return f"${ledger.cost:.2f}{unknown}"


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
        self._grading: set[str] = set()
        self._took: list[float] = []
        self._shown = False

    def started(self, known: Known) -> None:
        """A cell was placed."""
        self._began[known.cell.key] = self._now()

    def teller(self, known: Known) -> Callable[[str], None]:
        """What a run says of its stages goes here."""

        def say(text: str) -> None:
            if text.startswith(GRADES):
                self._grading.add(known.cell.key)

        return say

    def settled(self, known: Known) -> None:
        """A cell is settled."""
        took = self._over(known)
        found = known.settled
        assert found is not None
        score = "" if found.roofline_fraction is None else f"  {found.roofline_fraction:.3f} of the least time"
        why = "" if found.outcome == "PASS" else f"  {found.ending}: {found.detail}"
        self._line(f"{found.outcome:<4}  {known.cell.label}{score}{why[:DETAIL]}  ({took})")

    def again(self, known: Known, record: RunRecord) -> None:
        """A run ended without saying anything of the agent, and its cell is run again."""
        took = self._over(known)
        self._line(
            f"{record.outcome:<4}  {known.cell.label}  {record.ending}: {record.detail[:DETAIL]}  ({took}); again"
        )

    def lost(self, known: Known, why: str) -> None:
        """A process or node took a cell's run with it."""
        self._grading.discard(known.cell.key)
        self.note(f"{known.cell.label}: {why}")

    def note(self, text: str) -> None:
        """Something else that stays."""
        self._line(f"      {text}")

    def tick(self, running: int, waiting: int) -> None:
        """Shows how far everything is, where it is time."""
        now = self._now()
        if now - self._last >= (LIVE_SECONDS if self._live else LINE_SECONDS):
            self._last = now
            self._draw(self.status(running, waiting))

    def status(self, running: int, waiting: int) -> str:
        """How far everything is, in one line."""
        every = self._ledger.known.values()
        counts = Counter(known.settled.outcome for known in every if known.settled is not None)
        kinds = Counter(known.settled.ending for known in every if known.settled and known.settled.outcome == "ERR")
        why = ", ".join(f"{count} {ending}" for ending, count in kinds.most_common())
        parts = [
            f"{sum(counts.values())} of {len(self._ledger.known)} settled",
            f"{running} running" + (f" ({len(self._grading)} in grading)" if self._grading else ""),
            f"{waiting} waiting",
            f"{counts['PASS']} passed, {counts['FAIL']} failed"
            + (f", {counts['ERR']} no result ({why})" if why else ""),
            dollars(self._ledger),
            self._left(running + waiting),
        ]
        return "; ".join(parts)

    def clear(self) -> None:
        """Takes the line away."""
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._shown = False

    def _left(self, cells: int) -> str:
        if not self._took:
            return "time left not known yet"
        return f"about {clock(cells * sum(self._took) / len(self._took) / max(self._jobs, 1))} left"

    def _over(self, known: Known) -> str:
        self._grading.discard(known.cell.key)
        began = self._began.pop(known.cell.key, None)
        if began is None:
            return "another process had it"
        self._took.append(self._now() - began)
        return clock(self._took[-1])

    def _line(self, text: str) -> None:
        self.clear()
        self._stream.write(f"{one_line(text)}\n")
        self._stream.flush()

    def _draw(self, text: str) -> None:
        self.clear()
        self._stream.write(text[:WIDTH] if self._live else f"{text}\n")
        self._stream.flush()
        self._shown = self._live
