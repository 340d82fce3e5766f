"""What a bundle says of a grading that does not hold together, though every hash is right."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bundle_rows import CODE, MASTERS, Row, cell, commitment, forge, rows, sha256, trial

from grader.record.bundle import cell_to_json, trial_to_json, verify
from grader.record.bundle.files import DISK
from grader.record.cell import (
    Baseline,
    BaselineTime,
)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting for the disk is for the tests of crashes, and for real gradings."""
    monkeypatch.setattr(type(DISK), "sync", lambda disk, path: None)


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
    (with_score(t_alone=9.0), "the time of a sealed call alone of M=8 does not follow from its samples"),
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


def with_alone(seconds: float) -> list[Row]:
    """A bundle whose trials have a sealed call alone of so many seconds, and whose score says nothing of it."""
    changes = rows()
    alone = [{"rounds": 1, "seconds": seconds, "overhead": 0.0}]
    for place in (3, 7):
        changes[place][1]["shapes"][0]["timing"]["alone"] = alone
    for one in changes[9][1]["trials"]:
        one["shapes"][0]["timing"]["alone"] = alone
    return changes


FORGED += [(with_alone(5.0), "the time of a sealed call alone of M=8 does not follow from its samples")]


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
