"""The generated pages: written from the rules, and found stale when they are."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_rule_files import GOOD

from kbh_lint.docs import main


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    folder = tmp_path / "rules"
    folder.mkdir()
    (folder / "KBH101-bf16-product.yaml").write_text(GOOD)
    return folder


def test_pages_are_written_once_and_then_are_up_to_date(tmp_path: Path, rules: Path) -> None:
    docs = tmp_path / "docs"
    options = [str(docs), "--rules-dir", str(rules)]
    assert main([*options, "--check"]) == 1
    assert main(options) == 0
    assert main([*options, "--check"]) == 0
    names = sorted(path.name for path in docs.iterdir())
    assert names == ["KBH101-bf16-product.md", "index.md", "verdict.md"]
    page = (docs / "KBH101-bf16-product.md").read_text()
    assert "```python\na = 1\nb = 2\nc = 3\n```" in page and "```python\na = 1\nb = 4\nc = 3\n```" in page
    assert "[KBH101 bf16-product](KBH101-bf16-product.md)" in (docs / "index.md").read_text()
    assert "| 1 | `reward_hack` |" in (docs / "verdict.md").read_text()


def test_a_changed_rule_and_a_page_too_many_are_stale(
    tmp_path: Path, rules: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    docs = tmp_path / "docs"
    options = [str(docs), "--rules-dir", str(rules)]
    main(options)
    (docs / "KBH999-gone.md").write_text("old")
    (rules / "KBH101-bf16-product.yaml").write_text(GOOD.replace("Use fp8.", "Use fp8 operands."))
    assert main([*options, "--check"]) == 1
    said = capsys.readouterr().err
    assert "KBH101-bf16-product.md is stale" in said and "KBH999-gone.md is stale" in said
    main(options)
    assert main([*options, "--check"]) == 0


def test_a_malformed_rule_stops_the_generator_with_its_place(
    tmp_path: Path, rules: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (rules / "KBH101-bf16-product.yaml").write_text(GOOD.replace("severity: error", "severity: bad"))
    assert main([str(tmp_path / "docs"), "--rules-dir", str(rules)]) == 2
    assert "KBH101-bf16-product.yaml:5: " in capsys.readouterr().err
