"""Which findings of a run are news, and which can be mended: --diff, --baseline, --write-baseline, --fix."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from kbh_lint.base.errors import UsageError
from kbh_lint.base.records import dataclass
from kbh_lint.findings import FileReport, Report
from kbh_lint.triage.baseline import BaselineError, read

if TYPE_CHECKING:
    from kbh_lint.triage.baseline import Baseline
    from kbh_lint.triage.changes import Changes


def add_options(ask: argparse.ArgumentParser) -> None:
    """Adds --diff, --baseline, --write-baseline, --fix and --fix-diff to a parser."""
    some = ask.add_argument_group("some of the findings")
    some.add_argument("--diff", metavar="REV|FILE",
                      help="only files that differ from a git revision, or that a unified diff (*.diff, *.patch, - for"
                      " standard input) names")  # fmt: skip
    some.add_argument("--baseline", metavar="FILE", help="do not list, nor exit 1 for, what this file counts as known")
    some.add_argument(
        "--write-baseline", action="store_true", help="write what is found to the --baseline FILE; exit 0"
    )
    some.add_argument("--fix", action="store_true",
                      help="in problem folders, rewrite what follows from other files: prompt.md, derived tolerances,"
                      " unused suppressions")  # fmt: skip
    some.add_argument("--fix-diff", action="store_true", help="print what --fix would change, and change nothing")


@dataclass(frozen=True, slots=True)
class Known:
    """What is left of a report beside a baseline; `seen` says whether a file's verdict is the recorded one."""

    report: Report
    seen: Callable[[FileReport], bool]


def changes(args: argparse.Namespace) -> Changes | None:
    """The files of --diff; None without it. Raises UsageError."""
    if args.diff is None:
        return None
    from kbh_lint.triage import changes  # start-up: few runs ask for it

    return changes.read(args.diff, [Path(path) for path in args.paths])


def baseline(args: argparse.Namespace) -> Baseline | None:
    """The file of --baseline, read before anything is linted. Raises UsageError."""
    if args.baseline is None:
        if args.write_baseline:
            raise UsageError("--write-baseline needs --baseline FILE, the file to write")
        return None
    if args.write_baseline and (args.diff or args.select or args.ignore):
        raise UsageError("--write-baseline counts all findings; leave out --diff, --select and --ignore")

    try:
        return read(Path(args.baseline), must_exist=not args.write_baseline)
    except BaselineError as error:
        raise UsageError(str(error)) from None


def apply(known: Baseline | None, report: Report, args: argparse.Namespace, prog: str) -> Known:
    """Hides the findings that the baseline counts, after writing it anew with --write-baseline, and says on standard
    error when it counts findings that are gone."""
    if known is None:
        return Known(report, lambda file: False)
    if args.write_baseline:
        made = known.with_report(report)
        try:
            made.write()
        except BaselineError as error:
            raise UsageError(str(error)) from None
        count = sum(sum(entry.rules.values()) for entry in made.entries.values())
        print(f"{prog}: {known.path} counts {count} findings in {len(made.entries)} files", file=sys.stderr)
        known = made
    outdated = known.outdated(report)
    if outdated and not args.quiet and not (args.select or args.ignore):
        print(f"{prog}: {known.path} counts findings that are gone ({outdated}); --write-baseline updates it",
              file=sys.stderr)  # fmt: skip
    return Known(known.hide(report), known.knows_verdict)
