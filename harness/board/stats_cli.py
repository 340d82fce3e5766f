"""`kbh stats`: what the runs of an archive say of their models, with how sure it is. Needs no torch."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from harness.archive.commands import Parser, add_wanted, facts_in, guarded, wanted
from harness.archive.layout import StoreError
from harness.board.data import board_json, boards_of, trial_json
from harness.board.trials import Trial, Trials, trials_of
from harness.statistics.board import MARGIN, Board
from harness.statistics.rows import StatisticsError
from harness.statistics.text import render
from harness.statistics.words import score
from kbh_lint.report.text import one_line

__all__ = ["main", "parser"]

DONE, TROUBLE = 0, 2
MOST_LEAKS = 40
CPU = "cpu"
NO_SCORES = "On cpu Triton kernels are interpreted at reduced shapes: these numbers are no scores of kernels."

_EPILOG = """\
One board a target. The score is the mean over problems of the mean share of the roofline over trials, 0 for failures
and leaks; models that cannot be told apart share a rank. An ERR is counted and averaged nowhere. Of runs that were
made again one counts (docs/archive.md). docs/statistics.md says how everything here is worked out, and how often it is
right.

exit codes: 0 shown; 2 there is no archive, no run in it that is meant, or an entry cannot be read
"""


def parser() -> argparse.ArgumentParser:
    """The options of `kbh stats`."""
    ask = Parser(
        prog="kbh stats", description="Says what an archive's runs allow to say of models.", epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
    )  # fmt: skip
    ask.add_argument("archive", type=Path, metavar="ARCHIVE")
    add_wanted(ask)
    ask.add_argument("--target", metavar="ID", action="append", default=[], help="this board; may be given again")
    ask.add_argument("--over", choices=("problems", "deck"), default="problems",
                     help="intervals are of problems like these, or of the deck's own (default: problems)")  # fmt: skip
    ask.add_argument("--margin", metavar="X", type=float, default=MARGIN,
                     help=f"scores that differ by no more are the same (default: {MARGIN:g})")  # fmt: skip
    ask.add_argument("--level", metavar="X", type=float, default=0.95, help="of the intervals (default: 0.95)")
    ask.add_argument("--no-pairs", action="store_true", help="leave out the table of pairs")
    ask.add_argument("--json", action="store_true", help="boards and trials, for programs")
    return ask


def main(argv: Sequence[str] | None = None) -> int:
    """`kbh stats`. Returns the exit code."""
    return guarded(parser(), argv, _stats)


def _stats(args: argparse.Namespace) -> int:
    _, found = facts_in("kbh stats", args.archive)
    which = wanted(args)
    every = trials_of(found.facts)
    trials = replace(every, trials=tuple(trial for trial in every.trials if which.fits(trial.facts)))
    if not trials.trials:
        raise StoreError(f"{args.archive} has no run that is meant and counts")
    try:
        boards = boards_of(trials, args.target, over=args.over, margin=args.margin, level=args.level)
    except StatisticsError as error:
        raise StoreError(str(error)) from None
    if args.json:
        shown = [trial_json(trial) for trial in trials.trials if trial.row.target in {one.target for one in boards}]
        print(json.dumps({
            "version": 1, "boards": [board_json(board) for board in boards], "trials": shown,
            "left_out": [{"id": id_, "why": why} for id_, why in trials.left_out], "superseded": trials.superseded,
            "gradings": trials.gradings, "errors": list(found.faults),
        }, indent=1))  # fmt: skip
    else:
        for board in boards:
            sys.stdout.write(_text(board, trials, pairs=not args.no_pairs))
        sys.stdout.write(_beside(trials))
    return TROUBLE if found.faults else DONE


def _text(board: Board, trials: Trials, *, pairs: bool) -> str:
    mine = [trial for trial in trials.trials if trial.row.target == board.target]
    leaks = [trial for trial in mine if trial.mark == "leak"]
    lines = [_leak(trial) for trial in leaks[:MOST_LEAKS]]
    lines += [f"  and {len(leaks) - MOST_LEAKS} more"] if len(leaks) > MOST_LEAKS else []
    marks = Counter(trial.mark for trial in mine)
    said = "Trials: " + ", ".join(f"{mark} {number}" for mark, number in sorted(marks.items()))
    listed = "\n".join(["Leaks, which count as no score:", *lines]) + "\n\n" if leaks else ""
    warned = f"{NO_SCORES}\n" if board.target == CPU else ""
    return f"{warned}{render(board, pairs=pairs)}\n{listed}{said}\n\n"


def _leak(trial: Trial) -> str:
    measured = trial.facts.roofline_fraction
    number = "" if measured is None else f"; its number was {score(measured)}"
    why = ", ".join((trial.facts.leaks or trial.facts.promises).split())
    row = trial.row
    said = f"{row.problem}, trial {row.trial}, {row.model}: {trial.facts.verdict}{why and f' ({why})'}{number}"
    return f"  {trial.facts.id[:12]}  {one_line(said)}"


def _beside(trials: Trials) -> str:
    """What is in the archive and on no board."""
    lines = [one_line(f"left out: {id_[:12]}: {why}") for id_, why in trials.left_out]
    if trials.superseded:
        lines.append(f"{trials.superseded} entries do not count beside others (kbh ls marks them)")
    if trials.gradings:
        lines.append(f"{trials.gradings} gradings belong to no run")
    return "".join(f"{line}\n" for line in lines)
