"""The matrix of rewrites by programs: what is rewritten, by what, and what came of it."""

from __future__ import annotations

from kbh_lint.base.records import dataclass
from kbh_lint.rewrite.program import Program, Rewrite


@dataclass(frozen=True, slots=True)
class Case:
    """A program to rewrite. `group` is the rule or the folder that it stands for in the matrix."""

    name: str
    group: str
    program: Program
    problem: str | None


@dataclass(frozen=True, slots=True)
class Cell:
    """One rewrite of one case. `state`: `kept`, `lost`, `skipped` (it does not apply) or `failed` (it raised).

    `why` says what was lost, or why nothing was tried; `rewrites` are those that were applied; `verdict` is that on the
    rewritten program.
    """

    case: str
    group: str
    column: str
    state: str
    why: str = ""
    rewrites: tuple[str, ...] = ()
    verdict: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the matrix: one rewrite, or several in a row. `seed` decides what they draw."""

    name: str
    rewrites: tuple[Rewrite, ...]
    seed: int
