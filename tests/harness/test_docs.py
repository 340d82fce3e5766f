"""The pages about runs say what the code does: tables, options, arrows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "harness"


def test_the_options_that_the_pages_name_exist() -> None:
    from grader.cli.grade import parser as grade
    from harness.agents.cli import parser as agents
    from harness.running.cli import parser as run
    from harness.running.replay_cli import parser as replay
    from harness.sweep.cli import parser as sweep
    from harness.view.cli import parser as view

    usage = "".join(made().format_help() for made in (grade, agents, run, replay, view, sweep))
    usage += "".join((ROOT / path).read_text() for path in ("bench/agents.py", "bench/sweep.py", "kbh_lint/cli/kbh.py"))
    theirs = {"--model", "--version", "--head", "--address", "--resources"}  # of CLIs, and of ray
    for page in ("runs", "agents", "scripts", "trajectory", "sweeps"):
        named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", (ROOT / "docs" / f"{page}.md").read_text()))
        assert sorted(option for option in named if option not in usage and option not in theirs) == []


def imports() -> Iterator[tuple[str, str]]:
    """(importing part, imported part) of harness."""
    for path in sorted(PACKAGE.rglob("*.py")):
        importer = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "harness":
                parts = node.module.split(".")[1:2] or [alias.name for alias in node.names]
                yield from ((importer, part) for part in parts if part != importer)


def test_parts_of_the_harness_import_only_what_the_architecture_page_allows() -> None:
    _, _, page = (ROOT / "docs" / "architecture.md").read_text().partition("| Part of harness |")
    allowed: dict[str, set[str]] = {}
    for parts, wanted in re.findall(r"^\| ([a-z_, ]+) \| ([a-z_, ]*)\|$", page.partition("\n\n")[0], re.M):
        for part in parts.split(", "):
            allowed[part] = {"record", *filter(None, wanted.strip().split(", "))}
    assert set(allowed) >= {"record", "running", "proxy", "room"}
    assert sorted((a, b) for a, b in imports() if a != "__init__" and b not in allowed[a]) == []


def test_the_linter_and_the_grader_know_nothing_of_the_harness() -> None:
    known = {"kbh_lint/cli/kbh.py"}  # whose commands import what they run, late
    found = []
    for package in ("kbh_lint", "grader"):
        for path in sorted((ROOT / package).rglob("*.py")):
            if re.search(r"^\s*(from|import) harness\b", path.read_text(), re.M):
                found.append(str(path.relative_to(ROOT)))
    assert set(found) <= known
