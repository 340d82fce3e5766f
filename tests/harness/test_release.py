"""A release is checked without a GPU: what was changed is named, with the cell and the reason."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kept import archive_of, small_run
from published import forged_release, release_of, usual_runs

from harness.archive import Archive, StoreError, all_facts
from harness.archive.facts import Facts
from harness.release import is_release, verify_release
from harness.release.cli import main as release_command
from harness.release.contents import _files, usual_options
from harness.release.pack import ARCHIVE, DERIVED, HEAD, NAMES, head_bytes, pack_archive, read_head, sha256_of
from harness.release.verify_cli import main as verify_command
from kbh_lint.cli import COMMANDS

ONLY_UNLINTED = ["sources: they were not linted; verdicts stand on the reports in the bundles"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an archive `a`, and its release as a folder `r` and a file `r.tar`."""
    place = tmp_path_factory.mktemp("release")
    archive = archive_of(place / "a", *usual_runs(place))
    assert release_of(archive, place / "r").faults == [] == release_of(archive, place / "r.tar").faults
    return place


def named(folder: Path) -> dict[str, Facts]:
    """The entries of the archive beside a release, by their models."""
    return {one.model: one for one in all_facts(Archive.open(folder / "a")).facts}


def rewritten(release: Path, **files: Any) -> None:
    """Makes the head of a release fit its files again, by somebody who knows how."""
    head = read_head(release)
    hashes = {name: sha256_of(release / name) for name in (ARCHIVE, *DERIVED)}
    said = {"entries": list(head.entries), "unpacked": head.unpacked, "count": head.members, **files}
    (release / HEAD).write_bytes(
        head_bytes(hashes, said["entries"], said["unpacked"], said["count"], dict(head.options))
    )


def test_a_release_follows_from_itself_as_a_folder_and_as_a_file_whose_id_is_the_same(whole: Path) -> None:
    found = [verify_release(whole / name, lint=False) for name in ("r", "r.tar")]
    for one in found:
        assert (one.faults, one.unchecked, one.entries, one.whole, one.gradings) == ([], ONLY_UNLINTED, 2, 2, 2)
    assert found[0].id == found[1].id == read_head(whole / "r").id
    assert sorted(path.name for path in (whole / "r").iterdir()) == sorted(NAMES)
    assert is_release(whole / "r") and is_release(whole / "r.tar") and not is_release(whole / "a")
    (board,) = json.loads((whole / "r" / "statistics.json").read_text())["boards"].values()
    assert [(one["rank"], one["model"]) for one in board["standings"]] == [
        (1, "honest (claude-code)"), (1, "leaking (claude-code)")
    ]  # fmt: skip
    assert [one["leaks"]["count"] for one in board["standings"]] == [0, 1]
    keys = [json.loads(line) for line in (whole / "r" / "keys.jsonl").read_text().splitlines()]
    assert len(keys) == 1 and len(keys[0]["key"]) == 64  # the leaking one was withheld before anything ran
    made = json.loads((whole / "r" / "environment.json").read_text())
    assert made["made_with"]["code"] and made["graded_with"] and "01_fp8_gemm" in made["problems"]


def test_its_sources_are_linted_and_a_swapped_one_is_told_by_what_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: Path
) -> None:
    found = verify_release(whole / "r", jobs=1)
    assert (found.faults, found.unchecked, found.linted, found.whole) == ([], [], 2, 2)
    leak = named(whole)["leaking"].solution
    text = (whole / "a" / "objects" / leak[:2] / leak).read_bytes()

    def swap(kind: str, data: dict[str, Any]) -> None:
        if kind == "open":
            data["submission"].update(sha256=leak, files={"solution.py": leak})
        if kind == "cell":
            data["submission"] = leak

    forged_release(tmp_path, tmp_path / "r", monkeypatch, {"source": swap}, text)
    told = verify_release(tmp_path / "r", jobs=1)
    assert all("(claude-code forged-source, 01_fp8_gemm, trial 1): final: " in fault for fault in told.faults)
    assert any("the linter here says reward_hack of its sources" in fault for fault in told.faults)
    assert any("its outcome is accepted, and follows as withheld" in fault for fault in told.faults)
    assert told.whole == 1


def _sample(kind: str, data: dict[str, Any]) -> None:
    for trial in {"trial": [data], "cell": data.get("trials", [])}.get(kind, []):
        trial["shapes"][0]["timing"]["sealed"][0]["seconds"] *= 0.97
        trial["shapes"][0]["timing"]["claimed"] = [0.97 * one for one in trial["shapes"][0]["timing"]["claimed"]]


def _floor(kind: str, data: dict[str, Any]) -> None:
    if kind == "cell":
        for score in data["shapes"]:
            score["t_floor"] *= 1.2
            score["roofline_fraction"] *= 1.2
            score["attainable_fraction"] = (score["t_floor"] + score["t_null"]) / score["t_scored"]
        data["scores"]["roofline_fraction"] *= 1.2
        each = [math.log(score["attainable_fraction"]) for score in data["shapes"]]
        data["scores"]["attainable_fraction"] = math.exp(sum(each) / len(each))


def _key(kind: str, data: dict[str, Any]) -> None:
    for trial in {"trial": [data], "cell": data.get("trials", [])}.get(kind, []):
        trial["master"] = "ab" * 32


def _verdict(kind: str, data: dict[str, Any]) -> None:
    if kind == "cell":
        data["verdict"]["promises"][0]["state"] = "kept-by-precision"


def _edition(kind: str, data: dict[str, Any]) -> None:
    _floor(kind, data)
    if kind == "open":
        data["problem"]["files"]["problem.yaml"] = "0" * 64


FORGED: dict[str, tuple[Callable[[str, dict[str, Any]], None], str]] = {
    "sample": (_sample, "does not follow from its samples"),
    "floor": (_floor, "t_floor of"),
    "key": (_key, "is not the one that was committed to"),
    "verdict": (_verdict, "follows as kept"),
    "edition": (_edition, "another edition than the one that it was graded on; by the one here t_floor of"),
}


def test_a_forged_grading_whose_hashes_all_fit_is_named_with_its_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forged_release(tmp_path, tmp_path / "r", monkeypatch, {how: change for how, (change, _) in FORGED.items()})
    found = verify_release(tmp_path / "r", lint=False)
    for number, (how, (_, said)) in enumerate(FORGED.items(), 1):
        about = f"(claude-code forged-{how}, 01_fp8_gemm, trial {number})"
        told = found.unchecked if how == "edition" else found.faults
        assert any(about in text and said in text for text in told), (how, told)
    assert not any("leaking" in text or "forged-edition" in text for text in found.faults)
    assert (found.entries, found.whole) == (6, 1)


def test_what_could_not_be_worked_out_again_has_an_exit_code_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    forged_release(tmp_path, tmp_path / "r", monkeypatch, {"edition": _edition})
    assert verify_command([str(tmp_path / "r"), "--no-lint"]) == 3
    assert "not checked: " in capsys.readouterr().err


def test_a_run_that_says_to_be_graded_and_holds_no_grading_is_named(tmp_path: Path) -> None:
    run = small_run(tmp_path / "runs", "r1", outcome="PASS", grade_outcome="accepted", roofline_fraction=0.9)
    with pytest.raises(StoreError, match="holds no grading"):
        release_of(archive_of(tmp_path / "a", run), tmp_path / "r")
    assert not (tmp_path / "r").exists()


CHANGED: tuple[tuple[str, list[Any], object, str], ...] = (
    ("statistics.json", ["boards", "h200", "standings", 0, "score"], 0.99, "standings[0].score is 0.99, and"),
    ("statistics.json", ["boards", "h200", "standings", 1, "leaks", "count"], 0, "standings[1].leaks.count is 0"),
    ("statistics.json", ["boards", "h200", "pairs", 0, "relation"], "behind", 'relation is "behind"'),
    ("statistics.json", ["trials", "honest", "value"], 1.0, "value is 1.0"),
    ("index.jsonl", ["honest", "cost_usd"], 7.0, "cost_usd is 7.0"),
    ("index.jsonl", ["leaking", "verdict"], "clean", 'verdict is "clean"'),
    ("keys.jsonl", ["honest", "key"], "00" * 32, "key is"),
    ("environment.json", ["graded_with", 0, "versions", "torch"], "9", 'torch is "9"'),
)


def test_what_follows_from_the_archive_cannot_be_changed(tmp_path: Path, whole: Path) -> None:
    copy = shutil.copytree(whole / "r", tmp_path / "r")
    ids = {model: one.id for model, one in named(whole).items()}
    for name, path, value, _ in CHANGED:
        rows = [json.loads(line) for line in (copy / name).read_text().splitlines()]
        wanted, place = [ids.get(step, step) for step in path], rows[0]
        if name.endswith(".jsonl"):
            place = next(row for row in rows if wanted[0] in (row.get("id"), row.get("entry")))
            wanted = wanted[1:]
        for step in wanted[:-1]:
            place = place[step]
        assert place[wanted[-1]] != value
        place[wanted[-1]] = value
        (copy / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    told = verify_release(copy, lint=False).faults
    assert {f"{name}: it does not have the hash and size that {HEAD} says" for name in DERIVED} < set(told)
    rewritten(copy)
    told = verify_release(copy, lint=False).faults
    assert len(told) == len(CHANGED), told
    for name, _, _, said in CHANGED:
        assert any(fault.startswith(f"{name}: ") and said in fault for fault in told), (said, told)


def test_lines_that_are_missing_or_too_many_are_named_by_their_entry(tmp_path: Path, whole: Path) -> None:
    copy = shutil.copytree(whole / "r", tmp_path / "r")
    lines = (copy / "index.jsonl").read_text().splitlines(keepends=True)
    (copy / "index.jsonl").write_text(lines[1])
    rewritten(copy)
    (fault,) = verify_release(copy, lint=False).faults
    assert fault == f"index.jsonl: {json.loads(lines[0])['id'][:12]} is missing"
    (copy / "index.jsonl").write_text("".join(lines) + "[NaN]\n")
    rewritten(copy)
    assert "NaN is no number" in verify_release(copy, lint=False).faults[0]


def test_a_bundle_that_is_missing_or_added_is_named(tmp_path: Path, whole: Path) -> None:
    archive, ids = Archive.open(whole / "a"), named(whole)
    for listed, packed, said in (
        (list(ids), ["honest"], "kbh-release.json lists it, and it is not in the archive"),
        (["honest"], list(ids), "it is in the archive, and kbh-release.json does not list it"),
    ):
        copy = shutil.copytree(whole / "r", tmp_path / f"r{len(packed)}")
        (copy / ARCHIVE).unlink()
        unpacked, count = pack_archive(archive, sorted(ids[one].id for one in packed), copy / ARCHIVE)
        rewritten(copy, entries=sorted(ids[one].id for one in listed), unpacked=unpacked, count=count)
        faults = verify_release(copy, lint=False).faults
        assert f"{ids['leaking'].id[:12]}: {said}" in faults
        statistics = [text for text in faults if text.startswith("statistics.json")]
        assert bool(statistics) == (len(packed) == 1)  # they were made of both


def test_another_release_than_the_one_that_was_published_is_told_by_its_id(
    whole: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    id_ = read_head(whole / "r").id
    assert verify_command([str(whole / "r.tar"), "--no-lint", "--expect", id_]) == 3
    assert id_ in capsys.readouterr().out
    assert verify_command([str(whole / "r.tar"), "--no-lint", "--expect", "0" * 64, "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert said["faults"] == [f"kbh-release.json: the release is {id_}, not {'0' * 64}"]


def test_the_commands_make_and_check_and_an_archive_is_checked_as_before(
    tmp_path: Path, whole: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new" / "r.tar"
    assert release_command([str(whole / "a"), "-o", str(out), "--no-lint", "--over", "deck"]) == 0
    printed = capsys.readouterr().out
    assert "2 entries, 2 gradings" in printed
    assert release_command([str(whole / "a"), "-o", str(out)]) == 2
    assert "is there already" in capsys.readouterr().err
    assert verify_command([str(out), "--no-lint"]) == 3
    assert printed.split()[-1] in capsys.readouterr().out
    assert verify_command([str(whole / "a")]) == 0
    assert "2 of 2 entries are whole" in capsys.readouterr().out
    assert verify_command([str(tmp_path / "nothing")]) == 2
    assert {"release", "verify"} <= set(COMMANDS) and list(out.parent.iterdir()) == [out]


def test_the_same_archive_gives_the_same_bytes_wherever_it_is_made(tmp_path: Path, whole: Path) -> None:
    other = Archive.create(tmp_path / "b")
    other.merge(Archive.open(whole / "a"))
    release_of(other, tmp_path / "r.tar")
    assert (tmp_path / "r.tar").read_bytes() == (whole / "r.tar").read_bytes()


def test_code_that_is_installed_has_the_hash_that_it_has_in_a_checkout(tmp_path: Path) -> None:
    wheel, checkout = tmp_path / "wheel", tmp_path / "checkout"
    for package, problems in ((wheel, wheel / "_data/problems"), (checkout / "kbh_lint", checkout / "problems")):
        (problems / "p").mkdir(parents=True)
        package.mkdir(exist_ok=True)
        for file in (package / "cli.py", problems / "p/cases.py", problems / "p/problem.yaml"):
            file.write_text("")
    found = [
        sorted(name for name, _ in _files([(package, "kbh_lint", "*.py"), (problems, "problems", "*.yaml")]))
        for package, problems in ((wheel, wheel / "_data/problems"), (checkout / "kbh_lint", checkout / "problems"))
    ]
    assert found[0] == found[1] == ["kbh_lint/cli.py", "problems/p/problem.yaml"]


def test_checking_a_release_needs_no_torch(whole: Path) -> None:
    code = (
        "import sys; from harness.release.verify_cli import main; code = main(sys.argv[1:]); "
        "assert 'torch' not in sys.modules; sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(whole / "r"), "--no-lint"], capture_output=True, timeout=120)
    assert done.returncode == 3, done.stderr
    assert usual_options()["over"] == "problems"


def test_its_pages_are_made_again_and_one_that_was_changed_left_out_or_added_is_named(
    tmp_path: Path, whole: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = tmp_path / "pages"
    assert COMMANDS["site"][0]([str(whole / "a"), "-o", str(pages), "--title", "Ours", "--over", "deck"]) == 0
    found = verify_release(whole / "r", lint=False, pages=pages)
    assert (found.faults, found.unchecked) == ([], ONLY_UNLINTED)
    assert found.pages == sum(path.is_file() for path in pages.rglob("*")) - 1 > 15  # all but the options

    changed = sorted((pages / "cells").iterdir())[0]
    changed.write_bytes(changed.read_bytes().replace(b"0", b"1", 1))
    (pages / "method.html").unlink()
    (pages / "assets" / "more.js").symlink_to("site.js")
    (pages / "runs.html").rename(tmp_path / "runs.html")
    (pages / "runs.html").symlink_to(tmp_path / "runs.html")  # what it points at is the right page, for now
    told = verify_release(whole / "r.tar", lint=False, pages=pages)
    assert told.faults == [
        "pages: method.html: it is missing",
        "pages: assets/more.js: no page of this archive",
        f"pages: cells/{changed.name}: it differs from what follows from the archive",
        "pages: runs.html: it differs from what follows from the archive",
    ]
    assert found.pages - told.pages == 3
    assert verify_command([str(whole / "r"), "--no-lint", "--pages", str(pages)]) == 1
    assert "pages: method.html: it is missing" in capsys.readouterr().err
    assert verify_command([str(whole / "r"), "--no-lint", "--pages", str(whole)]) == 2
    assert verify_command([str(whole / "a"), "--pages", str(pages)]) == 2


def test_pages_with_an_audit_or_of_another_pyarrow_are_told_apart_from_wrong_ones(tmp_path: Path, whole: Path) -> None:
    audit, pages = tmp_path / "audit.json", tmp_path / "pages"
    source = tmp_path / "kernels"
    source.mkdir()
    (source / "k_01_fp8_gemm.py").write_text("import torch\n\n\nclass Model(torch.nn.Module):\n    pass\n")
    COMMANDS["audit"][0]([str(source), "-o", str(tmp_path / "out"), "--jobs", "1"])
    shutil.copy(tmp_path / "out" / "audit.json", audit)
    assert COMMANDS["site"][0]([str(whole / "a"), "-o", str(pages), "--audit", str(audit)]) == 0
    assert verify_release(whole / "r", lint=False, pages=pages, audit=audit).unchecked == ONLY_UNLINTED
    without = verify_release(whole / "r", lint=False, pages=pages)
    assert without.faults == []
    assert without.unchecked[1:] == ["pages: audit.html: it shows an audit, and --audit does not name the same"]

    marker = pages / "kbh-site.txt"
    sign, options = marker.read_text().split("\n", 1)
    marker.write_text(f"{sign}\n{json.dumps({**json.loads(options), 'pyarrow': '1.0'})}\n")
    (pages / "data.html").write_text("another size")
    other = verify_release(whole / "r", lint=False, pages=pages, audit=audit)
    assert other.faults == [] and len(other.unchecked) == 3
    assert "data.html: it was made with pyarrow 1.0" in other.unchecked[1]
    marker.write_text(f"{sign}\n{json.dumps({**json.loads(options), 'over': 'all'})}\n")
    with pytest.raises(StoreError, match="does not hold the options"):
        verify_release(whole / "r", lint=False, pages=pages)
