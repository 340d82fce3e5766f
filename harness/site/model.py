"""What the pages are made of: trials as rows, what is known of each beyond its row, and the boards of the targets."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, get_args

from grader.record.cell import Cell
from harness.archive.facts import Facts
from harness.board.trials import Mark
from harness.record.run import RunRecord
from harness.statistics.board import Board
from harness.view.model import Snapshot, Timed
from kbh_lint.findings import Finding
from kbh_lint.problems import Problem, Target

__all__ = ["SIGNS", "Detail", "Honest", "Site", "SiteError", "Source", "Trial", "slug"]

# The signs of the marks, in the order of the legends; harness.board.trials has their words.
SIGNS: Mapping[Mark, str] = {
    "score": "✓", "leak": "⚑", "unproven": "?", "suspect": "≠", "wrong": "✗", "refused": "⊘", "nothing": "∅",
    "breach": "⚠", "tampered": "✎", "error": "!",
}  # fmt: skip
assert set(SIGNS) == set(get_args(Mark))


class SiteError(Exception):
    """The site cannot be written; the text is one sentence."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A run that counts, or a grading without a run (`model` is then empty). `facts` is its entry in the archive.

    `trial` counts the trials of a model on a problem from 1; a grading has 0. `score` is what the row of the board
    has where it counts, `measured` the share of the roofline that stands beside another verdict.
    """

    facts: Facts
    mark: Mark
    model: str = ""
    trial: int = 0
    score: float | None = None
    measured: float | None = None
    seconds: float | None = None

    @property
    def id(self) -> str:
        """The id of the trial's entry in the archive."""
        return self.facts.id

    @property
    def title(self) -> str:
        """The model of the trial, or the name of the submission of a grading without a run."""
        return self.model or self.facts.name

    @property
    def page(self) -> str:
        """The file name of the trial's page, without an ending."""
        return self.facts.id[:16]


@dataclass(frozen=True, slots=True)
class Detail:
    """What the page of a trial shows beyond its row. `findings` are the linter's, with places; those of other layers
    are in the cell. `fault` says why something could not be read."""

    cell: Cell | None = None
    findings: tuple[Finding, ...] = ()
    source: tuple[str, ...] = ()
    steps: tuple[int, ...] = ()  # of the transcript, at which each line of the source was first seen; 0: not known
    record: RunRecord | None = None
    timed: tuple[Timed, ...] = ()
    changes: tuple[Snapshot, ...] = ()
    bundle: str = ""  # the hash that pins the grading
    fault: str = ""


class Source(Protocol):
    """Where details come from; they are asked for one at a time, so that an archive need not fit into memory."""

    def detail(self, trial: Trial) -> Detail:
        """What is known of a trial."""
        ...

    def transcript(self, trial: Trial) -> str | None:
        """The page of the trial's run; None where there is none."""
        ...


@dataclass(frozen=True, slots=True)
class Honest:
    """A kernel of ours that keeps every promise, as stored evidence has it. `fraction` is its share of the roofline."""

    file: str
    fraction: float
    speedup: float | None
    shapes: Mapping[str, float]  # seconds


@dataclass(frozen=True)
class Site:
    """Everything. `trials` are by model, problem and number, gradings without a run last; `boards` by target, the
    largest first; `honest` by problem and target, the best first. `superseded` entries do not count beside others.
    """

    title: str
    trials: Sequence[Trial]
    boards: Mapping[str, Board]
    problems: Mapping[str, Problem]
    targets: Mapping[str, Target]
    honest: Mapping[tuple[str, str], Sequence[Honest]]
    source: Source
    audit: Mapping[str, object] | None = None
    faults: Sequence[str] = ()
    superseded: int = 0
    packed: bool = False  # the pages of trials lie together in few files
    transcripts: frozenset[str] = frozenset()  # ids of trials whose transcript is there

    def href(self, trial: Trial) -> str:
        """The page of a trial, from the site's top."""
        return f"cell.html#{trial.page}" if self.packed else f"cells/{trial.page}.html"


def slug(text: str) -> str:
    """A file's name for any text: its letters and digits, and where that is not all of it a part of its hash."""
    plain = re.sub(r"[^a-z0-9_-]+", "-", text.lower())[:60].strip("-") or "x"
    return plain if plain == text else f"{plain}-{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:8]}"
