"""`kbh verify`: holds every file of an archive against what its name and the others say. Needs no torch."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.archive.commands import Parser, Progress, guarded
from harness.archive.store import Archive
from harness.archive.verify import verify
from kbh_lint.report.text import one_line

__all__ = ["main", "parser"]

WHOLE, FAULTY = 0, 1
MOST_SHOWN = 1000

_EPILOG = """\
Every file's hash, every manifest, every bundle as `kbh show --verify` does, every run's record against its calls, its
solution and its grading, and the index against the files.

exit codes: 0 all of it is whole; 1 something is not, and is named; 2 there is no archive, or it cannot be read
"""


def parser() -> argparse.ArgumentParser:
    """The options of `kbh verify`."""
    ask = Parser(
        prog="kbh verify", description="Checks a whole archive.", epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
    )  # fmt: skip
    ask.add_argument("archive", type=Path, metavar="ARCHIVE")
    ask.add_argument("--json", action="store_true", help="for programs")
    return ask


def main(argv: Sequence[str] | None = None) -> int:
    """`kbh verify`. Returns the exit code."""
    return guarded(parser(), argv, _verify)


def _verify(args: argparse.Namespace) -> int:
    progress = Progress()
    found = verify(Archive.open(args.archive), progress)
    progress.clear()
    if args.json:
        print(json.dumps({"version": 1, "entries": found.entries, "whole": found.whole, "loose_objects": found.loose,
                          "faults": found.faults}, indent=1))  # fmt: skip
    else:
        for fault in found.faults[:MOST_SHOWN]:
            print(f"kbh verify: {one_line(fault)}", file=sys.stderr)
        if len(found.faults) > MOST_SHOWN:
            print(f"kbh verify: and {len(found.faults) - MOST_SHOWN} more faults", file=sys.stderr)
        loose = f"; {found.loose} objects belong to no entry, as a cut leaves them" if found.loose else ""
        print(f"{found.whole} of {found.entries} entries are whole{loose}")
    return FAULTY if found.faults else WHOLE
