"""The documentation is true to the code: links, bounds, and what may import what."""

from __future__ import annotations

import ast
import importlib
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "kbh_lint"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
BASE = {"base", "findings", "marked", "registry"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_of_a_page_leads_to_something(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)", page.read_text())
    missing = [link for link in links if not link.startswith("http") and not (page.parent / link).exists()]
    assert not missing


def test_the_tables_that_come_from_code_are_those_of_the_code() -> None:
    done = subprocess.run([sys.executable, "-m", "tools.tables", "--check"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_kinds_of_sandbox_are_listed_in_the_table_of_their_rows_alone() -> None:
    from grader.record.sandboxes import TRAITS

    kinds = re.compile("|".join(kind for kind in TRAITS if kind != "plain"), re.IGNORECASE)
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        text = re.sub(r"<!-- begin: sandboxes -->.*<!-- end: sandboxes -->", "", page.read_text(), flags=re.DOTALL)
        for part in re.split(r"\n(?=\n|- |\d\. )", text):
            assert len({kind.lower() for kind in kinds.findall(part)}) < 2, part


def test_every_page_can_be_reached_from_the_readme() -> None:
    seen, todo = set(), [ROOT / "README.md"]
    while todo:
        page = todo.pop()
        if page in seen or not page.is_file():
            continue
        seen.add(page)
        todo += [(page.parent / link).resolve() for link in re.findall(r"\]\(([^)#\s]+\.md)", page.read_text())]
    assert not {page.resolve() for page in PAGES} - seen


def test_the_bounds_in_the_operators_page_are_those_of_the_code() -> None:
    rows = re.findall(r"^\| .+ \| ([\d,]+) \| `([\w.]+)\.(\w+)` \|$", (ROOT / "docs/operators.md").read_text(), re.M)
    said = {f"{module}.{name}": int(number.replace(",", "")) for number, module, name in rows}
    real = {
        f"{module}.{name}": getattr(importlib.import_module(f"kbh_lint.{module}"), name) for _, module, name in rows
    }
    assert len(rows) > 10
    assert said == real


def test_the_options_the_operators_page_names_exist() -> None:
    from grader.cli.grade import parser as grade_parser
    from grader.cli.hardware import parser as hardware_parser
    from harness.archive.cli import parser as archive_parser
    from kbh_lint.cli import parser

    lint, _, grade = (ROOT / "docs/operators.md").read_text().partition("## Grading")
    grading = "".join(made().format_help() for made in (grade_parser, hardware_parser, archive_parser))
    for page, usage in ((lint, parser("kbh-lint").format_help()), (grade, grading)):
        options = re.findall(r"--[a-z][a-z-]+", page)
        assert options and [option for option in options if option not in usage] == []


def imports() -> Iterator[tuple[str, str]]:
    """(importing part, imported part) of the package; a part is a top-level module or folder."""
    for path in sorted(PACKAGE.rglob("*.py")):
        importer = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ImportFrom) or not node.module or node.module.split(".")[0] != "kbh_lint":
                continue
            names = node.module.split(".")[1:2] or [alias.name for alias in node.names]
            yield from ((importer, name) for name in names)


def test_parts_import_only_what_the_architecture_page_allows() -> None:
    page = (ROOT / "docs/architecture.md").read_text()
    allowed = {part: {part, "source", *BASE} if part == "source" else BASE | {"source"} for part in BASE}
    for parts, wanted in re.findall(r"^\| ([a-z_, ]+) \| ([a-z_, ]*)\|$", page, re.M):
        for part in parts.split(", "):
            allowed[part] = {part, *BASE, *filter(None, wanted.strip().split(", "))}
    free = {"__init__", "__main__", "__version__"}
    known = {name.stem for name in PACKAGE.glob("*.py")} | {name.parent.name for name in PACKAGE.glob("*/*.py")}
    assert known - free - set(allowed) == set()
    wrong = {(a, b) for a, b in imports() if a not in free and b not in free and b in known and b not in allowed[a]}
    assert wrong == set()


def test_what_contributors_are_sent_to_is_there() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    named = set(re.findall(r"`((?:kbh_lint|grader|harness|rules|problems|tests|tools|docs)/[^`]*)`", text))
    assert len(named) > 20
    assert [name for name in sorted(named) if "nnn" not in name and not (ROOT / name).exists()] == []


def test_the_names_that_contributors_are_to_look_for_are_in_the_files() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    named = re.findall(r"`((?:kbh_lint|grader|harness|rules|problems)/[^`]*\.(?:py|yaml))` \(((?:`\w+`(?:, )?)+)", text)
    assert len(named) >= 20
    found = [(file, name) for file, names in named for name in re.findall(r"\w+", names)]
    assert [(file, name) for file, name in found if not re.search(rf"\b{name}\b", (ROOT / file).read_text())] == []


def test_a_change_is_made_in_four_files_or_its_row_is_known_to_name_more() -> None:
    """How many files a row names to open; of an operation of torch a change needs one. The figures only fall."""
    known = {
        "a kernel language written in Python": 6,
        "an operation of torch: its shape and type": 6,
        "an option of `kbh grade`": 5,
    }
    table = (ROOT / "CONTRIBUTING.md").read_text().partition("| What | Open | Held by |\n|---|---|---|\n")[2]
    rows = [row.strip("| ").split(" | ") for row in table.partition("\n\n")[0].splitlines()]
    assert len(rows) > 25 and all(len(row) == 3 for row in rows)
    assert len({what for what, _, _ in rows}) == len(rows)
    named = {what: len({*re.findall(r"[\w./-]+\.(?:py|yaml|md)\b|\.ci/run", opened)}) for what, opened, _ in rows}
    assert {what: count for what, count in named.items() if count > 4} == known


def _names_something(name: str) -> bool:
    """Whether a dotted name is a module below kbh_lint, or a name that a module there holds."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        place = PACKAGE.joinpath(*parts[:end])
        file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
        if file.is_file():
            return end == len(parts) or re.search(rf"\b{parts[end]}\b", file.read_text()) is not None
    return False


def test_what_the_architecture_names_with_a_dot_is_there() -> None:
    page = (ROOT / "docs/architecture.md").read_text()
    named = set(re.findall(r"`(?!grader)((?:[a-z_]\w*\.)+\w+)`", page.partition("## The deck")[0]))
    assert len(named) > 80
    assert [n for n in sorted(named) if not any(map(_names_something, {n, f"kernels.{n}", f"analyses.{n}"}))] == []


def test_every_word_of_the_glossary_stands_where_it_says() -> None:
    rows = re.findall(r"\| ((?:`[\w.]+`(?:, )?)+) \|$", (ROOT / "docs/glossary.md").read_text(), re.MULTILINE)
    names = [name for row in rows for name in re.findall(r"`([\w.]+)`", row)]
    assert len(names) > 20
    places = {name: ROOT / name.replace(".", "/") for name in names}
    assert [n for n, place in places.items() if not (place.is_dir() or place.with_suffix(".py").is_file())] == []


def test_the_map_of_the_quick_run_has_a_row_for_every_file_and_names_folders_that_are_there() -> None:
    quick = runpy.run_path(str(ROOT / "tools/quick.py"))
    rows = quick["PACKAGES"]
    assert [key for key in rows if not (ROOT / key).exists()] == []
    named = {name for names in rows.values() for name in names} | {quick["LAW"]}
    assert [name for name in named if not (ROOT / "tests" / name).is_dir()] == []
    for top in ("kbh_lint", "grader", "harness", "rules", "problems", "docs", "bench", "tools", "examples", "results"):
        assert any(Path(top, "x").is_relative_to(key) for key in rows), top
    nearest = quick["nearest"]([Path("grader/judge/turns.py"), Path("rules/KBH101-fp8-upcast-bf16-gemm.yaml")])
    assert nearest[0] == Path("tests/grader/test_turns.py")
    assert any(path.parts[1] == "rules" for path in nearest)
