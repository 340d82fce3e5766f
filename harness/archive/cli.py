"""`kbh archive`: adds runs and bundles to an archive, merges archives, makes the index anew, gives entries back."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from harness.archive import source
from harness.archive.commands import Parser, Progress, facts_in, guarded
from harness.archive.index import all_facts, rebuild
from harness.archive.layout import StoreError
from harness.archive.select import find
from harness.archive.store import Archive

__all__ = ["main", "parser"]

DONE, REFUSED, TROUBLE = 0, 1, 2
MOST_BELOW = 100_000

_EPILOG = """\
An archive is a folder that is only added to. Every file lies in it once, under the hash of its bytes; an entry (a run
of kbh run, or a bundle of kbh grade) is a small file that lists them, and is called what that hashes to. So the same
run is the same entry on every host, and archives are merged by copying what is missing.

examples:
  kbh archive add kbh-runs/* kbh-results/* --to results      runs that are over, and finished bundles
  kbh archive add kbh-runs --to results                      the same, for all in a folder
  kbh archive merge host1 host2 --to results                 of several hosts
  kbh archive index results                                  make the index anew, from the files alone
  kbh archive extract results 3fa9c1 --to run                a run as a folder again, for kbh view and kbh replay
  kbh ls results; kbh show 3fa9c1 --archive results; kbh verify results; kbh regrade results

exit codes: 0 done; 1 something was refused, and is named; the rest was taken; 2 nothing could be done
"""


def parser() -> argparse.ArgumentParser:
    """The options of `kbh archive`."""
    ask = Parser(
        prog="kbh archive", description="Keeps runs and gradings, each once, where they cannot change.", epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
    )  # fmt: skip
    which = ask.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=Parser)
    add = which.add_parser("add", help="add runs and bundles, or folders of them", allow_abbrev=False)
    add.add_argument("paths", nargs="+", type=Path, metavar="RUN|BUNDLE")
    merge = which.add_parser("merge", help="add all entries of other archives", allow_abbrev=False)
    merge.add_argument("paths", nargs="+", type=Path, metavar="ARCHIVE")
    for one in (add, merge):
        one.add_argument(
            "--to", metavar="DIR", type=Path, required=True, help="the archive; made where it is not there"
        )
    index = which.add_parser("index", help="make the index anew from the files", allow_abbrev=False)
    index.add_argument("archive", type=Path, metavar="ARCHIVE")
    extract = which.add_parser("extract", help="write the files of an entry into a new folder", allow_abbrev=False)
    extract.add_argument("archive", type=Path, metavar="ARCHIVE")
    extract.add_argument("entry", metavar="ID", help="the beginning of an id, or a name; kbh ls prints them")
    extract.add_argument("--to", metavar="DIR", type=Path, required=True, help="a folder that is not there yet")
    return ask


def main(argv: Sequence[str] | None = None) -> int:
    """`kbh archive`. Returns the exit code."""
    works = {"add": _add, "merge": _merge, "index": _index, "extract": _extract}
    return guarded(parser(), argv, lambda args: works[args.command](args))


def _add(args: argparse.Namespace) -> int:
    archive, progress = Archive.create(args.to), Progress()
    added, same, refused = 0, 0, 0
    for count, path in enumerate(paths := list(_expanded(args.paths)), 1):
        try:
            id_, new = archive.add(path)
        except StoreError as error:
            refused += 1
            progress.clear()
            _refused(error)
            continue
        added, same = added + new, same + (not new)
        progress(count, len(paths))
        if len(paths) <= 20:
            print(f"{id_[:12]}  {path}{'' if new else '  (there already)'}")
    all_facts(archive, progress)
    progress.clear()
    print(f"{added} added, {same} there already, {refused} refused")
    return _code(added + same, refused)


def _expanded(paths: Iterable[Path]) -> Iterator[Path]:
    """Runs and bundles as they are; of another folder those that lie in it."""
    for path in paths:
        below = [] if source.kind_of(path) or not path.is_dir() else sorted(islice(path.iterdir(), MOST_BELOW))
        inside = [one for one in below if not one.is_symlink() and source.kind_of(one)]
        yield from inside or [path]


def _merge(args: argparse.Namespace) -> int:
    others = [Archive.open(path) for path in args.paths]
    archive, progress = Archive.create(args.to), Progress()
    new, same, refused = 0, 0, 0
    for other in others:
        merged = archive.merge(other, progress)
        progress.clear()
        for sentence in merged.refused:
            _refused(f"{other.folder}: {sentence}")
        new, same, refused = new + len(merged.new), same + merged.same, refused + len(merged.refused)
    all_facts(archive, progress)
    progress.clear()
    print(f"{new} added, {same} there already, {refused} refused")
    return _code(new + same, refused)


def _index(args: argparse.Namespace) -> int:
    archive, progress = Archive.open(args.archive), Progress()
    found = rebuild(archive, progress)
    progress.clear()
    for fault in found.faults:
        _refused(fault)
    print(f"{len(found.facts)} entries")
    return _code(len(found.facts), len(found.faults))


def _extract(args: argparse.Namespace) -> int:
    archive, found = facts_in("kbh archive", args.archive)
    manifest = archive.manifest(find(found.facts, args.entry).id)
    if args.to.exists():
        raise StoreError(f"{args.to} is there already")
    archive.extract(manifest, args.to)
    print(f"{manifest.kind} {manifest.name}: {args.to}")
    return DONE


def _refused(what: object) -> None:
    print(f"kbh archive: refused: {what}", file=sys.stderr)


def _code(taken: int, refused: int) -> int:
    return DONE if not refused else REFUSED if taken else TROUBLE
