"""`kbh-lint` and `kbh` as a user meets them: exit codes, formats, messages."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from cli_support import DRIVER, HERE, ROOT, kbh, write_rule

from kbh_lint.report.formats import FORMATS

RULES = ("--rules-dir", "rules")


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["clean.py"], 0),
        (["odd.py"], 0),
        (["leak.py"], 1),
        (["clean.py", "leak.py"], 1),
        (["leak.py", "--exit-zero"], 0),
        (["leak.py", "--ignore", "KBH101"], 0),
        (["leak.py", "--ignore", "library-gemm-wrapper"], 0),
        (["leak.py", "--select", "KBH2"], 0),
        (["leak.py", "--select", "KBH1,KBH2"], 1),
        (["unread.py"], 0),
        (["unread.py", "--strict"], 1),
        (["clean.py", "--strict"], 0),
    ],
)
def test_the_exit_code_says_whether_something_was_found(work: Path, options: list[str], code: int) -> None:
    done = kbh(*RULES, *options, cwd=work)
    assert (done.returncode, "Traceback" in done.stderr) == (code, False)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "no path was given"),
        (["--no-such-option", "clean.py"], "unrecognized arguments: --no-such-option"),
        (["--output-format", "xml", "clean.py"], "invalid choice: 'xml'"),
        (["--jobs", "0", "clean.py"], "'0' is not a number from 1 to 256, nor auto"),
        (["--jobs", "many", "clean.py"], "'many' is not a number"),
        (["--timeout", "-1", "clean.py"], "is not a number of seconds"),
        (["--problem", "99_nothing", "clean.py"], "there is no problem `99_nothing`"),
        (["--target", "abacus", "clean.py"], "there is no target `abacus`"),
        (["--select", "KBH9", "clean.py"], "no rule has the id, prefix, name or class `KBH9`"),
        (["--explain", "library-wrok"], "did you mean library-work"),
        (["nowhere.py"], "nowhere.py: does not exist"),
    ],
)
def test_what_cannot_be_done_is_one_sentence_and_exit_code_2(work: Path, options: list[str], words: str) -> None:
    done = kbh(*RULES, *options, cwd=work)
    assert done.returncode == 2
    said = done.stderr + done.stdout
    assert words in said and "Traceback" not in said
    assert len(done.stderr.strip().splitlines()) <= 1


def test_a_malformed_rule_is_told_with_file_and_line(work: Path) -> None:
    path = write_rule(work / "rules", id="KBH102", name="broken", verdict="leak")
    done = kbh(*RULES, "clean.py", cwd=work)
    assert done.returncode == 2
    assert done.stderr.startswith(f"kbh-lint: error: rules/{path.name}:4: `verdict` of the rule must be one of")


def test_bad_files_are_told_and_the_others_still_linted(work: Path) -> None:
    (work / "utf16.py").write_bytes(b"\xff\xfea\x00")
    done = kbh(*RULES, "utf16.py", "nowhere.py", "leak.py", "--output-format", "json", cwd=work)
    assert done.returncode == 2
    report = json.loads(done.stdout)
    assert {file["path"]: file["verdict"] for file in report["files"]} == {
        "utf16.py": "unproven",
        "leak.py": "rubric_leak",
    }
    assert len(report["errors"]) == 2
    full = kbh(*RULES, "utf16.py", "nowhere.py", "leak.py", cwd=work)
    assert full.stdout.count("UTF-16") == 1


def test_a_selection_hides_findings_but_not_the_verdict(work: Path) -> None:
    done = kbh(*RULES, "leak.py", "--ignore", "KBH101", "--output-format", "json", cwd=work)
    (file,) = json.loads(done.stdout)["files"]
    assert (file["findings"], file["verdict"]) == ([], "rubric_leak")


def test_an_error_inside_the_engine_makes_that_file_unproven_and_names_the_place(work: Path) -> None:
    (work / "raise.py").write_text("x = 1  # do: raise oops\n")
    done = kbh(*RULES, "raise.py", "leak.py", "--output-format", "json", cwd=work)
    first, second = json.loads(done.stdout)["files"]
    assert (first["verdict"], second["verdict"]) == ("unproven", "rubric_leak")
    assert re.search(r"KeyError in cli/fake_engine\.py:\d+", first["unread"][0]["reason"])
    assert "KeyError: 'oops'" in kbh(*RULES, "raise.py", "--debug", "--no-cache", cwd=work).stderr


def test_the_trace_is_shown_only_when_asked_for(work: Path) -> None:
    assert "launch one" in kbh(*RULES, "clean.py", "--trace", cwd=work).stdout
    assert "launch one" not in kbh(*RULES, "clean.py", cwd=work).stdout


def test_statistics_do_not_disturb_a_machine_readable_report(work: Path) -> None:
    done = kbh(*RULES, "leak.py", "odd.py", "--statistics", "--output-format", "json", cwd=work)
    assert len(json.loads(done.stdout)["files"]) == 2
    assert done.stderr.splitlines() == [
        "     1  KBH101 library-work [rubric_leak]",
        "     1  KBH201 odd [interesting]",
        "     1  files interesting",
        "     1  files rubric_leak",
    ]


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_names_the_rule_and_the_file(work: Path, form: str) -> None:
    done = kbh(*RULES, "leak.py", "--output-format", form, cwd=work)
    assert done.returncode == 1
    assert "KBH101" in done.stdout and "leak.py" in done.stdout


def test_explain_answers_to_id_name_and_class(work: Path) -> None:
    pages = [kbh(*RULES, "--explain", w, cwd=work) for w in ("kbh101", "library-work", "library-gemm-wrapper")]
    assert len({page.stdout for page in pages}) == 1
    assert [page.returncode for page in pages] == [0, 0, 0]
    for part in ("# KBH101: library-work", "## Why", "Use instead:", "## How to fix", "`some-run`"):
        assert part in pages[0].stdout


def test_rules_and_problems_are_listed(work: Path) -> None:
    done = kbh(*RULES, "--list-rules", "--list-problems", cwd=work)
    assert done.returncode == 0
    assert "KBH101  library-work" in done.stdout
    assert "01_fp8_gemm" in done.stdout


def test_kbh_hands_on_to_lint_and_knows_its_commands(work: Path) -> None:
    assert kbh("lint", *RULES, "leak.py", cwd=work, entry="kbh_main").returncode == 1
    helped = kbh("--help", cwd=work, entry="kbh_main")
    assert helped.returncode == 0 and "lint" in helped.stdout
    unknown = kbh("grade-my-kernel", cwd=work, entry="kbh_main")
    assert unknown.returncode == 2 and "there is no command 'grade-my-kernel'" in unknown.stderr


def test_a_reader_that_goes_away_gets_no_traceback(work: Path) -> None:
    for number in range(300):
        (work / f"leak{number}.py").write_text((work / "leak.py").read_text())
    code = DRIVER.format(here=str(HERE), root=str(ROOT), entry="main")
    command = [sys.executable, "-c", code, *RULES, "--no-cache", "--jobs", "1", "--color", "never", "."]
    process = subprocess.Popen(command, cwd=work, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(os.environ))
    assert process.stdout is not None and process.stderr is not None
    process.stdout.read(10)
    process.stdout.close()
    said = process.stderr.read()
    process.stderr.close()
    process.wait(timeout=60)
    assert b"Traceback" not in said and b"BrokenPipe" not in said


def test_colour_is_used_when_asked_for_and_never_with_a_pipe(work: Path) -> None:
    assert "\x1b[" in kbh(*RULES, "leak.py", "--color", "always", cwd=work).stdout
    assert "\x1b[" not in kbh(*RULES, "leak.py", cwd=work, NO_COLOR="").stdout


def test_starting_up_imports_neither_parsers_nor_process_pools(work: Path) -> None:
    code = (
        f"import sys; sys.path[:0] = [{str(ROOT)!r}]; from kbh_lint.cli import main; main(['--version']); "
        "print([m for m in ('libcst', 'tree_sitter', 'multiprocessing', 'jsonschema', 'yaml') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=work, check=True)
    assert done.stdout.splitlines() == ["kbh-lint 0.1.0", "[]"]
