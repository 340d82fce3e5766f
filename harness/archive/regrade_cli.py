"""`kbh regrade`: grades what an archive holds once more, and says of each entry what changed."""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.cli.board import Board
from grader.cli.jobs import MOST_JOBS, Done, gpus, graded
from grader.record.bundle import Bundle, BundleError
from harness.archive.commands import Parser, add_wanted, facts_in, guarded, wanted
from harness.archive.facts import Facts
from harness.archive.graded import entries_below
from harness.archive.index import all_facts
from harness.archive.layout import StoreError
from harness.archive.scratch import scratch
from harness.archive.select import counted
from harness.archive.store import Archive
from harness.record.archive import RECORD, RUN_FILE
from kbh_lint.base.paths import hardware_file, problems_dir
from kbh_lint.report.text import one_line

__all__ = ["Again", "main", "parser"]

SAME, CHANGED, TROUBLE = 0, 1, 2
AT_A_TIME = 256

_EPILOG = """\
Each entry that counts and has a score, a verdict or a failure of the grader's is graded again with the options of its
grading, on this machine: same, faster, slower, or verdict changed. The new gradings are bundles below --out, and are
added to the archive, where they stand beside the first and do not count. Stop it when you like: what was graded is in
the archive, and --new goes on with the rest.

examples:
  kbh regrade results                                       everything
  kbh regrade results --only 3fa9c1 --only 07bb2e           two entries
  kbh regrade results --problem 05_topk_bitonic --jobs 4    four at a time, as in kbh grade --jobs
  kbh regrade results --new                                 what was not graded again yet

exit codes: 0 all are the same, or faster or slower; 1 a verdict changed; 2 something could not be graded again
"""


@dataclass(frozen=True, slots=True)
class Again:
    """What became of one entry: grader.grading.regrade's word with its sentence, or `error`, and the new bundle."""

    facts: Facts
    word: str
    text: str
    made: str = ""


def parser() -> argparse.ArgumentParser:
    """The options of `kbh regrade`."""
    ask = Parser(
        prog="kbh regrade", description="Grades what an archive holds again.", epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
    )  # fmt: skip
    ask.add_argument("archive", type=Path, metavar="ARCHIVE")
    add_wanted(ask)
    ask.add_argument("--only", metavar="ID", action="append", default=[], help="these entries; may be given again")
    ask.add_argument("--new", action="store_true", help="leave out what was graded again already")
    ask.add_argument("--jobs", "-j", metavar="N", type=int, default=1, help="gradings at a time (default: 1)")
    ask.add_argument("--problems-dir", metavar="DIR", type=Path, help="use these problems instead of the project's")
    ask.add_argument("--out", metavar="DIR", type=Path, default=Path("kbh-results"),
                     help="where the new bundles are kept (default: kbh-results)")  # fmt: skip
    ask.add_argument("--json", action="store_true", help="for programs")
    return ask


def main(argv: Sequence[str] | None = None) -> int:
    """`kbh regrade`. Returns the exit code."""
    return guarded(parser(), argv, _regrade)


def _regrade(args: argparse.Namespace) -> int:
    if not 1 <= args.jobs <= MOST_JOBS:
        raise StoreError(f"--jobs is 1 to {MOST_JOBS}, not {args.jobs}")
    archive, found = facts_in("kbh regrade", args.archive)
    which = wanted(args, args.only)
    entries = [one for one in counted(found.facts) if which.fits(one) and one.head]
    if not entries:
        raise StoreError(f"{args.archive} has no grading that is meant")
    if args.new:
        before = _heads(archive, found.facts)
        entries = [one for one in entries if one.head not in before]
    results: list[Again] = []
    board = Board()
    try:
        for again in _all(archive, entries, args, board):
            results.append(again)
            if not args.json:
                board.clear()
                text = f"{again.facts.id[:12]}  {again.word:<15}  {_label(again.facts)}: {again.text}"
                print(one_line(text), flush=True)
    finally:
        board.clear()
        all_facts(archive)
    counts = Counter(again.word for again in results)
    if args.json:
        rows = [{"id": a.facts.id, "name": a.facts.name, "word": a.word, "text": a.text, "made": a.made}
                for a in results]  # fmt: skip
        print(json.dumps({"version": 1, "entries": rows, "counts": counts}, indent=1))
    else:
        told = ", ".join(f"{number} {word}" for word, number in sorted(counts.items()))
        print(told or "everything that is meant was graded again already")
    return TROUBLE if counts["error"] else CHANGED if counts["verdict changed"] else SAME


def _label(one: Facts) -> str:
    """What an entry is, for people."""
    return " ".join(
        filter(None, (one.agent, one.model, one.problem, one.target, f"trial {one.trial}" if one.agent else ""))
    )


def _all(archive: Archive, entries: Sequence[Facts], args: argparse.Namespace, board: Board) -> Iterator[Again]:
    """Grades entries, so many of them on the disk at a time; those of one target together, which share its GPUs."""
    hardware = hardware_file(problems_dir(args.problems_dir))
    for target in sorted({one.target for one in entries}):
        these = [one for one in entries if one.target == target]
        devices = gpus(target, hardware) if args.jobs > 1 else []
        for start in range(0, len(these), AT_A_TIME):
            with scratch("kbh-regrade-") as place:
                yield from _some(archive, these[start : start + AT_A_TIME], args, place, devices, board)


def _some(
    archive: Archive,
    entries: Sequence[Facts],
    args: argparse.Namespace,
    place: Path,
    devices: Sequence[str],
    board: Board,
) -> Iterator[Again]:
    """Grades a few entries, several at a time as `kbh grade --jobs` does, and gives each when it ends."""
    tasks, meant = [], []
    for one in entries:
        try:
            tasks.append((_bundle(archive, one, place), ""))
            meant.append(one)
        except (StoreError, OSError) as error:
            yield Again(one, "error", str(error))
    words = [*(["--problems-dir", str(args.problems_dir)] if args.problems_dir is not None else []), "--out"]
    names = [f"{one.id[:12]}  {_label(one)}" for one in meant]
    given = [*words, str(args.out), "-"]
    with contextlib.closing(graded(tasks, given, args.jobs, board, devices=devices, names=names)) as ended:
        for index, done in ended:
            folder = tasks[index][0]
            yield _came_of(archive, meant[index], done, folder)
            shutil.rmtree(folder.parent, ignore_errors=True)


def _came_of(archive: Archive, one: Facts, done: Done, folder: Path) -> Again:
    if done.bundle is None:
        return Again(one, "error", done.error.replace(f"{folder}: ", "").replace(str(folder), folder.name))
    try:
        again = [entry for entry in Bundle.open(done.bundle).entries() if entry.kind == "regrade"]
        if not again:
            return Again(one, "error", "the grader did not compare it with the first grading")
        return Again(one, str(again[-1].data["outcome"]), str(again[-1].data["text"]), archive.add(done.bundle)[0])
    except (BundleError, StoreError, OSError) as error:
        return Again(one, "error", str(error))


def _heads(archive: Archive, facts: Sequence[Facts]) -> set[str]:
    """The heads of the gradings that were made again already."""
    found = set()
    for one in facts:
        if one.regrade:
            manifest = archive.manifest(one.id)
            last = json.loads(archive.file(manifest, entries_below(manifest)[-1]))
            if last.get("kind") == "regrade" and isinstance(last.get("data"), dict):
                found.add(str(last["data"].get("head")))
    return found


def _bundle(archive: Archive, one: Facts, place: Path) -> Path:
    """The grading of an entry as a folder."""
    manifest = archive.manifest(one.id)
    if manifest.kind == "bundle":
        name, below = manifest.name, ""
    else:
        name = str(json.loads(archive.file(manifest, RUN_FILE))["cell"])
        below = f"{RECORD}/cells/{name}/"
    folder = place / one.id[:16] / name
    archive.extract(manifest, folder, below)
    return folder
