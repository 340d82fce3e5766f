"""Works a sweep off: so many cells at a time, each until it is settled, within the cap on its cost."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path

from harness.archive import Archive
from harness.record.archive import RunFolder
from harness.record.run import RunRecord
from harness.running.request import RunError
from harness.sweep.ledger import Known, Ledger, look_again, money
from harness.sweep.matrix import Matrix
from harness.sweep.placement import Gone, Order, Placed, Placement
from harness.sweep.progress import Progress

__all__ = ["Drive"]

TICK_SECONDS = 1.0
RETRY_SECONDS = 2.0  # before a second attempt, and twice as long before each further one
MOST_RETRY_SECONDS = 120.0
MOST_GONE = 10  # times that the order of one cell may be lost with its process or node
LEAST_ERRORS = 8  # in a row, and three for each cell at a time: then something is wrong that no cell can mend


@dataclass(slots=True)
class _Open:
    """A cell that is not settled. `due` is when it may be placed (time.monotonic()), `gone` how often it was lost."""

    known: Known
    due: float = 0.0
    gone: int = 0


class Drive:
    """One working off of a ledger. `run` may be cancelled; what it placed is ended then, and the next one goes on."""

    def __init__(
        self, matrix: Matrix, ledger: Ledger, archive: Archive, out: Path, placement: Placement, progress: Progress
    ) -> None:
        self._matrix, self._ledger, self._archive, self._out = matrix, ledger, archive, out
        self._placement, self._progress = placement, progress
        self._waiting = deque(_Open(known) for known in ledger.open())
        self._running: dict[asyncio.Task[Placed], _Open] = {}
        self.given_up: list[Known] = []
        self.settled: list[RunRecord] = []
        self.capped = False
        self._errors = 0

    async def run(self) -> None:
        """Runs cells until every one is settled, given up, or too dear.

        Raises what says that the sweep cannot go on: RunError and the like, OSError.
        """
        try:
            while self._waiting or self._running:
                self._place()
                if not self._running and not self._waiting:
                    break
                await self._some()
                self._progress.tick(len(self._running), len(self._waiting))
            self._ledger.put_again(self._out, self._archive)
        finally:
            for task in self._running:
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)

    def _place(self) -> None:
        """Starts what may start now; what is too dear for the cap is left for a command with another."""
        for _ in range(len(self._waiting)):
            if len(self._running) >= self._placement.jobs:
                return
            one = self._waiting.popleft()
            if one.known.busy and one.due <= time.monotonic():
                self._reread(one)
                one.due = time.monotonic() + TICK_SECONDS if one.known.busy else 0.0
            if one.known.settled is not None:
                continue
            if one.due > time.monotonic():
                self._waiting.append(one)
            elif not one.known.resume and self._too_dear(one):
                if self._running:
                    self._waiting.append(one)  # what runs may turn out to cost less than its cap
                else:
                    self.capped = True
            else:
                cell = one.known.cell
                order = Order(cell.request, cell.trial, one.known.resume, cell.deck)
                self._progress.started(one.known)
                task = asyncio.get_running_loop().create_task(
                    self._placement.place(order, self._progress.teller(one.known))
                )
                self._running[task] = one

    def _too_dear(self, one: _Open) -> bool:
        matrix, ledger = self._matrix, self._ledger
        if matrix.sweep_usd is None or matrix.run_usd is None or one.known.cell.scripted:
            return False
        priced = sum(not other.known.cell.scripted for other in self._running.values())
        return ledger.cost + (ledger.unpriced + priced + 1) * matrix.run_usd > matrix.sweep_usd

    async def _some(self) -> None:
        """Waits for something to end, for a moment at most, and counts it."""
        if not self._running:
            await asyncio.sleep(TICK_SECONDS / 4)
            return
        ended, _ = await asyncio.wait(self._running, timeout=TICK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        for task in ended:
            one = self._running.pop(task)
            try:
                placed = task.result()
            except Gone as error:
                self._gone(one, str(error))
            else:
                await asyncio.get_running_loop().run_in_executor(None, self._ended, one, placed)

    def _ended(self, one: _Open, placed: Placed) -> None:
        known, record = one.known, placed.record
        if record.sweep_key != known.cell.key:
            raise RunError(f"{placed.folder} is the run of another cell than was placed")
        known.resume = ""
        self._ledger.spent[record.run_id] = money(RunFolder(placed.folder), record, known.cell)
        self._errors = self._errors + 1 if record.outcome == "ERR" else 0
        if not self._settled(known, record, placed.folder):
            tries = max(len(known.errors), 1)
            one.due = time.monotonic() + min(RETRY_SECONDS * 2 ** (tries - 1), MOST_RETRY_SECONDS)
            self._waiting.append(one)
        if self._errors >= max(LEAST_ERRORS, 3 * self._placement.jobs):
            raise RunError(
                f"{self._errors} runs in a row say nothing of their agents, the last one as {record.ending}: "
                f"{record.detail.rstrip('.')}; mend that, and the same command goes on (with --retry-errors also where "
                "all attempts of a cell are used up)"
            )

    def _settled(self, known: Known, record: RunRecord, folder: Path) -> bool:
        if not known.take(record, self._matrix.attempts):
            self._progress.again(known, record)
            return False
        self.settled.append(record)
        self._ledger.put(known, folder, self._archive)
        self._progress.settled(known)
        return True

    def _gone(self, one: _Open, why: str) -> None:
        """A process or node took an order with it: whatever it left is looked at, and the cell goes on from there."""
        one.gone += 1
        self._progress.lost(one.known, why)
        if one.gone >= MOST_GONE:
            self.given_up.append(one.known)
            self._progress.note(f"{one.known.cell.label}: given up, for it was lost {one.gone} times")
            return
        self._reread(one)
        if one.known.settled is None:
            self._waiting.append(one)

    def _reread(self, one: _Open) -> None:
        done = look_again(one.known, self._out)
        if done is not None:
            one.known.busy = one.known.resume = ""
            self._ledger.spent[done.run_id] = money(RunFolder(self._out / done.run_id), done, one.known.cell)
            self._settled(one.known, done, self._out / done.run_id)
