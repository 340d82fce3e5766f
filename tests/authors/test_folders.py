"""What counts as a problem folder, and what stays a submission; when a problem's own code is run."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from authors_support import BASE, ID, RULES, build, lint_files, report

import kbh_lint
from kbh_lint.authors import execution
from kbh_lint.authors.faults import read_faults
from kbh_lint.authors.folders import find
from kbh_lint.authors.lint import lint
from kbh_lint.cli import main
from kbh_lint.marked import DataError

LEAK = (BASE / ID / "decoys" / "library.py").read_text()


@pytest.fixture
def deck(tmp_path: Path) -> Path:
    return build("", tmp_path).parent


@pytest.mark.parametrize("name", ["", ID, f"{ID}/problem.yaml"])
def test_a_deck_a_folder_and_its_file_name_the_same_problem(name: str, deck: Path) -> None:
    found = find([deck / name])
    assert (found.problems, found.rest) == ((deck / ID,), ())


def test_a_solution_beside_a_problem_file_is_still_a_submission(deck: Path) -> None:
    (deck / ID / "solution.py").write_text(LEAK)
    assert find([deck / ID]).problems == ()
    report = kbh_lint.lint([deck / ID / "solution.py"], problem=ID, problems_dir=deck)
    assert [file.verdict for file in report.files] == ["reward_hack"]


def test_a_file_that_is_no_part_of_a_problem_does_not_hide_in_its_folder(
    deck: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution, "find_spec", lambda name: None)
    (deck / ID / "my_kernel.py").write_text(LEAK)
    (deck / "others").mkdir()
    (deck / "others" / "kernel.py").write_text(LEAK)
    files = kbh_lint.lint([deck], problem=ID, problems_dir=deck).files
    verdicts = {Path(file.path).name: file.verdict for file in files}
    assert verdicts == {"my_kernel.py": "reward_hack", "kernel.py": "reward_hack", "problem.yaml": "clean"}


def test_the_files_that_the_authors_page_lists_are_parts_of_a_problem(deck: Path) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "authors.md").read_text()
    listed = re.findall(r"`([\w.]+\.py)`", page.partition("| File | Who reads it |")[2])
    assert {"library.py", "mutants.py", "rows.py"} <= set(listed)
    for name in listed:
        (deck / ID / name).write_text(LEAK)
    assert find([deck]).rest == ()


def test_a_changed_file_stands_for_its_problem_when_authors_ask(
    deck: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "notes.md"
    elsewhere.write_text("nothing\n")
    changed = [deck / ID / "prompt.md", deck / ID / "decoys" / "library.py", elsewhere]
    found = find(changed, authors=True)
    assert (found.problems, found.rest) == ((deck / ID,), ())
    assert find(changed[1:2]).rest == (changed[1],)


def test_a_decoy_named_by_itself_is_linted_as_a_submission(deck: Path) -> None:
    report = kbh_lint.lint([deck / ID / "decoys" / "library.py"], problem=ID, problems_dir=deck)
    assert [file.verdict for file in report.files] == ["reward_hack"]


def test_the_code_of_a_folder_from_elsewhere_is_never_run(deck: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "ask", lambda folders: pytest.fail("a folder that nobody trusts was run"))
    (file,) = report(deck)
    assert file.notes == (execution.NOT_TRUSTED,)


def test_without_the_extra_the_report_says_what_was_left_out(deck: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "find_spec", lambda name: None)
    (file,) = report(deck, trusted=deck)
    assert (file.verdict, file.notes) == ("clean", (execution.NOT_INSTALLED,))


def test_code_that_ends_the_process_is_a_note_and_no_traceback(deck: Path) -> None:
    pytest.importorskip("torch")
    (deck / ID / "reference.py").write_text("import os\nos._exit(3)\n")
    (file,) = report(deck, trusted=deck)
    assert any("own code" in note for note in file.notes)
    assert {finding.rule for finding in file.findings} == {"KBH919"}


def test_a_deferred_problem_is_read_and_not_judged(tmp_path: Path) -> None:
    folder = tmp_path / "13_later"
    folder.mkdir()
    text = "id: 13_later\ntitle: Later\nstatus: deferred\nreason: No GPU.\nregime: memory\nprecision: fp16\n"
    (folder / "problem.yaml").write_text(text + "operation: something\ntargets: [m4_max]\n")
    assert [file.verdict for file in report(tmp_path)] == ["clean"]


def test_the_command_line_lints_a_deck_and_exits_with_its_verdict(
    deck: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(deck), "--no-cache", "--output-format", "concise"]) == 0
    shutil.rmtree(deck / ID / "honest")
    assert main([str(deck), "--no-cache", "--output-format", "concise"]) == 1
    assert "KBH910" in capsys.readouterr().out


def test_an_author_rule_can_be_selected_and_explained(deck: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (deck / ID / "prompt.md").write_text("another prompt\n")
    (deck / ID / "mutants.py").write_text("MUTANTS = ()\n")
    files = kbh_lint.lint([deck], select=["KBH912"]).files
    assert [finding.rule for file in files for finding in file.findings] == ["KBH912"]
    assert main(["--explain", "KBH912"]) == 0
    assert "=== prompt.in.md" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("faults:\n  - {id: K1, problem: deck, fault: a, caught_by: []}\n", "must be KF"),
        ("faults:\n  - {id: KF01, problem: deck, fault: a, caught_by: [], extra: 1}\n", "has no key `extra`"),
        ("faults: none\n", "must be a list"),
    ],
)
def test_a_malformed_list_of_faults_is_told_with_its_line(text: str, told: str, deck: Path) -> None:
    (deck / "faults.yaml").write_text(text)
    with pytest.raises(DataError, match=told):
        read_faults(deck / "faults.yaml")
    found = lint(find([deck]), RULES, lint_files, Path("/nowhere"))
    assert [finding.rule for file in found for finding in file.findings] == ["KBH900"]


def test_a_person_who_catches_a_fault_gives_a_reason(deck: Path) -> None:
    fault = "faults:\n  - {id: KF01, problem: deck, fault: a, caught_by: [human]}\n"
    (deck / "faults.yaml").write_text(fault)
    (_, file) = report(deck)
    assert [finding.message for finding in file.findings] == ["the fault KF01 has no-reason: human"]
