"""Fills the tables of docs/runs.md that come from code; with --check only compares them.

A block stands between `<!-- begin: NAME -->` and `<!-- end: NAME -->`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from harness.contamination.rules import docs_table
from harness.running.ending import table

__all__ = ["main"]

PAGE = Path(__file__).resolve().parent.parent / "docs" / "runs.md"
BLOCKS: Mapping[str, Callable[[], str]] = {"endings": table, "contamination": docs_table}


def main() -> int:
    """Entry point; returns the exit code."""
    text = fresh = PAGE.read_text(encoding="utf-8")
    for name, made in BLOCKS.items():
        head, begin, rest = fresh.partition(f"<!-- begin: {name} -->\n")
        _, end, tail = rest.partition(f"<!-- end: {name} -->")
        fresh = head + begin + made() + end + tail
    if fresh == text:
        return 0
    if "--check" in sys.argv[1:]:
        print(f"{PAGE.name} does not have the tables of the code; run `make docs`", file=sys.stderr)
        return 1
    PAGE.write_text(fresh, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
