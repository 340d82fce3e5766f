"""Holds a bundle against itself: every byte against its hash, every key against what was committed to before."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from grader.record.bundle.codec import CodecError, cell_from_json, trial_from_json
from grader.record.bundle.read import (
    ENTRY_BYTES,
    ENTRY_COUNT,
    OBJECT_BYTES,
    OBJECT_COUNT,
    BundleError,
    Entry,
    check_weight,
    entry_name,
    is_sha256,
    names_in,
    parse_entry,
    read_file,
    shown,
)
from grader.record.bundle.store import FOLDERS, LEFT_OVERS, LOCK
from grader.record.bundle.sums import score_faults
from grader.record.cell import Cell

__all__ = ["verify"]

FAULTS = 100
_ENTRY = re.compile(r"([0-9]{6})\.json")
_TEMPORARY = re.compile(r"[0-9a-f]{16}")


def verify(folder: Path) -> list[str]:
    """Checks a bundle; returns every fault as one sentence, at most FAULTS, and an empty list when it is whole.

    A grading that was cut leaves a whole bundle, without a cell. Floors and peak fractions of shapes follow from the
    problem, which is not looked at here.
    """
    faults: list[str] = []
    for fault in _faults(folder):
        faults.append(fault)
        if len(faults) == FAULTS:
            faults.append("there may be more faults, which are not listed")
            break
    return faults


def _faults(folder: Path) -> Iterator[str]:
    try:
        names = names_in(folder, LEFT_OVERS)
    except BundleError as error:
        yield str(error)
        return
    yield from (f"{shown(name)} does not belong in a bundle" for name in names if name not in (*FOLDERS, LOCK))
    yield from _temporary(folder)
    entries: list[Entry] = []
    yield from _entry_faults(folder, entries)
    there: set[str] = set()
    yield from _object_faults(folder, there)
    for entry in entries:
        for sha256 in entry.objects:
            if sha256 not in there:
                yield f"entries/{entry_name(entry.seq)} names the object {sha256}, which is not there"
    yield from _Story(entries).faults()


def _temporary(folder: Path) -> Iterator[str]:
    """Whether tmp/ holds only what an interrupted write leaves behind; a copy of a bundle may lack the folder."""
    if not os.path.lexists(folder / "tmp"):
        return
    try:
        for name in names_in(folder, LEFT_OVERS, "tmp"):
            if not _TEMPORARY.fullmatch(name):
                yield f"tmp/{shown(name)} does not belong in a bundle"
    except BundleError as error:
        yield str(error)


def _entry_faults(folder: Path, entries: list[Entry]) -> Iterator[str]:
    """Faults of the entries one by one; those that can be read are added to `entries`."""
    try:
        names = names_in(folder, ENTRY_COUNT, "entries")
    except BundleError as error:
        yield str(error)
        return
    numbers = sorted(int(match[1]) for name in names if (match := _ENTRY.fullmatch(name)))
    yield from (f"entries/{shown(name)} is not the name of an entry" for name in names if not _ENTRY.fullmatch(name))
    if not numbers:
        yield f"{folder} is no bundle: it has no entries"
    prev, expected = "", 1
    for seq in numbers:
        missing = range(expected, seq)
        yield from (f"entries/{entry_name(absent)} is missing" for absent in missing)
        expected = seq + 1
        try:
            written = read_file(folder, ENTRY_BYTES, "entries", entry_name(seq))
            before, prev = None if missing else prev, hashlib.sha256(written).hexdigest()
            entries.append(parse_entry(written, seq, before))
        except BundleError as error:
            yield str(error)
        try:
            check_weight(entries)
        except BundleError as error:
            yield str(error)
            return


def _object_faults(folder: Path, there: set[str]) -> Iterator[str]:
    """Faults of the objects; the names of the good ones are added to `there`. One that no entry names is no fault."""
    count = 0
    try:
        for prefix in sorted(names_in(folder, 256, "objects")):
            for name in sorted(names_in(folder, OBJECT_COUNT, "objects", prefix)):
                count += 1
                if count > OBJECT_COUNT:
                    yield f"objects has more than {OBJECT_COUNT:,} files"
                    return
                if not is_sha256(name) or name[:2] != prefix:
                    yield f"objects/{shown(prefix)}/{shown(name)} is not the name of an object"
                    continue
                fault = _object_fault(folder, name)
                if fault:
                    yield fault
                else:
                    there.add(name)
    except BundleError as error:
        yield str(error)


def _object_fault(folder: Path, name: str) -> str:
    try:
        data = read_file(folder, OBJECT_BYTES, "objects", name[:2], name)
    except BundleError as error:
        return str(error)
    if hashlib.sha256(data).hexdigest() != name:
        return f"objects/{name[:2]}/{name} does not hold the bytes that its name says"
    return ""


class _Story:
    """What the entries say, held against one another."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.entries = entries
        self.open: dict[int, str] = {}  # trials committed to and not heard of since
        self.used: set[str] = set()
        self.trials: list[Mapping[str, object]] = []
        self.reports: set[str] = set()
        self.baselines: list[tuple[object, object, object]] = []
        self.finished = False

    def faults(self) -> Iterator[str]:
        """Yields a sentence for every contradiction, which names the entry that shows it."""
        for entry in self.entries:
            for fault in self._entry(entry):
                yield f"entries/{entry_name(entry.seq)}: {fault}"

    def _entry(self, entry: Entry) -> Iterator[str]:
        if (entry.kind == "open") != (entry.seq == 1):
            yield f"an entry of kind {entry.kind} cannot stand there"
        elif self.finished and entry.kind != "regrade":
            yield f"an entry of kind {entry.kind} follows the cell"
        elif entry.kind == "commitment":
            yield from self._commitment(entry)
        elif entry.kind == "abandoned":
            trial, commitment = entry.data.get("trial"), entry.data.get("commitment")
            if type(trial) is not int or commitment is None or self.open.pop(trial, None) != commitment:
                yield "it gives up a trial that was not under way"
        elif entry.kind == "trial":
            yield from self._trial(entry)
        elif entry.kind == "evidence":
            asked = entry.data.get("trial")
            if asked is not None and asked not in [trial["index"] for trial in self.trials]:
                yield "it is about a trial that is not there"
        elif entry.kind == "baseline":
            yield from self._baseline(entry)
        elif entry.kind == "lint":
            self.reports.update(entry.objects)
        elif entry.kind == "cell":
            self.finished = True
            yield from self._cell(entry)

    def _commitment(self, entry: Entry) -> Iterator[str]:
        trial, commitment = entry.data.get("trial"), entry.data.get("commitment")
        if type(trial) is not int or not isinstance(commitment, str) or not is_sha256(commitment):
            yield "it is no commitment: it needs a trial's number and a SHA-256"
            return
        if trial in self.open:
            yield f"trial {trial} was committed to before and not given up"
        if commitment in self.used:
            yield "it commits to a key that was used before"
        self.used.add(commitment)
        self.open[trial] = commitment

    def _trial(self, entry: Entry) -> Iterator[str]:
        try:
            trial = trial_from_json(entry.data)
        except CodecError as error:
            yield f"it is no trial: {error}"
            return
        committed = self.open.pop(trial.index, None)
        if committed is None:
            yield f"trial {trial.index} was not committed to before"
        elif committed != trial.commitment or committed != _sha256_of_hex(trial.master):
            yield f"the key of trial {trial.index} is not the one that was committed to"
        if trial.log and trial.log not in entry.objects:
            yield f"it does not name its log {shown(trial.log)} among its objects"
        self.trials.append(entry.data)

    def _baseline(self, entry: Entry) -> Iterator[str]:
        """A baseline's trial is on a key of its own, which needs no commitment: the module is ours."""
        try:
            trial = trial_from_json(entry.data.get("trial"))
        except CodecError as error:
            yield f"it is no baseline: {error}"
            return
        if trial.commitment != _sha256_of_hex(trial.master):
            yield "the key of the baseline is not the one that it names"
        if trial.commitment in self.used:
            yield "it uses a key that was used before"
        self.used.add(trial.commitment)
        if entry.data.get("module") not in entry.objects or (trial.log and trial.log not in entry.objects):
            yield "it does not name its module and its log among its objects"
        self.baselines.append((entry.data.get("name"), entry.data.get("what"), trial.status))

    def _cell(self, entry: Entry) -> Iterator[str]:
        try:
            cell = cell_from_json(entry.data)
        except CodecError as error:
            yield f"it is no cell: {error}"
            return
        yield from (f"trial {trial} was committed to, and what came of it is missing" for trial in self.open)
        if entry.data["trials"] != self.trials:
            yield "its trials are not those of the entries before it"
        if cell.verdict.report and cell.verdict.report not in self.reports:
            yield "the linter's report that it rests on is in no lint entry"
        if [(one.name, one.what, one.status) for one in cell.baselines] != self.baselines:
            yield "its baselines are not those of the entries before it"
        yield from self._submission(cell)
        yield from score_faults(cell)

    def _submission(self, cell: Cell) -> Iterator[str]:
        """The cell's submission is the one that the bundle was opened for, and is in it."""
        opened = self.entries[0]
        submission = opened.data.get("submission")
        if not isinstance(submission, Mapping) or submission.get("sha256") != cell.submission:
            yield "its submission is not the one that the bundle was opened for"
            return
        files = submission.get("files")
        if not isinstance(files, Mapping) or not files:
            yield "the open entry does not list the submission's files"
        elif not set(map(str, files.values())) <= set(opened.objects):
            yield "the open entry does not name every file of the submission among its objects"


def _sha256_of_hex(text: str) -> str:
    try:
        return hashlib.sha256(bytes.fromhex(text)).hexdigest()
    except ValueError:
        return ""
