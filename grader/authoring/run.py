"""The commands of `kbh problems` that run a problem's code or a submission; they need the grade extra."""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from grader.authoring.common import (
    DONE,
    TROUBLE,
    WRONG,
    CommandError,
    Progress,
    chosen,
    need_grade,
    print_json,
    problem_of,
)
from grader.deck.keys import new_master
from grader.judge.ticking import Ticking
from grader.sandbox import cutlass
from kbh_lint.authors.solutions import read_solutions
from kbh_lint.problems import Problem

if TYPE_CHECKING:
    from grader.grading.check import CheckReport


def public_master(seed: int) -> bytes:
    """The key of a public seed: anybody can draw the same values."""
    return hashlib.sha256(f"kbh public seed {seed}".encode()).digest()


def _check(args: argparse.Namespace) -> int:
    if not args.solution.is_file():
        raise CommandError(f"there is no file {args.solution}")
    return _checked(args, problem_of(args, args.id), [args.solution])


def _solutions(args: argparse.Namespace) -> int:
    problem = problem_of(args, args.id)
    files = _own_solutions(problem)
    missing = [file for file in files if not file.is_file()]
    if missing:
        raise CommandError(f"there is no file {missing[0]}")
    return _checked(args, problem, files)


def _checked(args: argparse.Namespace, problem: Problem, files: Sequence[Path]) -> int:
    """Checks files on every key; with several files only what is wrong is told case by case."""
    need_grade()
    from grader.grading.check import check_submission  # torch comes with it, which takes seconds

    if args.cutlass is not None:
        cutlass.use(args.cutlass)
    single = len(files) == 1
    device = args.device or _default_device()
    on_gpu = device.startswith("cuda")
    scale: Literal["full", "reduced"] = args.scale or ("full" if on_gpu else "reduced")
    masters = [public_master(seed) for seed in args.seed] if args.seed else [new_master()]
    reports = []
    for file, master in ((file, master) for file in files for master in masters):
        progress = Progress()
        with Ticking(progress) as say:
            report = check_submission(
                problem, file, device=device, scale=scale, master=master, timeout=args.timeout,
                build_timeout=args.build_timeout, all_cases=args.all_cases, progress=say,
            )  # fmt: skip
        progress.clear()
        reports.append(report)
        if args.format == "text":
            sys.stdout.write(told(report, rows=single))
            sys.stdout.flush()
    if args.format == "json":
        print_json([report.as_dict() for report in reports])
    outcomes = {report.outcome for report in reports}
    unchecked = single and "not-checkable" in outcomes
    return WRONG if "failed" in outcomes else TROUBLE if unchecked else DONE


def _own_solutions(problem: Problem) -> list[Path]:
    """Honest solutions and decoys: both have right results."""

    folder = Path(problem.path).parent
    solutions = read_solutions(folder)
    files = [entry.file for entry in solutions.honest] + [entry.file for entry in solutions.decoys]
    if not files:
        raise CommandError(f"{problem.id} has no solutions yet; name a file")
    return [folder / file for file in files]


def told(report: CheckReport, *, rows: bool = True) -> str:
    """A CheckReport for people: a line a shape and case (`rows`), the worst element of what is wrong, the outcome."""
    lines = []
    for case in report.cases:
        error, bound = ("-" if value is None else f"{value:.3g}" for value in (case.error, case.tolerance))
        lines.append((case.shape, case.case, "ok" if case.ok else "WRONG", error, bound))
    head = ("shape", "case", "", "error", "bound")
    widths = [max(len(line[column]) for line in (head, *lines)) for column in range(len(head))]
    table = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in (head, *lines)
    ]
    wrong = [case.message for case in report.cases if not case.ok][:5]
    text = [*(table if rows else ()), *wrong] if lines else []
    text.append(f"{report.problem} {report.solution} on {report.device}, {report.scale} shapes: {report.outcome}")
    text.append(f"  {report.message}")
    if report.detail:
        text += [f"  | {line}" for line in report.detail.splitlines()[-12:]]
    return "\n".join(text) + "\n"


def _default_device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def _flops(args: argparse.Namespace) -> int:
    problems = chosen(args)
    need_grade()
    from grader.authoring import flops  # torch comes with it, which takes seconds
    from grader.deck.code import load_code  # torch comes with it, which takes seconds

    fits = [flops.count(problem, load_code(problem)) for problem in problems]
    sys.stdout.write("".join(flops.table(fit) for fit in fits))
    return DONE if all(fit.state == "agrees" for fit in fits) else WRONG


def _tolerance(args: argparse.Namespace) -> int:
    problems = chosen(args)
    need_grade()
    from grader.authoring import tolerance  # torch comes with it, which takes seconds

    wrong: list[str] = []
    for problem in problems:
        progress = Progress()
        draws = {} if args.draws is None else {"draws": args.draws}
        found = tolerance.derive(problem, device=args.device, scale=args.scale, progress=progress, **draws)
        progress.clear()
        print(f"{problem.id}\n{tolerance.table(found)}")
        if args.write:
            print(f"written to {tolerance.write(problem, found)}")
            wrong += tolerance.stored_differences(problem)
            wrong += tolerance.ill_conditioned(problem, tolerance.read(problem)["rows"])
        else:
            wrong += tolerance.check(problem, found)
    for text in wrong:
        print(text, file=sys.stderr)
    return WRONG if wrong else DONE


def _mutate(args: argparse.Namespace) -> int:
    problems = chosen(args)
    need_grade()
    from grader.authoring import mutation  # torch comes with it, which takes seconds

    reports = []
    for problem in problems:
        progress = Progress()
        report = mutation.run(
            problem, scale=args.scale, device=args.device, seed=args.seed, only=args.only, progress=progress
        )  # fmt: skip
        progress.clear()
        reports.append(report)
        if args.format == "text":
            print(mutation.table(report), flush=True)
    if args.format == "json":
        print_json([report.to_json() for report in reports])
    return DONE if all(report.ok for report in reports) else WRONG


def _verify(args: argparse.Namespace) -> int:
    need_grade()
    from grader.authoring import verify  # torch comes with it, which takes seconds

    return verify.run(args)


COMMANDS: Mapping[str, Callable[[argparse.Namespace], int]] = {
    "check": _check,
    "solutions": _solutions,
    "flops": _flops,
    "tolerance": _tolerance,
    "mutate": _mutate,
    "verify": _verify,
}
