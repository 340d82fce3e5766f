"""Two trees of the linter on the same files, in turns: `python bench/lint.py CORPUS --against TREE`.

A process for each tree lints one file at a time, this tree's and the other's after one another, so that both meet
the machine as it is at the time. Collections of garbage are counted where they come up. Printed are the CPU seconds
of a round over all files, and the ratio of the two: the median of the rounds, with the least and the most.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

ROUNDS = 3

# It imports what both trees have: the one under test is the first on its path, whatever is installed.
_WORKER = """
import hashlib, resource, sys, time
tree, corpus = sys.argv[1:]
sys.path.insert(0, tree)
import kbh_lint
assert kbh_lint.__file__.startswith(tree + "/"), kbh_lint.__file__
from pathlib import Path
from kbh_lint.base.limits import fewer_collections
from kbh_lint.service.one_file import Options, lint_file, load_rules_once
from kbh_lint.source.submissions import Submission, discover
options = Options(tree + "/rules", tree + "/problems")
rules = load_rules_once(options.rules_dir)
submissions = [item for item in discover([Path(corpus)]) if isinstance(item, Submission)]
for item in submissions[:1]:
    lint_file(item, options, rules)
with fewer_collections():
    print(len(submissions), flush=True)
    for line in sys.stdin:
        begin = time.process_time()
        outcome = lint_file(submissions[int(line)], options, rules)
        took = time.process_time() - begin
        said = repr(outcome).replace(corpus, "CORPUS").replace(tree, "TREE").encode("utf-8", "surrogatepass")
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(took, memory, hashlib.sha256(said).hexdigest(), flush=True)
"""


@dataclass
class Tree:
    """What one tree took: seconds by round and file, and what it said of each file."""

    root: Path
    asking: IO[str]
    answering: IO[str]
    count: int
    rounds: list[list[float]] = field(default_factory=list)
    said: dict[int, str] = field(default_factory=dict)
    memory: int = 0  # the most that its process held, in KiB

    def lint(self, index: int) -> float:
        """Seconds of CPU that one file takes."""
        print(index, file=self.asking, flush=True)
        took, memory, said = _answer(self.root, self.answering).split()
        self.said[index], self.memory = said, max(self.memory, int(memory))
        return float(took)

    def totals(self) -> list[float]:
        """Seconds of each round."""
        return [sum(taken) for taken in self.rounds]

    def least(self) -> list[float]:
        """Of each file the least of the rounds, the quickest first."""
        return sorted(map(min, zip(*self.rounds, strict=True)))


def compare(corpus: Path, here: Path, there: Path, rounds: int = ROUNDS) -> None:
    """Lint `corpus` with two trees in turns, and print what each took. Exits with a sentence where that cannot be."""
    if not (there / "kbh_lint" / "__init__.py").is_file():
        sys.exit(f"{there} is no checkout of this project: it has no package kbh_lint")
    with ExitStack() as ends:
        trees = [ends.enter_context(_started(root.resolve(), corpus.resolve())) for root in (there, here)]
        if len({tree.count for tree in trees}) > 1 or not trees[0].count:
            sys.exit(f"the trees find {' and '.join(str(tree.count) for tree in trees)} submissions in {corpus}")
        files = range(trees[0].count)
        for turn in range(rounds):
            for tree in trees:
                tree.rounds.append([])
            for index in files:
                for tree in trees if (turn + index) % 2 else trees[::-1]:
                    tree.rounds[-1].append(tree.lint(index))
    other, ours = trees
    for name, tree in (("there", other), ("here", ours)):
        least = [seconds * 1e3 for seconds in tree.least()]
        p95 = least[min(int(len(least) * 0.95), len(least) - 1)]
        each = f"a file at best {statistics.median(least):.0f} ms median, {p95:.0f} p95, {least[-1]:.0f} worst"
        print(f"{name:<6}{tree.root}: {_spread(tree.totals(), 's')}; {each}; {tree.memory / 1024:.0f} MiB")
    print("here / there:", _spread([a / b for a, b in zip(ours.totals(), other.totals(), strict=True)], "times"))
    best = sum(ours.least()) / sum(other.least())
    print(f"here / there, of each file the least of {rounds} rounds: {best:.3f} times")
    differ = sum(ours.said[index] != other.said[index] for index in files)
    print(f"{len(files)} files, {differ} with another report")


def _answer(root: Path, answering: IO[str]) -> str:
    """A line from a tree's process, which says on standard error why there is none."""
    line = answering.readline()
    return line or sys.exit(f"the linter of {root} ended before it had answered")


def _spread(values: Sequence[float], unit: str) -> str:
    return f"{statistics.median(values):.3f} {unit} ({min(values):.3f} to {max(values):.3f})"


@contextmanager
def _started(root: Path, corpus: Path) -> Iterator[Tree]:
    """A process that lints with the code, rules and problems of a tree."""
    command = [sys.executable, "-c", _WORKER, str(root), str(corpus)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root)
    assert process.stdin is not None and process.stdout is not None
    with process:
        yield Tree(root, process.stdin, process.stdout, int(_answer(root, process.stdout)))
        process.stdin.close()
