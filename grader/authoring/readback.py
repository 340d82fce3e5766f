"""The stored evidence, held against the files as they are now and against the linter; needs no GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from grader.authoring import evidence, mutation, tolerance
from grader.authoring.evidence import Row, folder_of
from grader.deck.code import DeckError, load_code
from kbh_lint.authors.solutions import Solutions, read_solutions
from kbh_lint.problems import Problem
from kbh_lint.service.api import lint
from kbh_lint.verdict import accepted

__all__ = ["read_back"]

NO_EVIDENCE = "no evidence is stored: `kbh problems verify {} --device cuda --write` makes it on a GPU"
NOTHING = "nothing was verified: there is no graded problem here"
Say = Callable[[str], None]


def read_back(problems: Sequence[Problem], folder: Path, say: Say) -> int:
    """Says the table of all solutions and what is wrong with each; 0 when nothing is, and something was looked at."""
    good = bool(problems)
    lines: list[tuple[str, ...]] = [
        ("problem", "solution", "cases", "error/bound", "roofline", "speed-up", "verdict", "")
    ]
    goals = evidence.goals(folder)
    for problem in problems:
        wanted = evidence.targets(problem, goals)
        if not wanted:
            lines.append((problem.id, "", "", "", "", "", "", f"FAULT {NO_EVIDENCE.format(problem.id)}"))
            good = False
        for target in wanted:
            found, held = _held(problem, folder, target, goals.get(target, {}).get(problem.id))
            lines += found
            good &= held
    for line in _aligned(lines):
        say(line)
    say("the deck holds" if good else "the deck does not hold: see the lines with FAULT" if problems else NOTHING)
    return 0 if good else 1


def _held(problem: Problem, folder: Path, target: str, goal: float | None) -> tuple[list[tuple[str, ...]], bool]:
    """The lines of one problem on one target, and whether nothing is wrong there."""
    data, why = evidence.read(evidence.path_of(folder_of(problem), target))
    solutions = read_solutions(folder_of(problem))
    rows = [
        evidence.row_of(problem, file, kind, data.get("solutions", {}).get(file))
        for file, kind, _ in evidence.listed(solutions)
    ]
    verdicts = _lint(problem, solutions, target, folder)
    faults = [why] if why else evidence.deck_faults(problem, data, rows, goal)
    good, lines = True, []
    for row in rows:
        verdict, complaints = verdicts[row.file]
        row = replace(row, faults=(*row.faults, *complaints))
        good &= not row.faults
        lines.append(_line(row, verdict))
    faults += _unkilled(problem) + _unfit(problem)
    score = data.get("mutants", {}).get("score")
    return [*lines, _summary(problem, target, rows, goal, score, faults)], good and not faults


def _summary(
    problem: Problem, target: str, rows: Sequence[Row], goal: float | None, score: object, faults: Sequence[str]
) -> tuple[str, ...]:
    """The problem's own line: all cases, the best honest solution, goal and mutation score, or what is wrong."""
    best = max(
        (row for row in rows if row.kind == "honest"), key=lambda row: row.roofline_fraction or 0.0, default=None
    )
    fraction, speedup = (best.roofline_fraction, best.speedup) if best else (None, None)
    numbers = ("" if n is None else f"{n:.3g}" for n in (fraction, speedup))
    said = [] if goal is None else [f"goal {goal:g}"]
    said += [f"mutants killed {score:.0%}"] if isinstance(score, (int, float)) else []
    last = "FAULT " + "; ".join(faults) if faults else ", ".join(said)
    return (problem.id, f"best on {target}", str(sum(row.cases for row in rows)), "", *numbers, "", last)


def _unkilled(problem: Problem) -> list[str]:
    """The mutants that lived at graded shapes, and those that need these shapes and were not run there."""
    stored = mutation.evidence(problem)
    faults = []
    for mutant in load_code(problem).mutants:
        state = stored.get(mutant.id, "no evidence is stored")
        alive = state.startswith(("survived", "not-equivalent"))
        if alive or (mutant.full and not state.startswith("killed")):
            faults.append(f"the mutant {mutant.id}: {state}")
    return faults


def _unfit(problem: Problem) -> list[str]:
    """Tolerances that are not the derived ones, and cases that judge their inputs more than a kernel."""
    try:
        rows = tolerance.read(problem).get("rows")
        differ = tolerance.stored_differences(problem)
    except DeckError as fault:
        return [str(fault)]
    return differ + tolerance.ill_conditioned(problem, [row for row in rows or () if isinstance(row, dict)])


def _lint(problem: Problem, solutions: Solutions, target: str, folder: Path) -> dict[str, tuple[str, list[str]]]:
    """Verdict and complaints of each solution: honest ones must be clean, decoys flagged by the rule they name."""
    listed = evidence.listed(solutions)
    paths = [folder_of(problem) / file for file, _, _ in listed]
    report = lint(paths, problem=problem.id, target=target, jobs="auto", problems_dir=folder)
    by_path = {Path(found.path): found for found in report.files}
    answers = {}
    for (file, kind, rule), path in zip(listed, paths, strict=True):
        found = by_path.get(path)
        if found is None:
            answers[file] = ("-", ["could not be linted"])
            continue
        rules = {finding.rule for finding in found.findings}
        complaints = []
        if kind == "honest":
            taken, reason = accepted(found)
            if not taken or found.verdict != "clean":
                complaints.append(f"is not clean: {reason or found.verdict}")
        elif rule not in rules:
            complaints.append(f"is not flagged by {rule}, only by {', '.join(sorted(rules)) or 'nothing'}")
        answers[file] = (found.verdict, complaints)
    return answers


def _line(row: Row, verdict: str) -> tuple[str, ...]:
    numbers = ("" if n is None else f"{n:.3g}" for n in (row.worst, row.roofline_fraction, row.speedup))
    faults = "FAULT " + "; ".join(row.faults) if row.faults else ""
    return (row.problem, row.file, str(row.cases), *numbers, verdict, faults)


def _aligned(lines: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    for line in lines:
        yield "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
