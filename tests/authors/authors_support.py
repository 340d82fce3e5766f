"""Problem folders made from text: the base problem with the parts that an example of a KBH9xx rule shows."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import kbh_lint
from kbh_lint.authors import prompt
from kbh_lint.authors.folders import find
from kbh_lint.authors.lint import lint
from kbh_lint.base import paths
from kbh_lint.findings import FileReport
from kbh_lint.marked import DataError
from kbh_lint.problems import load_problem
from kbh_lint.rules import load_rules

BASE = Path(__file__).parent / "base"
ID = "11_bf16_gemm"
RULES = load_rules(paths.rules_dir())
_HEAD = re.compile(r"^=== (\S+)(?: \((.+)\))?\n", re.M)
_KEY = re.compile(r"^(?=[a-z_]+:)", re.M)
_KNOWN: dict[tuple[str, str], FileReport] = {}


def build(code: str, deck: Path) -> Path:
    """Writes the base problem with the changes of an example into a deck; returns the problem's folder.

    A file that the example shows replaces the base's; of problem.yaml only the top-level keys that are shown. A prompt
    that is not shown is generated.
    """
    folder = deck / ID
    shutil.copytree(BASE / ID, folder, ignore=shutil.ignore_patterns("__pycache__"))
    pieces = _HEAD.split(code)
    for name, action, text in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
        path = folder / name
        if action == "removed":
            path.unlink()
        elif action:
            shutil.copy(folder / action.removeprefix("copy of "), path)
        elif name == "problem.yaml":
            path.write_text(merged(path.read_text(), text))
        else:
            path.write_text(text)
    if "=== prompt.md" not in code:
        try:
            problem = load_problem(folder / "problem.yaml")
        except DataError:
            return folder
        (folder / prompt.PROMPT).write_text(prompt.write(folder, problem))
    return folder


def merged(base: str, text: str) -> str:
    """YAML in which the top-level keys of `text` replace those of `base`."""
    blocks = {block.partition(":")[0]: block for block in _KEY.split(base) if block.strip()}
    for block in _KEY.split(text):
        if block.strip():
            blocks[block.partition(":")[0]] = block.rstrip("\n") + "\n\n"
    return "".join(blocks.values())


def lint_files(deck: Path, files: Sequence[tuple[Path, str]]) -> list[FileReport]:
    """The linter on solutions; one that was seen with the same contracts and promises is not linted again."""
    found = []
    for path, name in files:
        problem = load_problem(deck / name / "problem.yaml")
        about = repr((problem.shapes, problem.contracts, problem.promises, problem.bans))
        key = (path.read_text(), about)
        if key not in _KNOWN:
            report = kbh_lint.lint([path], problem=name, problems_dir=deck, raise_errors=True).files[0]
            _KNOWN[key] = report
        found.append(_KNOWN[key])
    return found


def report(deck: Path, trusted: Path | None = None) -> list[FileReport]:
    """The author reports on a deck; its code is run only when it is `trusted`."""
    return lint(find([deck]), RULES, lint_files, trusted or Path("/nowhere"))


def said(files: Sequence[FileReport]) -> list[str]:
    """Findings and notes, for a failing test."""
    return [f"{f.rule}: {f.message}" for file in files for f in file.findings] + [
        n for file in files for n in file.notes
    ]
