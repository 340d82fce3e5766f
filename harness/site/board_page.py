"""The board of a target: models by rank with their intervals, models by problems, and every two models compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.board.trials import MARKS
from harness.site.common import render, score
from harness.site.model import SIGNS, Site, Trial, slug
from harness.site.pictures import LEVELS, Scale, scale, shade
from harness.statistics.board import Board, Standing, turned
from harness.statistics.pairs import Pair

__all__ = ["board_file", "board_page", "pairs_file", "pairs_page"]

EACH = 4  # trials of a cell whose signs stand one by one


@dataclass(frozen=True, slots=True)
class _Leader:
    """A row: `first` of those that share its rank."""

    standing: Standing
    first: bool
    shared: int


@dataclass(frozen=True, slots=True)
class _Square:
    """A model on a problem: the trial that its link leads to, and what stands in it."""

    trial: Trial
    level: int
    text: str
    signs: str
    said: str


def board_file(site: Site, target: str) -> str:
    """The file of a target's board; that of the largest is the site's first page."""
    return "index.html" if target == next(iter(site.boards), target) else f"board-{slug(target)}.html"


def pairs_file(site: Site, target: str) -> str:
    """The file where every two models of a target are compared."""
    return "pairs.html" if target == next(iter(site.boards), target) else f"pairs-{slug(target)}.html"


def board_page(site: Site, board: Board | None) -> str:
    """The page with leaderboard and heatmap; for an archive of gradings alone, without a board, one that says so."""
    if board is None:
        return render("empty.html.j2", top="", title=site.title, here="index.html", site=site)
    mine = [trial for trial in site.trials if trial.model and trial.facts.target == board.target]
    ends = [one.interval.high for one in board.standings if one.interval is not None]
    axis = scale([*ends, *(one.score for one in board.standings if one.score is not None)])
    squares, end = _squares(board, mine)
    marks = Counter(trial.mark for trial in mine)
    return render(
        "board.html.j2", top="", title=f"{site.title}: {board.target}", here="index.html", site=site, board=board,
        targets=[(target, board_file(site, target)) for target in site.boards], pairs=pairs_file(site, board.target),
        leaders=list(_leaders(board)), axis=axis, squares=squares, end=end, marks=marks, trials=len(mine),
        levels=range(LEVELS), words=MARKS, product=_product(site, board.target), lost=_lost(board),
        many=any(len(square.signs) > EACH for square in squares.values()),
        bare=any(one.score is not None and one.interval is None for one in board.standings),
        partial=sum(0 < one.graded < len(board.problems) for one in board.standings),
    )  # fmt: skip


def pairs_page(site: Site, board: Board) -> str:
    """Every two models of a board: the difference, its interval, and what may be said of it."""
    return render(
        "pairs.html.j2", top="", title=f"{site.title}: pairs on {board.target}", here="", site=site, board=board,
        pairs=list(_pairs(board)), back=board_file(site, board.target),
    )  # fmt: skip


def _leaders(board: Board) -> Iterator[_Leader]:
    shared = Counter(one.rank for one in board.standings if one.ranked)
    before = 0
    for one in board.standings:
        rank = one.rank if one.ranked else -1
        yield _Leader(one, rank != before and before != 0, shared[rank])
        before = rank


def _squares(board: Board, trials: Sequence[Trial]) -> tuple[dict[tuple[str, str], _Square], Scale]:
    cells: dict[tuple[str, str], list[Trial]] = {}
    for trial in trials:
        cells.setdefault((trial.model, trial.facts.problem), []).append(trial)
    means = {(one.model, one.problem): one.score for one in board.cells}
    end = scale([mean for mean in means.values() if mean])
    return {key: _square(several, means.get(key), end.end) for key, several in cells.items()}, end


def _square(trials: Sequence[Trial], mean: float | None, end: float) -> _Square:
    best = max(trials, key=lambda trial: (trial.mark == "score", trial.score or 0.0, -trial.trial))
    marks = Counter(trial.mark for trial in trials)
    ordered = [mark for mark in SIGNS if marks[mark]]
    if len(trials) <= EACH:
        signs = "".join(SIGNS[mark] * marks[mark] for mark in ordered)
    else:
        signs = " ".join(f"{SIGNS[mark]}{marks[mark]}" for mark in ordered[:3])
    said = ", ".join(f"{marks[mark]} {mark}" for mark in ordered)
    text = "" if not mean else "<.001" if mean < 0.001 else f"{mean:.3f}"
    return _Square(best, shade(mean or 0.0, end), text, signs, f"{score(mean)}: {said}" if mean else said)


def _pairs(board: Board) -> Iterator[Pair]:
    """In the order of the standings, the better first."""
    models = [one.model for one in board.standings]
    known = {(pair.first, pair.second): pair for pair in board.pairs}
    for place, first in enumerate(models):
        for second in models[place + 1 :]:
            pair = known.get((first, second))
            yield pair if pair is not None else turned(known[second, first])


def _product(site: Site, target: str) -> str:
    return site.targets[target].product if target in site.targets else ""


def _lost(board: Board) -> int:
    return sum(one.errors for one in board.standings)
