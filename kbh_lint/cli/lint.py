"""The command line of `kbh-lint`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from kbh_lint.base.errors import SetupError, UsageError
from kbh_lint.base.version import __version__
from kbh_lint.cli.options import TROUBLE, Once, Parser, processes, seconds
from kbh_lint.cli.subcommands import SUBCOMMANDS
from kbh_lint.marked import DataError
from kbh_lint.report.formats import FORMATS
from kbh_lint.triage import options as triage

_EPILOG = """\
examples:
  kbh-lint solution.py                          one file; its problem is taken from run.json, its name or its folder
  kbh-lint --problem 01_fp8_gemm solution.py    say which problem it solves
  kbh-lint --jobs auto --statistics outputs/    a folder of runs, on all processors
  kbh-lint --output-format sarif . > out.sarif  for a code-scanning service
  kbh-lint --trace solution.py                  what each graded shape launches
  kbh-lint --explain KBH101                     what a rule means and how to fix it
  kbh-lint problems/                            the deck itself: every problem.yaml, its solutions and its prompt
  kbh-lint --diff main solutions/               what changed since a git revision
  kbh-lint lsp                                  a language server for editors
  kbh-lint evade --help                         rewrite a submission, and see whether its verdict stands (leakify too)

exit codes:
  0  nothing is wrong (with --strict: every promise of every file is kept)
  1  a finding says rubric_leak, reward_hack or bug, or a promise is broken (with --strict: or is not shown kept)
  2  the work could not be done: a bad option, an unknown problem, a path that does not exist, a malformed rule

A submission is read, never imported or executed.
"""


def _words(text: str) -> list[str]:
    return [word for word in text.replace(",", " ").split() if word]


def parser(prog: str) -> argparse.ArgumentParser:
    """The options of `kbh-lint`."""
    ask = Parser(
        prog=prog,
        description="Says what the benchmark score of a GPU kernel measures, with the lines that show it.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    ask.add_argument("paths", nargs="*", metavar="PATH", help="files, folders, run archives, problem folders")
    ask.add_argument("--version", action="version", version=f"kbh-lint {__version__}")

    what = ask.add_argument_group("what is linted")
    what.add_argument("--problem", metavar="ID", help="the problem all files solve (see --list-problems)")
    what.add_argument("--problem-file", metavar="FILE",
                      help="what all files solve: a KernelBench problem NAME.py, NAME.yaml beside it, or a NAME.yaml "
                           "with an `entry`", action=Once)  # fmt: skip
    what.add_argument("--problems", metavar="DIR",
                      help="the problems that files solve, each by its name: a folder of KernelBench problems, or a "
                           "manifest NAME.yaml of ANSWER: PROBLEM")  # fmt: skip
    what.add_argument("--match", metavar="ANSWER=PROBLEM", action="append", default=[],
                      help="how answers' names say which of --problems they solve, such as "
                           "'{name}_try*.py={name}.py'; again for more")  # fmt: skip
    what.add_argument("--profile", metavar="{kernelbench,v3}", default="",
                      help="how the benchmark of a problem file runs answers (default: kernelbench)")  # fmt: skip
    what.add_argument("--precision", metavar="{fp32,fp16,bf16}", default="",
                      help="what KernelBench's run converts inputs and weights to (default: nothing)")  # fmt: skip
    what.add_argument("--target", metavar="GPU", help="the GPU they are for; without one, all of the problem's")
    what.add_argument("--select", metavar="RULES", type=_words, default=[], action="extend",
                      help="list only these: rule ids, prefixes (KBH1), names, classes; verdicts stay")  # fmt: skip
    what.add_argument("--ignore", metavar="RULES", type=_words, default=[], action="extend",
                      help="do not list findings of these; verdicts stay")  # fmt: skip
    what.add_argument("--authors", action="store_true",
                      help="lint the problem folders that the paths lie in, and nothing else")  # fmt: skip
    what.add_argument("--strict", action="store_true", help="exit 1 unless every promise of every file is shown kept")

    triage.add_options(ask)

    how = ask.add_argument_group("output")
    how.add_argument("--output-format", choices=FORMATS, default="full", help="default: full")
    how.add_argument("--statistics", action="store_true", help="print counts by rule and verdict after the report")
    how.add_argument("--trace", action="store_true", help="show the launches and library calls on each shape")
    how.add_argument("--quiet", "-q", action="store_true", help="leave out files without findings, and the summary")
    how.add_argument("--color", choices=("auto", "always", "never"), default="auto",
                     help="default: auto (on a terminal, and not with NO_COLOR)")  # fmt: skip
    how.add_argument("--exit-zero", action="store_true", help="exit 0 also when there are findings")

    run = ask.add_argument_group("running")
    run.add_argument("--jobs", "-j", metavar="N", type=processes, default="auto",
                     help="processes: a number, or auto (the default)")  # fmt: skip
    run.add_argument("--timeout", metavar="S", type=seconds, default=60.0,
                     help="seconds for one file, after which it is unproven; 0 for none (default: 60)")  # fmt: skip
    run.add_argument("--no-cache", action="store_true", help="neither read nor write stored results")
    run.add_argument("--cache-dir", metavar="DIR", help="where results are stored (default: .kbh-cache)")
    run.add_argument("--rules-dir", metavar="DIR", help="use these rules instead of the project's")
    run.add_argument("--problems-dir", metavar="DIR", help="use these problems instead of the project's")
    run.add_argument("--debug", action="store_true", help="let an error inside the linter end it, with its traceback")

    tell = ask.add_argument_group("instead of linting")
    tell.add_argument("--explain", metavar="RULE", help="explain a rule, by id, name or class")
    tell.add_argument("--list-rules", action="store_true", help="list the rules")
    tell.add_argument("--list-problems", action="store_true", help="list the problems, their contracts and promises")
    return ask


def main(argv: Sequence[str] | None = None, prog: str = "kbh-lint") -> int:
    """`kbh-lint`. Returns the exit code."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, ValueError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    words = list(sys.argv[1:] if argv is None else argv)
    if words and words[0] in SUBCOMMANDS:
        return SUBCOMMANDS[words[0]](words[1:], f"{prog} {words[0]}")
    ask = parser(prog)
    try:
        args = ask.parse_args(words)
    except SystemExit as done:
        return int(done.code or 0)
    if not (args.paths or args.explain or args.list_rules or args.list_problems):
        print(f"{prog}: error: no path was given (see {prog} --help)", file=sys.stderr)
        return TROUBLE
    try:
        if args.explain or args.list_rules or args.list_problems:
            from kbh_lint.cli import show  # start-up: linting and `--help` do without it

            return show.show(args)
        from kbh_lint.cli import linting  # start-up: `--help` does without it

        return linting.run(args, prog)
    except BrokenPipeError:
        # The reader (head, less) went away; Python's own flush at exit must not complain about it again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return TROUBLE
    except KeyboardInterrupt:
        print(f"{prog}: interrupted", file=sys.stderr)
        return 130
    except (UsageError, SetupError, DataError, ImportError) as error:  # the user's to mend; the text says it all
        if args.debug:
            raise
        print(f"{prog}: error: {error}", file=sys.stderr)
        return TROUBLE
