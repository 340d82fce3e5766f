"""The commands `kbh-lint evade` and `kbh-lint leakify`."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from kbh_lint.base.errors import UsageError
from kbh_lint.base.paths import problems_dir, rules_dir
from kbh_lint.marked import DataError

if TYPE_CHECKING:
    from kbh_lint.rewrite.cells import Case, Cell, Column
    from kbh_lint.rewrite.matrix import Matrix
    from kbh_lint.rewrite.program import Program, Rewrite
    from kbh_lint.rewrite.results import Results

DONE, FAILED, TROUBLE = 0, 1, 2
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
        return _run(args, leaks=leaks)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "libcst":
            raise
        print(f"{prog}: error: libcst is missing; in a checkout of kbh: pip install '.[rewrite]'", file=sys.stderr)
    except _Trouble as error:
        print(f"{prog}: error: {error}", file=sys.stderr)
    return TROUBLE


class _Trouble(Exception):
    """What the user must mend; the text is one sentence."""


def _known(leaks: bool) -> dict[str, Rewrite]:
    if leaks:
        from kbh_lint.rewrite.leaks.all_leaks import leaks as known  # the other side has one of this name
    else:
        from kbh_lint.rewrite.compose import evasions as known  # libcst comes with it
    return known()


def _run(args: argparse.Namespace, *, leaks: bool) -> int:
    known = _known(leaks)
    if args.list:
        for rewrite in known.values():
            print(f"{rewrite.name:<22} {rewrite.text}")
        return DONE
    for name in args.only:
        if name not in known:
            raise _Trouble(f"there is no rewrite {name!r}; see --list")
    chosen = [known[name] for name in args.only]
    if args.check:
        return _check(args, chosen or list(known.values()), leaks=leaks)
    if len(args.paths) != 1:
        raise _Trouble("one file is rewritten at a time; give one PATH, or --check")
    return _rewrite(args, chosen, leaks=leaks)


def _read(path: str) -> Program:
    from kbh_lint.rewrite.matrix import program_from  # libcst comes with it

    try:
        return program_from(Path(path))
    except OSError as error:
        raise _Trouble(f"{path}: cannot be read ({(error.strerror or 'error').lower()})") from None
    except UnicodeDecodeError:
        raise _Trouble(f"{path}: is not UTF-8") from None


def _rewrite(args: argparse.Namespace, chosen: list[Rewrite], *, leaks: bool) -> int:
    from dataclasses import replace

    from kbh_lint.rewrite.compose import apply, compose, drawn  # libcst comes with it
    from kbh_lint.rewrite.program import NotApplicable  # start-up: `--list` does without it

    program = replace(_read(args.paths[0]), problem=args.problem)
    applied: list[str] = []
    if chosen:
        for rewrite in chosen:
            try:
                program = apply(rewrite, program, args.seed)
            except NotApplicable as error:
                raise _Trouble(f"{rewrite.name} does not apply to {args.paths[0]}: {error}") from None
            applied.append(rewrite.name)
    elif leaks:
        raise _Trouble("say which leak: --only NAME (see --list)")
    else:
        program, names = compose(drawn(args.seed, args.count), program, args.seed)
        applied = list(names)
    _write(args, program)
    print(f"applied: {', '.join(applied) or 'nothing'}", file=sys.stderr)
    return DONE


def _write(args: argparse.Namespace, program: Program) -> None:
    if not args.output:
        sys.stdout.write(program.bundle())
        return
    target = Path(args.output)
    try:
        target.write_text(program.main, encoding="utf-8")
        for name, text in program.sidecars.items():
            place = target.parent / name
            if not place.resolve().is_relative_to(target.parent.resolve()):
                raise _Trouble(f"the sidecar {name} would lie outside {target.parent}")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
    except OSError as error:
        raise _Trouble(f"{target}: cannot be written ({(error.strerror or 'error').lower()})") from None


def _check(args: argparse.Namespace, chosen: list[Rewrite], *, leaks: bool) -> int:
    from kbh_lint.rewrite import matrix as m  # libcst comes with it
    from kbh_lint.rewrite.results import ResultsError, shard  # start-up: `--list` does without it
    from kbh_lint.service.one_file import Options  # start-up: `--list` does without it

    options = Options(str(rules_dir(None)), str(problems_dir(None)), timeout=args.timeout)
    try:
        cases = [] if args.no_rules else list(m.rule_cases(rules_dir(None), bad=not leaks))
        for item in m.path_cases(args.paths, args.problem, problems_dir(None)):
            if isinstance(item, str):
                print(f"kbh-lint: {item}", file=sys.stderr)
            else:
                cases.append(item)
    except (UsageError, DataError) as error:
        raise _Trouble(str(error)) from None
    if not cases:
        raise _Trouble("there is nothing to rewrite")
    columns = m.columns(chosen, 0 if leaks or args.only else args.compositions, args.seed, args.count)
    if args.sample:
        cases = Random(args.seed).sample(cases, min(args.sample, len(cases)))
    if args.shard:
        cases = shard(cases, *args.shard)
    judge, wanted = (m.unchanged, m.honest) if leaks else (m.evaded, None)
    tell = (lambda text: print(text, file=sys.stderr, flush=True)) if sys.stderr.isatty() else None
    seconds = None if args.minutes is None else args.minutes * 60.0
    try:
        with _results(args) as results:
            matrix = m.check(
                cases, columns, options, args.jobs, judge, wanted, tell, _drawn(args, columns), results, seconds
            )
    except ResultsError as error:
        raise _Trouble(str(error)) from None
    _print(matrix, leaks=leaks)
    if args.json:
        _dump(args.json, matrix)
    # One part of a matrix may hold nothing that can be rewritten; the whole must not.
    good = matrix.share() >= args.goal and (matrix.tried() or args.shard) and not matrix.left
    return DONE if good and not _failed(matrix) else FAILED


def _results(args: argparse.Namespace) -> AbstractContextManager[Results | None]:
    """The files of --results, open."""
    from kbh_lint.rewrite.results import Results  # start-up: `--list` does without it
    from kbh_lint.service.cache import version_digest  # start-up: `--list` does without it

    if not args.results:
        if args.again:
            raise _Trouble("--again needs --results")
        return nullcontext()
    results = Results(args.results, version_digest(rules_dir(None), problems_dir(None)), again=args.again)
    if results.strange:
        print(f"kbh-lint: {results.strange} lines of --results are no cells and are left out", file=sys.stderr)
    return results


def _drawn(args: argparse.Namespace, columns: list[Column]) -> Callable[[Case], list[Column]] | None:
    """The columns of each case with --each: another draw for every name, so that a folder sees all of them."""
    if not args.each:
        return None

    def draw(case: Case) -> list[Column]:
        # The name without its folder: where a file lies must not decide what is drawn.
        chosen = Random(f"{args.seed}/{Path(case.name).name}").sample(columns, min(args.each, len(columns)))
        return [column for column in columns if column in chosen]

    return draw


def _failed(matrix: Matrix) -> list[Cell]:
    return [cell for cell in matrix.cells if cell.state == "failed"]


def _print(matrix: Matrix, *, leaks: bool) -> None:
    from kbh_lint.rewrite.matrix import summary  # libcst comes with it

    good, bad = ("changed", "missed") if leaks else ("kept", "lost")
    for title, by in (("rewrite", lambda cell: cell.column), ("rule or folder", lambda cell: cell.group)):
        rows = summary(matrix, by)
        width = max([len(title), *(len(name) for name, _ in rows)])
        print(f"{title:<{width}}  {good:>8} {bad:>8} {'n/a':>8} {'failed':>8}")
        for name, counts in rows:
            numbers = " ".join(f"{counts[state]:>8}" for state in ("kept", "lost", "skipped", "failed"))
            print(f"{name:<{width}}  {numbers}")
        print()
    for cell in matrix.cells:
        if cell.state in ("lost", "failed"):
            names = f" [{', '.join(cell.rewrites)}]" if len(cell.rewrites) > 1 else ""
            print(f"{bad if cell.state == 'lost' else 'failed'}: {cell.case}, {cell.column}{names}: {cell.why}")
    tried = matrix.tried()
    kept = sum(cell.state == "kept" for cell in tried)
    cases = len({cell.case for cell in tried})
    verdicts = Counter(cell.verdict for cell in tried).most_common()
    print(f"\nverdicts on rewritten programs: {', '.join(f'{count} {name}' for name, count in verdicts) or 'none'}")
    if matrix.versions:
        versions = Counter(matrix.versions).most_common()
        print(f"versions of the linter: {', '.join(f'{name} judged {count} cells' for name, count in versions)}")
    if matrix.left:
        print(f"not tried in time: {matrix.left} cells")
    print(f"{kept} of {len(tried)} verdicts {good} ({matrix.share():.4f}), on {cases} programs; "
          f"{len(_failed(matrix))} rewrites failed")  # fmt: skip


def _dump(path: str, matrix: Matrix) -> None:
    from dataclasses import asdict

    data = {
        "version": 1,
        "share": matrix.share(),
        "verdicts": matrix.verdicts,
        "versions": matrix.versions,
        "left": matrix.left,
        "cells": [asdict(cell) for cell in matrix.cells],
    }
    try:
        Path(path).write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise _Trouble(f"{path}: cannot be written ({(error.strerror or 'error').lower()})") from None
