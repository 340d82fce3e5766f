"""Baselines and changes: which findings of a run are listed, and which make it fail."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest
from cli_support import kbh

RULES = ("--rules-dir", "rules", "--output-format", "concise")
LEAK = 'z = torch.matmul(b, a)  # do: fact library-work {"symbol": "torch.matmul"}\n'
OTHER = 'z = torch.mm(b, a)  # do: fact library-work {"symbol": "torch.mm"}\n'


def git(folder: Path, *words: str) -> None:
    """A git command in a repository that knows no user."""
    author = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *author, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(work: Path) -> Path:
    """The working folder as a git repository with one commit."""
    git(work, "init", "-q")
    git(work, "add", ".")
    git(work, "commit", "-q", "-m", "first")
    return work


def test_findings_of_a_baseline_are_not_listed_and_do_not_fail(work: Path) -> None:
    written = kbh(*RULES, "--baseline", "known.json", "--write-baseline", ".", cwd=work)
    assert written.returncode == 0 and "known.json counts 2 findings in 2 files" in written.stderr
    done = kbh(*RULES, "--baseline", "known.json", ".", cwd=work)
    assert done.returncode == 0 and "KBH101" not in done.stdout
    assert kbh(*RULES, ".", cwd=work).returncode == 1


def test_a_baseline_holds_when_lines_move_and_not_when_a_finding_is_added(work: Path) -> None:
    kbh(*RULES, "--baseline", "known.json", "--write-baseline", ".", cwd=work)
    leak = work / "leak.py"
    leak.write_text("import torch\n\n" + leak.read_text())
    assert kbh(*RULES, "--baseline", "known.json", ".", cwd=work).returncode == 0
    leak.write_text(leak.read_text() + OTHER)
    done = kbh(*RULES, "--baseline", "known.json", ".", cwd=work)
    assert done.returncode == 1 and done.stdout.count("KBH101") == 2


def test_a_baseline_says_when_it_counts_too_much_and_is_kept_for_files_that_were_not_linted(work: Path) -> None:
    kbh(*RULES, "--baseline", "known.json", "--write-baseline", ".", cwd=work)
    (work / "leak.py").write_text("x = 1\n")
    assert "counts findings that are gone (1)" in kbh(*RULES, "--baseline", "known.json", ".", cwd=work).stderr
    kbh(*RULES, "--baseline", "known.json", "--write-baseline", "leak.py", cwd=work)
    assert list(json.loads((work / "known.json").read_text())["files"]) == ["odd.py"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "there is no such baseline"),
        ("[1", "is not JSON"),
        ("{}", "is not a baseline of version 1"),
        ('{"version": 1, "files": {"leak.py": {"verdict": "bug", "rules": {"KBH101": "many"}}}}', "counts by rule"),
    ],
)
def test_a_baseline_that_cannot_be_used_is_one_sentence(work: Path, text: str | None, words: str) -> None:
    if text is not None:
        (work / "known.json").write_text(text)
    done = kbh(*RULES, "--baseline", "known.json", "leak.py", cwd=work)
    assert done.returncode == 2 and words in done.stderr and "Traceback" not in done.stderr


def test_a_baseline_does_not_make_a_leak_acceptable(work: Path) -> None:
    kbh(*RULES, "--baseline", "known.json", "--write-baseline", "leak.py", cwd=work)
    done = kbh(*RULES, "--baseline", "known.json", "--strict", "leak.py", cwd=work)
    assert done.returncode == 1 and "leak.py is not accepted" in done.stderr


def test_only_files_that_differ_from_a_revision_are_linted(repository: Path) -> None:
    assert kbh(*RULES, "--diff", "HEAD", ".", cwd=repository).returncode == 0
    (repository / "new.py").write_text(LEAK)
    (repository / "odd.py").write_text("# nothing\n" + (repository / "odd.py").read_text())
    done = kbh(*RULES, "--diff", "HEAD", ".", cwd=repository)
    assert done.returncode == 1
    assert {line.split(":")[0] for line in done.stdout.splitlines() if ".py:" in line} == {"new.py", "odd.py"}


def test_only_files_that_a_unified_diff_names_are_linted(work: Path) -> None:
    for name in ("leak.py", "odd.py"):
        (work / "one.patch").write_text(f"--- a/{name}\t2020\n+++ b/{name}\t2020\n@@ -1 +1 @@\n-a\n+b\n")
        done = kbh(*RULES, "--diff", "one.patch", ".", cwd=work)
        assert (done.returncode, name in done.stdout) == (int(name == "leak.py"), True)
    (work / "one.patch").write_text("--- a/lost.py\n+++ b/lost.py\n@@ -1 +1 @@\n-a\n+b\n")
    done = kbh(*RULES, "--diff", "one.patch", ".", cwd=work)
    assert done.returncode == 2 and "none of the 2 files it names is there" in done.stderr


def test_a_diff_that_cannot_be_made_is_one_sentence(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    for revision in ("no-such-branch", "--output=stolen", "lost.diff"):
        done = kbh(*RULES, f"--diff={revision}", ".", cwd=repository)
        assert done.returncode == 2 and "git knows no such revision" in done.stderr
    assert not (repository / "stolen").exists()
    outside = tmp_path_factory.mktemp("outside")
    (outside / "a.py").write_text(LEAK)
    done = kbh(*RULES, "--diff", "HEAD", str(outside), cwd=repository)
    assert done.returncode == 2 and "lies outside the git work tree" in done.stderr
    done = kbh("--diff", "HEAD", ".", cwd=outside, GIT_CEILING_DIRECTORIES=str(outside.parent))
    assert done.returncode == 2 and "is in no git work tree" in done.stderr


def test_names_that_git_quotes_are_read() -> None:
    from kbh_lint.triage.changes import diff_names

    assert diff_names('--- /dev/null\n+++ "b/\\303\\244 x.py"\n@@ -0,0 +1 @@\n+a\n') == ["b/\u00e4 x.py"]
    assert diff_names("diff --git a/x y.so b/x y.so\nBinary files differ\n") == ["b/x y.so"]


@pytest.mark.parametrize("row", ['++ "' + "\\a" * 200, "diff --git a/x" + " b/x" * 20_000])
def test_a_header_that_never_ends_does_not_hold_up_a_diff(row: str) -> None:
    from kbh_lint.triage.changes import diff_names

    start = time.process_time()
    diff_names(f"{'+' if row[0] == '+' else ''}{row}\n")
    assert time.process_time() - start < 2
