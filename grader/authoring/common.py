"""What the commands of `kbh problems` share: which problems, what is installed, how output looks. Imports no torch."""

from __future__ import annotations

import argparse
import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from time import monotonic

from kbh_lint.base import paths
from kbh_lint.problems import Deck, Problem, load_deck, load_problem

DONE, WRONG, TROUBLE = 0, 1, 2
NEEDS_GRADE = ("torch", "numpy", "hypothesis")


class CommandError(Exception):
    """A request that cannot be met; the text is one sentence."""


def deck_of(args: argparse.Namespace) -> Deck:
    """Loads the deck in `args.problems_dir`, or the project's own. Raises CommandError when it has no problems."""
    folder = paths.problems_dir(args.problems_dir)
    deck = load_deck(folder)
    if not len(deck):
        raise CommandError(f"there are no problems in {folder}")
    return deck


def problem_of(args: argparse.Namespace, name: str, *, graded: bool = True) -> Problem:
    """A problem by its id, or by the path of its folder."""
    file = Path(name) / "problem.yaml"
    problem = load_problem(file) if os.sep in name and file.is_file() else _by_id(args, name)
    if graded and not problem.contracts:
        raise CommandError(f"{name} is {problem.status}: {' '.join(problem.reason.split())}")
    return problem


def _by_id(args: argparse.Namespace, name: str) -> Problem:
    deck = deck_of(args)
    if name not in deck:
        from difflib import get_close_matches

        near = get_close_matches(name, deck.ids, 1, 0.4)
        raise CommandError(f"there is no problem `{name}`; " + (f"did you mean {near[0]}?" if near else "see `list`"))
    return deck[name]


def chosen(args: argparse.Namespace) -> list[Problem]:
    """The problems that `args.ids` names; without ids, all graded problems of the deck that have a contract."""
    if args.ids:
        return [problem_of(args, name) for name in args.ids]
    return [problem for problem in deck_of(args).values() if problem.contracts and problem.status == "graded"]


def need_grade() -> None:
    """Raises CommandError when the grade extra is not installed."""
    missing = [name for name in NEEDS_GRADE if find_spec(name) is None]
    if missing:
        raise CommandError(f"this command needs {', '.join(missing)}; in a checkout of kbh: pip install '.[grade]'")


def print_json(data: object) -> None:
    """Prints `data` as indented JSON to standard output."""
    json.dump(data, sys.stdout, indent=2)
    sys.stdout.write("\n")


class Progress:
    """One line on a terminal's standard error, once a command has taken two seconds."""

    def __init__(self) -> None:
        self.begun, self.shown = monotonic(), False

    def __call__(self, text: str) -> None:
        if sys.stderr.isatty() and monotonic() - self.begun > 2:
            self.shown = True
            sys.stderr.write(f"\r{text[:100]}\x1b[K")
            sys.stderr.flush()

    def of(self, done: int, planned: int, text: str) -> None:
        """Shows how far a check is: `done` of `planned` calls, and what it works on. The checker calls it."""
        self(f"{done}/{planned} {text}")

    def clear(self) -> None:
        """Erases the progress line on standard error, if one is shown."""
        if self.shown:
            sys.stderr.write("\r\x1b[K")
