"""Suppressions in authors' own files, and what `--fix` may rewrite."""

from __future__ import annotations

from pathlib import Path

import pytest
from authors_support import ID, RULES, build, report, said

from kbh_lint.authors import fixes, suppress
from kbh_lint.cli import main

WIDE = "bytes: M*K*4 + N*K*4 + M*N*4"


def problem(bytes_line: str) -> str:
    """A problem.yaml whose byte formula is too large, with a comment on its line."""
    return f"=== problem.yaml\nregime: compute\n{bytes_line}\n"


@pytest.mark.parametrize(
    "code",
    [
        problem(f"{WIDE}  # kbh: ignore[KBH904] two passes"),
        problem(f"{WIDE}  # kbh: ignore[KBH905, KBH904] two passes"),
    ],
)
def test_a_finding_is_suppressed_on_its_own_line_with_a_reason(code: str, tmp_path: Path) -> None:
    found = report(build(code, tmp_path).parent)
    assert "KBH904" not in {f.rule for f in found[0].findings}, said(found)
    assert any("suppresses KBH904: two passes" in note for note in found[0].notes)


def test_a_comment_above_speaks_for_the_next_line_that_is_not_a_comment(tmp_path: Path) -> None:
    folder = build(problem(WIDE), tmp_path)
    path = folder / "problem.yaml"
    path.write_text(path.read_text().replace(WIDE, f"# kbh: ignore[KBH904] two passes\n# and why\n{WIDE}"))
    assert report(tmp_path)[0].verdict == "clean", said(report(tmp_path))


@pytest.mark.parametrize(
    ("comment", "state"),
    [
        ("# kbh: ignore[KBH904]", "no-reason"),
        ("# kbh: ignore two passes", "no-rule"),
        ("# kbh: ignore[KBH999] two passes", "unknown-rule"),
        ("# kbh: ignore[KBH921] two passes", "unknown-rule"),
        ("# kbh: ignore[KBH912] two passes", "unused"),
    ],
)
def test_a_comment_that_is_not_honoured_is_reported_and_hides_nothing(comment: str, state: str, tmp_path: Path) -> None:
    found = report(build(problem(f"{WIDE}  {comment}"), tmp_path).parent)
    assert {"KBH904", "KBH921"} <= {f.rule for f in found[0].findings}, said(found)
    assert any(f.rule == "KBH921" and state in f.message for f in found[0].findings)


def test_a_comment_about_what_was_not_looked_for_is_not_called_unused(tmp_path: Path) -> None:
    found = report(build("=== problem.yaml\nflops: 2*M*N*K  # kbh: ignore[KBH903] counted by hand\n", tmp_path).parent)
    assert found[0].verdict == "clean", said(found)


def test_a_string_that_looks_like_a_suppression_is_none(tmp_path: Path) -> None:
    path = tmp_path / "cases.py"
    path.write_text('text = "# kbh: ignore[KBH917] no"\nx = 1  # kbh: ignore[KBH917] yes\n')
    assert [(item.rules, item.reason, item.span.line) for item in suppress.read(path)] == [(("KBH917",), "yes", 2)]


def test_fix_renders_the_prompt_copies_the_tolerance_and_takes_unused_comments_away(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = build("=== prompt.md\nold\n", tmp_path)
    path = folder / "problem.yaml"
    good = path.read_text()
    bad = good.replace("flops: 2*M*N*K\n", "# kbh: ignore[KBH904] no longer\nflops: 2*M*N*K\n")
    path.write_text(bad.replace("tolerance: {bf16: 0.0059}", "tolerance: {bf16: 0.5}"))
    reports = report(tmp_path)
    assert {"KBH902", "KBH912", "KBH921"} <= {f.rule for f in reports[0].findings}, said(reports)
    found = fixes.plan(reports, RULES)
    assert "-old" in fixes.preview(found) and path.read_text() != good
    fixes.write(found)
    assert path.read_text() == good
    assert report(tmp_path)[0].verdict == "clean", said(report(tmp_path))
    assert fixes.plan(report(tmp_path), RULES) == []
    # and from the command line, where a submission is left alone
    (folder / "prompt.md").write_text("old\n")
    solution = tmp_path / "solution.py"
    solution.write_text("x = 1  # kbh: ignore[KBH101] mine\n")
    assert main(["--fix-diff", "--no-cache", str(tmp_path)]) == 1
    assert "-old" in capsys.readouterr().out and (folder / "prompt.md").read_text() == "old\n"
    assert main(["--fix", "--no-cache", str(tmp_path)]) == 0
    assert f"{ID}/prompt.md: rendered from prompt.in.md" in capsys.readouterr().err
    assert (folder / "prompt.md").read_text() != "old\n" and "ignore" in solution.read_text()
