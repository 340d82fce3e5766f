"""`kbh release`: makes of an archive what others can check. Needs no torch."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.archive.commands import Parser, Progress, guarded
from harness.archive.store import Archive
from harness.release.contents import usual_options
from harness.release.verify_cli import add_work, show_faults
from harness.release.write import write_release

__all__ = ["main", "parser"]

MADE, NAMED = 0, 1

_EPILOG = """\
A release is the archive as one file, with its index, the keys of all trials, what graded, and the statistics, each
with its hash; in a folder, or in one file where the name ends in .tar. It is checked first as kbh verify checks it.
The id that is printed stands for all of it: publish it apart from the release, and readers give it as --expect.

exit codes: 0 made; 1 made, and kbh verify will name what is named here; 2 nothing was made
"""


def parser() -> argparse.ArgumentParser:
    """The options of `kbh release`."""
    ask = Parser(
        prog="kbh release", description="Makes of an archive what others can check.", epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
    )  # fmt: skip
    ask.add_argument("archive", type=Path, metavar="ARCHIVE")
    ask.add_argument("-o", "--output", metavar="DIR|FILE.tar", type=Path, required=True, help="what is not there yet")
    usual = usual_options()
    ask.add_argument("--over", choices=("problems", "deck"), default=usual["over"], help="as for kbh stats")
    ask.add_argument("--margin", metavar="X", type=float, default=usual["margin"], help="as for kbh stats")
    ask.add_argument("--level", metavar="X", type=float, default=usual["level"], help="as for kbh stats")
    add_work(ask)
    return ask


def main(argv: Sequence[str] | None = None) -> int:
    """`kbh release`. Returns the exit code."""
    return guarded(parser(), argv, _release)


def _release(args: argparse.Namespace) -> int:
    progress = Progress()
    options = {"over": args.over, "margin": args.margin, "level": args.level}
    found = write_release(
        Archive.open(args.archive), args.output, options, lint=not args.no_lint, jobs=args.jobs,
        problems_dir=args.problems_dir, told=progress,
    )  # fmt: skip
    progress.clear()
    show_faults("kbh release", found, sys.stderr)
    print(f"{args.output}: {found.entries} entries, {found.gradings} gradings")
    print(f"id {found.id}")
    return NAMED if found.faults else MADE
