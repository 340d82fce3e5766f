"""What is known of the cells of a sweep, from the archive and from the runs in its folder; nothing else is kept.

A cell is settled by a run that passed or failed, or when its attempts ended as ERRs, one that is not retryable at once.
A run that was lost because this sweep was cut is no attempt. A run that another process still works on, such as one of
a node whose driver was killed, is waited for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.archive import Archive, Facts, StoreError, all_facts
from harness.record.archive import ArchiveError, RunFolder, is_run
from harness.record.run import RunRecord
from harness.record.usage import total
from harness.running.ending import Evidence, decide
from harness.running.recover import cut_runs, said_lost
from harness.sweep.cells import Cell

__all__ = ["Known", "Ledger", "is_lost", "look", "look_again", "money"]

MOST_RUNS = 1_000_000
_LOST = decide(Evidence(lost=True))


def is_lost(record: RunRecord) -> bool:
    """Whether the harness was cut while the run's agent worked."""
    return (record.outcome, record.ending, record.detail) == (_LOST.outcome, _LOST.ending, _LOST.detail)


@dataclass(slots=True)
class Known:
    """One cell. `settled` is the run that counts, or the ERR that was the last attempt; `errors` are those before it;
    `resume` is a run that is only to be graded, `busy` one that another process works on.
    """

    cell: Cell
    settled: RunRecord | Facts | None = None
    errors: list[RunRecord] = field(default_factory=list)
    resume: str = ""
    busy: str = ""
    archived: bool = False

    def take(self, record: RunRecord, attempts: int) -> bool:
        """Counts a finished run; returns whether the cell is settled now."""
        if self.settled is not None or is_lost(record):
            return self.settled is not None
        if record.outcome == "ERR":
            self.errors.append(record)
            if record.retryable and len(self.errors) < attempts:
                return False
        self.settled = record
        return True


@dataclass(slots=True)
class Ledger:
    """All cells of a sweep, in their order, and what its runs cost: dollars that are known, and runs that nobody can
    price. `spent` has what each run cost, None where nobody knows; `faults` say which runs no archive takes, and why.
    """

    known: dict[str, Known]
    spent: dict[str, float | None] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    @property
    def cost(self) -> float:
        """Dollars of all runs whose cost is known."""
        return sum(cost for cost in self.spent.values() if cost is not None)

    @property
    def unpriced(self) -> int:
        """Runs whose cost nobody knows."""
        return sum(cost is None for cost in self.spent.values())

    def put(self, known: Known, folder: Path, archive: Archive) -> None:
        """Adds the run that settled a cell to the archive."""
        try:
            archive.add(folder)
            known.archived = True
        except StoreError as error:
            self.faults.append(f"{known.cell.label}: {error}")

    def put_again(self, out: Path, archive: Archive) -> None:
        """Tries again to add runs that could not be added before, as when a grader of a killed command was still
        working on them.
        """
        self.faults.clear()
        for known in self.known.values():
            if isinstance(known.settled, RunRecord) and not known.archived:
                self.put(known, out / known.settled.run_id, archive)

    def open(self) -> list[Known]:
        """The cells that are not settled, those first that only have to be graded."""
        left = [one for one in self.known.values() if one.settled is None]
        return sorted(left, key=lambda one: not one.resume)


def look(
    cells: Sequence[Cell], archive: Archive | None, out: Path, attempts: int, *, mend: bool, again: bool = False
) -> Ledger:
    """The state of these cells, from the archive and the runs in `out`.

    With `mend` runs that were cut are said to be lost, and what is settled and not in the archive yet is added to it;
    without, nothing is written. With `again` earlier ERRs do not count as attempts.
    """
    ledger = Ledger({cell.key: Known(cell) for cell in cells})
    _from_archive(ledger, all_facts(archive, keep=mend).facts if archive is not None else (), again)
    by_key: dict[str, list[tuple[RunFolder, RunRecord, bool]]] = defaultdict(list)
    for folder, record, held in _runs(out, mend):
        by_key[record.sweep_key].append((folder, record, held))
    for known in ledger.known.values():
        for folder, record, held in by_key.get(known.cell.key, ()):
            ledger.spent[record.run_id] = money(folder, record, known.cell)
            if record.state != "done":
                _unfinished(known, record, held)
            elif not (again and record.outcome == "ERR"):
                _counted(ledger, known, folder, record, attempts, archive if mend else None)
    return ledger


def look_again(known: Known, out: Path) -> RunRecord | None:
    """Finds out what became of a cell whose order is gone: sets `resume` or `busy`, and records other cut runs as lost.

    Returns its finished run that passed or failed, if there is one.
    """
    known.resume = known.busy = ""
    done = None
    for _, record, held in _runs(out, mend=True):
        if record.sweep_key != known.cell.key:
            continue
        if record.state != "done":
            _unfinished(known, record, held)
        elif record.outcome != "ERR" and done is None:
            done = record
    return done


def _unfinished(known: Known, record: RunRecord, held: bool) -> None:
    if known.settled is None and held:
        known.busy = record.run_id
    elif known.settled is None and record.state in ("ended", "grading"):
        known.resume = record.run_id


def _counted(
    ledger: Ledger, known: Known, folder: RunFolder, record: RunRecord, attempts: int, archive: Archive | None
) -> None:
    before = known.settled
    if isinstance(before, Facts) and before.outcome == "ERR":
        known.settled, known.archived = None, False  # there may be more attempts now than when it was archived
    settled = known.take(record, attempts)
    if settled and known.settled is record and archive is not None:
        ledger.put(known, folder.path, archive)


def _from_archive(ledger: Ledger, facts: Iterable[Facts], again: bool) -> None:
    for one in sorted(facts, key=lambda one: (one.outcome == "ERR", one.started, one.id)):
        known = ledger.known.get(one.sweep_key)
        if known is None or one.kind != "run":
            continue
        ledger.spent[one.name] = one.cost_usd if one.cost_usd is not None else 0.0 if known.cell.scripted else None
        if known.settled is None and not (again and one.outcome == "ERR"):
            known.settled, known.archived = one, True


def _runs(out: Path, mend: bool) -> list[tuple[RunFolder, RunRecord, bool]]:
    """Every run of the working folder that can be read, in the order in which they began, and whether another process
    holds it; those that were cut as their recovery leaves them.
    """
    if mend:
        for folder, record in cut_runs(out):
            if record.state in ("ended", "grading"):
                folder.release()
            else:
                said_lost(folder, record)
    found = []
    for path in sorted(out.iterdir())[:MOST_RUNS] if out.is_dir() else ():
        if is_run(path):
            folder = RunFolder(path)
            try:
                record = folder.load()
                held = record.state != "done" and not folder.take()
                found.append((folder, folder.load() if held else record, held))
            except (ArchiveError, OSError):
                continue
            finally:
                folder.release()
    return sorted(found, key=lambda one: (one[1].started, one[1].run_id))


def money(folder: RunFolder, record: RunRecord, cell: Cell) -> float | None:
    """Dollars that a run cost, by its calls, which are there also when it was cut; None where nobody knows."""
    if cell.scripted:
        return 0.0
    if record.usage.cost_usd is not None:
        return record.usage.cost_usd
    try:
        return total(call.usage for call in folder.calls()).cost_usd
    except ArchiveError:
        return None
