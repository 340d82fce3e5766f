"""`kbh regrade`: grades what an archive holds once more, and says of each entry what changed."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.record.bundle import Bundle, BundleError
from harness.archive.commands import Parser, add_wanted, facts_in, guarded, wanted
from harness.archive.facts import Facts
from harness.archive.index import all_facts
from harness.archive.layout import StoreError
from harness.archive.select import counted
from harness.archive.store import Archive
from harness.record.archive import RECORD, RUN_FILE
from kbh_lint.report.text import one_line

__all__ = ["Again", "main", "parser"]

SAME, CHANGED, TROUBLE = 0, 1, 2
AT_A_TIME = 32
MOST_JOBS = 64
GRADE = "from grader.cli.grade import main; import sys; raise SystemExit(main(sys.argv[1:]))"

_EPILOG = """\
Each entry that counts and has a score, a verdict or a failure of the grader's is graded again with the options of its
grading, on this machine: same, faster, slower, or verdict changed. The new gradings are bundles below --out, and are
added to the archive, where they stand beside the first and do not count. Stop it when you like: what was graded is in
the archive.

examples:
  kbh regrade results                                       everything
  kbh regrade results --only 3fa9c1 --only 07bb2e           two entries
  kbh regrade results --problem 05_topk_bitonic --jobs 4    four at a time, as in kbh grade --jobs

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
    results: list[Again] = []
    try:
        for start in range(0, len(entries), AT_A_TIME):
            for again in _some(archive, entries[start : start + AT_A_TIME], args):
                results.append(again)
                if not args.json:
                    print(one_line(f"{again.facts.id[:12]}  {again.word:<15}  {again.text}"), flush=True)
    finally:
        all_facts(archive)
    counts = Counter(again.word for again in results)
    if args.json:
        rows = [{"id": a.facts.id, "name": a.facts.name, "word": a.word, "text": a.text, "made": a.made}
                for a in results]  # fmt: skip
        print(json.dumps({"version": 1, "entries": rows, "counts": counts}, indent=1))
    else:
        print(", ".join(f"{number} {word}" for word, number in sorted(counts.items())))
    return TROUBLE if counts["error"] else CHANGED if counts["verdict changed"] else SAME


def _some(archive: Archive, entries: Sequence[Facts], args: argparse.Namespace) -> Iterator[Again]:
    """Grades a few entries in one command of the grader, which knows how to do several at a time."""
    with tempfile.TemporaryDirectory(prefix="kbh-regrade-") as place:
        folders = {one.id: _bundle(archive, one, Path(place)) for one in entries}
        made, errors = _graded([str(folder) for folder in folders.values()], args)
        for one in entries:
            folder = folders[one.id]
            bundle = made.get(one.head)
            if bundle is None:
                said = next((text for text in errors if str(folder) in text), "the grader gave no result")
                yield Again(one, "error", said.replace(f"{folder}: ", ""))
                continue
            again = [entry for entry in Bundle.open(bundle).entries() if entry.kind == "regrade"][-1]
            yield Again(one, str(again.data["outcome"]), str(again.data["text"]), archive.add(bundle)[0])


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


def _graded(folders: Sequence[str], args: argparse.Namespace) -> tuple[dict[str, Path], list[str]]:
    """The new bundle for each head of an old one, and what could not be graded."""
    words = ["--format", "json", "--out", str(args.out)]
    words += ["--jobs", str(args.jobs)] if args.jobs > 1 else []
    words += ["--problems-dir", str(args.problems_dir)] if args.problems_dir is not None else []
    done = subprocess.run([sys.executable, "-c", GRADE, *words, *folders], stdout=subprocess.PIPE, check=False)
    try:
        answer = json.loads(done.stdout)
        found = [Path(cell["bundle"]) for cell in answer["cells"]]
        errors = [str(text) for text in answer["errors"]]
    except (ValueError, KeyError, TypeError):
        raise StoreError("the grader ended without an answer; what it said stands above") from None
    made: dict[str, Path] = {}
    for bundle in found:
        try:
            again = [entry for entry in Bundle.open(bundle).entries() if entry.kind == "regrade"]
        except BundleError as error:
            errors.append(f"{bundle}: {error}")
            continue
        if again:
            made[str(again[-1].data.get("head"))] = bundle
    return made, errors
