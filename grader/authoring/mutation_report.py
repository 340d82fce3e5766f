"""The mutation matrix of a problem: which case killed which mutant at which shape, and what it says for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from grader.deck.mutants import Mutant

__all__ = ["EQUIVALENT_SHARE", "SEEDS", "Attempt", "Cell", "Report", "Row", "Scale", "State", "table"]

SEEDS = 5
EQUIVALENT_SHARE = 0.05

Scale = Literal["reduced", "full"]
State = Literal["killed", "survived", "equivalent", "not-equivalent", "left-out"]


@dataclass(frozen=True, slots=True)
class Attempt:
    """A case that did not kill: the mutant's error there, and the tolerance."""

    seed: int
    case: str
    error: float
    tolerance: float


@dataclass(frozen=True, slots=True)
class Cell:
    """A mutant at a shape: on how many seeds it died, how often by which case, and all that it survived otherwise."""

    shape: str
    killed: int
    by: Mapping[str, int]
    survived: tuple[Attempt, ...] = ()

    @property
    def dead(self) -> bool:
        """Whether the mutant is killed on every seed."""
        return self.killed == SEEDS

    @property
    def killer(self) -> str:
        """The case that killed on most seeds, or nothing."""
        return max(self.by, key=lambda name: self.by[name]) if self.by else ""


@dataclass(frozen=True, slots=True)
class Row:
    """A mutant at all shapes. `note` says why it was left out, or what became of its claim to be equivalent."""

    mutant: Mutant
    state: State
    cells: tuple[Cell, ...] = ()
    note: str = ""
    proven: bool = True


@dataclass(frozen=True, slots=True)
class Report:
    """The matrix of one problem. `seed` repeats the run."""

    problem: str
    scale: Scale
    device: str
    seed: int
    rows: tuple[Row, ...]
    seconds: float
    sources: Mapping[str, str] = field(default_factory=dict)

    def count(self, *states: State) -> int:
        """How many mutants are in one of these states."""
        return sum(row.state in states for row in self.rows)

    @property
    def survivors(self) -> tuple[Row, ...]:
        """Mutants that no case, or not always a case, tells from a right submission."""
        return tuple(row for row in self.rows if row.state in ("survived", "not-equivalent"))

    @property
    def score(self) -> float | None:
        """Killed mutants as a share of all that ran and are not equivalent; None when none ran."""
        ran = self.count("killed", "survived", "not-equivalent")
        return self.count("killed") / ran if ran else None

    @property
    def too_many_equivalents(self) -> bool:
        """More than EQUIVALENT_SHARE of the mutants claim to be no mutants."""
        claims = sum(bool(row.mutant.equivalent) for row in self.rows)
        return claims > EQUIVALENT_SHARE * len(self.rows)

    @property
    def ok(self) -> bool:
        """Every mutant is dead, shown to be equivalent, or dead by stored evidence that is not out of date."""
        return bool(self.rows) and not self.survivors and not self.too_many_equivalents and not self.unproven

    @property
    def unproven(self) -> tuple[Row, ...]:
        """Mutants that were left out and have no evidence."""
        return tuple(row for row in self.rows if row.state == "left-out" and not row.proven)

    def to_json(self) -> dict[str, Any]:
        """The report as plain data, which is also what an evidence file keeps under `mutants`."""
        return {
            "problem": self.problem, "scale": self.scale, "device": self.device, "seed": self.seed, "seeds": SEEDS,
            "score": self.score, "ok": self.ok, "seconds": round(self.seconds, 1), "sources": dict(self.sources),
            "mutants": {row.mutant.id: _row_json(row) for row in self.rows},
        }  # fmt: skip


def _row_json(row: Row) -> dict[str, Any]:
    cells = {
        cell.shape: {
            "killed": cell.killed,
            "by": dict(cell.by),
            "survived": [[a.seed, a.case, a.error, a.tolerance] for a in cell.survived],
        }
        for cell in row.cells
    }
    return {"idea": row.mutant.idea, "state": row.state, "note": row.note, "shapes": cells}


def table(report: Report) -> str:
    """The matrix for people: mutants by shapes, in each place the case that kills on most seeds; then the survivors."""
    shapes = list(dict.fromkeys(cell.shape for row in report.rows for cell in row.cells))
    lines = [["mutant", *shapes]]
    for row in report.rows:
        if row.cells:
            lines.append([row.mutant.id, *(_cell_text(cell) for cell in row.cells)])
    widths = [max(len(line[i]) for line in lines) for i in range(len(shapes) + 1)]
    texts = ["  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    texts = [f"{report.problem} ({report.scale} shapes, {report.device}, --seed {report.seed})", *texts]
    texts += [f"{row.mutant.id}: {row.state}: {row.note}" for row in report.rows if row.note]
    for row in report.survivors:
        texts += ["", f"{row.mutant.id} survives: {row.mutant.idea}", *_survival(row)]
    if report.too_many_equivalents:
        texts.append(f"More than {EQUIVALENT_SHARE:.0%} of the mutants say that they are equivalent.")
    score = "no mutant ran" if report.score is None else f"score {report.score:.0%}"
    counts = {state: report.count(state) for state in ("killed", "survived", "equivalent", "not-equivalent")}
    parts = [f"{count} {state}" for state, count in counts.items() if count or state == "killed"]
    if left := report.count("left-out"):
        parts.append(f"{left} left out, {len(report.unproven)} of them without evidence")
    return "\n".join([*texts, f"{score}: {', '.join(parts)}; {report.seconds:.0f} s"])


def _cell_text(cell: Cell) -> str:
    return cell.killer if cell.dead else f"SURVIVES {SEEDS - cell.killed}/{SEEDS}"


def _survival(row: Row) -> Iterator[str]:
    for cell in row.cells:
        seeds = sorted({attempt.seed for attempt in cell.survived})
        if seeds:
            yield f"  at {cell.shape}, seeds {', '.join(map(str, seeds))}; the largest error and the tolerance by case:"
        for case in dict.fromkeys(attempt.case for attempt in cell.survived):
            worst = max((a for a in cell.survived if a.case == case), key=lambda a: a.error)
            yield f"    {case}: {worst.error:.3g} of {worst.tolerance:.3g}"
