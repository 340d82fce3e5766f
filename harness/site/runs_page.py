"""The table of all runs and gradings: a first page of rows as HTML, and the rest as data that a script reads."""

from __future__ import annotations

import json
from collections.abc import Iterator

from harness.site.common import day, render, score
from harness.site.model import SIGNS, Site, Trial
from harness.view.text import short, visible

__all__ = ["HEADS", "runs_data", "runs_page"]

FIRST = 50
MOST_PICKED = 400  # names in a list to choose from
HEADS = ("page", "model", "problem", "target", "trial", "mark", "verdict", "score", "minutes", "cost", "began", "sign")


def runs_page(site: Site) -> str:
    """The page; without its script it shows the first rows."""
    models = list(dict.fromkeys(trial.model for trial in site.trials if trial.model))
    problems = sorted({trial.facts.problem for trial in site.trials})
    targets = sorted({trial.facts.target for trial in site.trials})
    marks = [mark for mark in SIGNS if any(trial.mark == mark for trial in site.trials)]
    return render(
        "runs.html.j2", top="", title=f"{site.title}: runs", here="runs.html", site=site,
        rows=[dict(zip(HEADS, row, strict=True)) for row in list(_rows(site))[:FIRST]], first=FIRST,
        picks=[("model", models[:MOST_PICKED]), ("problem", problems[:MOST_PICKED]), ("target", targets[:MOST_PICKED]),
               ("mark", marks)],
    )  # fmt: skip


def runs_data(site: Site) -> str:
    """data/runs.js: the rows as values, with hidden characters written out; texts go onto the page as text only."""
    rows = json.dumps({"heads": HEADS, "rows": list(_rows(site))}, ensure_ascii=True, separators=(",", ":"))
    return "kbhRuns(" + rows.replace("<", "\\u003c") + ");\n"


def _rows(site: Site) -> Iterator[tuple[str | int, ...]]:
    for trial in site.trials:
        yield _row(site, trial)


def _row(site: Site, trial: Trial) -> tuple[str | int, ...]:
    facts = trial.facts
    cost = "" if facts.cost_usd is None else f"{facts.cost_usd:.2f}"
    minutes = "" if trial.seconds is None else f"{trial.seconds / 60:.1f}"
    return (
        site.href(trial), visible(trial.title), visible(facts.problem), visible(facts.target), trial.trial, trial.mark,
        visible(short(facts.verdict, 40)), "" if trial.measured is None else score(trial.measured), minutes, cost,
        day(facts.started), SIGNS[trial.mark],
    )  # fmt: skip
