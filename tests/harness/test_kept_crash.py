"""A crash at any moment loses no entry of an archive, and a second try makes it what it would have been."""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kept import archive_of, small_run, tree

sys.path.append(str(Path(__file__).resolve().parents[1] / "grader"))

from bundle_disk import Operation, Recorder, crashes, lay_out

from harness.archive import Archive, StoreError, all_facts
from harness.archive.verify import verify


def recorded(root: Path, runs: list[Path], disk: Recorder) -> list[int]:
    """Makes an archive below `root`; after how many operations it was made and each entry was added."""
    archive = Archive.create(root / "out" / "a", files=disk)
    done = [len(disk.log)]
    for run in runs:
        archive.add(run)
        done.append(len(disk.log))
    return done


def fault(place: Path, least: int, runs: list[Path], whole: dict[str, bytes]) -> str:
    """What is wrong with an archive that a crash left; empty when nothing is."""
    try:
        archive = Archive.create(place, files=Recorder())
    except StoreError as error:
        return f"cannot be gone on with: {error}"
    ids = archive.ids()
    if len(ids) < least:
        return f"has {len(ids)} entries, where {least} were added"
    checked = verify(archive)
    if checked.faults and checked.whole < len(ids):
        return f"is not whole: {checked.faults}"
    for run in runs:
        archive.add(run)
    if verify(archive).faults:
        return f"is not whole after another try: {verify(archive).faults}"
    return "" if tree(place) == whole else "is another one after another try"


def test_every_prefix_of_the_writes_leaves_whole_entries_and_can_be_gone_on_with(tmp_path: Path) -> None:
    runs = [small_run(tmp_path / "runs", f"r{n}", text=f"# {n}\n") for n in range(2)]
    whole = tree(archive_of(tmp_path / "whole", *runs).folder)
    root, disk = tmp_path / "disk", Recorder()
    root.mkdir()
    done = recorded(root, runs, disk)
    tried, wrong = 0, []
    for after, found in crashes(root, disk.log):
        tried += 1
        lay_out(found, tmp_path / "after")
        said = fault(tmp_path / "after" / "out" / "a", sum(count <= after for count in done[1:]), runs, whole)
        shutil.rmtree(tmp_path / "after")
        wrong += [f"after {after} operations it {said}"] if said else []
    assert wrong == [] and tried > 2 * len(disk.log)


@pytest.mark.parametrize("left_out", ["a file", "a folder of objects", "a folder of manifests", "objects", "manifests"])
def test_the_replay_notices_each_sync_that_is_left_out(tmp_path: Path, left_out: str) -> None:
    def kept(operation: Operation) -> bool:
        what, path, _ = operation
        above = {"tmp": "a file", "objects": "a folder of objects", "manifests": "a folder of manifests"}
        return what != "sync" or above.get(path.parent.name, path.name) != left_out

    runs = [small_run(tmp_path / "runs", "r0")]
    whole = tree(archive_of(tmp_path / "whole", *runs).folder)
    root, disk = tmp_path / "disk", Recorder(keep=kept)
    root.mkdir()
    done = recorded(root, runs, disk)
    for after, found in crashes(root, disk.log):
        lay_out(found, tmp_path / "after")
        said = fault(tmp_path / "after" / "out" / "a", sum(count <= after for count in done[1:]), runs, whole)
        shutil.rmtree(tmp_path / "after")
        if said:
            return
    raise AssertionError(f"nobody noticed that {left_out} is not synced")


def test_a_disk_that_fails_at_any_operation_is_one_sentence_and_loses_nothing(tmp_path: Path) -> None:
    runs = [small_run(tmp_path / "runs", f"r{n}", text=f"# {n}\n") for n in range(2)]
    whole, disk = tree(archive_of(tmp_path / "whole", *runs).folder), Recorder()
    (tmp_path / "first").mkdir()
    recorded(tmp_path / "first", runs, disk)
    for position in range(len(disk.log)):
        left = iter(range(position))

        def before(operation: Operation, left: Iterator[int] = left) -> None:
            if next(left, None) is None:
                raise OSError(errno.ENOSPC, "No space left on device")

        root = tmp_path / str(position)
        root.mkdir()
        with pytest.raises(StoreError, match="No space left on device"):
            recorded(root, runs, Recorder(before))
        assert fault(root / "out" / "a", 0, runs, whole) == "", position


def test_an_add_that_is_killed_at_random_and_begun_again_makes_the_same_archive(tmp_path: Path) -> None:
    runs = [small_run(tmp_path / "runs", f"r{n:02}", text=f"# {n}\n" * 2000) for n in range(40)]
    whole = tree(archive_of(tmp_path / "whole", *runs).folder)
    program = (
        "import sys\nfrom pathlib import Path\nfrom harness.archive import Archive\n"
        "archive = Archive.create(Path(sys.argv[1]))\nprint('begun', flush=True)\n"
        "for path in sorted(Path(sys.argv[2]).iterdir()):\n    archive.add(path)\n"
    )
    words = [sys.executable, "-c", program, str(tmp_path / "a"), str(tmp_path / "runs")]
    chance = random.Random(7)
    for _ in range(4):
        with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None and process.stdout.readline() == b"begun\n"
            time.sleep(chance.uniform(0.0, 0.15))
            os.kill(process.pid, signal.SIGKILL)
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    archive = Archive.open(tmp_path / "a")
    assert verify(archive).faults == [] and len(all_facts(archive).facts) == 40
    assert tree(archive.folder) == whole
