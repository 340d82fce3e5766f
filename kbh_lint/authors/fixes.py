"""What `--fix` may change: text that follows from other files of the same problem folder, and nothing else.

A tolerance is copied from the derived `tolerance.json`, a prompt is rendered from its template, a comment that
suppresses nothing is taken away. Whatever needs a decision (a formula, a ban, a rule for a decoy) stays with the
author, and a submission is never changed.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from kbh_lint import marked
from kbh_lint.authors import numbers, prompt, suppress
from kbh_lint.authors.folder import Folder, line_of, read_text
from kbh_lint.authors.solutions import Solutions
from kbh_lint.base.records import dataclass
from kbh_lint.findings import FileReport
from kbh_lint.marked import DataError
from kbh_lint.problems import Problem, load_problem, parse_problem
from kbh_lint.rules import Rule

_UNUSED = "a suppression that hides nothing taken away"


@dataclass(frozen=True, slots=True)
class Fix:
    """One file with its text before (empty: there is none) and after; `why` says what was done, in a few words."""

    path: Path
    before: str
    after: str
    why: str


def plan(reports: Iterable[FileReport], rules: Collection[Rule]) -> list[Fix]:
    """The fixes for the problem folders that some author reports are about."""
    return [fix for report in reports if Path(report.path).name == "problem.yaml" for fix in _folder(report, rules)]


def write(fixes: Iterable[Fix]) -> None:
    """Writes the files, each whole or not at all. Raises OSError."""
    for fix in fixes:
        beside = fix.path.with_name(f".{fix.path.name}.{os.getpid()}.tmp")
        beside.write_text(fix.after, encoding="utf-8")
        os.replace(beside, fix.path)


def preview(fixes: Iterable[Fix]) -> str:
    """All fixes as a unified diff."""
    lines: list[str] = []
    for fix in fixes:
        before, after = fix.before.splitlines(keepends=True), fix.after.splitlines(keepends=True)
        old = str(fix.path) if fix.before else "/dev/null"
        lines += difflib.unified_diff(before, after, old, str(fix.path))
    return "".join(lines)


def _folder(report: FileReport, rules: Collection[Rule]) -> Iterator[Fix]:
    path = Path(report.path)
    known = {rule.id for rule in rules}
    texts = {file: _without_unused(file, report, known) for file in suppress.files(path.parent)}
    for file, (before, after) in texts.items():
        if file != path and before != after:
            yield Fix(file, before, after, _UNUSED)
    before, text = texts.get(path, ("", ""))
    why = _UNUSED if text != before else ""
    try:
        folder = Folder(path.parent, marked.load(text, str(path)), load_problem(path), Solutions())
        with_tolerances = _with_derived_tolerances(folder, text)
        if with_tolerances != text:
            text, why = with_tolerances, f"the tolerance of {numbers.TOLERANCES}" + (f", {why}" if why else "")
        problem = parse_problem(text, path)
    except DataError:
        return  # the report says what is malformed; nothing can be derived from it
    if text != before:
        yield Fix(path, before, text, why)
    yield from _prompt(path.parent, problem)


def _prompt(folder: Path, problem: Problem) -> Iterator[Fix]:
    try:
        wanted = prompt.write(folder, problem)
    except prompt.PromptError:
        return
    before = read_text(folder / prompt.PROMPT) or ""
    if before != wanted:
        yield Fix(folder / prompt.PROMPT, before, wanted, f"rendered from {prompt.TEMPLATE}")


def _with_derived_tolerances(folder: Folder, text: str) -> str:
    """`problem.yaml` with the derived numbers. A number that does not stand alone on its line is left as it is."""
    lines = text.split("\n")
    for keys, wanted in numbers.stale_tolerances(folder):
        index = line_of(folder.data, *keys) - 1
        pattern = re.compile(rf"(\b{re.escape(str(keys[-1]))}\s*:\s*)[-+.\deE]+")
        if index < len(lines) and len(pattern.findall(lines[index])) == 1:
            lines[index] = pattern.sub(rf"\g<1>{wanted:g}", lines[index])
    return "\n".join(lines)


def _without_unused(file: Path, report: FileReport, known: Collection[str]) -> tuple[str, str]:
    """A file's text, and the same without the comments that suppress nothing. One that names several rules stays."""
    text = read_text(file) or ""
    lines = text.split("\n")
    own = [finding for finding in report.findings if finding.rule == suppress.OWN_RULE]
    reported = {finding.span for finding in own} | {item.span for finding in own for item in finding.related}
    gone: list[int] = []
    for item in suppress.read(file):
        if item.span not in reported or len(item.rules) != 1 or not item.reason or item.rules[0] not in known:
            continue
        index = item.span.line - 1
        lines[index] = lines[index][: item.span.column - 1].rstrip()
        if not lines[index]:
            gone.append(index)
    for index in reversed(gone):
        del lines[index]
    return text, "\n".join(lines)
