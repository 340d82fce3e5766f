"""Fills the tables of the pages in docs/ that come from code; with --check only compares them.

A block stands between `<!-- begin: NAME -->` and `<!-- end: NAME -->`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from grader.record.sandboxes import docs_table as sandboxes
from harness.contamination.rules import docs_table
from harness.running.ending import table
from harness.statistics.coverage_page import tables as coverage
from harness.view.schema import tables
from kbh_lint.problems.promise_kinds import docs_table as promise_kinds

__all__ = ["main"]

DOCS = Path(__file__).resolve().parent.parent / "docs"
BLOCKS: tuple[tuple[str, str, Callable[[], str]], ...] = (
    ("operators.md", "sandboxes", sandboxes),
    ("problem-format.md", "kinds of promises", promise_kinds),
    ("runs.md", "endings", table),
    ("runs.md", "contamination", docs_table),
    ("statistics.md", "coverage", coverage),
    ("trajectory.md", "events", tables),
)


def main() -> int:
    """Entry point; returns the exit code."""
    stale = []
    for name, block, made in BLOCKS:
        page = DOCS / name
        text = page.read_text(encoding="utf-8")
        head, begin, rest = text.partition(f"<!-- begin: {block} -->\n")
        _, end, tail = rest.partition(f"<!-- end: {block} -->")
        fresh = head + begin + made() + end + tail
        if fresh == text:
            continue
        stale.append(name)
        if "--check" not in sys.argv[1:]:
            page.write_text(fresh, encoding="utf-8")
    if stale and "--check" in sys.argv[1:]:
        print(f"{', '.join(stale)}: not the tables of the code; run `make docs`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
