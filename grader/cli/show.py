"""`kbh show`: prints what a bundle holds, and checks every byte of it. Needs neither torch nor a GPU."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from grader.authoring.common import DONE, TROUBLE
from grader.cli.grade import as_json
from grader.record.bundle import BundleError, CodecError, verify
from grader.record.words import short
from grader.report.cell_text import render
from grader.report.page import PageError
from grader.report.page import render as page_of
from grader.report.view import Unfinished, View, load_view
from kbh_lint.cli import use_colour

__all__ = ["main", "parser"]

_EPILOG = """\
examples:
  kbh show kbh-results/05_topk_bitonic-...              the verdict, the shapes and the scores
  kbh show kbh-results/* --html results.html            all results on one page
  kbh show kbh-results/05_topk_bitonic-... --verify     hold every byte against its hash, and every key against
                                                        what was committed to before the submission started
  kbh show --archive results 3fa9c1                     an entry of an archive, by the beginning of its id (kbh ls)

exit codes: 0 it was shown (with --verify: and is whole), 2 it cannot be read, is not finished, or is not whole
"""


def parser() -> argparse.ArgumentParser:
    """The options of `kbh show`."""
    ask = argparse.ArgumentParser(
        prog="kbh show", description="Shows graded submissions from their bundles.", epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
    )  # fmt: skip
    ask.add_argument("bundles", nargs="+", type=Path, metavar="BUNDLE", help="folders that kbh grade wrote")
    ask.add_argument("--verify", action="store_true", help="check hashes, chain, commitments and keys")
    ask.add_argument("--format", choices=("text", "short", "json"), default="text",
                     help="short: one line each (default: text)")  # fmt: skip
    ask.add_argument("--html", metavar="FILE", type=Path, help="also write a page with everything on it")
    ask.add_argument("--color", choices=("auto", "always", "never"), default="auto", help="default: auto")
    return ask


def main(argv: Sequence[str] | None = None, places: Mapping[Path, str] | None = None) -> int:
    """`kbh show`. Returns the exit code. `places` says where bundles come from that lie in temporary folders."""
    try:
        args = parser().parse_args(argv)
    except SystemExit as done:
        return int(done.code or 0)
    try:
        return _run(args, places or {})
    except OSError as error:
        print(f"kbh show: error: {error.filename or 'a file'}: {(error.strerror or str(error)).lower()}",
              file=sys.stderr)  # fmt: skip
        return TROUBLE


def _elsewhere(folder: Path) -> str:
    """What to do instead with what is no bundle at all; empty for a bundle that cannot be read."""
    if not folder.exists():
        return f"there is no folder {folder}; an entry of an archive is shown by `kbh show --archive ARCHIVE ID`"
    if (folder / "run.json").is_file():
        return f"{folder} is a run: `kbh view` shows it, and its gradings lie in {folder / 'record' / 'cells'}"
    if (folder / "kbh-archive.json").is_file():
        return f"{folder} is an archive: `kbh ls` lists it, `kbh show --archive {folder} ID` shows an entry"
    return ""


def _run(args: argparse.Namespace, places: Mapping[Path, str]) -> int:
    views: list[View] = []
    errors: list[str] = []
    for folder in args.bundles:
        if args.verify:
            errors += [f"{folder}: {fault}" for fault in verify(folder)]
        try:
            view = load_view(folder)
            views.append(replace(view, folder=places.get(folder, view.folder)))
        except (BundleError, CodecError, Unfinished) as error:
            sentence = _elsewhere(folder) or (str(error) if str(folder) in str(error) else f"{folder}: {error}")
            errors += [] if sentence in errors else [sentence]
    _print(args, views, errors)
    if args.html is not None and views:
        try:
            args.html.write_text(page_of(views), encoding="utf-8")
        except PageError as error:
            errors.append(str(error))
    for text in errors:
        print(f"kbh show: error: {text}", file=sys.stderr)
    return TROUBLE if errors else DONE


def _print(args: argparse.Namespace, views: Sequence[View], errors: Sequence[str]) -> None:
    if args.format == "json":
        print(json.dumps(as_json(views, errors), indent=1))
        return
    if args.format == "short":
        print("".join(f"{short(view.cell)}\n" for view in views), end="")
        return
    print("\n".join(render(view, colour=use_colour(args.color)) for view in views), end="")
    if args.verify and views and not errors:
        print(f"\n{len(views)} {'bundle is' if len(views) == 1 else 'bundles are'} whole: every hash, key and "
              "commitment fits")  # fmt: skip
