"""What a bundle takes and gives back."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bundle_rows import CODE, LOG, REPORT, rows, sha256, write

from grader.record.bundle import Bundle, BundleError, read, verify
from grader.record.bundle.files import DISK
from grader.record.bundle.read import ENTRY_BYTES, OBJECT_BYTES


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting for the disk is for the tests of crashes, and for real gradings."""
    monkeypatch.setattr(type(DISK), "sync", lambda disk, path: None)


def test_a_grading_reads_back_as_it_was_written(tmp_path: Path) -> None:
    folder = write(tmp_path / "a" / "b", rows())
    bundle = Bundle.open(folder)
    assert [(e.kind, e.data, e.objects) for e in bundle.entries()] == rows()
    assert bundle.finished and bundle.head == bundle.entries()[-1].hash
    assert [bundle.get(sha256(data)) for data in (CODE, LOG, REPORT)] == [CODE, LOG, REPORT]
    assert verify(folder) == []
    assert os.listdir(folder / "tmp") == []


def test_a_copy_without_its_empty_folder_is_whole_and_can_be_written_on(tmp_path: Path) -> None:
    folder = write(tmp_path / "b", rows()[:2])
    (folder / "tmp").rmdir()
    assert verify(folder) == [] and len(Bundle.open(folder).entries()) == 2
    with Bundle.open(folder, write=True) as bundle:
        bundle.put(b"more")
    assert verify(folder) == []


def test_a_cut_grading_is_whole_but_not_finished(tmp_path: Path) -> None:
    for count in range(1, len(rows()) - 1):
        folder = write(tmp_path / str(count), rows()[:count])
        assert verify(folder) == []
        assert not Bundle.open(folder).finished


def test_one_process_writes_and_others_may_read(tmp_path: Path) -> None:
    with Bundle.create(tmp_path / "b", {}) as bundle:
        with pytest.raises(BundleError, match="is being written by another process"):
            Bundle.open(tmp_path / "b", write=True)
        with pytest.raises(BundleError, match="is being written by another process"):
            Bundle.create(tmp_path / "b", {})
        reader = Bundle.open(tmp_path / "b")
        assert reader.head == bundle.head
        with pytest.raises(BundleError, match="is not open for writing"):
            reader.append("evidence", {})
    with pytest.raises(BundleError, match="is a bundle already"):
        Bundle.create(tmp_path / "b", {})
    Bundle.open(tmp_path / "b", write=True).close()


def test_an_entry_that_appeared_meanwhile_is_not_written_over(tmp_path: Path) -> None:
    with Bundle.create(tmp_path / "b", {}) as bundle:
        place = tmp_path / "b" / "entries" / "000002.json"
        place.write_text("of another")
        with pytest.raises(BundleError, match="File exists"):
            bundle.append("evidence", {})
    assert place.read_text() == "of another"


def test_what_a_killed_writer_left_is_cleared_and_a_strangers_folder_is_not_taken(tmp_path: Path) -> None:
    folder = write(tmp_path / "b", rows()[:2])
    (folder / "tmp" / ("0" * 16)).write_text("half an ent")
    assert verify(folder) == []
    Bundle.open(folder, write=True).close()
    assert os.listdir(folder / "tmp") == []
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").write_text("mine")
    with pytest.raises(BundleError, match="is no bundle: it holds 'thesis.txt'"):
        Bundle.create(other, {})
    assert os.listdir(other) == ["thesis.txt"]


@pytest.mark.parametrize(
    ("write_it", "says"),
    [
        (lambda b: b.append("evidence", {"time": float("nan")}), "data.data.time is nan"),
        (lambda b: b.append("evidence", {"time": float("inf")}), "data.data.time is inf"),
        (lambda b: b.append("evidence", {"path": Path("x")}), "is a PosixPath"),
        (lambda b: b.append("evidence", {1: 2}), "has a key that is no text"),
        (lambda b: b.append("evidence", {"text": "\ud800"}), "half a surrogate pair"),
        (lambda b: b.append("evidence", nested(40)), "nested 32 deep at most"),
        (lambda b: b.append("evidence", {"n": 10**5000}), "cannot hold this"),
        (lambda b: b.append("evidence", {"text": "x" * ENTRY_BYTES}), "an entry holds 16,777,216 at most"),
        (lambda b: b.append("evidence", {}, ["00" * 32]), "objects/00 is missing"),
        (lambda b: b.append("evidence", {}, ["../../etc/passwd"]), "'../../etc/passwd' names no object"),
        (lambda b: b.append("evidence", {}, [b.put(LOG)] * 2), "a list of objects that is none"),
        (lambda b: b.append("opinion", {}), "an entry of kind 'opinion' cannot stand here"),
        (lambda b: b.append("open", {}), "an entry of kind 'open' cannot stand here"),
        (lambda b: b.put(bytes(OBJECT_BYTES + 1)), "is too large"),
        (lambda b: b.get("../lock"), "'../lock' names no object"),
    ],
)
def test_what_cannot_be_kept_is_refused_and_the_bundle_stays_usable(
    write_it: Callable[[Bundle], object], says: str, tmp_path: Path
) -> None:
    with Bundle.create(tmp_path / "b", {}) as bundle:
        with pytest.raises(BundleError) as caught:
            write_it(bundle)
        assert says in str(caught.value)
        bundle.append("evidence", {"ok": True})
    assert len(Bundle.open(tmp_path / "b").entries()) == 2
    assert verify(tmp_path / "b") == []


def test_more_values_than_fit_into_memory_are_neither_written_nor_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write(tmp_path / "b", rows()[:3])
    monkeypatch.setattr(read, "ENTRIES_WEIGHT", sum(entry.weight for entry in Bundle.open(folder).entries()) + 3000)
    with Bundle.open(folder, write=True) as bundle:
        bundle.append("evidence", {"many": [0] * 20})
        with pytest.raises(BundleError, match="more than a bundle may hold"):
            bundle.append("evidence", {"many": [0] * 60})
        with pytest.raises(BundleError, match="holds more values than an entry may"):
            bundle.append("evidence", {"many": [0] * 4000})
    assert verify(folder) == [] and len(Bundle.open(folder).entries()) == 4
    monkeypatch.setattr(read, "ENTRIES_WEIGHT", 3000)
    with pytest.raises(BundleError, match=r"entries/00000\d.json makes the entries more than a bundle may hold"):
        Bundle.open(folder)
    assert verify(folder)[0].endswith("more than a bundle may hold")


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"a": value}
    return value


def test_a_finished_bundle_takes_only_the_link_to_another(tmp_path: Path) -> None:
    folder = write(tmp_path / "b", rows())
    with Bundle.open(folder, write=True) as bundle, pytest.raises(BundleError, match="it takes no trial entry"):
        bundle.append("trial", {})
