"""What the parsers of several commands share."""

from __future__ import annotations

import argparse
from contextlib import suppress

TROUBLE = 2  # the exit code for work that could not be done


class Parser(argparse.ArgumentParser):
    """Prints a bad option in one line."""

    def error(self, message: str) -> None:  # type: ignore[override]
        self.exit(TROUBLE, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


def seconds(text: str) -> float:
    """A time of at most a day. Raises ArgumentTypeError."""
    with suppress(ValueError):
        if 0 <= float(text) <= 86400:
            return float(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
