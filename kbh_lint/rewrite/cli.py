"""The commands `kbh-lint evade` and `kbh-lint leakify`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from kbh_lint.base.errors import UsageError

TROUBLE = 2
MAX_SEED = 10**9
MAX_SHARDS = 10**4

_EVADE = """\
Rewrites a submission so that it means the same and reads differently: names, imports, lookups, control flow, CUDA text,
places. A verdict that such a rewrite changes stands on spelling.

  kbh-lint evade --list                          the rewrites
  kbh-lint evade --seed 7 solution.py            six of them, drawn by seed, to standard output
  kbh-lint evade --only cuda-rename -o out.py solution.py
  kbh-lint evade --check examples/               every rewrite on every example of every rule and on a folder

exit codes: 0 rewritten, or the share of verdicts kept reaches --goal; 1 it does not; 2 the work could not be done
"""
_LEAKIFY = """\
Rewrites an honest submission in one step so that it is none any more. A rewrite that the linter does not notice is a
leak that it would let through.

  kbh-lint leakify --list                        the rewrites
  kbh-lint leakify --only remember-output solution.py
  kbh-lint leakify --check problems/             every rewrite on every good example of every rule and on a folder

exit codes: 0 rewritten, or the share of verdicts changed reaches --goal; 1 it does not; 2 the work could not be done
"""


def _number(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not text.isdecimal() or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number from {low} to {high}")
        return int(text)

    return read


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share from 0 to 1")
    return value


def _part(text: str) -> tuple[int, int]:
    index, _, count = text.partition("/")
    if not (index.isdecimal() and count.isdecimal() and 1 <= int(index) <= int(count) <= MAX_SHARDS):
        raise argparse.ArgumentTypeError(f"{text!r} is not a part I/N with I from 1 to N, N at most {MAX_SHARDS}")
    return int(index), int(count)


def _parser(prog: str, text: str, goal: float) -> argparse.ArgumentParser:
    ask = argparse.ArgumentParser(
        prog=prog, description=text, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    ask.add_argument("paths", nargs="*", metavar="PATH", help="a submission; with --check files and folders")
    ask.add_argument("--list", action="store_true", help="list the rewrites and end")
    ask.add_argument("--only", metavar="NAME", action="append", default=[],
                     help="apply this rewrite; several in this order, or with --check each by itself")  # fmt: skip
    ask.add_argument("--seed", metavar="N", type=_number(0, MAX_SEED), default=0, help="what is drawn (default: 0)")
    ask.add_argument("--count", metavar="K", type=_number(1, 100), default=6,
                     help="how many rewrites are drawn, and how many a composition has (default: 6)")  # fmt: skip
    ask.add_argument("-o", "--output", metavar="FILE", help="write here, and sidecars beside it")
    ask.add_argument("--check", action="store_true", help="lint before and after, and print the matrix")
    check = ask.add_argument_group("with --check")
    check.add_argument("--compositions", metavar="N", type=_number(0, 1000), default=3,
                       help="random compositions besides the single rewrites (evade; default: 3)")  # fmt: skip
    check.add_argument("--no-rules", action="store_true", help="leave the examples of the rules out")
    check.add_argument("--problem", metavar="ID", help="the problem that the files under PATH solve")
    check.add_argument("--jobs", "-j", metavar="N", type=_number(1, 256), default=1, help="processes (default: 1)")
    check.add_argument("--timeout", metavar="S", type=_number(1, 3600), default=60,
                       help="seconds to lint one program (default: 60)")  # fmt: skip
    check.add_argument("--sample", metavar="N", type=_number(1, 10**6), help="only so many programs, drawn by seed")
    check.add_argument("--each", metavar="N", type=_number(1, 1000),
                       help="on each program only so many rewrites, drawn by seed anew for each")  # fmt: skip
    check.add_argument("--goal", metavar="SHARE", type=_share, default=goal, help=f"default: {goal}")
    check.add_argument("--json", metavar="FILE", help="write all cells here as JSON")
    check.add_argument("--results", metavar="FILE", action="append", default=[],
                       help="do not try again what stands in this file, and append each new cell to it; more files "
                       "are only read")  # fmt: skip
    check.add_argument("--again", action="store_true", help="try again what was lost or failed in --results")
    check.add_argument("--shard", metavar="I/N", type=_part, help="only part I of N of the programs")
    check.add_argument("--minutes", metavar="M", type=_number(0, 10**5), help="begin nothing more after so long")
    return ask


def evade(argv: Sequence[str], prog: str = "kbh-lint evade") -> int:
    """`kbh-lint evade`. Returns the exit code."""
    return _main(argv, prog, _EVADE, 0.99, leaks=False)


def leakify(argv: Sequence[str], prog: str = "kbh-lint leakify") -> int:
    """`kbh-lint leakify`. Returns the exit code."""
    return _main(argv, prog, _LEAKIFY, 0.95, leaks=True)


def _main(argv: Sequence[str], prog: str, text: str, goal: float, *, leaks: bool) -> int:
    ask = _parser(prog, text, goal)
    try:
        args = ask.parse_args(argv)
    except SystemExit as done:
        return int(done.code or 0)
    try:
        from kbh_lint.rewrite import commands  # libcst comes with it

        return commands.run(args, leaks=leaks)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "libcst":
            raise
        print(f"{prog}: error: libcst is missing; in a checkout of kbh: pip install '.[rewrite]'", file=sys.stderr)
    except UsageError as error:
        print(f"{prog}: error: {error}", file=sys.stderr)
    return TROUBLE
