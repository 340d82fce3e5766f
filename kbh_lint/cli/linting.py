"""A run of `kbh-lint` once its command line is read: what it prints, and its exit code."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable

from kbh_lint.base import paths
from kbh_lint.base.limits import leave_garbage, memory_limit
from kbh_lint.base.version import __version__
from kbh_lint.cli.options import CLEAN, FINDINGS, TROUBLE, use_colour
from kbh_lint.findings import FileReport, Report
from kbh_lint.report.formats import FORMATS, Given
from kbh_lint.rules import Rule
from kbh_lint.service import hygiene
from kbh_lint.service.api import lint
from kbh_lint.service.cache import DEFAULT_DIR
from kbh_lint.service.one_file import load_rules_once
from kbh_lint.triage import options as triage
from kbh_lint.verdict import FLAGGED, accepted


def run(args: argparse.Namespace, prog: str) -> int:
    """Lints as the command line says. Returns the exit code."""
    leave_garbage()
    return _run(args, prog)


def _run(args: argparse.Namespace, prog: str) -> int:
    baseline = triage.baseline(args)
    report = _lint(args)
    if args.fix or args.fix_diff:
        from kbh_lint.triage import fixing  # start-up: few runs ask for it

        if args.fix_diff:
            return fixing.fix_diff(report, args)
        if fixing.fix(report, args, prog):
            report = _lint(args)
    known = triage.apply(baseline, report, args, prog)
    report = known.report
    form = FORMATS[args.output_format]
    given = Given(lambda: _rules(report, args), use_colour(args.color), args.quiet, __version__)
    sys.stdout.write(form.render(report, given))
    if args.statistics:
        print(statistics(report), end="", file=sys.stdout if form.for_people else sys.stderr)
    sys.stdout.flush()
    if form.for_people and report.files and not args.quiet:
        if hygiene.executable() is None:
            print(f"{prog}: {hygiene.MISSING}", file=sys.stderr)
    if not form.for_people:
        for error in report.errors:
            print(f"{prog}: error: {error}", file=sys.stderr)
    if args.write_baseline and not report.errors:
        return CLEAN
    return exit_code(report, args, prog, known.seen)


def _lint(args: argparse.Namespace) -> Report:
    with memory_limit():
        return lint(
            args.paths,
            problem=args.problem,
            target=args.target,
            select=args.select,
            ignore=args.ignore,
            jobs=args.jobs,
            cache=None if args.no_cache else args.cache_dir or DEFAULT_DIR,
            trace=args.trace,
            timeout=args.timeout,
            rules_dir=args.rules_dir,
            problems_dir=args.problems_dir,
            progress=_progress(),
            raise_errors=args.debug,
            authors=args.authors,
            changes=triage.changes(args),
            problem_file=args.problem_file,
            problems=args.problems,
            match=args.match,
            profile=args.profile,
            precision=args.precision,
        )


def _rules(report: Report, args: argparse.Namespace) -> dict[str, Rule]:
    if not any(file.findings for file in report.files):
        return {}

    return {rule.id: rule for rule in load_rules_once(str(paths.rules_dir(args.rules_dir)))}


def statistics(report: Report) -> str:
    """Counts by rule, then by verdict."""
    rules = Counter((f.rule, f.name, f.verdict) for file in report.files for f in file.findings)
    verdicts = Counter(file.verdict for file in report.files)
    lines = [f"{count:6}  {rule} {name} [{verdict}]" for (rule, name, verdict), count in sorted(rules.items())]
    lines += [f"{count:6}  files {verdict}" for verdict, count in sorted(verdicts.items())]
    return "".join(f"{line}\n" for line in lines)


def exit_code(
    report: Report, args: argparse.Namespace, prog: str, seen: Callable[[FileReport], bool] = lambda file: False
) -> int:
    """The exit code of a finished run; with --strict says why a file is not accepted. `seen`: see `triage.Known`."""
    if report.errors:
        return TROUBLE
    flagged = any(f.verdict in FLAGGED and f.severity != "info" for file in report.files for f in file.findings)
    if not (args.select or args.ignore):
        flagged = flagged or any(file.verdict in FLAGGED and not seen(file) for file in report.files)
    if args.strict:
        for file in report.files:
            taken, why = accepted(file)
            if not taken:
                flagged = True
                print(f"{prog}: {file.path} is not accepted: {why}", file=sys.stderr)
    elif not flagged and not args.quiet:
        open_ = sum(file.verdict == "unproven" for file in report.files)
        if open_:
            print(f"{prog}: {open_} of {len(report.files)} files are unproven; --strict makes that an error",
                  file=sys.stderr)  # fmt: skip
    return FINDINGS if flagged and not args.exit_zero else CLEAN


def _progress() -> Callable[[int, int], None] | None:
    """Counts files on a terminal's standard error, once the run has taken two seconds."""
    if not sys.stderr.isatty():
        return None
    begun, shown = time.monotonic(), [0.0]

    def tell(done: int, total: int) -> None:
        now = time.monotonic()
        if now - begun < 2 or total < 2:
            return
        if done >= total:
            sys.stderr.write("\r\x1b[K" if shown[0] else "")
        elif now - shown[0] > 0.1:
            shown[0] = now
            sys.stderr.write(f"\r{done}/{total} files\x1b[K")
        sys.stderr.flush()

    return tell
