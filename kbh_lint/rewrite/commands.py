"""What `kbh-lint evade` and `kbh-lint leakify` do once their command lines are read."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from random import Random

from kbh_lint.base.errors import UsageError
from kbh_lint.base.paths import problems_dir, rules_dir
from kbh_lint.marked import DataError
from kbh_lint.rewrite import compose
from kbh_lint.rewrite import matrix as matrix_of
from kbh_lint.rewrite.cells import Case, Cell, Column
from kbh_lint.rewrite.leaks import all_leaks
from kbh_lint.rewrite.matrix import Matrix
from kbh_lint.rewrite.program import NotApplicable, Program, Rewrite
from kbh_lint.rewrite.results import Results, ResultsError, shard
from kbh_lint.service.cache import version_digest
from kbh_lint.service.one_file import Options

DONE, FAILED = 0, 1


class Trouble(UsageError):
    """What the user must mend; the text is one sentence."""


def run(args: argparse.Namespace, *, leaks: bool) -> int:
    """Does what a parsed command line asks for: lists, checks or applies rewrites, or `leaks`. Returns the exit
    code."""
    known = all_leaks.leaks() if leaks else compose.evasions()
    if args.list:
        for rewrite in known.values():
            print(f"{rewrite.name:<22} {rewrite.text}")
        return DONE
    for name in args.only:
        if name not in known:
            raise Trouble(f"there is no rewrite {name!r}; see --list")
    chosen = [known[name] for name in args.only]
    if args.check:
        return _check(args, chosen or list(known.values()), leaks=leaks)
    if len(args.paths) != 1:
        raise Trouble("one file is rewritten at a time; give one PATH, or --check")
    return _rewrite(args, chosen, leaks=leaks)


def _read(path: str) -> Program:

    try:
        return matrix_of.program_from(Path(path))
    except OSError as error:
        raise Trouble(f"{path}: cannot be read ({(error.strerror or 'error').lower()})") from None
    except UnicodeDecodeError:
        raise Trouble(f"{path}: is not UTF-8") from None


def _rewrite(args: argparse.Namespace, chosen: list[Rewrite], *, leaks: bool) -> int:

    program = replace(_read(args.paths[0]), problem=args.problem)
    applied: list[str] = []
    if chosen:
        for rewrite in chosen:
            try:
                program = compose.apply(rewrite, program, args.seed)
            except NotApplicable as error:
                raise Trouble(f"{rewrite.name} does not apply to {args.paths[0]}: {error}") from None
            applied.append(rewrite.name)
    elif leaks:
        raise Trouble("say which leak: --only NAME (see --list)")
    else:
        program, names = compose.compose(compose.drawn(args.seed, args.count), program, args.seed)
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
                raise Trouble(f"the sidecar {name} would lie outside {target.parent}")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Trouble(f"{target}: cannot be written ({(error.strerror or 'error').lower()})") from None


def _check(args: argparse.Namespace, chosen: list[Rewrite], *, leaks: bool) -> int:

    options = Options(str(rules_dir(None)), str(problems_dir(None)), timeout=args.timeout)
    try:
        cases = [] if args.no_rules else list(matrix_of.rule_cases(rules_dir(None), bad=not leaks))
        for item in matrix_of.path_cases(args.paths, args.problem, problems_dir(None)):
            if isinstance(item, str):
                print(f"kbh-lint: {item}", file=sys.stderr)
            else:
                cases.append(item)
    except (UsageError, DataError) as error:
        raise Trouble(str(error)) from None
    if not cases:
        raise Trouble("there is nothing to rewrite")
    columns = matrix_of.columns(chosen, 0 if leaks or args.only else args.compositions, args.seed, args.count)
    if args.sample:
        cases = Random(args.seed).sample(cases, min(args.sample, len(cases)))
    if args.shard:
        cases = shard(cases, *args.shard)
    judge, wanted = (matrix_of.unchanged, matrix_of.honest) if leaks else (matrix_of.evaded, None)
    tell = (lambda text: print(text, file=sys.stderr, flush=True)) if sys.stderr.isatty() else None
    seconds = None if args.minutes is None else args.minutes * 60.0
    try:
        with _results(args) as results:
            matrix = matrix_of.check(
                cases, columns, options, args.jobs, judge, wanted, tell, _drawn(args, columns), results, seconds
            )
    except ResultsError as error:
        raise Trouble(str(error)) from None
    _print(matrix, leaks=leaks)
    if args.json:
        _dump(args.json, matrix)
    # One part of a matrix may hold nothing that can be rewritten; the whole must not.
    good = matrix.share() >= args.goal and (matrix.tried() or args.shard) and not matrix.left
    return DONE if good and not _failed(matrix) else FAILED


def _results(args: argparse.Namespace) -> AbstractContextManager[Results | None]:
    """The files of --results, open."""

    if not args.results:
        if args.again:
            raise Trouble("--again needs --results")
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

    good, bad = ("changed", "missed") if leaks else ("kept", "lost")
    for title, by in (("rewrite", lambda cell: cell.column), ("rule or folder", lambda cell: cell.group)):
        rows = matrix_of.summary(matrix, by)
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
        raise Trouble(f"{path}: cannot be written ({(error.strerror or 'error').lower()})") from None
