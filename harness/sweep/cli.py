"""`kbh sweep`: runs every cell of a matrix, so many at a time, and goes on where it was stopped."""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING

from grader.authoring.common import CommandError
from harness.archive import Archive, Facts
from harness.archive.commands import Parser
from harness.record.run import RunRecord
from harness.running.cli import ERRORS, INTERRUPTED, need_harness
from harness.running.request import RunError
from harness.sweep.cells import Places, cells_of
from harness.sweep.ledger import Ledger, look
from harness.sweep.matrix import Matrix, read_matrix
from harness.sweep.meter import measured_text
from harness.sweep.plan import plan_json, plan_of, plan_text
from harness.sweep.progress import dollars

if TYPE_CHECKING:
    from harness.sweep.work import Done

__all__ = ["main", "parser"]

DONE, NO_RESULT, TROUBLE, CAPPED = 0, 1, 2, 3
MOST_JOBS = 1000
MORE_ERRORS = ERRORS | {"ProblemError", "StoreError"}

_EPILOG = """\
examples:
  kbh sweep matrix.yaml --dry-run                  what would be run, for how long, and the most that it can cost
  kbh sweep matrix.yaml --jobs 4                   four runs at a time on this machine
  kbh sweep matrix.yaml --target h200              the cells of this target, on a machine that has one
  kbh sweep matrix.yaml --cluster auto             on the nodes of the Ray cluster that this machine belongs to
  kbh sweep matrix.yaml --retry-errors             the cells whose attempts all said nothing of the agent, once more
  kbh stats kbh-sweeps/NAME/archive                what the results allow to say

Stopped in whatever way (Ctrl-C, kill -9, a node that is gone), the same command goes on: a cell has a key of what is
asked for, and is looked up by it in the archive and among the runs. docs/sweeps.md has the matrix's form.

exit codes:
  0    every cell has a result (PASS or FAIL), or a plan was shown
  1    cells are without a result: their attempts ended as ERR or were lost, or the cluster lost its head
  2    nothing more can be done: a bad matrix or command line, a missing key or target, a full disk
  3    the cap on the sweep's cost was reached before every cell was seen to
  130  interrupted
"""


def parser() -> argparse.ArgumentParser:
    """The options of `kbh sweep`."""
    ask = Parser(
        prog="kbh sweep", description="Runs agents x models x problems x targets x trials, each cell once.",
        epilog=_EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
    )  # fmt: skip
    ask.add_argument("matrix", metavar="MATRIX", type=Path, help="what is to be run: a YAML file")
    ask.add_argument("--dry-run", action="store_true", help="print the plan and start nothing")
    ask.add_argument("--target", metavar="GPU", action="append", default=[],
                     help="only the cells of this target; may be given again")  # fmt: skip
    ask.add_argument("--jobs", metavar="N", type=int, help="cells at a time (default: 1; on a cluster all it takes)")
    ask.add_argument("--cluster", metavar="ADDRESS", help="place cells on a Ray cluster: its address, or auto")
    ask.add_argument("--retry-errors", action="store_true", help="run cells again whose attempts all ended as ERR")
    place = ask.add_argument_group("places")
    place.add_argument("--out", metavar="DIR", type=Path, help="where runs are kept (default: kbh-sweeps/NAME)")
    place.add_argument("--archive", metavar="DIR", type=Path,
                       help="what settled cells are added to (default: the folder `archive` in --out)")  # fmt: skip
    place.add_argument("--problems-dir", metavar="DIR", type=Path, help="use these problems instead of the project's")
    place.add_argument("--routes", metavar="FILE", type=Path, help="where models are, beside the routes that are known")
    place.add_argument("--agents-dir", metavar="DIR", type=Path, help="where kbh agents installed the CLIs")
    place.add_argument("--known", metavar="DIR", type=Path, action="append", default=[],
                       help="earlier solutions that each one is held against; may be given again")  # fmt: skip
    ask.add_argument("--format", choices=("text", "json"), default="text", help="of plan and summary (default: text)")
    return ask


def main(argv: Sequence[str] | None = None) -> int:
    """`kbh sweep`. Returns the exit code."""
    try:
        args = parser().parse_args(sys.argv[1:] if argv is None else list(argv))
    except SystemExit as done:
        return int(done.code or 0)
    try:
        need_harness()
        return _sweep(args)
    except KeyboardInterrupt:
        print("\nkbh sweep: interrupted; the same command goes on", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return TROUBLE
    except Exception as error:
        if type(error).__name__ not in MORE_ERRORS and not isinstance(error, OSError):
            raise
        said = f"{error.filename or 'a file'}: {error.strerror}" if isinstance(error, OSError) else str(error)
        print(f"kbh sweep: error: {said}", file=sys.stderr)
        return TROUBLE


def _sweep(args: argparse.Namespace) -> int:
    if args.jobs is not None and not 1 <= args.jobs <= MOST_JOBS:
        raise CommandError(f"--jobs is 1 to {MOST_JOBS}, not {args.jobs}")
    problems_dir = args.problems_dir.absolute() if args.problems_dir else None
    matrix = read_matrix(args.matrix.absolute(), problems_dir)
    base = (args.out or Path("kbh-sweeps") / matrix.name).absolute()
    kept = (args.archive or base / "archive").absolute()
    places = Places(
        base / "runs",
        problems_dir=problems_dir,
        routes=args.routes.absolute() if args.routes else None,
        prefix=args.agents_dir.absolute() if args.agents_dir else None,
        known=tuple(path.absolute() for path in args.known),
    )
    cells = cells_of(matrix, places, args.target)
    if not cells:
        raise RunError(f"{args.matrix} has no cells that are meant; its targets are {', '.join(matrix.targets)}")
    if args.dry_run:
        archive = Archive.open(kept) if kept.exists() else None
        ledger = look(cells, archive, places.out, matrix.attempts, mend=False, again=args.retry_errors)
        _print_plan(args, matrix, ledger)
        return DONE
    with _alone(base):
        places.out.mkdir(exist_ok=True)
        archive = Archive.create(kept)
        ledger = look(cells, archive, places.out, matrix.attempts, mend=True, again=args.retry_errors)
        return _work(args, matrix, ledger, archive, places.out)


@contextlib.contextmanager
def _alone(base: Path) -> Iterator[None]:
    """Holds the lock of a sweep's folder, so that no second command works on the same cells."""
    base.mkdir(parents=True, exist_ok=True)
    lock = os.open(base / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunError(
                f"another kbh sweep is at work in {base}: wait until it is done, or give this one another --out"
            ) from None
        yield
    finally:
        os.close(lock)


def _print_plan(args: argparse.Namespace, matrix: Matrix, ledger: Ledger) -> None:
    plan = plan_of(matrix, ledger, args.jobs or 1)
    if args.format == "json":
        print(json.dumps(plan_json(ledger, plan), indent=1))
    else:
        print(plan_text(matrix, ledger, plan), end="")


def _work(args: argparse.Namespace, matrix: Matrix, ledger: Ledger, archive: Archive, out: Path) -> int:
    done: Done | None = None
    if ledger.open():
        from harness.sweep.work import work  # aiohttp comes with it

        done = work(matrix, ledger, archive, out, jobs=args.jobs, cluster=args.cluster)
    return _ended(args, matrix, ledger, archive, done)


def _ended(args: argparse.Namespace, matrix: Matrix, ledger: Ledger, archive: Archive, done: Done | None) -> int:
    capped = done is not None and done.capped
    settled = [known.settled for known in ledger.known.values() if known.settled is not None]
    counts = Counter(one.outcome for one in settled)
    missing = len(ledger.known) - len(settled)
    if args.format == "json":
        cells = [
            {"key": key, "cell": known.cell.label, "outcome": found.outcome if found else "", "run": _name(found)}
            for key, known in ledger.known.items()
            for found in (known.settled,)
        ]
        print(json.dumps({
            "version": 1, "name": matrix.name, "archive": str(archive.folder), "cells": cells, "missing": missing,
            "outcomes": dict(counts), "cost_usd": ledger.cost, "unpriced": ledger.unpriced, "faults": ledger.faults,
            "measured": asdict(done.measured) if done else None,
        }, indent=1))  # fmt: skip
    else:
        told = ", ".join(f"{counts[outcome]} {outcome}" for outcome in ("PASS", "FAIL", "ERR") if counts[outcome])
        print(
            f"{matrix.name}: {len(settled)} of {len(ledger.known)} cells settled ({told or 'none'}), {dollars(ledger)}"
        )
        if missing:
            why = (
                "the cap on the sweep's cost is reached" if capped else f"{done.given_up if done else 0} were given up"
            )
            print(f"  {missing} cells are open: {why}")
        if done is not None and done.measured.cells:
            print(indent(measured_text(done.measured), "  "), end="")
        print(f"  {archive.folder}")
        for fault in ledger.faults:
            print(f"  not in the archive: {fault}")
    if capped:
        return CAPPED
    return NO_RESULT if missing or counts["ERR"] or ledger.faults else DONE


def _name(found: RunRecord | Facts | None) -> str:
    return "" if found is None else found.name if isinstance(found, Facts) else found.run_id
