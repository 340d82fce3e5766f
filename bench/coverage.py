"""How often the intervals of boards hold the truth, on boards that are drawn from a known one.

    python bench/coverage.py                1,000 boards of every scenario, as tables
    python bench/coverage.py --boards 100        fewer
    python bench/coverage.py --check        fails where a 95 % interval holds the truth in less than 92 % or more than
                                            99 % of cases, or a claim of at least 95 % in less than 92 %
    python bench/coverage.py --first        says whether these figures are those of the code, by a few boards
    python bench/coverage.py --write        keeps the figures, from which `make docs` makes the tables of
                                            docs/statistics.md

A board depends on the seed, its scenario and its number only, not on how many are drawn or by how many processes.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict

import numpy as np
import scipy

from harness.statistics.board import MARGIN, Board, summarise
from harness.statistics.bootstrap import resampled_scores
from harness.statistics.coverage_page import HIGH, LOW, STORED, outside, tables
from harness.statistics.intervals import Interval, student, wilson
from harness.statistics.layout import Array, Layout, lay_out
from harness.statistics.simulation import SCENARIOS, Scenario, Truth, draw

Hit = tuple[str, bool]
RESAMPLES = 400  # of the bootstraps that are only compared with
AT_ONCE = 5  # boards of a task


def hits(scenario: Scenario, number: int, seed: int) -> Iterator[Hit]:
    """For one board, each claim's name and whether the truth was in it; a claim that is not made is left out."""
    random = np.random.default_rng([seed, SCENARIOS.index(scenario), number])
    rows, truth = draw(scenario, random)
    whole, deck = summarise(rows), summarise(rows, over="deck")
    yield from _of_models("", whole, truth.scores, truth.passes, truth)
    yield from _of_models(", deck", deck, truth.deck, truth.cells.mean(axis=1), truth)
    yield from _of_order("", whole, truth.scores)
    yield from _of_order(", deck", deck, truth.deck)
    place = {
        (f"model {one:02}", f"problem {two:02}"): float(truth.cells[one, two])
        for one, two in np.ndindex(truth.cells.shape)
    }
    for cell in whole.cells:
        if cell.interval is not None:
            yield "passes of a cell", place[cell.model, cell.problem] in cell.interval
    if whole.split.agent is not None:
        yield "agent", truth.session in whole.split.agent.interval
    for standing in whole.standings:
        if standing.split.agent is not None:
            yield "agent of a model", truth.session in standing.split.agent.interval
    if whole.split.clock is not None:
        yield "clock", truth.clock in whole.split.clock.interval
    yield from _of_others(lay_out(rows), truth, number)


def _of_models(suffix: str, board: Board, scores: Array, passes: Array, truth: Truth) -> Iterator[Hit]:
    for standing in board.standings:
        place = int(standing.model.split()[1])
        known = (("score", standing.interval, scores[place]), ("passes", standing.passes.interval, passes[place]),
                 ("leaks", standing.leaks.interval, truth.leaks))  # fmt: skip
        for name, interval, true in known:
            if interval is not None and true > 0:
                yield name + suffix, float(true) in interval
    for pair in board.pairs:
        one, two = (int(name.split()[1]) for name in (pair.first, pair.second))
        if pair.interval is not None:
            yield "difference" + suffix, float(scores[one] - scores[two]) in pair.interval


def _of_order(suffix: str, board: Board, scores: Array) -> Iterator[Hit]:
    """Of whole boards: no lead, no sameness and no rank is wrong."""
    leads, same, ranks = True, True, True
    for pair in board.pairs:
        one, two = (int(name.split()[1]) for name in (pair.first, pair.second))
        apart = float(scores[one] - scores[two])
        yield "ordered" + suffix, pair.relation in ("ahead", "behind")
        yield "equal" + suffix, pair.relation == "same"
        leads &= not (pair.relation == "ahead" and apart <= 0) and not (pair.relation == "behind" and apart >= 0)
        same &= not (pair.relation == "same" and abs(apart) >= MARGIN)
    for standing in board.standings:
        mine = scores[int(standing.model.split()[1])]
        ranks &= (
            standing.low <= 1 + int((scores > mine).sum()) and len(scores) - int((scores < mine).sum()) <= standing.high
        )
    yield from (("order" + suffix, leads), ("same" + suffix, same), ("ranks" + suffix, bool(ranks)))


def _of_others(layout: Layout, truth: Truth, number: int) -> Iterator[Hit]:
    """Of methods that are not used: percentiles of the bootstrap, Student's plain interval, Wilson's of all trials."""
    drawn = resampled_scores(layout, number, RESAMPLES)
    means = layout.means
    ends = np.nanquantile(drawn, (0.025, 0.975), axis=0)
    ranks = 1 + (drawn[:, None, :] > drawn[:, :, None]).sum(axis=2)
    of_ranks = np.quantile(ranks, (0.025, 0.975), axis=0, method="nearest")
    passes = np.isfinite(layout.scores).sum(axis=(1, 2))
    for place, true in enumerate(truth.scores.tolist()):
        known = means[place][np.isfinite(means[place])]
        yield "score, bootstrap", true in Interval(float(ends[0, place]), float(ends[1, place]))
        better, worse = int((truth.scores > true).sum()), int((truth.scores < true).sum())
        yield "rank, bootstrap", of_ranks[0, place] <= 1 + better and len(truth.scores) - worse <= of_ranks[1, place]
        if len(known) > 1:
            half = student(0.95, len(known) - 1) * float(known.std(ddof=1)) / len(known) ** 0.5
            yield "score, Student", true in Interval(float(known.mean()) - half, float(known.mean()) + half)
        trials = int(layout.counts[place].sum())
        if trials:
            yield "passes, all trials", float(truth.passes[place]) in wilson(passes[place] / trials, trials)


def task(place: int, first: int, last: int, seed: int) -> dict[str, list[int]]:
    """Cases and hits of a few boards, by claim."""
    counted: dict[str, list[int]] = {}
    for number in range(first, last):
        for name, hit in hits(SCENARIOS[place], number, seed):
            case = counted.setdefault(name, [0, 0])
            case[0] += 1
            case[1] += bool(hit)
    return counted


def _first() -> int:
    """Whether the stored figures are what this code gives, by the first boards of each scenario."""
    figures = json.loads(STORED.read_text(encoding="utf-8"))
    stale = [
        known["name"] for place, known in enumerate(figures["scenarios"])
        if task(place, 0, AT_ONCE, figures["seed"]) != known["first"]
        or asdict(SCENARIOS[place]) != {name: known[name] for name in asdict(SCENARIOS[place])}
    ]  # fmt: skip
    if stale:
        print(f"not the figures of this code: {', '.join(stale)}; run bench/coverage.py --write")
    return 1 if stale else 0


def main() -> int:
    """Entry point; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--boards", type=int, default=1_000, metavar="N", help="boards of each scenario")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes")
    parser.add_argument("--only", metavar="TEXT", default="", help="scenarios whose name holds it")
    parser.add_argument("--check", action="store_true", help=f"fail outside {LOW} to {HIGH}")
    parser.add_argument("--first", action="store_true", help="only see whether the first boards are as in the figures")
    parser.add_argument("--write", action="store_true", help=f"keep the figures in {STORED.name}")
    options = parser.parse_args()
    if options.first:
        return _first()
    chosen = [place for place, scenario in enumerate(SCENARIOS) if options.only in scenario.name]
    if not chosen or options.boards < 1:
        parser.error("no board is asked for")
    started, counted = time.monotonic(), {place: dict[str, list[int]]() for place in chosen}
    first: dict[
        int, dict[str, list[int]]
    ] = {}  # what the first task of each gave, by which a test knows the code again
    tasks = [(place, first, min(first + AT_ONCE, options.boards), options.seed)
             for place in chosen for first in range(0, options.boards, AT_ONCE)]  # fmt: skip
    with ProcessPoolExecutor(max(options.jobs, 1)) as pool:
        for done, (given, found) in enumerate(zip(tasks, pool.map(task, *zip(*tasks, strict=True)), strict=True), 1):
            for name, (cases, hit) in found.items():
                total = counted[given[0]].setdefault(name, [0, 0])
                total[0] += cases
                total[1] += hit
            if given[1] == 0:
                first[given[0]] = found
            if done * 20 // len(tasks) > (done - 1) * 20 // len(tasks):
                left = (time.monotonic() - started) / done * (len(tasks) - done)
                now = SCENARIOS[given[0]].name
                print(f"{done * 100 // len(tasks)} %, {now}, {left:.0f} s left", file=sys.stderr, flush=True)
    figures = {
        "boards": options.boards, "seed": options.seed, "numpy": np.__version__, "scipy": scipy.__version__,
        "resamples": RESAMPLES,
        "scenarios": [{**asdict(SCENARIOS[place]), "hits": counted[place], "first": first[place]}
                      for place in chosen],
    }  # fmt: skip
    print(tables(figures))
    wrong = outside(figures)
    for line in wrong:
        print(line)
    if options.write:
        STORED.parent.mkdir(parents=True, exist_ok=True)
        STORED.write_text(json.dumps(figures, sort_keys=True, separators=(",", ":")) + "\n", encoding="utf-8")
    return 1 if options.check and wrong else 0


if __name__ == "__main__":
    sys.exit(main())
