"""The commands of `kbh problems` that read and write files; none needs torch."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from grader.authoring import render, roofline
from grader.authoring.common import DONE, CommandError, chosen, deck_of, print_json, problem_of
from grader.authoring.new_problem import next_steps, write_problem
from kbh_lint.authors.solutions import read_solutions
from kbh_lint.base import paths
from kbh_lint.problems import Problem, load_targets


def _new(args: argparse.Namespace) -> int:
    try:
        path = write_problem(Path(args.dir or args.problems_dir or "problems"), args.id)
    except ValueError as error:
        raise CommandError(str(error)) from None
    print(next_steps(path))
    return DONE


def _list(args: argparse.Namespace) -> int:
    problems = list(deck_of(args).values())
    if args.format == "json":
        print_json([_summary(problem) for problem in problems])
        return DONE
    for problem in problems:
        shapes = f"{len(problem.shapes)} shapes" if problem.contracts else problem.status
        print(f"{problem.id:<28} {shapes:<10} {problem.title}")
    return DONE


def _summary(problem: Problem) -> dict[str, Any]:
    return {
        "id": problem.id, "title": problem.title, "status": problem.status, "regime": problem.regime,
        "precision": problem.precision, "targets": list(problem.targets),
        "shapes": [dict(shape.symbols) for shape in problem.shapes],
        "promises": [promise.id for promise in problem.promises], "path": problem.path,
    }  # fmt: skip


def _show(args: argparse.Namespace) -> int:

    problem = problem_of(args, args.id, graded=args.honest)
    folder = Path(problem.path).parent
    solutions = read_solutions(folder)
    if args.honest:
        wanted = [s for s in solutions.honest if args.target != "cpu" or s.runs_on_cpu]
        if not wanted:
            why = solutions.honest[0].cpu if solutions.honest else "it has no honest solution"
            raise CommandError(f"no honest solution of {problem.id} can be checked on a CPU: {why}")
        print(folder / wanted[0].file)
        return DONE
    if args.format == "json":
        honest = [{"file": s.file, "language": s.language, "cpu": s.cpu} for s in solutions.honest]
        decoys = [{"file": s.file, "rule": s.rule, "promise": s.promise, "idea": s.idea} for s in solutions.decoys]
        print_json({**_summary(problem), "honest": honest, "decoys": decoys})
        return DONE
    print(f"{problem.id}: {problem.title}\n{' '.join(problem.operation.split())}\n")
    for promise in problem.promises:
        print(f"promise {promise.id} ({promise.quantifier} shape): {' '.join(promise.text.split())}")
    for shape in problem.shapes:
        flops, moved = problem.work(shape)
        print(f"shape {shape.label}: {flops / 1e9:.4g} GFLOP, {moved / 1e6:.4g} MB, {shape.regime}")
    for contract in list(problem.contracts.values())[:1]:
        numbers = ", ".join(f"{dtype} {number:g}" for dtype, number in contract.tolerance.items())
        print(f"compared by {contract.compare.metric}, tolerance {numbers}")
    for entry in solutions.honest:
        print(f"honest {entry.file} ({entry.language}; on a CPU: {entry.cpu})")
    for decoy in solutions.decoys:
        print(f"decoy {decoy.file} ({decoy.rule}): {decoy.idea}")
    return DONE


def _render(args: argparse.Namespace) -> int:
    if args.out is None:
        for name in args.ids:
            print(render.write_prompt(problem_of(args, name)))
        return DONE
    if len(args.ids) != 1:
        raise CommandError("--out takes one problem")
    for path in render.write_workspace(problem_of(args, args.ids[0]), args.out):
        print(path)
    return DONE


def _ceilings(args: argparse.Namespace) -> int:
    deck = paths.problems_dir(args.problems_dir)
    own = deck / "hardware.yaml"
    targets = load_targets(own if own.is_file() else paths.problems_dir() / "hardware.yaml")
    if args.target is not None and args.target not in targets:
        raise CommandError(f"there is no target `{args.target}`; there are {', '.join(targets)}")
    only = () if args.target is None else (args.target,)
    found = [item for problem in chosen(args) for item in roofline.ceilings(problem, targets, only)]
    if args.format == "json":
        print_json([item.as_dict() for item in found])
    else:
        sys.stdout.write(roofline.table(found))
    return DONE


COMMANDS: Mapping[str, Callable[[argparse.Namespace], int]] = {
    "new": _new,
    "list": _list,
    "show": _show,
    "render": _render,
    "ceilings": _ceilings,
}
