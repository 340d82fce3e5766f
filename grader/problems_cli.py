"""`kbh problems`: list, show, write, render and check problems. Imports torch only in the commands that run kernels."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from time import monotonic
from typing import Any, Literal, cast

from kbh_lint import paths
from kbh_lint.marked import DataError
from kbh_lint.problems import Deck, Problem, load_deck, load_problem, load_targets

DONE, WRONG, TROUBLE = 0, 1, 2
NEEDS_GRADE = ("torch", "numpy", "hypothesis")

_EPILOG = """\
examples:
  kbh problems list
  kbh problems show 01_fp8_gemm
  kbh problems check 04_kahan_softmax "$(kbh problems show 04_kahan_softmax --honest --target cpu)"
  kbh problems render 01_fp8_gemm --out workspace
  kbh problems ceilings --target h200
  kbh problems new 11_my_problem
  kbh problems mutate problems/11_my_problem     an ID may be the path of a problem's folder


exit codes: 0 all is well, 1 something is wrong with what was checked, 2 the work could not be done
"""


class CommandError(Exception):
    """A request that cannot be met; the text is one sentence."""


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    ask = argparse.ArgumentParser(
        prog="kbh problems", description="The deck: list, show, write, render and check problems.", epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    ask.add_argument("--problems-dir", metavar="DIR", help="use these problems instead of the project's")
    commands = ask.add_subparsers(dest="command", metavar="COMMAND", required=True)

    def add(name: str, text: str, example: str, run: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
        one = commands.add_parser(
            name, help=text, description=text[0].upper() + text[1:] + ".", epilog=f"example:\n  kbh problems {example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )  # fmt: skip
        one.set_defaults(run=run)
        return one

    _reading(add)
    _running(add)
    return ask


_Add = Callable[[str, str, str, Callable[[argparse.Namespace], int]], argparse.ArgumentParser]


def _reading(add: _Add) -> None:
    """Commands that need no torch."""
    one = add("new", "write the folder of a new problem, and say what is left to do", "new 11_my_problem", _new)
    one.add_argument("id", metavar="ID", help="two digits, `_`, lower-case words: 11_my_problem")
    one.add_argument("--dir", metavar="DIR", help="the folder of problems to write it into (default: problems)")
    one = add("list", "list the problems", "list --format json", _list)
    _format(one)
    one = add("show", "show a problem, or the path of one of its solutions", "show 01_fp8_gemm --honest", _show)
    one.add_argument("id", metavar="ID")
    one.add_argument("--honest", action="store_true", help="print only the path of an honest solution")
    one.add_argument("--target", metavar="T", help="with --honest: one for this GPU, or one that a `cpu` can check")
    _format(one)
    one = add("render", "write the prompt, or the workspace that an agent gets", "render 01_fp8_gemm --out ws", _render)
    one.add_argument("ids", metavar="ID", nargs="+", help="problems; with --out only one")
    one.add_argument(
        "--out", metavar="DIR", type=Path, help="a new folder for prompt, reference, contract and check.py"
    )
    one = add(
        "ceilings", "print the least time of every shape and what decides it", "ceilings --target h200", _ceilings
    )
    one.add_argument("ids", metavar="ID", nargs="*", help="problems; all graded ones when none is named")
    one.add_argument("--target", metavar="GPU", help="only this target")
    _format(one)


def _running(add: _Add) -> None:
    """Commands that run the problem's code or a submission."""
    one = add("check", "check a submission's results on every case", "check 01_fp8_gemm my.py --device cuda", _check)
    one.add_argument("id", metavar="ID")
    one.add_argument("solution", type=Path, help="a Python file that defines Model")
    one.add_argument("--device", help="cpu or cuda (default: cuda where there is one)")
    one.add_argument("--scale", choices=("full", "reduced"), help="which shapes (default: full on a GPU, else reduced)")
    seed = "a public seed, for a check that can be repeated; may be given again (default: a fresh key)"
    one.add_argument("--seed", metavar="N", type=int, action="append", help=seed)
    one.add_argument(
        "--timeout", metavar="S", type=float, default=600.0, help="seconds for the submission (default 600)"
    )
    _format(one)
    one = add("flops", "hold the FLOP formulas against a count of the references", "flops 02_kda_cutlass", _flops)
    one.add_argument("ids", metavar="ID", nargs="*", help="problems; all graded ones when none is named")
    one = add("tolerance", "derive tolerances from the legal-precision model", "tolerance 01_fp8_gemm", _tolerance)
    one.add_argument("ids", metavar="ID", nargs="*", help="problems; all graded ones when none is named")
    one.add_argument("--write", action="store_true", help="store the derivation in tolerance.json")
    one.add_argument("--device", default="cpu")
    one.add_argument(
        "--scale", choices=("sample", "reduced", "full"), default="sample", help="which shapes (default: sample)"
    )
    one.add_argument("--draws", metavar="N", type=int, help="how many keys")
    one = add("mutate", "run wrong kernels and say which case sees each", "mutate 03_paged_attention", _mutate)
    one.add_argument("ids", metavar="ID", nargs="*", help="problems; all graded ones when none is named")
    one.add_argument("--device", default="cpu")
    one.add_argument("--scale", choices=("full", "reduced"), default="reduced")
    one.add_argument("--seed", metavar="N", type=int, help="repeat a run (default: fresh seeds)")
    one.add_argument(
        "--only", metavar="MUTANT", action="append", default=[], help="only this mutant; may be given again"
    )
    _format(one)
    one = add(
        "verify", "show that the deck holds, from stored evidence or on a GPU", "verify --device cuda --write", _verify
    )
    one.add_argument("rest", nargs=argparse.REMAINDER, help="see `kbh problems verify -- --help`")


def _format(ask: argparse.ArgumentParser) -> None:
    ask.add_argument("--format", choices=("text", "json"), default="text", help="default: text")


def main(argv: Sequence[str] | None = None) -> int:
    """`kbh problems`. Returns the exit code."""
    try:
        args = parser().parse_args(argv)
    except SystemExit as done:
        return int(done.code or 0)
    try:
        return cast(int, args.run(args))
    except (CommandError, DataError) as error:
        return _trouble(str(error))
    except KeyboardInterrupt:
        print("kbh problems: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return TROUBLE
    except OSError as error:
        return _trouble(f"{error.filename or 'a file'}: {(error.strerror or str(error)).lower()}")
    except Exception as error:
        # The checker's own classes, without importing torch to name them.
        if type(error).__name__ in ("DeckError", "CheckError", "PromptError", "InterpreterRefusal"):
            return _trouble(str(error))
        raise


def _trouble(text: str) -> int:
    print(f"kbh problems: error: {text}", file=sys.stderr)
    return TROUBLE


def _deck(args: argparse.Namespace) -> Deck:
    folder = paths.problems_dir(args.problems_dir)
    deck = load_deck(folder)
    if not len(deck):
        raise CommandError(f"there are no problems in {folder}")
    return deck


def _problem(args: argparse.Namespace, name: str, *, graded: bool = True) -> Problem:
    """A problem by its id, or by the path of its folder."""
    file = Path(name) / "problem.yaml"
    problem = load_problem(file) if os.sep in name and file.is_file() else _by_id(args, name)
    if graded and not problem.contracts:
        raise CommandError(f"{name} is {problem.status}: {' '.join(problem.reason.split())}")
    return problem


def _by_id(args: argparse.Namespace, name: str) -> Problem:
    deck = _deck(args)
    if name not in deck:
        from difflib import get_close_matches

        near = get_close_matches(name, deck.ids, 1, 0.4)
        raise CommandError(f"there is no problem `{name}`; " + (f"did you mean {near[0]}?" if near else "see `list`"))
    return deck[name]


def _chosen(args: argparse.Namespace) -> list[Problem]:
    if args.ids:
        return [_problem(args, name) for name in args.ids]
    return [problem for problem in _deck(args).values() if problem.contracts and problem.status == "graded"]


def _grade() -> None:
    """Raises CommandError when the grade extra is not installed."""
    missing = [name for name in NEEDS_GRADE if find_spec(name) is None]
    if missing:
        raise CommandError(f"this command needs {', '.join(missing)}: pip install 'kbh[grade]'")


def _json(data: Any) -> None:
    json.dump(data, sys.stdout, indent=2)
    sys.stdout.write("\n")


class _Progress:
    """One line on a terminal's standard error, once a command has taken two seconds."""

    def __init__(self) -> None:
        self.begun, self.shown = monotonic(), False

    def __call__(self, text: str) -> None:
        if sys.stderr.isatty() and monotonic() - self.begun > 2:
            self.shown = True
            sys.stderr.write(f"\r{text[:100]}\x1b[K")
            sys.stderr.flush()

    def of(self, done: int, planned: int, text: str) -> None:
        """The form in which the checker tells."""
        self(f"{done}/{planned} {text}")

    def clear(self) -> None:
        if self.shown:
            sys.stderr.write("\r\x1b[K")


# --- reading -------------------------------------------------------------------------------------------------


def _new(args: argparse.Namespace) -> int:
    from grader.new_problem import next_steps, write_problem

    try:
        path = write_problem(Path(args.dir or args.problems_dir or "problems"), args.id)
    except ValueError as error:
        raise CommandError(str(error)) from None
    print(next_steps(path))
    return DONE


def _list(args: argparse.Namespace) -> int:
    problems = list(_deck(args).values())
    if args.format == "json":
        _json([_summary(problem) for problem in problems])
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
    from kbh_lint.authors.solutions import read_solutions

    problem = _problem(args, args.id, graded=args.honest)
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
        _json({**_summary(problem), "honest": honest, "decoys": decoys})
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
    from grader import render

    if args.out is None:
        for name in args.ids:
            print(render.write_prompt(_problem(args, name)))
        return DONE
    if len(args.ids) != 1:
        raise CommandError("--out takes one problem")
    for path in render.write_workspace(_problem(args, args.ids[0]), args.out):
        print(path)
    return DONE


def _ceilings(args: argparse.Namespace) -> int:
    from grader import roofline

    deck = paths.problems_dir(args.problems_dir)
    own = deck / "hardware.yaml"
    targets = load_targets(own if own.is_file() else paths.problems_dir() / "hardware.yaml")
    if args.target is not None and args.target not in targets:
        raise CommandError(f"there is no target `{args.target}`; there are {', '.join(targets)}")
    only = () if args.target is None else (args.target,)
    found = [item for problem in _chosen(args) for item in roofline.ceilings(problem, targets, only)]
    if args.format == "json":
        _json([item.as_dict() for item in found])
    else:
        sys.stdout.write(roofline.table(found))
    return DONE


# --- running -------------------------------------------------------------------------------------------------


def public_master(seed: int) -> bytes:
    """The key of a public seed: anybody can draw the same values."""
    return hashlib.sha256(f"kbh public seed {seed}".encode()).digest()


def _check(args: argparse.Namespace) -> int:
    problem = _problem(args, args.id)
    _grade()
    from grader.check import check_submission
    from grader.keys import new_master

    if not args.solution.is_file():
        raise CommandError(f"there is no file {args.solution}")
    device = args.device or _default_device()
    on_gpu = device.startswith("cuda")
    scale: Literal["full", "reduced"] = args.scale or ("full" if on_gpu else "reduced")
    masters = [public_master(seed) for seed in args.seed] if args.seed else [new_master()]
    reports = []
    for master in masters:
        progress = _Progress()
        report = check_submission(
            problem, args.solution, device=device, scale=scale, master=master, timeout=args.timeout,
            progress=progress.of,
        )  # fmt: skip
        progress.clear()
        reports.append(report)
        if args.format == "text":
            sys.stdout.write(told(report))
            sys.stdout.flush()
    if args.format == "json":
        _json([report.as_dict() for report in reports])
    outcomes = {report.outcome for report in reports}
    return WRONG if "failed" in outcomes else TROUBLE if "not-checkable" in outcomes else DONE


def told(report: Any) -> str:
    """A CheckReport for people: a line a shape and case, the worst element of what is wrong, and the outcome."""
    lines = []
    for case in report.cases:
        error, bound = ("-" if value is None else f"{value:.3g}" for value in (case.error, case.tolerance))
        lines.append((case.shape, case.case, "ok" if case.ok else "WRONG", error, bound))
    head = ("shape", "case", "", "error", "bound")
    widths = [max(len(line[column]) for line in (head, *lines)) for column in range(len(head))]
    rows = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in (head, *lines)
    ]
    wrong = [case.message for case in report.cases if not case.ok][:5]
    text = [*rows, *wrong] if lines else []
    text.append(f"{report.problem} {report.solution} on {report.device}, {report.scale} shapes: {report.outcome}")
    text.append(f"  {report.message}")
    if report.detail:
        text += [f"  | {line}" for line in report.detail.splitlines()[-12:]]
    return "\n".join(text) + "\n"


def _default_device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def _flops(args: argparse.Namespace) -> int:
    problems = _chosen(args)
    _grade()
    from grader import flops
    from grader.deck import load_code

    fits = [flops.count(problem, load_code(problem)) for problem in problems]
    sys.stdout.write("".join(flops.table(fit) for fit in fits))
    return DONE if all(fit.state == "agrees" for fit in fits) else WRONG


def _tolerance(args: argparse.Namespace) -> int:
    problems = _chosen(args)
    _grade()
    from grader import tolerance

    wrong: list[str] = []
    for problem in problems:
        progress = _Progress()
        draws = {} if args.draws is None else {"draws": args.draws}
        found = tolerance.derive(problem, device=args.device, scale=args.scale, progress=progress, **draws)
        progress.clear()
        print(f"{problem.id}\n{tolerance.table(found)}")
        if args.write:
            print(f"written to {tolerance.write(problem, found)}")
        wrong += tolerance.check(problem, found)
    for text in wrong:
        print(text, file=sys.stderr)
    return WRONG if wrong else DONE


def _mutate(args: argparse.Namespace) -> int:
    problems = _chosen(args)
    _grade()
    from grader import mutation

    reports = []
    for problem in problems:
        progress = _Progress()
        report = mutation.run(
            problem, scale=args.scale, device=args.device, seed=args.seed, only=args.only, progress=progress
        )  # fmt: skip
        progress.clear()
        reports.append(report)
        if args.format == "text":
            print(mutation.table(report), flush=True)
    if args.format == "json":
        _json([report.to_json() for report in reports])
    return DONE if all(report.ok for report in reports) else WRONG


def _verify(args: argparse.Namespace) -> int:
    _grade()
    from grader import verify

    ask = argparse.ArgumentParser(prog="kbh problems verify", description=(verify.__doc__ or "").partition("\n")[0])
    verify.add_arguments(ask)
    try:
        return verify.run(ask.parse_args([word for word in args.rest if word != "--"]))
    except SystemExit as done:
        return int(done.code or 0)


if __name__ == "__main__":
    raise SystemExit(main())
