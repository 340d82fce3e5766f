"""The command line of `kbh-lint lsp`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from kbh_lint.base import paths
from kbh_lint.base.errors import UsageError
from kbh_lint.cli.options import TROUBLE, Parser, seconds
from kbh_lint.marked import DataError
from kbh_lint.service.one_file import Options

TIMEOUT_S = 20.0


def main(argv: Sequence[str], prog: str) -> int:
    """Serves an editor on standard input and output until it ends the session. Returns the exit code."""
    ask = Parser(prog=prog, description="A language server for editors, on standard input and output.")
    ask.add_argument("--problem", metavar="ID", help="the problem that all files solve")
    ask.add_argument("--problem-file", metavar="FILE", type=Path, help="the KernelBench problem that all files solve")
    ask.add_argument("--timeout", metavar="S", type=seconds, default=TIMEOUT_S,
                     help=f"seconds for one file, at least 1 (default: {TIMEOUT_S:g})")  # fmt: skip
    ask.add_argument("--rules-dir", metavar="DIR", help="use these rules instead of the project's")
    ask.add_argument("--problems-dir", metavar="DIR", help="use these problems instead of the project's")
    ask.add_argument("--stdio", action="store_true", help="accepted, because editors say it; there is no other way")
    try:
        args = ask.parse_args(argv)
    except SystemExit as done:
        return int(done.code or 0)
    if find_spec("pygls") is None:
        print(f"{prog}: error: pygls is missing; in a checkout of kbh: pip install '.[lsp]'", file=sys.stderr)
        return TROUBLE
    from kbh_lint.lsp import server  # lsprotocol comes with it

    options = Options(
        str(paths.rules_dir(args.rules_dir)), str(paths.problems_dir(args.problems_dir)), timeout=max(args.timeout, 1.0)
    )
    try:
        server.serve(options, args.problem, args.problem_file)
    except (UsageError, DataError) as error:
        print(f"{prog}: error: {error}", file=sys.stderr)
        return TROUBLE
    return 0
