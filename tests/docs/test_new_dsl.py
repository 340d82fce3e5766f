"""The page about new kernel languages, followed to the letter: its files, its row, its two programs."""

from __future__ import annotations

import importlib
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


ROWS = {"loom": eval(BLOCKS["the row"], {"Language": Language})}
ROWS["weft"] = Language(name="weft", kernel="weft.jit", packages=("weft",), folder="weft")


def _followed(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Language]:
    for file, text in BLOCKS.items():
        if file.startswith(f"{name}/"):
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))
    registry.register(ROWS[name])
    yield ROWS[name]
    registry.forget(ROWS[name])
    for module in [module for module in sys.modules if module.partition(".")[0] == name]:
        del sys.modules[module]


@pytest.fixture
def loom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Language]:
    yield from _followed("loom", tmp_path / "languages", monkeypatch)


@pytest.fixture
def weft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Language]:
    yield from _followed("weft", tmp_path / "languages", monkeypatch)


def lint(folder: Path, text: str, problem: str = "01_fp8_gemm") -> FileReport:
    path = folder / "solution.py"
    path.write_text(text, encoding="utf-8")
    return kbh_lint.lint([path], problem=problem).files[0]


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


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [("", "", ""), (" - low\n", "\n", "KBH104"), ("low = (total - high) - term", "low = 0.0", "KBH103")],
    ids=["compensated", "computed and left", "not computed"],
)
def test_a_compensated_sum_in_it_is_evaluated(tmp_path: Path, loom: Language, old: str, new: str, rule: str) -> None:
    report = lint(tmp_path, BLOCKS["sums"].replace(old, new) if old else BLOCKS["sums"], "04_kahan_softmax")
    assert [finding.rule for finding in report.findings] == ([rule] if rule else []), report
    assert report.verdict == ("rubric_leak" if rule else "clean"), report


def test_what_is_read_of_it_stands_on_the_page_of_languages(loom: Language, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    tables = importlib.import_module("tools.tables")
    assert "| Loom | read | read | evaluated |" in tables.languages()
    assert "## Loom\n\n`@loom.kernel` makes a kernel" in tables.what_is_read()
    assert "Loom" not in (ROOT / "docs/languages.md").read_text(encoding="utf-8")


def test_a_kernel_that_names_buffers_and_no_pointers_may_write_all_of_one(tmp_path: Path, loom: Language) -> None:
    """What it writes over has no part in the result; what is written after it has."""
    wide = "        y.copy_(torch.matmul(x.float(), self.weight.float().t()))\n"
    launch = next(line for line in BLOCKS["honest"].splitlines(True) if line.startswith("        gemm("))
    for text, verdict in ((wide + launch, "clean"), (launch + wide, "reward_hack")):
        report = lint(tmp_path, BLOCKS["honest"].replace(launch, text))
        assert report.verdict == verdict, report


def test_a_language_of_threads_is_read_with_memory_that_they_share(tmp_path: Path, weft: Language) -> None:
    honest = BLOCKS["threads"]
    leak = honest.replace("shared(weft.float8_e4m3fn)", "shared(weft.bfloat16)")
    leak = re.sub(r"= ([xw]\[[ij], k \+ t\])", r"= weft.cast(\1, weft.bfloat16)", leak)
    assert leak.count("weft.bfloat16") == 5
    report = lint(tmp_path, honest)
    assert (report.verdict, {p.state for p in report.promises}) == ("clean", {"kept"}), report
    report = lint(tmp_path, leak)
    assert (report.verdict, report.findings[0].rule) == ("rubric_leak", "KBH101"), report
    report = lint(tmp_path, honest.replace("weft.sync()", "weft.unheard_of(a)"))
    assert report.verdict == "unproven", report


def test_without_its_row_it_is_not_read(tmp_path: Path) -> None:
    assert lint(tmp_path, BLOCKS["honest"]).verdict == "unproven"


def test_a_name_or_a_package_has_one_language() -> None:
    with pytest.raises(ValueError, match="registered already"):
        registry.register(Language("tilelang", "x", ("x",), "x"))
    with pytest.raises(ValueError, match="registered already"):
        registry.register(Language("x", "x", ("tilelang",), "x"))
