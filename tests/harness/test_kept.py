"""An archive keeps each run and each bundle once, gives them back as they were, and is merged by copying."""

from __future__ import annotations

import io
import json
import os
import shutil
from pathlib import Path

import pytest
from kept import archive_of, bundle, small_run, tree

from grader.cli.show import main as show_bundle
from harness.archive import Archive, StoreError, all_facts, find, rebuild
from harness.archive.cli import main as archive_command
from harness.archive.commands import Progress
from harness.archive.ls_cli import main as ls
from harness.archive.select import counted
from harness.archive.show_cli import main as show
from harness.archive.verify import verify
from harness.archive.verify_cli import main as verify_command
from harness.record.archive import RunFolder
from kbh_lint.cli import COMMANDS


def test_what_was_added_comes_back_byte_by_byte_without_locks_and_left_overs(tmp_path: Path) -> None:
    run, graded = small_run(tmp_path / "runs", "r1"), bundle(tmp_path / "b")
    (run / "record" / ".run.json.0123abcd").write_text("half of a")
    (graded / "lock").write_text("")
    (graded / "tmp").mkdir(exist_ok=True)
    archive = archive_of(tmp_path / "a", run, graded)
    for folder, left_out in ((run, {"record/lock", "record/.run.json.0123abcd"}), (graded, {"lock"})):
        manifest = archive.manifest(find(all_facts(archive).facts, folder.name).id)
        back = tmp_path / "back" / folder.name
        archive.extract(manifest, back)
        assert tree(back) == {name: data for name, data in tree(folder).items() if name not in left_out}
    checked = verify(archive)
    assert (checked.faults, checked.whole, checked.entries, checked.loose) == ([], 2, 2, 0)


def test_the_same_content_twice_is_one_entry_wherever_it_lay(tmp_path: Path) -> None:
    run = small_run(tmp_path / "runs", "r1")
    archive = Archive.create(tmp_path / "a")
    first, new = archive.add(run)
    copy = shutil.copytree(run, tmp_path / "elsewhere" / "called-otherwise")
    os.utime(copy / "solution.py", (1, 1))
    assert new and archive.add(copy) == (first, False)
    assert Archive.create(tmp_path / "other").add(run) == (first, True)


def test_archives_of_hosts_merge_to_the_same_bytes_in_any_order(tmp_path: Path) -> None:
    runs = [small_run(tmp_path / "runs", f"r{n}", text=f"# {n % 3}\n") for n in range(6)]
    hosts = [archive_of(tmp_path / f"h{n}", *runs[n : n + 3]) for n in range(0, 4)]
    one, other = Archive.create(tmp_path / "one"), Archive.create(tmp_path / "other")
    for host in hosts:
        one.merge(host)
    for host in reversed(hosts):
        other.merge(host)
    again = one.merge(other)
    assert (again.new, again.same, again.refused) == ([], 6, [])
    assert tree(one.folder) == tree(other.folder) == tree(archive_of(tmp_path / "all", *runs).folder)


def test_a_manifest_that_contradicts_its_objects_is_refused_and_named_and_nothing_is_lost(tmp_path: Path) -> None:
    runs = [small_run(tmp_path / "runs", f"r{n}", text=f"# {n}\n") for n in range(3)]
    host = archive_of(tmp_path / "host", *runs)
    digest = RunFolder(runs[1]).load().solution
    damaged = host.folder / "objects" / digest[:2] / digest
    damaged.chmod(0o644)
    damaged.write_bytes(b"# other\n")
    here = archive_of(tmp_path / "here", runs[0])
    before = tree(here.folder)
    merged = here.merge(host)
    assert (len(merged.new), merged.same) == (1, 1)
    (sentence,) = merged.refused
    assert digest in sentence and "does not hold the bytes" in sentence
    assert {name: data for name, data in tree(here.folder).items() if name in before} == before
    assert verify(here).faults == [] and {one.name for one in all_facts(here).facts} == {"r0", "r2"}
    assert verify(host).whole == 2 and any(digest in fault for fault in verify(host).faults)


def test_a_merge_mends_what_is_damaged_here_from_what_is_whole_there(tmp_path: Path) -> None:
    run = small_run(tmp_path / "runs", "r1")
    here, there = archive_of(tmp_path / "here", run), archive_of(tmp_path / "there", run)
    digest = RunFolder(run).load().solution
    (here.folder / "objects" / digest[:2] / digest).unlink()
    assert verify(here).faults
    here.merge(there)
    assert verify(here).faults == [] and tree(here.folder) == tree(there.folder)


@pytest.mark.parametrize("state", ["preparing", "running", "ended", "grading"])
def test_a_run_that_is_not_over_is_refused(tmp_path: Path, state: str) -> None:
    run = small_run(tmp_path / "runs", "r1", state=state)
    with pytest.raises(StoreError, match="not over"):
        Archive.create(tmp_path / "a").add(run)


def test_a_run_that_another_process_holds_is_refused(tmp_path: Path) -> None:
    run = RunFolder(small_run(tmp_path / "runs", "r1"))
    assert run.take()
    with pytest.raises(StoreError, match="at work"):
        Archive.create(tmp_path / "a").add(run.path)


def test_a_grading_that_was_cut_is_refused(tmp_path: Path) -> None:
    graded = bundle(tmp_path)
    for entry in sorted((graded / "entries").iterdir())[2:]:
        entry.unlink()
    with pytest.raises(StoreError, match="not finished"):
        Archive.create(tmp_path / "a").add(graded)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"solution": "0" * 64}, "solution.py is not the one"),
        ({"cell": "gone"}, "is missing"),
        ({"calls": 1 << 60}, "larger than such a number"),
        ({"peak_fraction": float("inf")}, "no finite number"),
        ({"roofline_fraction": 0.9, "outcome": "PASS"}, "gave it a score, and holds no grading"),
    ],
)
def test_a_record_that_contradicts_its_files_is_refused_or_told(
    tmp_path: Path, change: dict[str, object], said: str
) -> None:
    run = small_run(tmp_path / "runs", "r1", **change)
    archive = Archive.create(tmp_path / "a")
    try:
        archive.add(run)
    except StoreError as error:
        assert said in str(error)
    else:
        assert any(said in fault for fault in verify(archive).faults)


def test_a_score_that_no_grading_gave_is_in_no_table_also_where_another_host_kept_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [small_run(tmp_path / "runs", "r1", text="# 1\n"), small_run(tmp_path / "runs", "r2", roofline_fraction=0.9)]
    monkeypatch.setattr("harness.archive.store.faults_of", lambda folder, kind: [])  # a host that looks at nothing
    host = archive_of(tmp_path / "host", *runs)
    here = Archive.create(tmp_path / "here")
    merged = here.merge(host)
    assert len(merged.new) == 1 and "holds no grading" in "".join(merged.refused)
    found = all_facts(host)
    assert [one.name for one in found.facts] == ["r1"] and "holds no grading" in "".join(found.faults)
    assert any("holds no grading" in fault for fault in verify(host).faults)


# --- which entries count -----------------------------------------------------------------------------------


def test_of_a_cell_that_was_run_twice_one_run_counts_and_an_error_does_not_stand_before_a_result(
    tmp_path: Path,
) -> None:
    made = [
        small_run(tmp_path / "runs", name, sweep_key=key, outcome=outcome, started=started)
        for name, key, outcome, started in (
            ("err", "k1", "ERR", 1.0), ("late", "k1", "PASS", 3.0), ("first", "k1", "FAIL", 2.0),
            ("other", "k2", "ERR", 5.0), ("plain", "", "PASS", 6.0),
        )
    ]  # fmt: skip
    facts = all_facts(archive_of(tmp_path / "a", *made)).facts
    assert {one.name for one in counted(facts)} == {"first", "other", "plain"}
    assert counted(facts) == [one for one in facts if one in counted(facts)]


# --- the index ---------------------------------------------------------------------------------------------


def test_the_index_is_made_again_from_the_files_alone(tmp_path: Path) -> None:
    archive = archive_of(tmp_path / "a", small_run(tmp_path / "runs", "r1"), bundle(tmp_path / "b"))
    first = all_facts(archive)
    assert first.stale == 2 and all_facts(archive).stale == 0
    (archive.folder / "index.sqlite").unlink()
    assert rebuild(archive).facts == first.facts == all_facts(archive).facts


def test_an_entry_that_came_or_went_without_the_index_is_seen(tmp_path: Path) -> None:
    runs = [small_run(tmp_path / "runs", f"r{n}") for n in range(3)]
    archive = archive_of(tmp_path / "a", *runs[:2])
    all_facts(archive)
    archive.add(runs[2])
    found = all_facts(archive)
    assert len(found.facts) == 3 and found.stale == 1
    gone = found.facts[0].id
    (archive.folder / "manifests" / gone[:2] / gone).unlink()
    assert gone not in {one.id for one in all_facts(archive).facts}


# --- commands ----------------------------------------------------------------------------------------------


def test_the_commands_add_list_show_check_and_give_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small_run(tmp_path / "runs", "r1", model="lab/big")
    small_run(tmp_path / "runs", "r2", model="lab/small", text="# 2\n")
    graded, archive = bundle(tmp_path / "b"), str(tmp_path / "a")
    assert archive_command(["add", str(tmp_path / "runs"), str(graded), "--to", archive]) == 0
    assert "3 added, 0 there already, 0 refused" in capsys.readouterr().out
    assert ls([archive, "--model", "BIG", "--json"]) == 0
    (only,) = json.loads(capsys.readouterr().out)["entries"]
    assert (only["name"], only["model"], only["counted"]) == ("r1", "lab/big", True)
    assert ls([archive, "--outcome", "withheld"]) == 0
    assert graded.name.split("-")[0] in (printed := capsys.readouterr().out) and "1 entry" in printed
    assert show([only["id"][:8], "--archive", archive]) == 0
    assert "FAIL" in capsys.readouterr().out
    assert show([graded.name, "--archive", archive, "--verify"]) == 0
    told = capsys.readouterr().out
    assert "1 bundle is whole" in told and f"bundle {graded.name}, in the archive {archive}" in told
    assert verify_command([archive]) == 0
    assert "3 of 3 entries are whole" in capsys.readouterr().out
    assert archive_command(["extract", archive, "r2", "--to", str(tmp_path / "back")]) == 0
    assert (tmp_path / "back" / "solution.py").read_text() == "# 2\n"
    assert archive_command(["index", archive]) == 0


@pytest.mark.parametrize(
    ("command", "words", "sentence"),
    [
        (ls, ["nowhere"], "is no archive"),
        (verify_command, ["nowhere"], "is no archive"),
        (archive_command, ["merge", "nowhere", "--to", "x"], "is no archive"),
        (archive_command, ["add", "nowhere", "--to", "x"], "neither a run nor a bundle"),
        (archive_command, ["add", "a", "--to", "x"], "kbh archive merge adds those"),
        (archive_command, ["add", "x"], "--to"),
        (ls, ["."], "is no archive: it has no kbh-archive.json"),
        (show_bundle, ["zzzz"], "shown by `kbh show --archive ARCHIVE ID`"),
        (show_bundle, ["a"], "a is an archive: `kbh ls` lists it"),
        (show_bundle, ["runs/r1"], "runs/r1 is a run: `kbh view` shows it"),
        (archive_command, ["extract", "a", "zzzz", "--to", "x"], "no entry is called"),
        (archive_command, ["extract", "a", "2026", "--to", "x"], "no entry is called"),
    ],
)
def test_what_cannot_be_done_is_one_sentence_and_exit_code_2(
    tmp_path: Path, command: object, words: list[str], sentence: str, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    archive_of(tmp_path / "a", small_run(tmp_path / "runs", "r1"))
    assert callable(command) and command(words) == 2
    errors = capsys.readouterr().err
    assert sentence in errors and errors.count("\n") == 1


def test_a_damaged_archive_makes_verify_end_with_1_and_name_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = archive_of(tmp_path / "a", small_run(tmp_path / "runs", "r1"))
    (archive.folder / "manifests" / "notes.txt").write_text("x")
    assert verify_command([str(archive.folder)]) == 1
    assert "notes.txt" in capsys.readouterr().err
    (tmp_path / "a" / "stray").write_text("x")
    assert verify_command([str(archive.folder), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert len(found["faults"]) == 2, found
    assert found["whole"] == 1


def test_a_merge_that_refuses_some_ends_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    host = archive_of(tmp_path / "h", *(small_run(tmp_path / "runs", f"r{n}", text=f"# {n}\n") for n in range(2)))
    victim = sorted((host.folder / "objects").glob("*/*"), key=lambda path: path.stat().st_size)[0]
    victim.unlink()
    assert archive_command(["merge", str(host.folder), "--to", str(tmp_path / "a")]) == 1
    assert "refused" in capsys.readouterr().err


def test_progress_is_told_once_it_takes_two_seconds_and_only_so_often() -> None:
    now, stream = [0.0], io.StringIO()
    progress = Progress(stream, lambda: now[0])
    for second in range(31):
        now[0] = float(second)
        progress(second, 30)
    assert stream.getvalue() == "10 of 30 entries\n20 of 30 entries\n30 of 30 entries\n"
    progress.clear()
    assert "\x1b" not in stream.getvalue()


def test_kbh_knows_the_commands() -> None:
    assert {"archive", "ls", "verify", "regrade", "show"} <= set(COMMANDS)
