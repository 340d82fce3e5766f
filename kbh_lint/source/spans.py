"""Places in files."""

from __future__ import annotations

from kbh_lint.base.records import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """A range in a file. Lines and columns count from 1; `end_column` is one past the last character."""

    path: str
    line: int
    column: int
    end_line: int
    end_column: int
