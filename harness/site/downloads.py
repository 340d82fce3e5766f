"""The board's data as files: CSV, JSON, and Parquet where pyarrow is there."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from harness.board.data import board_json
from harness.site.common import render
from harness.site.model import Site, Trial
from harness.statistics.board import Board

__all__ = ["Download", "data_page", "downloads"]

VERSION = "kbh-site/1"
STARTS = ("=", "+", "-", "@", "\t", "\r")  # of a text that a spreadsheet would take for a formula
NO_PARQUET = "Parquet is left out: pyarrow was not installed where these pages were made (pip install '.[site]')."


@dataclass(frozen=True, slots=True)
class Download:
    """A file of the folder data/, with what it holds."""

    name: str
    what: str
    data: bytes


def downloads(site: Site) -> tuple[list[Download], list[str]]:
    """The files, and words for those that could not be made."""
    trials = [_trial(trial) for trial in site.trials]
    standings = [row for board in site.boards.values() for row in _standings(board)]
    pairs = [row for board in site.boards.values() for row in _pairs(board)]
    boards = [board_json(board) for board in site.boards.values()]
    whole = {"schema": VERSION, "title": site.title, "boards": boards, "trials": trials}
    made = [
        Download("trials.csv", "a row for each run and each grading", _csv(trials)),
        Download("standings.csv", "a row for each model and target, with ranks and intervals", _csv(standings)),
        Download("pairs.csv", "a row for every two models on a target", _csv(pairs)),
        Download("board.json", "all of it: trials, cells, standings, pairs, variances", _json(whole)),
    ]
    parquet = _parquet(trials)
    if parquet is None:
        return made, [NO_PARQUET]
    return [*made, Download("trials.parquet", "the rows of trials.csv, typed", parquet)], []


def data_page(site: Site, files: Sequence[Download], words: Sequence[str]) -> str:
    """The page that lists the files to download and says how to read them."""
    columns = list(_trial(site.trials[0])) if site.trials else []
    listed = [(one.name, one.what, len(one.data)) for one in files]
    return render("data.html.j2", top="", title=f"{site.title}: data", here="data.html", site=site, files=listed,
                  words=words, columns=columns)  # fmt: skip


def _trial(trial: Trial) -> dict[str, Any]:
    """The entry as the archive's index has it, and what the board says of it."""
    return {
        **asdict(trial.facts), "board_model": trial.model, "board_trial": trial.trial, "mark": trial.mark,
        "value": trial.score, "seconds": trial.seconds,
    }  # fmt: skip


def _standings(board: Board) -> Iterable[dict[str, Any]]:
    for one in board.standings:
        yield {
            "target": board.target, "model": one.model, "rank": one.rank if one.ranked else None,
            "rank_low": one.low, "rank_high": one.high,
            "score": one.score, "score_low": one.interval.low if one.interval else None,
            "score_high": one.interval.high if one.interval else None, "passes": one.passes.count,
            "trials": one.passes.trials, "leaks": one.leaks.count, "failures": one.failures, "errors": one.errors,
            "problems": one.graded, "seconds": one.seconds, "cost_usd": one.cost,
        }  # fmt: skip


def _pairs(board: Board) -> Iterable[dict[str, Any]]:
    for pair in board.pairs:
        yield {
            "target": board.target, "first": pair.first, "second": pair.second, "relation": pair.relation,
            "difference": pair.difference, "low": pair.interval.low if pair.interval else None,
            "high": pair.interval.high if pair.interval else None, "p": pair.p, "problems": pair.problems,
            "trials_needed": pair.trials, "sentence": pair.sentence,
        }  # fmt: skip


def _csv(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """RFC 4180. A text that a spreadsheet would run has an apostrophe before it; JSON and Parquet have it as it is."""
    out = io.StringIO(newline="")
    if rows:
        writer = csv.DictWriter(out, list(rows[0]), lineterminator="\r\n")
        writer.writeheader()
        writer.writerows({name: _harmless(value) for name, value in row.items()} for row in rows)
    return out.getvalue().encode("utf-8", "replace")


def _harmless(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(STARTS) else value


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode()


def _parquet(rows: Sequence[Mapping[str, Any]]) -> bytes | None:
    """One row group, typed by the values; None without pyarrow."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        return None
    kinds = {str: pyarrow.string(), bool: pyarrow.bool_(), int: pyarrow.int64(), float: pyarrow.float64()}
    names = list(rows[0]) if rows else []
    found = {name: next((type(row[name]) for row in rows if row[name] is not None), float) for name in names}
    schema = pyarrow.schema([(name, kinds[found[name]]) for name in names])
    out = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist([dict(row) for row in rows], schema=schema), out)
    return out.getvalue()
