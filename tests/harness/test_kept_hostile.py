"""An archive, a run or an index that a stranger made does no harm, and is not believed."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from kept import archive_of, bundle, small_run

from harness.archive import Archive, Facts, StoreError, all_facts, index, source
from harness.archive import layout as bounds
from harness.archive.index import believed
from harness.archive.verify import verify
from harness.archive.verify_cli import main as verify_command


def planted(folder: Path, text: str) -> str:
    """Puts a manifest of any text into an archive."""
    data = text.encode()
    id_ = hashlib.sha256(data).hexdigest()
    (folder / "manifests" / id_[:2]).mkdir(exist_ok=True)
    (folder / "manifests" / id_[:2] / id_).write_bytes(data)
    return id_


def manifest(**change: Any) -> str:
    fields = {"files": [["run.json", "0" * 64, 1]], "format": 1, "kind": "run", "name": "r", **change}
    return json.dumps(fields, sort_keys=True, separators=(",", ":")) + "\n"


BAD = {
    "not JSON": "{",
    "nested too deep": "[" * 100_000,
    "spaces": json.dumps(json.loads(manifest())) + "\n",
    "a key twice": manifest().replace('"kind":"run"', '"kind":"run","kind":"run"'),
    "another format": manifest(format=2),
    "another field": manifest(more=1),
    "another kind": manifest(kind="device"),
    "a name with a slash": manifest(name="../../etc"),
    "a name like a flag": manifest(name="-rf"),
    "no files": manifest(files=[]),
    "a path upwards": manifest(files=[["../x", "0" * 64, 1]]),
    "an absolute path": manifest(files=[["/etc/passwd", "0" * 64, 1]]),
    "an empty part": manifest(files=[["a//b", "0" * 64, 1]]),
    "a line break": manifest(files=[["a\nb", "0" * 64, 1]]),
    "half a character": manifest().replace("run.json", "\\ud800"),
    "a long part": manifest(files=[["x" * 201, "0" * 64, 1]]),
    "too deep": manifest(files=[["/".join("abcdefghijklmn"), "0" * 64, 1]]),
    "no hash": manifest(files=[["a", "0" * 63 + "G", 1]]),
    "a negative size": manifest(files=[["a", "0" * 64, -1]]),
    "a size that is true": manifest(files=[["a", "0" * 64, True]]),
    "too large": manifest(files=[["a", "0" * 64, bounds.FILE_BYTES + 1]]),
    "too large in all": manifest(files=[[f"{n:02}", "0" * 64, bounds.FILE_BYTES] for n in range(17)]),
    "out of order": manifest(files=[["b", "0" * 64, 1], ["a", "0" * 64, 1]]),
    "a path twice": manifest(files=[["a", "0" * 64, 1], ["a", "0" * 64, 1]]),
    "a file and a folder": manifest(files=[["a", "0" * 64, 1], ["a/b", "0" * 64, 1]]),
    "missing objects": manifest(),
}


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_a_manifest_of_a_stranger_is_refused_by_all_who_read_it_and_named(tmp_path: Path, text: str) -> None:
    host = archive_of(tmp_path / "host", small_run(tmp_path / "runs", "good"))
    id_ = planted(host.folder, text)
    found = all_facts(host)
    assert [one.name for one in found.facts] == ["good"]
    assert len(found.faults) == 1 and found.faults[0].startswith(id_[:12])
    merged = Archive.create(tmp_path / "here").merge(host)
    assert len(merged.new) == 1 and len(merged.refused) == 1 and id_[:12] in merged.refused[0]
    checked = verify(host)
    assert checked.whole == 1 and any(id_[:12] in fault and "\n" not in fault for fault in checked.faults)
    assert not (tmp_path / "x").exists()


def test_a_manifest_under_a_name_that_it_does_not_hash_to_is_refused(tmp_path: Path) -> None:
    archive = archive_of(tmp_path / "a", small_run(tmp_path / "runs", "r1"))
    (id_,) = archive.ids()
    wrong = archive.folder / "manifests" / "00" / ("00" + "1" * 62)
    wrong.parent.mkdir(exist_ok=True)
    wrong.write_bytes((archive.folder / "manifests" / id_[:2] / id_).read_bytes())
    assert any("does not hold the bytes" in fault for fault in verify(archive).faults)


@pytest.mark.parametrize("kind", ["link", "link to a folder", "pipe", "hidden link"])
def test_links_and_pipes_in_a_run_are_refused(tmp_path: Path, kind: str) -> None:
    run = small_run(tmp_path / "runs", "r1")
    place = run / "record" / "agent" / "stdout.log"
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "link":
        place.symlink_to("/etc/passwd")
    elif kind == "hidden link":
        (run / ".x").symlink_to("/etc/passwd")
    else:
        place.symlink_to("/etc")
    with pytest.raises(StoreError, match="a link, a pipe or a device"):
        Archive.create(tmp_path / "a").add(run)


@pytest.mark.parametrize("part", ["solution.py", "run.json", "record/trajectory.jsonl", "record/cells"])
def test_a_link_in_the_place_of_any_part_of_a_run_is_refused(tmp_path: Path, part: str) -> None:
    run = small_run(tmp_path / "runs", "r1")
    other = small_run(tmp_path / "others", "r1")
    (other / "record" / "trajectory.jsonl").write_text("")
    place = run / part
    if place.is_dir():
        place.rmdir()
    else:
        place.unlink(missing_ok=True)
    place.symlink_to(other / part)
    with pytest.raises(StoreError):
        Archive.create(tmp_path / "a").add(run)


@pytest.mark.parametrize("place", ["objects", "manifests", "an object", "a manifest", "marker"])
def test_links_inside_an_archive_are_not_followed(tmp_path: Path, place: str) -> None:
    archive = archive_of(tmp_path / "a", small_run(tmp_path / "runs", "r1"))
    (id_,) = archive.ids()
    digest = archive.manifest(id_).files["solution.py"].sha256
    path = archive.folder / {
        "objects": "objects", "manifests": "manifests", "an object": f"objects/{digest[:2]}/{digest}",
        "a manifest": f"manifests/{id_[:2]}/{id_}", "marker": "kbh-archive.json",
    }[place]  # fmt: skip
    path.rename(tmp_path / "moved")
    path.symlink_to(tmp_path / "moved")
    assert verify_command([str(archive.folder)]) in (1, 2)


def test_bounds_on_a_run_are_told_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = small_run(tmp_path / "runs", "r1")
    archive = Archive.create(tmp_path / "a")
    with (run / "huge").open("wb") as file:
        file.truncate(bounds.FILE_BYTES + 1)
    with pytest.raises(StoreError, match="larger than an archive takes"):
        archive.add(run)
    (run / "huge").unlink()
    monkeypatch.setattr(source, "FILES", 2)
    with pytest.raises(StoreError, match="larger than an archive takes"):
        archive.add(run)
    assert archive.ids() == [] and not list((archive.folder / "objects").iterdir())


def test_a_folder_nested_deep_is_refused(tmp_path: Path) -> None:
    run = small_run(tmp_path / "runs", "r1")
    run.joinpath(*"abcdefghijklmnopq").mkdir(parents=True)
    run.joinpath(*"abcdefghijklmnopq", "x").write_text("x")
    with pytest.raises(StoreError, match="nested deeper|not a path"):
        Archive.create(tmp_path / "a").add(run)


def test_a_folder_of_other_things_never_becomes_an_archive(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("x")
    with pytest.raises(StoreError, match="is no archive"):
        Archive.create(tmp_path / "mine")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.tex"]


# --- the index ---------------------------------------------------------------------------------------------


def lying(archive: Archive, statement: str) -> None:
    with sqlite3.connect(archive.folder / "index.sqlite") as index:
        index.execute(statement)


def test_a_row_that_was_changed_is_read_from_the_files_again(tmp_path: Path) -> None:
    archive = archive_of(tmp_path / "a", small_run(tmp_path / "runs", "r1"), bundle(tmp_path / "b"))
    true = all_facts(archive).facts
    lying(archive, "UPDATE entries SET outcome = 'PASS', roofline_fraction = 0.99")
    found = all_facts(archive)
    assert found.facts == true and found.stale == 2


def test_an_index_that_another_user_wrote_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = archive_of(tmp_path / "a", small_run(tmp_path / "runs", "r1"))
    all_facts(archive)
    assert len(believed(archive)) == 1
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another"))
    assert believed(archive) == {} and len(all_facts(archive).facts) == 1


@pytest.mark.parametrize(
    "made",
    [
        "CREATE VIEW more AS SELECT 1", "CREATE TRIGGER t AFTER INSERT ON entries BEGIN DELETE FROM entries; END",
        "ALTER TABLE entries ADD COLUMN x",
    ],
)  # fmt: skip
def test_an_index_with_anything_else_in_it_is_not_read(tmp_path: Path, made: str) -> None:
    archive = archive_of(tmp_path / "a", small_run(tmp_path / "runs", "r1"))
    all_facts(archive)
    lying(archive, made)
    assert believed(archive) == {} and len(all_facts(archive).facts) == 1 and len(believed(archive)) == 1


@pytest.mark.parametrize("what", ["text", "link", "folder", "pipe", "journal"])
def test_what_stands_in_the_place_of_the_index_does_no_harm(tmp_path: Path, what: str) -> None:
    archive = archive_of(tmp_path / "a", small_run(tmp_path / "runs", "r1"))
    place, precious = archive.folder / "index.sqlite", tmp_path / "precious"
    precious.write_text("keep me")
    if what == "text":
        place.write_text("SQLite format 3\0" + "x" * 5000)
    elif what == "link":
        place.symlink_to(precious)
    elif what == "folder":
        place.mkdir()
    elif what == "pipe":
        os.mkfifo(place)
    else:
        all_facts(archive)
        place.with_name("index.sqlite-journal").write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + b"\xff" * 600)
    assert len(all_facts(archive).facts) == 1
    assert precious.read_text() == "keep me"


def test_verify_tells_an_index_of_ours_that_says_other_things_than_the_files(tmp_path: Path) -> None:
    archive = archive_of(tmp_path / "a", small_run(tmp_path / "runs", "r1"))
    (id_,) = archive.ids()
    with archive.writing():
        archive.replace("index.sqlite", lambda path: index._write(path, [Facts(id_, "run", "r1", outcome="PASS")]))
    assert any("index" in fault for fault in verify(archive).faults)
