"""What a run mends in problem folders: --fix and --fix-diff."""

from __future__ import annotations

import argparse
import sys

from kbh_lint.authors import fixes
from kbh_lint.authors.fixes import Fix
from kbh_lint.base import paths
from kbh_lint.base.errors import UsageError
from kbh_lint.findings import Report
from kbh_lint.service.one_file import load_rules_once


def fix(report: Report, args: argparse.Namespace, prog: str) -> bool:
    """Does what --fix asks; returns whether anything was written. Raises UsageError when a file cannot be written."""
    found = _fixes(report, args)
    try:
        fixes.write(found)
    except OSError as error:
        raise UsageError(f"{error.filename}: cannot be written ({(error.strerror or 'unknown').lower()})") from None
    for item in found:
        print(f"{prog}: {item.path}: {item.why}", file=sys.stderr)
    if not found:
        print(f"{prog}: there is nothing that --fix may change", file=sys.stderr)
    return bool(found)


def fix_diff(report: Report, args: argparse.Namespace) -> int:
    """Prints what --fix would change, as a diff. Returns the exit code: 1 when there is something to fix."""
    found = _fixes(report, args)
    sys.stdout.write(fixes.preview(found))
    return 1 if found and not args.exit_zero else 0


def _fixes(report: Report, args: argparse.Namespace) -> list[Fix]:
    return fixes.plan(report.files, load_rules_once(str(paths.rules_dir(args.rules_dir))))
