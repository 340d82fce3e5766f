"""Stored results: used only for what has not changed, and never trusted when touched by others."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_support import kbh, write_rule

from kbh_lint.findings import FileReport
from kbh_lint.service.cache import Cache

RULES = ("--rules-dir", "rules", "--output-format", "json", "--exit-zero")


def analysed(work: Path, *options: str) -> tuple[int, str]:
    """How many files the engine read in one run, and what the run printed."""
    log = work / "log"
    log.write_text("")
    done = kbh(*RULES, *(options or ("leak.py", "clean.py")), cwd=work, FAKE_ENGINE_LOG=str(log))
    assert done.returncode == 0, done.stderr
    return len(log.read_text().splitlines()), done.stdout


def test_a_second_run_analyses_nothing_and_says_the_same(work: Path) -> None:
    first, second = analysed(work), analysed(work)
    assert (first[0], second[0]) == (2, 0)
    assert first[1] == second[1]
    assert analysed(work, "leak.py", "--no-cache")[0] == 1


def _edit_text(work: Path) -> tuple[str, ...]:
    (work / "leak.py").write_text("x = 2\n")
    return ("leak.py",)


def _edit_rule(work: Path) -> tuple[str, ...]:
    write_rule(work / "rules", verdict="reward_hack")
    return ("leak.py",)


def _add_rule(work: Path) -> tuple[str, ...]:
    write_rule(work / "rules", id="KBH102", name="another", leak_class="another")
    return ("leak.py",)


def _add_sidecar(work: Path) -> tuple[str, ...]:
    (work / "named.cu").write_text("// changed\n")
    return ("names.py",)


@pytest.mark.parametrize(
    "change",
    [
        _edit_text,
        _edit_rule,
        _add_rule,
        _add_sidecar,
        lambda work: ("leak.py", "--problem", "01_fp8_gemm"),
        lambda work: ("leak.py", "--target", "h100"),
        lambda work: ("leak.py", "--trace"),
    ],
    ids=["text", "rule", "new rule", "sidecar", "problem", "target", "trace"],
)
def test_a_result_of_another_text_rule_problem_target_is_never_returned(
    work: Path, change: Callable[[Path], tuple[str, ...]]
) -> None:
    (work / "named.cu").write_text("// text\n")
    (work / "names.py").write_text("open('named.cu')\n")
    assert analysed(work, "leak.py", "names.py")[0] == 2
    options = change(work)
    count, text = analysed(work, *options)
    assert count == 1
    fresh = kbh(*RULES, *options, "--no-cache", cwd=work)
    assert text == fresh.stdout


def test_torn_altered_and_forged_entries_are_ignored(work: Path) -> None:
    analysed(work, "leak.py")
    (entry,) = (work / ".kbh-cache").rglob("*.json")
    good = entry.read_bytes()
    for bad in (b"", good[:-5], good.replace(b"rubric_leak", b"clean"), b"\xff" * 100, b"{}", b"seal\n{}"):
        entry.write_bytes(bad)
        count, text = analysed(work, "leak.py")
        assert (count, json.loads(text)["files"][0]["verdict"]) == (1, "rubric_leak")
        assert entry.read_bytes() == good


def test_an_entry_signed_by_another_user_is_ignored(work: Path) -> None:
    analysed(work, "leak.py")
    secret = work / "xdg" / "kbh" / "secret"
    assert secret.stat().st_mode & 0o077 == 0
    secret.write_bytes(b"x" * 32)
    assert analysed(work, "leak.py")[0] == 1


def test_a_failed_analysis_is_not_stored(work: Path) -> None:
    (work / "raise.py").write_text("x = 1  # do: raise oops\n")
    assert [analysed(work, "raise.py")[0] for _ in range(2)] == [1, 1]


def test_a_cache_that_cannot_be_written_changes_nothing(work: Path) -> None:
    (work / "file").write_text("")
    count, text = analysed(work, "leak.py", "--cache-dir", "file/cache")
    assert (count, json.loads(text)["files"][0]["verdict"]) == (1, "rubric_leak")


def test_a_selection_works_on_stored_results(work: Path) -> None:
    analysed(work, "leak.py")
    count, text = analysed(work, "leak.py", "--ignore", "KBH101")
    assert (count, json.loads(text)["files"][0]["findings"]) == (0, [])


def test_the_folder_is_bounded_and_ignored_by_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    store = Cache(tmp_path / "c", tmp_path, tmp_path, max_bytes=20_000)
    report = FileReport("x.py", None, None, None, "clean", notes=("n" * 1000,))
    for number in range(40):
        store.put(f"{number:064x}", report)
    assert store.get(f"{39:064x}") == report
    store.close()
    left = sum(path.stat().st_size for path in (tmp_path / "c").rglob("*.json"))
    assert 0 < left <= 20_000
    assert (tmp_path / "c" / ".gitignore").read_text() == "*\n"
