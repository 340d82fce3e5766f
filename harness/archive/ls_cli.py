"""`kbh ls`: the entries of an archive as a table."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from grader.record.words import fraction
from harness.archive.commands import Parser, add_wanted, facts_in, guarded, wanted
from harness.archive.facts import Facts
from harness.archive.select import counted
from kbh_lint.report.text import one_line

__all__ = ["main", "parser"]

DONE, TROUBLE = 0, 2
HEADS = ("id", "outcome", "problem", "agent model", "target", "trial", "verdict", "score", "when, or why not")
MOST_DETAIL = 60

_EPILOG = """\
One line an entry, in the order in which they began; score is the roofline fraction. A run that was made again does not
count beside the one that does (docs/archive.md says which), nor does a grading that was made again: such a line has a
star after its id. --counted leaves them out.

exit codes: 0 shown; 2 there is no archive, or an entry cannot be read
"""


def parser() -> argparse.ArgumentParser:
    """The options of `kbh ls`."""
    ask = Parser(
        prog="kbh ls", description="Lists the runs and gradings of an archive.", epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
    )  # fmt: skip
    ask.add_argument("archive", type=Path, metavar="ARCHIVE")
    add_wanted(ask)
    ask.add_argument("--counted", action="store_true", help="leave out what does not count")
    ask.add_argument("--json", action="store_true", help="everything that is known, for programs")
    return ask


def main(argv: Sequence[str] | None = None) -> int:
    """`kbh ls`. Returns the exit code."""
    return guarded(parser(), argv, _ls)


def _ls(args: argparse.Namespace) -> int:
    _, found = facts_in("kbh ls", args.archive)
    which = wanted(args)
    every = sorted(found.facts, key=lambda one: (one.started, one.id))
    counting = {one.id for one in counted(every)}
    shown = [one for one in every if which.fits(one) and (not args.counted or one.id in counting)]
    if args.json:
        rows = [{**asdict(one), "counted": one.id in counting} for one in shown]
        print(json.dumps({"version": 1, "entries": rows, "errors": list(found.faults)}, indent=1))
    else:
        print(_table(shown, counting), end="")
    return TROUBLE if found.faults else DONE


def _table(facts: Sequence[Facts], counting: set[str]) -> str:
    rows = [HEADS, *(_row(one, one.id in counting) for one in facts)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADS))]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    total = f"{len(facts)} {'entry' if len(facts) == 1 else 'entries'}"
    return "\n".join([*(lines if facts else []), total]) + "\n"


def _row(one: Facts, counts: bool) -> tuple[str, ...]:
    detail = one.detail if one.outcome not in ("PASS", "accepted") else ""
    when = f"{_utc(one.started)}  {detail[:MOST_DETAIL]}".rstrip()
    who = f"{one.agent} {one.model}" if one.kind == "run" else "(a grading)"
    score = "" if one.roofline_fraction is None else fraction(one.roofline_fraction)
    outcome = f"{one.outcome} {one.ending}".strip() if one.kind == "run" else one.outcome
    row = (one.id[:12] + ("" if counts else "*"), outcome, one.problem, who, one.target, str(one.trial), one.verdict,
           score, when)  # fmt: skip
    return tuple(one_line(text) for text in row)


def _utc(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")
    except (OverflowError, ValueError, OSError):
        return "?"
