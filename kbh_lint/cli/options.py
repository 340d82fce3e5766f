"""What the parsers of several commands share."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import suppress

CLEAN, FINDINGS, TROUBLE = 0, 1, 2  # the exit codes; the last is for work that could not be done


class Parser(argparse.ArgumentParser):
    """Prints a bad option in one line."""

    def error(self, message: str) -> None:  # type: ignore[override]
        self.exit(TROUBLE, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


def processes(text: str) -> int | str:
    """A number of processes, or `auto`. Raises ArgumentTypeError."""
    if text == "auto":
        return text
    if not text.isdecimal() or not 1 <= int(text) <= 256:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 256, nor auto")
    return int(text)


def seconds(text: str) -> float:
    """A time of at most a day. Raises ArgumentTypeError."""
    with suppress(ValueError):
        if 0 <= float(text) <= 86400:
            return float(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")


class Once(argparse.Action):
    """An option that may be given once: the second would silently take the first one's place."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: object, option: str | None = None
    ) -> None:
        if getattr(namespace, self.dest, None) is not None:
            parser.error(f"{option} was given twice; for several problems give --problems")
        setattr(namespace, self.dest, values)


def use_colour(choice: str) -> bool:
    """Whether to colour standard output: as `--color` says; `auto` does on a terminal, unless NO_COLOR or TERM forbid
    it."""
    if choice != "auto":
        return choice == "always"
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
