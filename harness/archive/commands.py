"""What the commands about archives share: options that end in one line, errors in one sentence, and progress."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

from grader.authoring.common import TROUBLE
from harness.archive.index import Found, all_facts
from harness.archive.layout import StoreError
from harness.archive.select import Wanted
from harness.archive.store import Archive

__all__ = ["Parser", "Progress", "add_wanted", "facts_in", "guarded", "wanted"]

INTERRUPTED = 130
QUIET_SECONDS = 2.0
LIVE_SECONDS, LINE_SECONDS = 0.1, 10.0


class Parser(argparse.ArgumentParser):
    """Prints a bad option in one line."""

    def error(self, message: str) -> None:  # type: ignore[override]
        self.exit(TROUBLE, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


class Progress:
    """Says how far a command is, on standard error, once it has taken two seconds: on a terminal in one line that is
    written over, elsewhere in a line every ten seconds.
    """

    def __init__(self, stream: TextIO | None = None, now: Callable[[], float] = time.monotonic) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._live = self._stream.isatty()
        self._now = now
        self._begun = now()
        self._last = self._begun
        self._shown = False

    def __call__(self, done: int, total: int, what: str = "entries") -> None:
        now = self._now()
        if now - self._begun < QUIET_SECONDS or now - self._last < (LIVE_SECONDS if self._live else LINE_SECONDS):
            return
        self._last = now
        text = f"{done:,} of {total:,} {what}"
        self._stream.write(f"\r{text}\x1b[K" if self._live else f"{text}\n")
        self._stream.flush()
        self._shown = self._live

    def clear(self) -> None:
        """Erases the progress line on a terminal."""
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._shown = False


def guarded(ask: argparse.ArgumentParser, argv: Sequence[str] | None, work: Callable[[argparse.Namespace], int]) -> int:
    """Parses the command line and runs `work`; expected errors are printed as one sentence. Returns the exit code."""
    try:
        args = ask.parse_args(argv)
    except SystemExit as done:
        return int(done.code or 0)
    try:
        code = work(args)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return TROUBLE
    except KeyboardInterrupt:
        print(f"\n{ask.prog}: interrupted; what was done is kept", file=sys.stderr)
        return INTERRUPTED
    except StoreError as error:
        print(f"{ask.prog}: error: {error}", file=sys.stderr)
    except OSError as error:
        print(f"{ask.prog}: error: {error.filename or 'a file'}: {(error.strerror or str(error)).lower()}",
              file=sys.stderr)  # fmt: skip
    return TROUBLE


def add_wanted(ask: argparse.ArgumentParser) -> None:
    """Adds the options that select entries."""
    group = ask.add_argument_group("which entries (default: all)")
    group.add_argument("--model", metavar="NAME", default="", help="whose model's name holds this")
    group.add_argument("--agent", metavar="NAME", default="", help="whose agent's name holds this")
    group.add_argument("--problem", metavar="ID", default="", help="on this problem")
    group.add_argument("--outcome", metavar="WORD", default="",
                       help="that ended so: PASS, FAIL, ERR, or as the grader says (accepted, wrong, ...)")  # fmt: skip


def wanted(args: argparse.Namespace, ids: Sequence[str] = ()) -> Wanted:
    """The selection of entries that the options of `add_wanted` say."""
    return Wanted(args.model, args.agent, args.problem, args.outcome, tuple(ids))


def facts_in(prog: str, folder: Path) -> tuple[Archive, Found]:
    """Opens an archive and reads the facts of its entries; entries that cannot be read are named on standard error."""
    archive, progress = Archive.open(folder), Progress()
    found = all_facts(archive, progress)
    progress.clear()
    for fault in found.faults:
        print(f"{prog}: {fault}", file=sys.stderr)
    return archive, found
