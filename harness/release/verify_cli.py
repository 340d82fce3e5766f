"""`kbh verify`: an archive, every file of it, or a release, everything that it says. Needs no torch and no GPU."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

from harness.archive.commands import Parser, Progress, guarded
from harness.archive.layout import StoreError
from harness.archive.verify_cli import main as verify_archive
from harness.release.check import verify_release
from harness.release.entries import Verified
from harness.release.pack import is_release
from kbh_lint.cli.options import processes
from kbh_lint.report.text import one_line

__all__ = ["add_work", "main", "parser", "show_faults"]

WHOLE, FAULTY, OPEN = 0, 1, 3
MOST_SHOWN = 1000

_EPILOG = """\
An archive: every file's hash, every manifest, every bundle as `kbh show --verify` does, every run's record against its
calls, its solution and its grading, and the index against the files.

A release: all of that, and floors, scores, verdicts and outcomes worked out again from samples, evidence and sources,
which are linted here; index, keys, environment and statistics are made again from the archive and compared; with
--pages every page too. Nothing of it is run or unpickled, and it needs no GPU.

exit codes: 0 all of it is whole and follows; 1 something is not or does not, and is named; 2 there is no archive and
no release, or it cannot be read; 3 nothing is wrong, and something could not be worked out again here
"""


def parser() -> argparse.ArgumentParser:
    """The options of `kbh verify`."""
    ask = Parser(
        prog="kbh verify", description="Checks an archive, or a release of one.", epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
    )  # fmt: skip
    ask.add_argument("path", type=Path, metavar="ARCHIVE|RELEASE")
    ask.add_argument("--json", action="store_true", help="for programs")
    ask.add_argument("--pages", metavar="DIR", type=Path, help="also make these pages of kbh site again, and compare")
    ask.add_argument("--audit", metavar="FILE", type=Path, help="the audit.json that the pages were made with")
    ask.add_argument("--expect", metavar="ID", default="", help="the id that the release was published with")
    add_work(ask)
    return ask


def add_work(ask: argparse.ArgumentParser) -> None:
    """Adds the options for running the linter."""
    ask.add_argument("--no-lint", action="store_true", help="take the linter's reports in the bundles for true")
    ask.add_argument("--jobs", "-j", metavar="N", type=processes, default="auto", help="for linting (default: auto)")
    ask.add_argument("--problems-dir", metavar="DIR", type=Path, help="use these problems instead of the project's")


def main(argv: Sequence[str] | None = None) -> int:
    """`kbh verify`. Returns the exit code."""
    return guarded(parser(), argv, _verify)


def _verify(args: argparse.Namespace) -> int:
    if not is_release(args.path):
        if args.pages is not None:
            raise StoreError("--pages goes with a release")
        return verify_archive([str(args.path), *(["--json"] if args.json else [])])
    progress = Progress()
    found = verify_release(
        args.path, jobs=args.jobs, lint=not args.no_lint, problems_dir=args.problems_dir, expect=args.expect,
        pages=args.pages, audit=args.audit, told=progress,
    )  # fmt: skip
    progress.clear()
    if args.json:
        print(json.dumps({"version": 1, **asdict(found)}, indent=1))
    else:
        show_faults("kbh verify", found, sys.stderr)
        linted = f", {found.linted} of them linted here" if found.linted else ""
        print(f"{found.whole} of {found.entries} entries are whole and follow; {found.gradings} gradings{linted}")
        if args.pages is not None:
            print(f"{found.pages} pages and files beside them are what follows from the archive")
        print(f"id {found.id}")
    return FAULTY if found.faults else OPEN if found.unchecked else WHOLE


def show_faults(prog: str, found: Verified, stream: TextIO) -> None:
    """Prints what is wrong, and what could not be checked, a line each."""
    for what, each in (("", found.faults), ("not checked: ", found.unchecked)):
        texts = list(dict.fromkeys(each))  # one reason can keep several things from being told
        for text in texts[:MOST_SHOWN]:
            print(f"{prog}: {what}{one_line(text)}", file=stream)
        if len(texts) > MOST_SHOWN:
            print(f"{prog}: {what}and {len(texts) - MOST_SHOWN} more", file=stream)
