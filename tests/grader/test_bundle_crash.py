"""A crash at any moment loses no entry that was written and shows none that was not.

One grading is recorded operation by operation. Each prefix of that record is played back with every way in which a disk
may have kept or lost what was not synced, and the bundle found there is read and gone on with.
"""

from __future__ import annotations

import errno
import hashlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from bundle_disk import Killed, Operation, Recorder, crashes, lay_out

from grader.record.bundle import Bundle, BundleError, verify

LOG, REPORT = b"what it printed", b"what the linter said"


@dataclass
class Record:
    """What a grading did: the operations, and after how many of them each entry was begun and finished."""

    disk: Recorder
    begun: list[int] = field(default_factory=list)
    finished: list[int] = field(default_factory=list)
    hashes: list[str] = field(default_factory=list)

    def step(self, write: Callable[[], str]) -> None:
        """One entry."""
        self.begun.append(len(self.disk.log))
        self.hashes.append(write())
        self.finished.append(len(self.disk.log))


def killed_after(disk: Recorder, what: str, name: str, work: Callable[[], object]) -> None:
    """Does something that is cut after the first operation of a kind on a path of that name."""
    reached = False

    def before(operation: Operation) -> None:
        nonlocal reached
        if reached:
            raise Killed
        reached = operation[0] == what and name in ("", operation[1].name)

    disk.before, usual = before, disk.before
    with pytest.raises(Killed):
        work()
    disk.before = usual


def grading(root: Path, disk: Recorder) -> Record:
    """Several processes write one bundle: two are killed when a folder has its name but is not synced, a third when an
    object is, which the last then names."""
    record, folder = Record(disk), root / "out" / "bundle"
    made: list[Bundle] = []
    for name in ("out", "bundle"):
        killed_after(disk, "mkdir", name, lambda: Bundle.create(folder, {}, files=disk))

    def create() -> str:
        made.append(Bundle.create(folder, {"what": "toy"}, [b"a submission"], files=disk))
        return made[0].head

    record.step(create)
    first = made[0]
    record.step(lambda: first.append("commitment", {"trial": 0, "commitment": "0" * 64}))
    record.step(lambda: first.append("evidence", {"at": 1}, [first.put(LOG)]))
    killed_after(disk, "rename", "", lambda: first.put(REPORT))
    first.close()
    with Bundle.open(folder, write=True, files=disk) as second:
        record.step(lambda: second.append("lint", {}, [hashlib.sha256(REPORT).hexdigest()]))
        record.step(lambda: second.append("evidence", {"at": 2}, [second.put(LOG), second.put(b"more")]))
    return record


def fault(record: Record, done: int, folder: Path) -> str:
    """What is wrong with the bundle found after `done` operations; empty when nothing is."""
    least = sum(finished <= done for finished in record.finished)
    most = sum(begun < done for begun in record.begun)
    try:
        bundle = Bundle.open(folder, write=True, files=Recorder())
    except BundleError as error:
        if least:
            return f"cannot be read: {error}"
        if "\n" in str(error):
            return "is refused in more than one sentence"
        bundle = Bundle.create(folder, {"what": "another"}, files=Recorder())
    else:
        found = [entry.hash for entry in bundle.entries()]
        if found != record.hashes[: len(found)] or not least <= len(found) <= most:
            return f"has {len(found)} entries, where {least} to {most} were written"
    with bundle:
        try:
            for entry in bundle.entries():
                for sha256 in entry.objects:
                    bundle.get(sha256)
        except BundleError as error:
            return f"names an object that is not whole: {error}"
        bundle.append("evidence", {"went": "on"}, [bundle.put(LOG)])
    return "; ".join(verify(folder))


def faults(record: Record, root: Path, place: Path, most: int = 10**9) -> tuple[int, list[str]]:
    """How many states were tried, and what was wrong in them."""
    tried, wrong = 0, []
    for done, tree in crashes(root, record.disk.log):
        tried += 1
        lay_out(tree, place)
        said = fault(record, done, place / "out" / "bundle")
        shutil.rmtree(place)
        if said:
            wrong.append(f"after {done} operations it {said}")
            if len(wrong) >= most:
                break
    return tried, wrong


def test_every_prefix_of_the_writes_reads_as_a_prefix_of_the_entries_and_can_be_gone_on_with(tmp_path: Path) -> None:
    root = tmp_path / "disk"
    root.mkdir()
    record = grading(root, Recorder())
    tried, wrong = faults(record, root, tmp_path / "after")
    assert wrong == []
    assert tried > 2 * len(record.disk.log)


@pytest.mark.parametrize(
    "left_out",
    ["a file in tmp", "entries", "objects", "a folder of objects", "bundle", "out"],
)
def test_the_replay_notices_each_sync_that_is_left_out(left_out: str, tmp_path: Path) -> None:
    def kept(operation: Operation) -> bool:
        what, path, _ = operation
        place = {"tmp": "a file in tmp", "objects": "a folder of objects"}.get(path.parent.name, path.name)
        return what != "sync" or place != left_out

    root = tmp_path / "disk"
    root.mkdir()
    record = grading(root, Recorder(keep=kept))
    assert faults(record, root, tmp_path / "after", most=1)[1]


def test_a_disk_that_fails_at_any_operation_is_one_sentence_and_loses_nothing(tmp_path: Path) -> None:
    total = len(written(tmp_path / "whole", Recorder())[0].log)
    for position in range(total):
        left = iter(range(position))

        def before(operation: Operation, left: Iterator[int] = left) -> None:
            if next(left, None) is None:
                raise OSError(errno.ENOSPC, "No space left on device")

        place = tmp_path / str(position)
        _, hashes, error = written(place, Recorder(before))
        assert error.endswith("cannot be written: No space left on device"), position
        try:
            found = [entry.hash for entry in Bundle.open(place / "bundle", write=True, files=Recorder()).entries()]
        except BundleError:
            found = []
        assert found[: len(hashes)] == hashes and len(found) <= len(hashes) + 1, position


def written(place: Path, disk: Recorder) -> tuple[Recorder, list[str], str]:
    """A bundle of two entries; those that were written before the disk failed, and what was said then."""
    place.mkdir()
    hashes: list[str] = []
    try:
        with Bundle.create(place / "bundle", {}, files=disk) as bundle:
            hashes.append(bundle.head)
            try:
                hashes.append(bundle.append("lint", {}, [bundle.put(REPORT)]))
            except BundleError as error:
                with pytest.raises(BundleError, match="not open for writing"):
                    bundle.append("evidence", {})
                return disk, hashes, str(error)
    except BundleError as error:
        return disk, hashes, str(error)
    return disk, hashes, ""
