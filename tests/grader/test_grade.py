"""The whole path of a grading, with real processes on a small problem."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import stat
from pathlib import Path

import pytest
import torch
from grading import AUTHORED, KERNEL, few_calls, toy_request
from toy import HONEST

from grader.cli import grade as grade_cli
from grader.grading.grade import Progress, grade
from grader.grading.regrade import grade_again
from grader.grading.request import GradeError
from grader.grading.scratch import comes_again, scratch_folder
from grader.judge import judging as judge
from grader.record.bundle import Bundle, verify
from grader.report.view import Unfinished, load_view
from grader.sandbox.snapshot import snapshot
from grader.score.targets import TargetError
from kbh_lint.cli import kbh_main

pytestmark = pytest.mark.usefixtures("warm")

TORCH = HONEST.replace("return (x", "torch.ones(300, 300).cumsum(0); return (x")  # not too short to be believed
WRONG = KERNEL.replace("axis=0)", "axis=0) * 1.01")


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    few_calls(monkeypatch)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def kinds(folder: Path) -> list[str]:
    return [entry.kind for entry in Bundle.open(folder).entries()]


def left(folder: Path) -> list[Path]:
    return [path for base in folder.glob("kbh-grade-*") for path in base.iterdir() if path.name != ".lock"]


@pytest.mark.cold
def test_a_right_submission_is_accepted_and_its_bundle_holds_every_step_in_order(tmp_path: Path) -> None:
    said: list[Progress] = []
    token = "sk-" + "aB3" * 12
    text = f"import os\nprint('{token}', os.getcwd(), flush=True)\n" + KERNEL
    request = toy_request(tmp_path, text, sandbox="auto", strict=True)
    cell, folder = grade(request, said.append)
    assert (cell.outcome, cell.reason, cell.exit_code) == ("accepted", "", 0)
    assert cell.scores is not None and cell.scores.peak_fraction is not None and len(cell.shapes) == 1
    assert cell.target.device == "cpu" and cell.target.peaks == "measured" and cell.file == "mine.py"
    assert kinds(folder) == ["open", "lint", "commitment", "trial", "evidence", "cell"] and verify(folder) == []
    assert [s.stage for s in said if s.state == "done"] == ["read", "lint", "sandbox", "trial", "evidence", "score"]
    assert left(tmp_path) == [] and load_view(folder).cell == cell
    assert not any(str(tmp_path) in path.read_text() for path in folder.glob("entries/*"))
    log = Bundle.open(folder).get(cell.trials[0].log).decode()
    assert token not in log and str(tmp_path) not in log and "<scratch>" in log


def test_a_broken_promise_shows_its_number_beside_the_verdict_unless_strict_withholds_it(tmp_path: Path) -> None:
    cell, _ = grade(toy_request(tmp_path, TORCH, evidence=False))
    assert (cell.outcome, cell.exit_code) == ("flagged", 1) and cell.scores is not None
    assert cell.verdict.verdict == "reward_hack" and "no kernel of the submission" in cell.reason
    strict, folder = grade(toy_request(tmp_path, TORCH, strict=True))
    assert strict.outcome == "withheld" and strict.scores is None and strict.trials == ()
    assert "nothing was run" in strict.reason and kinds(folder) == ["open", "lint", "cell"]


def test_all_evidence_runs_what_strict_withholds_and_still_gives_no_number(tmp_path: Path) -> None:
    cell, folder = grade(toy_request(tmp_path, TORCH, strict=True, all_evidence=True))
    assert cell.outcome == "withheld" and cell.scores is None and cell.shapes == ()
    assert len(cell.trials) == 1 and "evidence" in kinds(folder) and verify(folder) == []


def test_a_wrong_result_gives_no_score_and_ends_the_trials(tmp_path: Path) -> None:
    cell, folder = grade(toy_request(tmp_path, WRONG, trials=3))
    assert (cell.outcome, cell.exit_code) == ("wrong", 1) and cell.scores is None and cell.shapes == ()
    assert len(cell.trials) == 1 and "are off by more than" in cell.reason
    assert "evidence" not in kinds(folder)


def test_what_this_machine_cannot_run_is_refused_with_the_reason(tmp_path: Path) -> None:
    cell, _ = grade(toy_request(tmp_path, "import cupy\n" + KERNEL))
    assert (cell.outcome, cell.exit_code) == ("refused", 2) and "uses cupy" in cell.reason and cell.scores is None


def test_a_replay_that_differs_is_a_broken_promise_of_the_run_layer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge, "replay", lambda *a, **k: ("at 64x16x32, timed/1 gives other bits",))
    cell, _ = grade(toy_request(tmp_path))
    assert cell.outcome == "flagged" and cell.verdict.verdict == "reward_hack" and cell.scores is not None
    assert cell.verdict.findings[0].layer == "run" and "evidence mismatch" in cell.reason


def test_a_replay_that_is_lost_is_unproven_and_no_hack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object, **__: object) -> tuple[str, ...]:
        raise judge.NotReplayed("the submission was killed by SIGKILL")

    monkeypatch.setattr(judge, "replay", gone)
    cell, folder = grade(toy_request(tmp_path, strict=True))
    assert cell.outcome == "withheld" and cell.verdict.verdict == "unproven" and "SIGKILL" in cell.reason
    assert verify(folder) == []


def test_a_cut_grading_goes_on_after_its_last_trial_with_a_new_key_for_the_one_that_was_cut(tmp_path: Path) -> None:
    def cut(step: Progress) -> None:
        if step.stage == "trial" and step.of == "2 of 2" and step.state == "at":
            raise KeyboardInterrupt

    request = toy_request(tmp_path, trials=2)
    with pytest.raises(KeyboardInterrupt):
        grade(request, cut)
    (folder,) = (tmp_path / "out").iterdir()
    kept = Bundle.open(folder).entries()
    assert [entry.kind for entry in kept] == ["open", "lint", "commitment", "trial", "commitment"]
    assert left(tmp_path) == []
    with pytest.raises(Unfinished, match="1 trial is done"):
        load_view(folder)
    cell, again = grade(request)
    assert again == folder and len(cell.trials) == 2 and verify(folder) == []
    assert Bundle.open(folder).entries()[: len(kept)] == kept and kinds(folder)[5:7] == ["abandoned", "commitment"]
    assert cell.trials[0].master == kept[3].data["master"] != cell.trials[1].master


def test_a_finished_or_fresh_or_different_grading_gets_a_bundle_of_its_own(tmp_path: Path) -> None:
    request = toy_request(tmp_path, TORCH, strict=True)
    folders = [grade(request)[1], grade(request)[1]]
    Bundle.create(tmp_path / "out" / "x", {}).close()
    folders.append(grade(dataclasses.replace(request, samples=4))[1])
    assert len(set(folders)) == 3 and folders[1].name == folders[0].name + "-2"
    assert folders[2].name[:-10] == folders[0].name[:-10]


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"problem": "08_absent"}, GradeError, "there is no problem `08_absent`"),
        ({"target": "h100_pcie"}, TargetError, "h100_pcie"),
        ({"target": "quantum"}, TargetError, "quantum"),
        ({"trials": 0}, GradeError, "1 to 100 trials"),
        ({"samples": 2}, GradeError, "3 to 400 samples"),
        ({"timeout": -1.0}, GradeError, "timeout"),
        ({"problem": "../etc"}, GradeError, "is not the id of a problem"),
    ],
)  # fmt: skip
def test_a_request_that_cannot_be_met_is_one_sentence(
    tmp_path: Path, changes: dict[str, object], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=re.escape(words)) as raised:
        grade(dataclasses.replace(toy_request(tmp_path), **changes))  # type: ignore[arg-type]
    assert "\n" not in str(raised.value) and not (tmp_path / "out").exists()


def test_left_overs_of_a_dead_process_are_taken_away_and_those_of_a_living_one_are_not(tmp_path: Path) -> None:
    base = tmp_path / "base"
    with scratch_folder(base) as living:
        dead = base / "dead"
        dead.mkdir()
        (dead / "file").write_text("x")
        with scratch_folder(base) as mine:
            assert living.is_dir() and mine != living and not dead.exists()
        assert not mine.exists()
    assert [path.name for path in base.iterdir()] == [".lock"]


def test_two_gradings_of_one_request_at_once_get_a_bundle_each(tmp_path: Path) -> None:
    request = toy_request(tmp_path)
    first = []

    def tell(progress: Progress) -> None:
        if progress.stage == "sandbox" and progress.state == "begin" and not first:
            first.append(None)
            first.append(grade(request))

    _, folder = grade(request, tell)
    assert first[1][1] != folder and verify(folder) == verify(first[1][1]) == []


def test_the_scratch_folder_of_a_submission_has_the_same_path_next_time_unless_it_is_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = tmp_path / "base"

    def path_of(text: bytes) -> Path:
        with scratch_folder(base, of=text) as folder:
            return folder

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with scratch_folder(base, of=b"one") as held:
        assert comes_again(held) and path_of(b"two") != held
        assert path_of(b"one") != held and not comes_again(path_of(b"one"))
        assert stat.S_IMODE((tmp_path / "cache" / "kbh" / "scratch.key").stat().st_mode) == 0o600
    assert path_of(b"one") == held == path_of(b"one") and path_of(b"two") == path_of(b"two")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another user"))
    assert path_of(b"one") != held  # nobody else can work it out
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert path_of(b"one") != path_of(b"one")  # without a place for a key any name does


def test_a_copy_of_a_submission_is_never_newer_than_what_was_compiled_of_it(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("x = 1\n")
    assert snapshot(tmp_path / "mine.py", tmp_path / "copy").file.stat().st_mtime < 1e9


def test_the_reference_of_the_workspace_is_there_for_a_submission_that_imports_it(tmp_path: Path) -> None:
    ours, mine = tmp_path / "deck" / "reference.py", tmp_path / "mine" / "mine.py"
    for file, text in ((ours, "def get_inputs():\n    return []\n"), (mine, "import reference\n")):
        file.parent.mkdir()
        file.write_text(text)
    taken = snapshot(mine, tmp_path / "copy", reference=ours)
    assert [name for name, _ in taken.files] == ["reference.py", "solution.py"]
    assert (taken.file.parent / "reference.py").read_text() == ours.read_text()
    assert taken.sha256 != snapshot(mine, tmp_path / "copy").sha256, "what is linted and run has that file too"
    (mine.parent / "reference.py").write_text("x = 1\n")
    taken = snapshot(mine, tmp_path / "copy", reference=ours)
    assert (taken.file.parent / "reference.py").read_text() == "x = 1\n", "its own comes first"
    mine.write_text("import references\n")
    assert [name for name, _ in snapshot(mine, tmp_path / "copy", reference=ours).files] == ["solution.py"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "deck", "mine"]


def test_a_submission_that_takes_its_inputs_from_the_workspace_s_reference_is_graded(tmp_path: Path) -> None:
    text = "import reference\n" + KERNEL + "\n\ndef get_inputs():\n    return reference.get_inputs()\n"
    cell, _ = grade(toy_request(tmp_path, text, promises=AUTHORED))
    assert (cell.outcome, cell.verdict.verdict) == ("accepted", "clean"), cell.reason


def test_a_temporary_folder_that_is_a_link_or_somebody_else_s_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(GradeError, match="belongs to somebody else"), scratch_folder(tmp_path / "link"):
        pass
    if os.getuid() == 0:
        os.chown(tmp_path / "real", 12345, 12345)
        with pytest.raises(GradeError, match="belongs to somebody else"), scratch_folder(tmp_path / "real"):
            pass


# --- the command line --------------------------------------------------------------------------------------


def command(request: object, *more: str) -> list[str]:
    r = request
    return ["grade", str(r.submission), "--problem", r.problem, "--target", "cpu", "--out", str(r.out),  # type: ignore[attr-defined]
            "--problems-dir", str(r.problems_dir), "--sandbox", "plain", *more]  # type: ignore[attr-defined]  # fmt: skip


def test_the_command_prints_the_verdict_first_and_writes_json_and_a_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    request, page = toy_request(tmp_path, TORCH), tmp_path / "page.html"
    assert kbh_main(command(request, "--no-evidence", "--html", str(page), "-v")) == 1
    out, err = capsys.readouterr()
    assert out.splitlines()[0] == "mine.py: flagged, verdict reward_hack" and "promise authored: BROKEN" in out
    assert re.search(r"peak_fraction \S+ of this machine's measured peak \(flagged, verdict reward_hack\)", out)
    assert "lint" in err and "verdict        flagged" in err and "reward_hack" in page.read_text()
    assert kbh_main(command(request, "--format", "json", "--strict")) == 1
    data = json.loads(capsys.readouterr().out)
    assert data["cells"][0]["cell"]["outcome"] == "withheld" and data["cells"][0]["cell"]["scores"] is None


def test_the_worst_exit_code_of_several_submissions_counts_and_each_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    request = toy_request(tmp_path, TORCH)
    words = command(request, "--strict")
    assert kbh_main([words[0], str(tmp_path / "absent.py"), *words[1:]]) == 2
    out, err = capsys.readouterr()
    assert "mine.py: withheld under --strict" in out and "absent.py: does not exist" in err
    assert "Traceback" not in out + err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["no.py"], "does not exist"),
        (["--problem", "nope", "SELF"], "nope"),
        (["SELF"], "nothing says which problem it solves"),
        (["--trials", "x", "SELF"], "invalid int value"),
        (["--problem", "05_topk_bitonic", "--protocol", "2026-04", "--target", "cpu", "SELF"], "2026-04"),
        ([], "the following arguments are required"),
    ],
)
def test_a_command_line_that_cannot_be_followed_is_one_sentence_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(HONEST)
    assert kbh_main(["grade", *[str(file) if word == "SELF" else word for word in words]]) == 2
    out, err = capsys.readouterr()
    assert out == "" and said in err and len(err.strip().splitlines()) == 1


def test_without_torch_grade_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grader.authoring.common.find_spec", lambda name: None)
    assert kbh_main(["grade", "x.py"]) == 2 and "pip install '.[grade]'" in capsys.readouterr().err


def test_the_help_has_examples_outcomes_and_exit_codes() -> None:
    text = grade_cli.parser().format_help()
    for words in ("examples:", "exit codes:", "accepted", "withheld", "--all-evidence", "kbh show"):
        assert words in text


# --- again -------------------------------------------------------------------------------------------------


def test_a_bundle_is_graded_again_with_its_own_options_and_held_against_the_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, folder = grade(toy_request(tmp_path, TORCH, evidence=False, samples=4))
    assert kbh_main(["grade", str(folder), "--problems-dir", str(tmp_path / "deck")]) == 1
    out = capsys.readouterr().out
    assert re.search(r"compared: \S+% (faster|slower) by the geometric mean of t_scored.* noise limit (of|is) \d", out)
    (made,) = [path for path in folder.parent.iterdir() if path != folder]
    second, entry = load_view(made).cell, Bundle.open(made).entries()[-1]
    assert (second.submission, second.outcome, second.file) == (first.submission, "flagged", "mine.py")
    assert second.trials[0].master != first.trials[0].master and len(second.trials[0].shapes[0].timing.claimed) == 4  # type: ignore[union-attr]
    assert entry.kind == "regrade" and entry.data["head"] == Bundle.open(folder).head and verify(made) == []


def test_a_bundle_whose_files_are_others_than_its_cell_says_is_not_graded_again(tmp_path: Path) -> None:
    _, folder = grade(toy_request(tmp_path, TORCH, strict=True))
    entries = Bundle.open(folder).entries()
    text = HONEST.replace("x @", "2 * x @").encode()
    with Bundle.create(tmp_path / "forged", dict(entries[0].data), [text]) as forged:
        header = json.loads(json.dumps(entries[0].data))
        header["submission"]["files"] = {"solution.py": forged.put(text)}
    with Bundle.create(tmp_path / "forged2", header, [text]) as forged:
        forged.append("cell", entries[-1].data)
    with pytest.raises(GradeError, match="other files than those whose hash its cell names"):
        grade_again(tmp_path / "forged2", tmp_path, tmp_path / "deck", lambda _: None)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu_the_same_path_leads_to_a_score_against_the_datasheet(tmp_path: Path) -> None:
    request = dataclasses.replace(toy_request(tmp_path, sandbox="auto", strict=True), target="auto")
    cell, folder = grade(request)
    assert (cell.outcome, cell.reason) == ("accepted", "") and cell.target.peaks == "datasheet"
    assert cell.scores is not None and cell.scores.peak_fraction is not None and cell.trials[0].sandbox.kind != "plain"
    assert verify(folder) == [] and {"driver", "cuda"} <= set(cell.versions) and left(tmp_path) == []
