"""`kbh site`: an archive as a folder of static pages."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.archive.commands import Parser, Progress, facts_in, guarded
from harness.archive.layout import StoreError
from harness.site.gather import gather, read_audit
from harness.site.model import SiteError
from harness.site.write import MOST_TRANSCRIPTS, write_site
from harness.statistics.board import MARGIN

__all__ = ["main", "parser"]

DONE, TROUBLE = 0, 2

_EPILOG = """\
The pages open from the disk and load nothing from elsewhere; the first is DIR/index.html. The same archive gives the
same bytes. DIR is new, empty, or an earlier site, which is replaced as a whole.

exit codes: 0 written; 2 there is no archive, an entry cannot be read, or DIR cannot be written
"""


def parser() -> argparse.ArgumentParser:
    """The options of `kbh site`."""
    ask = Parser(
        prog="kbh site", description="Writes the public pages of an archive.", epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
    )  # fmt: skip
    ask.add_argument("archive", type=Path, metavar="ARCHIVE")
    ask.add_argument("-o", "--output", type=Path, metavar="DIR", required=True, help="where the pages go")
    ask.add_argument("--title", metavar="TEXT", default="", help="what the board is called (default: kbh board)")
    ask.add_argument("--audit", type=Path, metavar="FILE", help="an audit.json of kbh audit, for the audit page")
    ask.add_argument("--over", choices=("problems", "deck"), default="problems",
                     help="intervals are of problems like these, or of the deck's own (default: problems)")  # fmt: skip
    ask.add_argument("--margin", metavar="X", type=float, default=MARGIN,
                     help=f"scores that differ by no more are the same (default: {MARGIN:g})")  # fmt: skip
    ask.add_argument("--level", metavar="X", type=float, default=0.95, help="of the intervals (default: 0.95)")
    ask.add_argument("--transcripts", metavar="N", type=int, default=MOST_TRANSCRIPTS,
                     help="write transcripts if there are no more runs (default: %(default)s; 0: none)")  # fmt: skip
    ask.add_argument("--problems-dir", metavar="DIR", type=Path, help="the deck (default: ours)")
    return ask


def main(argv: Sequence[str] | None = None) -> int:
    """`kbh site`. Returns the exit code."""
    return guarded(parser(), argv, _site)


def _site(args: argparse.Namespace) -> int:
    archive, found = facts_in("kbh site", args.archive)
    progress = Progress()
    try:
        site = gather(
            archive, found, title=args.title, problems_dir=args.problems_dir, over=args.over, margin=args.margin,
            level=args.level, audit=read_audit(args.audit) if args.audit else None,
        )  # fmt: skip
        written = write_site(site, args.output, transcripts=args.transcripts,
                             told=lambda done, total: progress(done, total, "pages"))  # fmt: skip
    except SiteError as error:
        raise StoreError(str(error)) from None
    finally:
        progress.clear()
    for text in written.words:
        print(f"kbh site: {text}", file=sys.stderr)
    print(f"{args.output / 'index.html'}: {written.files:,} files, {written.bytes / 1e6:.1f} MB")
    return TROUBLE if found.faults else DONE
