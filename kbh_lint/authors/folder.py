"""One problem folder as its author wrote it: files with lines, and facts that point at them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from kbh_lint import marked
from kbh_lint.authors.solutions import Solutions
from kbh_lint.base.fact_kind import FactKind
from kbh_lint.base.records import dataclass
from kbh_lint.findings import Fact, fact_of
from kbh_lint.marked import Items, Map
from kbh_lint.problems import Problem, Target
from kbh_lint.source.spans import Span

MAX_TEXT = 1_000_000


@dataclass(frozen=True, slots=True)
class Folder:
    """A problem folder that could be read. `data` is `problem.yaml` with its lines."""

    path: Path
    data: Map
    problem: Problem
    solutions: Solutions
    targets: Mapping[str, Target] = field(default_factory=dict)

    def fact(self, fact: FactKind, *keys: str | int, shapes: tuple[str, ...] = ()) -> Fact:
        """A fact at the place in `problem.yaml` that the keys lead to, as far as they do."""
        span = at(self.path / "problem.yaml", line_of(self.data, *keys))
        return fact_of(fact, span, shapes=shapes, total=len(self.problem.shapes))

    def fact_in(self, fact: FactKind, name: str, line: int) -> Fact:
        """A fact at a line of another file of the folder."""
        return fact_of(fact, at(self.path / name, line), total=len(self.problem.shapes))


def line_of(data: object, *keys: str | int) -> int:
    """The line of the entry that the keys lead to; of the deepest that is there."""
    line = int(getattr(data, "line", 1))
    for key in keys:
        held: Any = data if isinstance(data, Map | Items) else ()
        if key not in (range(len(held)) if isinstance(held, Items) else held):
            break
        line, data = held.lines[key], held[key]
    return line


def at(path: Path, line: int) -> Span:
    """The span of one line's text, without the white space around it."""
    text = (read_text(path) or "").splitlines()
    content = text[line - 1] if 0 < line <= len(text) else ""
    first = len(content) - len(content.lstrip()) + 1
    return Span(str(path), line, first, line, max(len(content.rstrip()) + 1, first))


def read_text(path: Path) -> str | None:
    """A file's text; None when it is missing, too large or not text."""
    try:
        if path.stat().st_size > MAX_TEXT:
            return None
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def read_yaml(path: Path) -> Map | None:
    """A YAML file with lines; None when it is not there. Raises DataError when it cannot be read."""
    text = read_text(path)
    return None if text is None else marked.load(text, str(path))
