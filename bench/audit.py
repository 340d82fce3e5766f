"""What `kbh audit` costs on an archive as large as a published one: `python bench/audit.py CORPUS --like REPO.git`.

The archive is a stand-in. Of the published one only names and sizes are read (`git ls-tree`), never a file: how many
runs have a solution, and how many bytes they are. As many files in the same layout are made of the submissions in
CORPUS, each with a constant renamed and a comment of its own, so that nothing that is kept by content can help; there
are at least as many files and at least as many bytes. The audit runs as its own command; seconds are of the processor,
with those of its workers, and divided by the cores for the goal, since others may work on the machine.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from itertools import cycle
from pathlib import Path

from harness.audit.layouts import plan
from harness.audit.reading import Item

ROOT = Path(__file__).resolve().parents[1]
GOAL_S = 180.0
RUN = "import sys; from kbh_lint.cli import COMMANDS; sys.exit(COMMANDS['audit'][0](sys.argv[1:]))"
CONSTANT = re.compile(r"^([A-Z][A-Z0-9_]{3,}) *=", re.MULTILINE)


def size_of(repository: Path, revision: str) -> tuple[int, int]:
    """Runs with a solution, and the bytes of solutions, by names and sizes alone. A solution that lies in a page counts
    with the mean of the others, as its size is not the page's. Raises CalledProcessError where git cannot say."""
    command = ["git", "-C", str(repository), "ls-tree", "-r", "-l", "-z", revision]
    listed = subprocess.run(command, check=True, capture_output=True, text=True, errors="replace").stdout
    sizes = {}
    for line in filter(None, listed.split("\0")):
        about, path = line.split("\t", 1)
        size = about.split()[-1]
        if size.isdigit():
            sizes[path] = int(size)
    entries = plan("predecessor", [Item(path, size, "") for path, size in sizes.items()], None).entries
    places = [entry.place for entry in entries if entry.place is not None]
    texts = [sizes[place.path] for place in places if place.form == "text"]
    return len(places), round(sum(texts) / max(len(texts), 1) * len(places))


def distinct(text: str, number: int) -> str:
    """A submission that no other has the bytes or the names of, and that does the same."""
    if found := CONSTANT.search(text):
        text = re.sub(rf"\b{found[1]}\b", f"{found[1]}_{number}", text)
    return f"{text.rstrip()}\n\nCOPY_{number} = {number}  # {number}\n"


def stand_in(corpus: Path, folder: Path, runs: int, total: int) -> tuple[int, int]:
    """Writes the archive; gives its files and bytes. Raises ValueError where the corpus has no submission."""
    sources = sorted(corpus.glob("*.py"))
    if not sources:
        raise ValueError(f"{corpus} has no submission")
    place = folder / "public" / "runs"
    place.mkdir(parents=True)
    made = written = 0
    for source in cycle(sources):
        if made >= runs and written >= total:
            break
        data = distinct(source.read_text(encoding="utf-8", errors="replace"), made).encode()
        (place / f"{made:08}_{source.stem.split('_', 1)[-1]}_solution.py.txt").write_bytes(data)
        made, written = made + 1, written + len(data)
    return made, written


def main() -> int:
    """Entry point; returns the exit code."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("corpus", type=Path, help="a folder of submissions, NAME_PROBLEM.py")
    ask.add_argument("--like", type=Path, help="a git repository in the predecessor's layout, of which names are read")
    ask.add_argument("--revision", default="HEAD")
    ask.add_argument("--runs", type=int, default=0, help="so many files instead")
    ask.add_argument("--cores", type=int, default=2, help="that the goal is for (default: 2)")
    ask.add_argument("--check", action="store_true", help="exit 1 where the goal is missed")
    args = ask.parse_args()
    runs, total = size_of(args.like, args.revision) if args.like else (args.runs, 0)
    if runs < 1:
        ask.error("say how large: --like or --runs")
    with tempfile.TemporaryDirectory(prefix="kbh-audit-") as name:
        made, written = stand_in(args.corpus, Path(name) / "archive", runs, total)
        print(f"to be like: {runs:,} runs, {total / 1e6:.1f} MB; made: {made:,} runs, {written / 1e6:.1f} MB")
        command = [
            sys.executable, "-c", RUN,
            str(Path(name) / "archive"), "-o", str(Path(name) / "out"), "--jobs", str(args.cores),
        ]  # fmt: skip
        begun, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        code = subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.DEVNULL).returncode
        wall, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
        report = Path(name) / "out" / "audit.json"
        told = len(json.loads(report.read_bytes())["cells"]) if report.is_file() else 0
    if code not in {0, 1} or told != made:
        print(f"the audit ended with {code} and tells of {told} runs", file=sys.stderr)
        return 2
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    met = used / args.cores <= GOAL_S
    print(f"audit: {used:.0f} s of the processor, {used / made:.3f} s a solution, {wall:.0f} s by the clock")
    print(f"on {args.cores} cores: {used / args.cores:.0f} s, at most {GOAL_S:g}  {'ok' if met else 'MISSED'}")
    return 1 if args.check and not met else 0


if __name__ == "__main__":
    sys.exit(main())
