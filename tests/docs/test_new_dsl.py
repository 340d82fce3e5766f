"""The page about new kernel languages, followed to the letter: its files, its row, its two programs."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import kbh_lint
from kbh_lint import registry
from kbh_lint.findings import FileReport
from kbh_lint.registry import Language

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/contributing/new-dsl.md").read_text(encoding="utf-8")
BLOCKS = dict(re.findall(r"```python\n# ([^\n]+)\n(.*?)```", PAGE, re.DOTALL))
REMOVED, ADDED = re.findall(r"^[-+](        .*\n)", PAGE[PAGE.index("```diff") :], re.MULTILINE)


@pytest.fixture
def loom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Language]:
    for name, text in BLOCKS.items():
        if name.endswith(".py"):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    row = eval(BLOCKS["the row"], {"Language": Language})
    registry.register(row)
    yield row
    registry.forget(row)
    for name in [name for name in sys.modules if name.partition(".")[0] == "loom"]:
        del sys.modules[name]


def lint(folder: Path, text: str) -> FileReport:
    path = folder / "solution.py"
    path.write_text(text, encoding="utf-8")
    return kbh_lint.lint([path], problem="01_fp8_gemm").files[0]


def test_the_language_of_the_page_is_read_after_its_row_is_added(tmp_path: Path, loom: Language) -> None:
    honest, leak = BLOCKS["honest"], BLOCKS["honest"].replace(REMOVED, ADDED)
    assert honest != leak
    report = lint(tmp_path, honest)
    assert (report.verdict, {p.state for p in report.promises}) == ("clean", {"kept"}), report
    report = lint(tmp_path, leak)
    assert (report.verdict, report.findings[0].rule) == ("rubric_leak", "KBH101"), report
    report = lint(tmp_path, honest.replace("loom.fetch(w)", "loom.unheard_of(w)"))
    assert report.verdict == "unproven", report
    assert any("loom.unheard_of" in str(told) for told in (*report.unread, *report.promises)), report.promises


def test_without_its_row_it_is_not_read(tmp_path: Path) -> None:
    assert lint(tmp_path, BLOCKS["honest"]).verdict == "unproven"


def test_a_name_or_a_package_has_one_language() -> None:
    with pytest.raises(ValueError, match="registered already"):
        registry.register(Language("tilelang", "x", ("x",), "x"))
    with pytest.raises(ValueError, match="registered already"):
        registry.register(Language("x", "x", ("tilelang",), "x"))
