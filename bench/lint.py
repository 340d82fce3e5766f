"""What linting costs beside what parsing alone costs: `python bench/lint.py CORPUS`, or without one of our own files.

Measures, on a folder of submissions:

- parse: libcst.parse_module of every file plus tree-sitter over the CUDA strings in them, in this process;
- lint: kbh_lint.lint over the same files, in this process, without a cache; and milliseconds a file (these two in
  seconds of CPU of this process, which what else runs on the machine changes least; ruff's process is not in them);
- start: one file of about 300 lines from a cold start, beside an empty `python -c pass`;
- jobs: one job and two on five copies of the set;
- cache: a first and a second run with a cache.

Prints each figure with its goal. `--check` makes a missed goal exit 1; `--quick` leaves out start, jobs and cache.

Without a corpus the submissions are the deck's honest solutions, and one figure is measured: the least that
linting each of them takes of CPU, beside the least that parsing it takes. Its bound is a bit above what
was reached: `--check` is what keeps new analyses from costing more than anybody noticed.

`--against TREE` lints the corpus with this tree and with another in turns, and says which takes less (lint_against.py).
"""

from __future__ import annotations

import argparse
import ast
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import lint_against

import kbh_lint
from kbh_lint.base import paths
from kbh_lint.base.limits import fewer_collections
from kbh_lint.findings import Report
from kbh_lint.service.one_file import Options, lint_file
from kbh_lint.source.submissions import Submission, discover

CUDA_MARKS = ("__global__", "__device__", "#include", "torch::", "at::Tensor")
CUDA_SUFFIXES = (".cu", ".cuh", ".cpp", ".h", ".hpp")
MIN_CUDA = 120
START_LINES = 300
COPIES = 5
OURS = "*/honest/**/*.py"
REPEATS = 3
MOST = 7.5  # times parsing, of ours; 5.7 to 6.2 are reached here, and another machine may parse faster


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured number with its unit and, where there is one, its goal."""

    name: str
    value: float
    unit: str
    most: float | None = None
    least: float | None = None

    @property
    def met(self) -> bool:
        """Whether the goal, if any, is reached."""
        return (self.most is None or self.value <= self.most) and (self.least is None or self.value >= self.least)

    def __str__(self) -> str:
        goal = f"at most {self.most:g}" if self.most is not None else f"at least {self.least:g}" if self.least else ""
        mark = "" if not goal else "  ok" if self.met else "  MISSED"
        return f"{self.name:<46}{self.value:>10.2f} {self.unit:<8}{goal}{mark}"


def main() -> int:
    """Entry point; returns the exit code."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("corpus", type=Path, nargs="?", help="a folder of submissions; without it, the deck's")
    ask.add_argument("--quick", action="store_true", help="only parse and lint")
    ask.add_argument("--check", action="store_true", help="exit 1 when a goal is missed")
    ask.add_argument("--against", type=Path, metavar="TREE", help="another checkout to lint the corpus with, in turns")
    ask.add_argument("--rounds", type=int, default=lint_against.ROUNDS, help="of the turns (default: %(default)s)")
    asked = ask.parse_args()
    if asked.corpus is None:
        return 1 if not ours().met and asked.check else 0
    if not asked.corpus.is_dir():
        print(f"{asked.corpus} is not a folder", file=sys.stderr)
        return 2
    if asked.against is not None:
        lint_against.compare(asked.corpus, Path(__file__).parents[1], asked.against, asked.rounds)
        return 0
    submissions = [item for item in discover([asked.corpus]) if isinstance(item, Submission)]
    if not submissions:
        print(f"{asked.corpus} holds no submission", file=sys.stderr)
        return 2
    lines = sum(s.text.count("\n") + 1 for s in submissions)
    print(f"{len(submissions)} submissions, {lines} lines, Python {sys.version.split()[0]}")
    figures = costs(asked.corpus, submissions)
    if not asked.quick:
        figures += [start(submissions), jobs(asked.corpus), *cache(asked.corpus)]
    return 1 if asked.check and not all(figure.met for figure in figures) else 0


def show(figure: Figure) -> Figure:
    """Print a figure as soon as it is known."""
    print(figure, flush=True)
    return figure


def timed(work: Callable[[], object]) -> float:
    """Seconds that a call takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def worked(work: Callable[[], object]) -> float:
    """Seconds of CPU that a call takes in this process."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def costs(corpus: Path, submissions: list[Submission]) -> list[Figure]:
    """Parsing alone, linting, and their ratio; both after a warm-up."""
    import libcst

    sources = [text for s in submissions for text in cuda_texts(s)]
    parse_cuda = cuda_parser()
    libcst.parse_module("x = 1\n")
    cst = sum(worked(lambda s=s: attempt(libcst.parse_module, s.text)) for s in submissions)  # type: ignore[misc]
    sitter = sum(worked(lambda t=t: parse_cuda(t)) for t in sources)  # type: ignore[misc]
    tree = sum(worked(lambda s=s: attempt(ast.parse, s.text)) for s in submissions)  # type: ignore[misc]
    show(Figure("libcst.parse_module", cst, "s"))
    show(Figure(f"tree-sitter, {len(sources)} CUDA texts", sitter, "s"))
    show(Figure("ast.parse", tree, "s"))
    show(Figure("libcst / ast", cst / tree, "times"))
    options = Options(str(paths.rules_dir()), str(paths.problems_dir()))
    lint_file(submissions[0], options)
    with fewer_collections():  # as around the files of a run
        each = sorted(worked(lambda s=s: lint_file(s, options)) * 1e3 for s in submissions)  # type: ignore[misc]
    reports: list[Report] = []
    whole = worked(lambda: reports.append(kbh_lint.lint([corpus], cache=None)))
    verdicts = Counter(file.verdict for file in reports[0].files)
    print("verdicts:", ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common()))
    show(Figure("kbh_lint.lint, one process, no cache", whole, "s"))
    show(Figure("a file, median", statistics.median(each), "ms"))
    show(Figure("a file, p95", each[min(int(len(each) * 0.95), len(each) - 1)], "ms", most=200))
    show(Figure("a file, worst", each[-1], "ms"))
    return [show(Figure("lint / (libcst + tree-sitter)", whole / (cst + sitter), "times", most=2))]


def ours() -> Figure:
    """What linting the deck's own submissions costs beside what parsing them costs: of each file the least of some
    times, which what else runs on the machine changes little."""
    import libcst

    deck = paths.problems_dir()
    submissions = [item for item in discover(sorted(deck.glob(OURS))) if isinstance(item, Submission)]
    options, parse_cuda = Options(str(paths.rules_dir()), str(deck)), cuda_parser()

    def parse(submission: Submission, texts: list[bytes]) -> None:
        attempt(libcst.parse_module, submission.text)
        for text in texts:
            parse_cuda(text)

    lint_file(submissions[0], options)
    parsed = linted = 0.0
    for s in submissions:
        read, lint = partial(parse, s, cuda_texts(s)), partial(lint_file, s, options)
        parsed += min(worked(read) for _ in range(REPEATS))
        with fewer_collections():  # as around the files of a run
            linted += min(worked(lint) for _ in range(REPEATS))
    print(f"{len(submissions)} submissions of the deck: parsing {parsed:.2f} s, linting {linted:.2f} s")
    return show(Figure("lint / (libcst + tree-sitter), the deck's", linted / parsed, "times", most=MOST))


def attempt(parse: Callable[[str], object], text: str) -> None:
    """Parse; a text that does not parse costs what it costs until then."""
    try:
        parse(text)
    except Exception:
        return


def cuda_texts(submission: Submission) -> list[bytes]:
    """The CUDA and C++ texts of a submission: string literals that look like it, and sidecars."""
    found = [car.text for name, car in submission.sidecars.items() if name.endswith(CUDA_SUFFIXES)]
    try:
        tree = ast.parse(submission.text)
    except (SyntaxError, ValueError, RecursionError):
        tree = ast.Module([], [])
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) >= MIN_CUDA:
            if any(mark in node.value for mark in CUDA_MARKS):
                found.append(node.value)
    return [text.encode("utf-8", "replace") for text in found]


def cuda_parser() -> Callable[[bytes], object]:
    """A warm tree-sitter parser for CUDA."""
    import tree_sitter
    import tree_sitter_cpp

    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_cpp.language()))
    parser.parse(b"int x;")
    return parser.parse


def start(submissions: list[Submission], repeats: int = 7) -> Figure:
    """Seconds that one file of about 300 lines takes from a cold start, above an empty Python. Byte code is there, as
    it is of what is installed: to compile this package takes half a second."""
    file = min(submissions, key=lambda s: abs(s.text.count("\n") - START_LINES)).path
    command = [sys.executable, "-m", "kbh_lint", "--no-cache", "--exit-zero", "--quiet", str(file)]
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

    def run(argv: list[str]) -> float:
        return timed(
            lambda: subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True, env=kept)
        )

    run(command)
    pairs = [(run(command), run([sys.executable, "-c", "pass"])) for _ in range(repeats)]
    empty = statistics.median(bare for _, bare in pairs)
    above = statistics.median(linted for linted, _ in pairs) - empty
    return show(Figure("cold start above `python -c pass`", above, "s", most=0.35))


def jobs(corpus: Path) -> Figure:
    """How many times faster two jobs are than one, on five copies of the set."""
    with tempfile.TemporaryDirectory() as folder:
        for copy in range(COPIES):
            shutil.copytree(corpus, Path(folder) / str(copy))
        one = timed(lambda: kbh_lint.lint([folder], jobs=1, cache=None))
        two = timed(lambda: kbh_lint.lint([folder], jobs=2, cache=None))
    return show(Figure(f"one job / two jobs, {COPIES} copies", one / two, "times", least=1.6))


def cache(corpus: Path) -> list[Figure]:
    """How many times faster a second run with a cache is, and that it says the same."""
    with tempfile.TemporaryDirectory() as folder:
        reports: list[Report] = []
        first = timed(lambda: reports.append(kbh_lint.lint([corpus], cache=folder)))
        second = timed(lambda: reports.append(kbh_lint.lint([corpus], cache=folder)))
    return [
        show(Figure("first run / second run, with a cache", first / second, "times", least=10)),
        show(Figure("the two reports are equal", float(reports[0] == reports[1]), "", least=1)),
    ]


if __name__ == "__main__":
    sys.exit(main())
