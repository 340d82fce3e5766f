"""What a bundle takes and gives back, and what it says of one that a stranger made."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grader.bundle import Bundle, BundleError, cell_to_json, read, trial_to_json, verify
from grader.bundle.files import DISK
from grader.bundle.read import ENTRY_BYTES, OBJECT_BYTES, canonical, entry_bytes
from grader.cell import (
    Baseline,
    BaselineTime,
    CaseOutcome,
    Cell,
    SandboxRecord,
    Scores,
    SealedBatch,
    ShapeResult,
    ShapeScore,
    ShapeTiming,
    TargetRecord,
    TrialResult,
    VerdictRecord,
)

CODE, LOG, REPORT = b"class Model: ...\n", b"it said something\n", b'{"version": 1}\n'
MASTERS = ("11" * 32, "22" * 32)
Row = tuple[str, dict[str, Any], tuple[str, ...]]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting for the disk is for the tests of crashes, and for real gradings."""
    monkeypatch.setattr(type(DISK), "sync", lambda disk, path: None)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def commitment(master: str) -> str:
    return sha256(bytes.fromhex(master))


def trial(index: int) -> TrialResult:
    case = CaseOutcome("large", True, 1e-6, 1e-4)
    batch = SealedBatch(2, 8.0 + 2 * index, 1.0)
    timing = ShapeTiming((1.0 + index, 2.0 + 2 * index, 5.0), (3.0, 4.0, 7.0), (batch,), 0.5)
    shape = ShapeResult("M=8", "right", "", 1, 1, (case,), timing)
    held = SandboxRecord("plain", 0, False)
    key = MASTERS[index]
    return TrialResult(index, commitment(key), key, "right", "", (shape,), held, 1.5, log=sha256(LOG))


def cell() -> Cell:
    verdict = VerdictRecord("clean", True, "every promise is kept", (), (), "deck", "1", sha256(REPORT))
    target = TargetRecord("cpu", "a CPU", "cpu", "measured", 1.0, 2.0, "reduced")
    shape = ShapeScore("M=8", 4.0, 3.0, 4.0, 2.0, 0.5, "proved", 0, 6, 0.0, 0.25, 0.5, 0.625)
    return Cell(
        "toy", sha256(CODE), "solution.py", target, True, "2026-11", "accepted", "", verdict, (trial(0), trial(1)),
        (shape,), Scores(0.25, 0.5, 0.625),
    )  # fmt: skip


def rows() -> list[Row]:
    """A whole grading of two trials, the second of which was cut once."""
    return [
        ("open", {"submission": {"sha256": sha256(CODE), "files": {"solution.py": sha256(CODE)}}}, (sha256(CODE),)),
        ("lint", {"report": sha256(REPORT)}, (sha256(REPORT),)),
        ("commitment", {"trial": 0, "commitment": commitment(MASTERS[0])}, ()),
        ("trial", trial_to_json(trial(0)), (sha256(LOG),)),
        ("commitment", {"trial": 1, "commitment": "ab" * 32}, ()),
        ("abandoned", {"trial": 1, "commitment": "ab" * 32}, ()),
        ("commitment", {"trial": 1, "commitment": commitment(MASTERS[1])}, ()),
        ("trial", trial_to_json(trial(1)), (sha256(LOG),)),
        ("evidence", {"trial": 1, "differences": []}, ()),
        ("cell", cell_to_json(cell()), ()),
        ("regrade", {"outcome": "same"}, ()),
    ]


def write(folder: Path, written: Sequence[Row]) -> Path:
    """A bundle by the store itself."""
    (_, header, _), *others = written
    with Bundle.create(folder, header, [CODE]) as bundle:
        for data in (LOG, REPORT):
            bundle.put(data)
        for kind, data, objects in others:
            bundle.append(kind, data, objects)
    return folder


def forge(folder: Path, written: Sequence[Row]) -> Path:
    """A bundle by hand, with right hashes throughout, whatever its entries say."""
    for name in ("objects", "entries", "tmp"):
        (folder / name).mkdir(parents=True)
    for data in (CODE, LOG, REPORT):
        place = folder / "objects" / sha256(data)[:2] / sha256(data)
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(data)
    head = ""
    for seq, (kind, data, objects) in enumerate(written, 1):
        entry = entry_bytes(seq, head, kind, "2026-11-21T08:00:00Z", data, objects)
        (folder / "entries" / f"{seq:06d}.json").write_bytes(entry)
        head = sha256(entry)
    return folder


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


def entry(folder: Path, seq: int) -> Path:
    return folder / "entries" / f"{seq:06d}.json"


def code(folder: Path) -> Path:
    return folder / "objects" / sha256(CODE)[:2] / sha256(CODE)


def rewritten(folder: Path, seq: int, change: Callable[[bytes], bytes]) -> None:
    path = entry(folder, seq)
    data = change(path.read_bytes())
    path.unlink()
    path.write_bytes(data)


def with_fields(**fields: object) -> Callable[[bytes], bytes]:
    return lambda data: canonical({**json.loads(data), **fields})


def grown(path: Path, size: int) -> None:
    path.unlink()
    with path.open("wb") as file:
        file.truncate(size)


def linked(path: Path) -> None:
    target = path.with_name("elsewhere")
    path.rename(target)
    path.symlink_to(target.name)


def folder_linked(path: Path) -> None:
    target = path.parent.parent / "moved"
    path.rename(target)
    path.symlink_to(target)


TAMPERED = [
    (lambda f: rewritten(f, 4, lambda d: d.replace(b"1.5", b"1.2")), "entries/000005.json does not follow the entry"),
    (lambda f: rewritten(f, 11, lambda d: d[:-9]), "entries/000011.json is not JSON"),
    (lambda f: rewritten(f, 11, lambda d: b""), "entries/000011.json is not JSON"),
    (lambda f: rewritten(f, 11, lambda d: d.replace(b'"seq"', b'"seq":11,"seq"')), "is not written as an entry is"),
    (lambda f: rewritten(f, 11, lambda d: d.replace(b":", b": ")), "is not written as an entry is"),
    (lambda f: rewritten(f, 11, lambda d: d.replace(b'"same"', b"NaN")), "data.data.outcome is nan"),
    (lambda f: rewritten(f, 11, lambda d: d.replace(b'"same"', b"1e999")), "data.data.outcome is inf"),
    (lambda f: rewritten(f, 11, lambda d: d.replace(b'"same"', b'"\\ud800"')), "half a surrogate pair"),
    (lambda f: rewritten(f, 11, lambda d: d.replace(b'"same"', b"[" * 10**6)), "000011.json is nested too deep"),
    (lambda f: rewritten(f, 11, lambda d: d.replace(b'"same"', b"[" * 50 + b"]" * 50)), "nested 32 deep at most"),
    (lambda f: rewritten(f, 11, lambda d: d.replace(b'"same"', b"9" * 5000)), "entries/000011.json is not JSON"),
    (lambda f: rewritten(f, 11, lambda d: b"[]\n"), "is not an entry of format 1"),
    (lambda f: rewritten(f, 11, with_fields(format=2)), "is not an entry of format 1"),
    (lambda f: rewritten(f, 11, with_fields(more=1)), "does not have the fields of an entry"),
    (lambda f: rewritten(f, 11, with_fields(seq=12)), "says that it is entry 12"),
    (lambda f: rewritten(f, 11, with_fields(seq=True)), "says that it is entry True"),
    (lambda f: rewritten(f, 11, with_fields(kind="joke")), "is of a kind that is not known: 'joke'"),
    (lambda f: rewritten(f, 11, with_fields(time="2026-13-41T00:00:00Z")), "has a time that is none"),
    (lambda f: rewritten(f, 11, with_fields(data=[])), "has data that is not a mapping"),
    (lambda f: rewritten(f, 11, with_fields(objects=["../../x"])), "has a list of objects that is none"),
    (lambda f: entry(f, 3).unlink(), "entries/000003.json is missing"),
    (lambda f: entry(f, 1).unlink(), "entries/000001.json is missing"),
    (lambda f: grown(entry(f, 11), ENTRY_BYTES + 1), "entries/000011.json has more than 16,777,216 bytes"),
    (lambda f: linked(entry(f, 11)), "entries/000011.json is a link"),
    (lambda f: (f / "entries" / "000012.json").mkdir(), "entries/000012.json is not a plain file"),
    (lambda f: os.mkfifo(f / "entries" / "000012.json"), "entries/000012.json is not a plain file"),
    (lambda f: (f / "entries" / "notes\n.txt").touch(), "entries/notes?.txt is not the name of an entry"),
    (lambda f: folder_linked(f / "entries"), "entries is no folder"),
]  # fmt: skip


@pytest.mark.parametrize(("tamper", "says"), TAMPERED)
def test_a_changed_entry_is_named_and_the_bundle_is_not_read(
    tamper: Callable[[Path], object], says: str, tmp_path: Path
) -> None:
    folder = write(tmp_path / "b", rows())
    tamper(folder)
    faults = verify(folder)
    assert any(says in fault for fault in faults), faults
    with pytest.raises(BundleError):
        Bundle.open(folder)


@pytest.mark.parametrize(
    ("tamper", "says"),
    [
        (lambda f: code(f).unlink(), f"entries/000001.json names the object {sha256(CODE)}, which is not there"),
        (lambda f: (code(f).unlink(), code(f).write_bytes(b"other")), "does not hold the bytes that its name says"),
        (lambda f: grown(code(f), OBJECT_BYTES + 1), "has more than 67,108,864 bytes"),
        (lambda f: linked(code(f)), f"{sha256(CODE)} is a link"),
        (lambda f: code(f).with_name("x").touch(), f"objects/{sha256(CODE)[:2]}/x is not the name of an object"),
        (lambda f: code(f).with_name("00" * 32).touch(), "is not the name of an object"),
        (lambda f: (f / "objects" / "zz").touch(), "objects/zz is no folder"),
        (lambda f: (f / "tmp" / "prog").touch(), "tmp/prog does not belong in a bundle"),
        (lambda f: (f / "run.sh").touch(), "run.sh does not belong in a bundle"),
    ],
)
def test_a_changed_object_or_a_strange_file_is_named(
    tamper: Callable[[Path], object], says: str, tmp_path: Path
) -> None:
    folder = write(tmp_path / "b", rows())
    tamper(folder)
    faults = verify(folder)
    assert any(says in fault for fault in faults), faults


def test_an_object_whose_bytes_were_changed_is_not_given_out(tmp_path: Path) -> None:
    folder = write(tmp_path / "b", rows())
    code(folder).unlink()
    code(folder).write_bytes(b"other")
    with pytest.raises(BundleError, match="does not hold the bytes"):
        Bundle.open(folder).get(sha256(CODE))


def test_nothing_is_no_bundle(tmp_path: Path) -> None:
    for place in (tmp_path / "absent", tmp_path):
        with pytest.raises(BundleError):
            Bundle.open(place)
        assert len(verify(place)) >= 1
    assert verify(forge(tmp_path / "empty", []))[-1].endswith("is no bundle: it has no entries")


def test_what_is_said_of_a_folder_of_faults_is_bounded(tmp_path: Path) -> None:
    folder = write(tmp_path / "b", rows()[:2])
    entry(folder, 2).rename(entry(folder, 900_000))
    assert len(verify(folder)) == 101


def changed(seq: int, change: Callable[[dict[str, Any]], object], objects: tuple[str, ...] | None = None) -> list[Row]:
    written = rows()
    kind, data, named = written[seq - 1]
    data = json.loads(json.dumps(data))
    change(data)
    written[seq - 1] = (kind, data, named if objects is None else objects)
    return written


def without(*seqs: int) -> list[Row]:
    return [row for seq, row in enumerate(rows(), 1) if seq not in seqs]


def swapped(first: int, second: int) -> list[Row]:
    written = rows()
    written[first - 1], written[second - 1] = written[second - 1], written[first - 1]
    return written


def put(**fields: object) -> Callable[[dict[str, Any]], object]:
    return lambda data: data.update(fields)


FORGED: list[tuple[list[Row], str]] = [
    (without(3), "000003.json: trial 0 was not committed to before"),
    (swapped(3, 4), "000003.json: trial 0 was not committed to before"),
    (changed(4, put(master="33" * 32)), "the key of trial 0 is not the one that was committed to"),
    (changed(4, put(master="not hex")), "the key of trial 0 is not the one that was committed to"),
    (changed(4, put(commitment="ab" * 32)), "the key of trial 0 is not the one that was committed to"),
    (changed(4, put(status="splendid")), "000004.json: it is no trial: status is 'splendid'"),
    (changed(4, put(log="00" * 32)), "it does not name its log"),
    (changed(3, put(commitment=5)), "it is no commitment"),
    (changed(7, put(commitment="ab" * 32)), "it commits to a key that was used before"),
    (without(6), "trial 1 was committed to before and not given up"),
    (without(5), "it gives up a trial that was not under way"),
    (without(7, 8), "its trials are not those of the entries before it"),
    (without(8), "trial 1 was committed to, and what came of it is missing"),
    (changed(10, lambda d: d["trials"][0].update(seconds=0.5)), "its trials are not those of the entries before it"),
    (changed(10, lambda d: d["trials"].pop()), "its trials are not those of the entries before it"),
    (changed(10, put(submission="00" * 32)), "its submission is not the one that the bundle was opened for"),
    (changed(10, put(outcome="great")), "it is no cell: outcome is 'great'"),
    (changed(10, lambda d: d["verdict"].update(accepted=False)), "it is no cell: a cell is accepted only"),
    (changed(9, put(trial=7)), "it is about a trial that is not there"),
    (changed(9, put(trial=[])), "it is about a trial that is not there"),
    (without(2), "the linter's report that it rests on is in no lint entry"),
    (changed(1, lambda d: d.clear()), "its submission is not the one that the bundle was opened for"),
    (changed(1, lambda d: d["submission"].pop("files")), "the open entry does not list the submission's files"),
    (changed(1, put(), ()), "the open entry does not name every file of the submission"),
    (without(1), "000001.json: an entry of kind lint cannot stand there"),
    ([*rows(), rows()[8]], "000012.json: an entry of kind evidence follows the cell"),
    ([*rows(), rows()[9]], "000012.json: an entry of kind cell follows the cell"),
]  # fmt: skip


def with_score(**fields: object) -> list[Row]:
    return changed(10, lambda data: data["shapes"][0].update(fields))


FORGED += [
    (with_score(t_sealed=3.9), "the sealed time of M=8 does not follow from its samples"),
    (with_score(t_sealed=None), "the sealed time of M=8 does not follow from its samples"),
    (with_score(t_event=2.9), "the claimed time of M=8 does not follow from its samples"),
    (with_score(t_scored=3.0), "the scored time of M=8 does not follow from its samples"),
    (with_score(t_null=0.1), "the time of an empty call of M=8 does not follow from its samples"),
    (with_score(samples=5), "the number of samples of M=8 does not follow from its samples"),
    (with_score(t_floor=3.0), "the roofline fraction of M=8 does not follow from its samples"),
    (with_score(attainable_fraction=0.9), "the attainable fraction of M=8 does not follow from its samples"),
    (with_score(shape="M=9"), "the score of M=9 does not follow from its samples"),
    (with_score(peak_fraction=0.9), "its peak_fraction is not the geometric mean of those of its shapes"),
    (with_score(peak_fraction=-1.0), "its peak_fraction is not the geometric mean of those of its shapes"),
    (
        changed(10, lambda d: d["scores"].update(roofline_fraction=0.6)),
        "its roofline_fraction is not the geometric mean",
    ),
    (changed(10, put(shapes=[])), "its peak_fraction is not the geometric mean of those of its shapes"),
    (changed(10, lambda d: d["trials"][1].update(status="wrong")), "it has scores, though not every trial is right"),
    (changed(10, lambda d: d["trials"][1]["shapes"].clear()), "the score of M=8 does not follow from its samples"),
]


def with_baseline(
    trial_changes: Mapping[str, object] | None = None, objects: tuple[str, ...] = (sha256(CODE),), **fields: object
) -> list[Row]:
    """A grading with a baseline that took twice as long; `fields` are those of the cell's record of it."""
    key = "33" * 32
    tried = trial_to_json(replace(trial(0), master=key, commitment=commitment(key), log=""))
    tried.update(trial_changes or {})
    kept = {"name": "eager", "what": "the reference", "module": sha256(CODE), "trial": tried}
    time = BaselineTime("M=8", 8.0, 7.0, 8.0, "proved", 2.0)
    record = cell_to_json(replace(cell(), baselines=(Baseline("eager", "the reference", "right", "", (time,), 2.0),)))
    record["baselines"][0].update(fields)
    written = rows()
    return [*written[:9], ("baseline", kept, objects), ("cell", record, ()), written[10]]


def of_baseline(**fields: object) -> list[Row]:
    """As `with_baseline`, with other fields of its one time."""
    written = with_baseline()
    written[10][1]["baselines"][0]["times"][0].update(fields)
    return written


def without_record() -> list[Row]:
    written = with_baseline()
    written[10][1]["baselines"].clear()
    return written


NOT_FOLLOWING = "what it says of the baseline eager does not follow from its times"
FORGED += [
    (with_baseline({"master": "44" * 32}), "the key of the baseline is not the one that it names"),
    (with_baseline({"master": MASTERS[0], "commitment": commitment(MASTERS[0])}), "it uses a key that was used before"),
    (with_baseline({"status": 1}), "it is no baseline: status is a int"),
    (with_baseline(objects=()), "it does not name its module and its log among its objects"),
    (with_baseline(status="wrong"), "its baselines are not those of the entries before it"),
    (without_record(), "its baselines are not those of the entries before it"),
    ([*rows()[:9], with_baseline()[10], rows()[10]], "its baselines are not those of the entries before it"),
    (with_baseline(speedup=2.5), NOT_FOLLOWING),
    (of_baseline(speedup=2.5), NOT_FOLLOWING),
    (of_baseline(speedup=None), NOT_FOLLOWING),
    (of_baseline(seconds=7.0), NOT_FOLLOWING),
    (of_baseline(clock="weak"), NOT_FOLLOWING),
    (of_baseline(shape="M=9"), NOT_FOLLOWING),
    (with_score(t_ungated=3.0), "the time of a call without the gate of M=8 does not follow from its samples"),
]


def test_a_grading_with_baselines_is_whole_and_reads_back(tmp_path: Path) -> None:
    assert verify(forge(tmp_path / "b", with_baseline())) == []


@pytest.mark.parametrize(("written", "says"), FORGED)
def test_a_story_that_does_not_hold_together_is_named_though_every_hash_is_right(
    written: list[Row], says: str, tmp_path: Path
) -> None:
    faults = verify(forge(tmp_path / "b", written))
    assert any(says in fault for fault in faults), faults
    assert not any("does not follow the entry" in fault or "does not hold" in fault for fault in faults)


def test_a_forged_bundle_with_nothing_changed_is_whole(tmp_path: Path) -> None:
    assert verify(forge(tmp_path / "b", rows())) == []


def test_the_trials_of_a_cell_are_compared_as_they_are_written(tmp_path: Path) -> None:
    other = cell_to_json(replace(cell(), trials=(trial(1), trial(0))))
    written: list[tuple[str, Mapping[str, Any], tuple[str, ...]]] = [*rows()]
    written[9] = ("cell", other, ())
    faults = verify(forge(tmp_path / "b", written))  # type: ignore[arg-type]
    assert faults == ["entries/000010.json: its trials are not those of the entries before it"]
