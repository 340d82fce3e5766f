"""Fills the tables of the pages in docs/ that come from code; with --check only compares them.

A block stands between `<!-- begin: NAME -->` and `<!-- end: NAME -->`.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from grader.record.sandboxes import docs_table as sandboxes
from harness.contamination.rules import docs_table
from harness.running.ending import table
from harness.statistics.coverage_page import tables as coverage
from harness.view.schema import tables
from kbh_lint import registry
from kbh_lint.host.effects.foreign import unread_languages
from kbh_lint.kernels.languages import cuda
from kbh_lint.problems.promise_kinds import docs_table as promise_kinds
from kbh_lint.report.formats import docs_table as formats

__all__ = ["main"]

DOCS = Path(__file__).resolve().parent.parent / "docs"


def languages() -> str:
    """What is read of each language of kernels: those that are modelled, and those that are only recognised."""
    rows = [row for module in _languages() for row in module.READ]
    unread = ", ".join(filter(None, dict.fromkeys(unread_languages().values())))
    rows.append((unread, "recognised", "not read", "not evaluated"))
    head = "| Language | Launches, caches, graphs | Products, types, copies | Compensated sums |\n|---|---|---|---|\n"
    return head + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def what_is_read() -> str:
    """A section for each language whose folder says more of it, in the text at its head."""
    texts = [(module.READ[0][0], (module.__doc__ or "").partition("\n\n")[2]) for module in _languages()]
    return "\n".join(f"## {name}\n\n{text.strip()}\n" for name, text in texts if text)


def _languages() -> list[ModuleType]:
    triton, *others = (importlib.import_module(row.folder) for row in registry.rows())
    return [triton, cuda, *others]


BLOCKS: tuple[tuple[str, str, Callable[[], str]], ...] = (
    ("languages.md", "languages", languages),
    ("languages.md", "what is read", what_is_read),
    ("operators.md", "sandboxes", sandboxes),
    ("problem-format.md", "kinds of promises", promise_kinds),
    ("reports.md", "formats", formats),
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
