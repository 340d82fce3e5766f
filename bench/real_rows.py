"""What bench/real.py measures of a submission: the file that keeps it, the goals of cost, and the page's tables."""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

BEGIN, END = "<!-- made by bench/real.py page: -->", "<!-- end -->"
MOST_TYPICAL = 1.3
MOST_EXTRA_S = 10.0
MOST_WORST = 2.0
MOST_JOBS_S = 60.0
"""Seconds a cell of a command that grades several at a time: 20 cells in 20 minutes."""
NOT_RUN = {"outcome": "not run", "seconds": 0.0, "message": ""}


class RealError(Exception):
    """The work could not be done; the text is one sentence."""


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured of one submission. Times of shapes are seconds a call, fractions are of the peak.

    `alone` is what a sealed call alone took at least.
    """

    run: str
    problem: str
    board: str
    outcome: str
    reason: str
    fraction: float | None
    shapes: Mapping[str, float]
    fractions: Mapping[str, float]
    seconds: float
    spent: Mapping[str, float]
    naive_outcome: str
    naive_seconds: float
    naive_message: str = ""
    alone: Mapping[str, float] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        """How many times as long `kbh grade` takes as the plain grader."""
        return self.seconds / self.naive_seconds if self.naive_seconds else float("nan")

    @property
    def beyond(self) -> float:
        """The ratio when the seconds are taken off that every cell may cost more."""
        return max(self.seconds - MOST_EXTRA_S, 0.0) / self.naive_seconds if self.naive_seconds else float("nan")


@dataclass
class Kept:
    """The file of measurements: rows by submission, commands that graded several at a time, and what was published."""

    device: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    rows: dict[str, Row] = field(default_factory=dict)
    jobs: list[dict[str, Any]] = field(default_factory=list)
    published: dict[str, dict[str, Any]] = field(default_factory=dict)


def read(file: Path) -> Kept:
    """The measurements of a file. Raises RealError."""
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        rows = {name: Row(**row) for name, row in data["rows"].items()}
        return Kept(data["device"], data["versions"], rows, data["jobs"], data["published"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RealError(f"{file} holds no measurements: {error}") from None


def write(file: Path, kept: Kept) -> None:
    """Replaces the file at once, so that a command that is cut loses nothing."""
    names = {*kept.rows, *(run for one in kept.jobs for run in one["cells"])}
    data = {
        "device": kept.device,
        "versions": kept.versions,
        "rows": {name: asdict(row) for name, row in kept.rows.items()},
        "jobs": kept.jobs,
        "published": {name: one for name, one in kept.published.items() if name in names},
    }
    made = file.with_suffix(".part")
    made.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    os.replace(made, file)


def costs(kept: Kept) -> list[str]:
    """What the goals of cost are held against, one line each; none where nothing was graded beside a plain grader."""
    done = _beside(kept)
    if not done:
        return []
    worst = max(done, key=lambda row: row.ratio)
    typical = statistics.median(row.beyond for row in done)
    return [
        f"{kept.device}: {len(done)} accepted cells alone, beside a plain grader that finds them right",
        f"  median {typical:.2f} times the plain grader and {MOST_EXTRA_S:.0f} s (goal {MOST_TYPICAL})",
        f"  worst {worst.ratio:.2f} times (goal {MOST_WORST}), {worst.beyond:.2f} times and {MOST_EXTRA_S:.0f} s",
    ]


def missed(kept: Kept) -> list[str]:
    """The goals of cost that the measurements miss, one sentence each."""
    found = []
    done = _beside(kept)
    if done and (typical := statistics.median(row.beyond for row in done)) > MOST_TYPICAL:
        found.append(
            f"the median cell takes {typical:.2f} times the plain grader and {MOST_EXTRA_S:.0f} s; "
            f"{MOST_TYPICAL} is the goal"
        )
    if done and (worst := max(done, key=lambda row: row.ratio)).ratio > MOST_WORST:
        found.append(f"{worst.run} takes {worst.ratio:.2f} times the plain grader; {MOST_WORST} is the goal")
    for one in kept.jobs:
        if one["seconds"] > MOST_JOBS_S * len(one["cells"]):
            found.append(f"{len(one['cells'])} cells with --jobs {one['jobs']} took {one['seconds']:.0f} s")
    return found


def _beside(kept: Kept) -> list[Row]:
    return [row for row in kept.rows.values() if row.outcome == "accepted" and row.naive_outcome == "right"]


def tables(kept: Kept) -> str:
    """The tables of the page, in Markdown: outcomes and costs, then published beside measured times by shape."""
    lines = [
        "| submission | problem | board | outcome | published | ours | plain | graded | ratio |",
        "|---|---|---|---|--:|--:|--:|--:|--:|",
    ]
    for row in kept.rows.values():
        theirs = kept.published.get(row.run, {}).get("fraction")
        lines.append(
            f"| {row.run} | {row.problem} | {row.board} | {row.outcome} | {_number(theirs)} | {_number(row.fraction)} "
            + (f"| {row.naive_seconds:.0f} s | {row.seconds:.0f} s | {row.ratio:.2f} |" if row.seconds else "| | | |")
        )
    lines += [
        "",
        *(f"- {row.run}: {row.outcome}. {row.reason}" for row in kept.rows.values() if row.outcome != "accepted"),
    ]
    lines += [
        f"- {row.run}: bench/naive.py says {row.naive_outcome}. {row.naive_message}"
        for row in kept.rows.values()
        if row.naive_outcome not in ("right", NOT_RUN["outcome"])
    ]
    for one in kept.jobs:
        outcomes = list(one["cells"].values())
        lines += ["", f"`--jobs {one['jobs']}`: {len(outcomes)} cells in {one['seconds']:.0f} s, "
                  f"{outcomes.count('accepted')} accepted."]  # fmt: skip
        lines += [
            f"- {run}: {outcome}. {one.get('reasons', {}).get(run, '')}"
            for run, outcome in one["cells"].items()
            if outcome != "accepted"
        ]
    lines += ["", "| submission | shape | published | ours | published / ours |", "|---|---|--:|--:|--:|"]
    for row in kept.rows.values():
        theirs = kept.published.get(row.run, {}).get("milliseconds") or []
        for (shape, seconds), ms in zip(row.shapes.items(), theirs, strict=False):
            if isinstance(ms, int | float) and seconds > 0:
                lines.append(
                    f"| {row.run} | {shape} | {ms * 1e3:.0f} us | {seconds * 1e6:.1f} us | {ms / 1e3 / seconds:.2f} |"
                )
    return "\n".join(lines)


def _number(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, int | float) else "none"


def fill(file: Path, text: str) -> None:
    """Puts the tables between their marks in a page. Raises RealError for a page without marks."""
    page = file.read_text(encoding="utf-8") if file.is_file() else f"{BEGIN}\n{END}\n"
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise RealError(f"{file} has no place for the tables: {BEGIN} ... {END}")
    file.write_text(f"{head}{BEGIN}\n\n{text}\n\n{END}{tail}", encoding="utf-8")
