"""`kbh view`: the page of a run, and its trajectory in forms that other programs read."""

from __future__ import annotations

import argparse
import json
import os
import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path

from harness.record.archive import ArchiveError, RunFolder, is_run
from harness.view.exports import ExportError, atif, inspect_log, write
from harness.view.page import PageError, render
from harness.view.schema import trajectory_schema

__all__ = ["main", "parser"]

DONE, TROUBLE = 0, 2
PAGE = "view.html"

_EPILOG = """\
examples:
  kbh view kbh-runs/20261101T...                      write its page beside it, and open it in a browser
  kbh view kbh-runs/20261101T... --open no -o a.html  write the page to a.html
  kbh view kbh-runs/20261101T... --atif a.json        the trajectory as ATIF, for programs that read that
  kbh view kbh-runs/20261101T... --inspect a.json     the run as a log that `inspect view` reads
  kbh view --schema                                   the JSON Schema of a line of trajectory.jsonl

exit codes: 0 it was written, 2 the archive cannot be read or the file cannot be written
"""


def parser() -> argparse.ArgumentParser:
    """The options of `kbh view`."""
    ask = argparse.ArgumentParser(
        prog="kbh view", description="Shows a run on one page that needs nothing else.", epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
    )  # fmt: skip
    ask.add_argument("run", nargs="?", type=Path, metavar="RUN", help="the folder of a run, as kbh run wrote it")
    ask.add_argument("-o", "--output", metavar="FILE", type=Path, help=f"where the page goes (default: RUN/{PAGE})")
    ask.add_argument("--open", choices=("auto", "yes", "no"), default="auto",
                     help="open it in a browser (default: auto, at a terminal with a display)")  # fmt: skip
    ask.add_argument("--problems-dir", metavar="DIR", type=Path, help="the deck, for the linter (default: ours)")
    ask.add_argument("--atif", metavar="FILE", type=Path, help="write the trajectory as ATIF, and no page")
    ask.add_argument("--inspect", metavar="FILE", type=Path, help="write a log for inspect_ai's viewer, and no page")
    ask.add_argument("--schema", action="store_true", help="print the schema of trajectory.jsonl, and do nothing else")
    return ask


def main(argv: Sequence[str] | None = None) -> int:
    """`kbh view`. Returns the exit code."""
    ask = parser()
    try:
        args = ask.parse_args(argv)
        if args.run is None and not args.schema:
            ask.error("say which run: kbh view RUN")
    except SystemExit as done:
        return int(done.code or 0)
    try:
        if args.schema:
            print(json.dumps(trajectory_schema(), indent=2))
            return DONE
        return _run(args)
    except (ArchiveError, PageError, ExportError) as error:
        print(f"kbh view: error: {error}", file=sys.stderr)
    except OSError as error:
        said = (error.strerror or str(error)).lower()
        print(f"kbh view: error: {error.filename or 'a file'}: {said}", file=sys.stderr)
    return TROUBLE


def _run(args: argparse.Namespace) -> int:
    if not is_run(args.run):
        raise ArchiveError(f"{args.run} is not the archive of a run: it needs run.json and record/, as kbh run writes")
    folder = RunFolder(args.run)
    if args.atif or args.inspect:
        for target, made in ((args.atif, atif), (args.inspect, inspect_log)):
            if target is not None:
                write(target, made(folder))
                print(target)
        return DONE
    target = args.output or args.run / PAGE
    target.write_text(render(folder, problems_dir=args.problems_dir), encoding="utf-8")
    print(target)
    if args.open == "yes" or (args.open == "auto" and _display()):
        webbrowser.open(target.resolve().as_uri())
    return DONE


def _display() -> bool:
    """Whether somebody sits at this terminal with a screen."""
    seen = sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    return seen and sys.stdout.isatty()
