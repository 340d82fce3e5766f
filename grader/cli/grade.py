"""`kbh grade`: grades submissions, and what a bundle holds once more. Imports torch only when it grades."""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from grader.authoring.common import TROUBLE, need_grade
from grader.cli.board import Board
from grader.cli.display import Display
from grader.cli.jobs import MOST_JOBS, Done, gpus
from grader.cli.jobs import graded as graded_at_once
from grader.grading.grade import Request, grade
from grader.record.bundle import cell_to_json
from grader.record.bundle.read import is_bundle
from grader.record.provenance import of_run
from grader.record.sandboxes import SANDBOXES
from grader.report.cell_text import render
from grader.report.page import render as page_of
from grader.report.summary import render as summary
from grader.report.view import View, load_view
from grader.sandbox import cutlass
from grader.silicon import silicon_to_json
from kbh_lint.base import paths
from kbh_lint.cli import use_colour
from kbh_lint.marked import DataError
from kbh_lint.source.submissions import BadInput, discover

if TYPE_CHECKING:
    from grader.grading.progress import Tell

__all__ = ["graded", "is_plain", "main", "parser", "sentence"]

ERRORS = frozenset({
    "BundleError", "CheckError", "CodecError", "CommandError", "CutlassError", "DataError", "DeckError", "FormulaError",
    "GradeError", "InterpreterRefusal", "PageError", "SandboxError", "SetupError", "TargetError", "Unfinished",
    "UsageError",
})  # fmt: skip

_EPILOG = """\
A submission is linted, compiled, checked on hidden inputs, timed by two clocks, and run once more to see that it does
the same. Nothing ever shows a score without the verdict on what it measures. Every step is kept in a bundle under
--out; the same command goes on with a bundle that was cut.

examples:
  kbh grade solution.py                        the problem is taken from run.json, the file's or its folder's name
  kbh grade my.py --problem 05_topk_bitonic    say which problem it solves
  kbh grade my.py --strict                     no score unless every promise is shown kept; stops before it runs a leak
  kbh grade my.py --target h200 --trials 5     on the GPU of this machine, in five trials with a key each
  kbh grade my.py --baseline eager,compile     how many times as fast it is as the reference, and that compiled
  kbh grade runs/*.py                          many: they share what starting up costs; a table of all at the end
  kbh grade --jobs 4 runs/*.py                 many at a time: one is timed while others are built and compared
  kbh grade kbh-results/05_topk_bitonic-...    a bundle: grade what it holds again, and say what changed
  kbh show kbh-results/05_topk_bitonic-...     print a result again, or check every hash of it with --verify

outcomes:
  accepted   every result is right and every promise is shown kept
  flagged    without --strict: right, but a promise is not shown kept; its number stands beside the verdict
  withheld   the same with --strict: no number
  suspect    faster than the hardware can be: no number
  wrong      a result is wrong, or a shape crashed or took too long: no number
  refused    it cannot be graded here: no number

exit codes:
  0  every submission is accepted
  1  one is flagged, withheld, suspect or wrong
  2  one could not be graded, or the command line cannot be followed

A Triton submission can be graded without a GPU, at reduced shapes in an interpreter; such a number is labelled.
"""


class _Parser(argparse.ArgumentParser):
    """Prints a bad option in one line."""

    def error(self, message: str) -> None:  # type: ignore[override]
        self.exit(TROUBLE, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


def parser() -> argparse.ArgumentParser:
    """The options of `kbh grade`."""
    ask = _Parser(
        prog="kbh grade", description="Grades GPU kernels: is it right, how fast is it, and what does that measure?",
        epilog=_EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
    )  # fmt: skip
    ask.add_argument("paths", nargs="+", type=Path, metavar="SUBMISSION", help="Python files, runs, or bundles")
    what = ask.add_argument_group("what is graded")
    what.add_argument("--problem", metavar="ID", help="the problem all of them solve (see kbh problems list)")
    what.add_argument("--target", metavar="GPU", default="auto",
                      help="the GPU of this machine, or cpu (default: the GPU where there is one)")  # fmt: skip
    what.add_argument("--protocol", choices=("2026-11", "2026-04"), default="2026-11",
                      help="2026-04: the published formulas, RTX PRO 6000 only (default: 2026-11)")  # fmt: skip
    what.add_argument("--problems-dir", metavar="DIR", type=Path, help="use these problems instead of the project's")
    how = ask.add_argument_group("how it is graded")
    how.add_argument("--strict", action="store_true", help="give a score only when every promise is shown kept")
    how.add_argument(
        "--trials", metavar="N", type=int, default=1, help="each with fresh processes and a key of its own (default: 1)"
    )
    how.add_argument(
        "--samples",
        metavar="N",
        type=int,
        help="timed calls a shape (default: GPU 200 or more, CPU 10)",
    )
    how.add_argument("--no-evidence", action="store_true", help="leave out the replay; then nothing is accepted that "
                     "a promise wants it for")  # fmt: skip
    how.add_argument("--all-evidence", action="store_true", help="with --strict: run also what is withheld already")
    how.add_argument("--all-cases", action="store_true", help="go on after the first wrong result, which is otherwise "
                     "the last one that is asked for")  # fmt: skip
    how.add_argument("--sandbox", choices=SANDBOXES, default="auto",
                     help="what holds the submission's process (default: the best that works here)")  # fmt: skip
    how.add_argument("--timeout", metavar="S", type=float, default=600.0,
                     help="seconds that its calls may take in all in one process (default: 600)")  # fmt: skip
    how.add_argument("--cutlass", metavar="DIR", type=Path,
                     help="a checkout of CUTLASS whose headers submissions may include (default: CUTLASS_PATH, "
                     "CUTLASS_DIR, or those of the package nvidia-cutlass)")  # fmt: skip
    how.add_argument("--build-timeout", metavar="S", type=float, default=300.0,
                     help="seconds that building may take in one process: the import, compilers, the first calls with "
                     "what they tune (default: 300)")  # fmt: skip
    how.add_argument("--jobs", "-j", metavar="N", type=_jobs, default=1,
                     help="gradings at a time: while one is timed, others are built (default: 1)")  # fmt: skip
    how.add_argument("--baseline", metavar="NAMES", type=_names, default=(),
                     help="also time these through the same judge, beside the score: eager, compile, library, "
                     "with commas between them")  # fmt: skip
    out = ask.add_argument_group("output")
    out.add_argument("--out", metavar="DIR", type=Path, help="where bundles are kept (default: kbh-results)")
    out.add_argument("--fresh", action="store_true", help="start another bundle, also where one could be gone on with")
    out.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
    out.add_argument("--html", metavar="FILE", type=Path, help="also write a page with everything on it")
    out.add_argument("--verbose", "-v", action="store_true", help="print each stage, also where there is no terminal")
    out.add_argument("--color", choices=("auto", "always", "never"), default="auto", help="default: auto")
    return ask


def _jobs(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= MOST_JOBS:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 to {MOST_JOBS}")
    return int(text)


def _names(text: str) -> tuple[str, ...]:
    """Names with commas between them, each once; `Request` knows which there are."""
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def main(argv: Sequence[str] | None = None) -> int:
    """`kbh grade`. Returns the exit code."""
    try:
        args = parser().parse_args(argv)
    except SystemExit as done:
        return int(done.code or 0)
    try:
        need_grade()
        return _run(args, sys.argv[1:] if argv is None else argv)
    except KeyboardInterrupt:
        print("\nkbh grade: interrupted; the same command goes on with what is done", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return TROUBLE
    except Exception as error:
        if not is_plain(error):
            raise
        return _trouble(sentence(error))


def is_plain(error: Exception) -> bool:
    """Whether an error is one sentence for people; the grader's classes are known without importing torch."""
    return type(error).__name__ in ERRORS or isinstance(error, (DataError, OSError))


def _trouble(text: str) -> int:
    print(f"kbh grade: error: {text}", file=sys.stderr)
    return TROUBLE


@dataclass
class _Results:
    """What came of all submissions: views, and one sentence for each that could not be graded."""

    views: list[View] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def failed(self, path: Path, error: Exception, *, alone: bool) -> None:
        """Notes why a submission could not be graded; a fault of ours is raised where the submission is `alone`."""
        if is_plain(error):
            said = sentence(error)
        elif alone:
            raise error
        else:
            said = f"a fault of kbh itself ({type(error).__name__}); grade it alone to see where"
        self.errors.append(said if str(path) in said else f"{path}: {said}")

    @property
    def exit_code(self) -> int:
        """The largest exit code of all gradings."""
        return max([view.cell.exit_code for view in self.views] + [TROUBLE] * bool(self.errors), default=TROUBLE)


def _run(args: argparse.Namespace, argv: Sequence[str]) -> int:
    if args.cutlass is not None:
        cutlass.use(args.cutlass)
    before = signal.signal(signal.SIGTERM, _stop)
    results = _Results()
    display = Display(verbose=args.verbose) if args.jobs == 1 else Board(verbose=args.verbose)
    try:
        if isinstance(display, Board):
            _many(args, argv, display, results)
        else:
            for path, problem in _expanded(args, results):
                display.start(str(path))
                _one(args, path, problem, display, results)
    except KeyboardInterrupt:  # what is done is told all the same
        if results.views:
            _told(args, results)
        raise
    finally:
        display.clear()
        signal.signal(signal.SIGTERM, before)
    _told(args, results)
    for error in results.errors:
        print(f"kbh grade: error: {error}", file=sys.stderr)
    return results.exit_code


def _told(args: argparse.Namespace, results: _Results) -> None:
    """Says what came of all: in JSON, or a table where there are several, and the page that was asked for."""
    if args.format == "json":
        print(json.dumps(as_json(results.views, results.errors), indent=1))
    elif len(results.views) + len(results.errors) > 1 and results.views:
        print("\n" + summary(results.views, len(results.errors)), end="")
    if args.html is not None and results.views:
        args.html.write_text(page_of(results.views), encoding="utf-8")


def _stop(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _expanded(args: argparse.Namespace, results: _Results) -> Iterator[tuple[Path, str]]:
    """The files that the paths stand for, each with its problem, and bundles, which know their own."""
    for path in args.paths:
        if is_bundle(path):
            yield path, ""
            continue
        try:
            found = list(discover([path], problem=args.problem, problems_dir=paths.problems_dir(args.problems_dir)))
        except Exception as error:
            results.failed(path, error, alone=len(args.paths) == 1)
            continue
        for item in found:
            if isinstance(item, BadInput):
                results.errors.append(item.message)
            elif item.problem is None:
                results.errors.append(f"{item.path}: nothing says which problem it solves; name it with --problem")
            else:
                yield item.path, item.problem


def _one(args: argparse.Namespace, path: Path, problem: str, display: Display, results: _Results) -> None:
    """Grades one submission or bundle, and prints what came of it."""
    try:
        view = load_view(graded(args, path, problem, display))
    except Exception as error:
        results.failed(path, error, alone=args.paths == [path])
        return
    display.clear()
    _shown(args, view, results)


def _many(args: argparse.Namespace, argv: Sequence[str], board: Board, results: _Results) -> None:
    """Grades several at a time, and prints what came of them in the order in which they were named.

    Of an interrupted run also what ended while one that was named before was still at work.
    """
    tasks = list(_expanded(args, results))
    devices = gpus(args.target, paths.hardware_file(paths.problems_dir(args.problems_dir)))
    ended: dict[int, Done] = {}
    shown = 0
    try:
        with contextlib.closing(graded_at_once(tasks, argv, args.jobs, board, devices=devices)) as all_of_them:
            for index, done in all_of_them:
                ended[index] = done
                while shown in ended:
                    board.clear()
                    _came_of(args, tasks[shown][0], ended.pop(shown), results)
                    shown += 1
    finally:
        for index in sorted(ended):
            board.clear()
            _came_of(args, tasks[index][0], ended[index], results)


def _came_of(args: argparse.Namespace, path: Path, done: Done, results: _Results) -> None:
    error = done.error
    if done.bundle is not None:
        try:
            return _shown(args, load_view(done.bundle), results)
        except Exception as unreadable:
            if not is_plain(unreadable):
                raise
            error = sentence(unreadable)
    results.errors.append(error if str(path) in error else f"{path}: {error}")


def _shown(args: argparse.Namespace, view: View, results: _Results) -> None:
    results.views.append(view)
    if args.format == "text":
        between = "\n" if len(results.views) > 1 else ""
        print(between + render(view, colour=use_colour(args.color)), end="", flush=True)


def graded(args: argparse.Namespace, path: Path, problem: str, display: Tell) -> Path:
    """Grades a submission, or again what a bundle holds; returns the folder of the new bundle."""
    if not problem:
        from grader.grading.regrade import grade_again  # here, for it imports torch

        return grade_again(path, args.out, args.problems_dir, display)[1]
    request = Request(
        path, problem, target=args.target, strict=args.strict, trials=args.trials, samples=args.samples,
        evidence=not args.no_evidence, all_evidence=args.all_evidence, sandbox=args.sandbox,
        timeout=args.timeout, build_timeout=args.build_timeout, out=args.out or Path("kbh-results"),
        protocol=args.protocol, problems_dir=args.problems_dir, fresh=args.fresh, baselines=args.baseline,
        provenance=of_run(path), all_cases=args.all_cases,
    )  # fmt: skip
    return grade(request, display)[1]


def sentence(error: Exception) -> str:
    """An error as one sentence: its message, or the file and the reason of an OSError."""
    if isinstance(error, OSError):
        return f"{error.filename or 'a file'}: {(error.strerror or str(error)).lower()}"
    return str(error)


def as_json(views: Sequence[View], errors: Sequence[str]) -> dict[str, Any]:
    """The cells as JSON values, each with its verdict, the place of its bundle, the hash that pins the bundle, and what
    profilers saw.
    """

    cells = [
        {
            "bundle": view.folder,
            "head": view.head,
            "compared": view.compared,
            "cell": cell_to_json(view.cell),
            "silicon": None if view.silicon is None else silicon_to_json(view.silicon),
        }
        for view in views
    ]
    return {"version": 1, "cells": cells, "errors": list(errors)}
