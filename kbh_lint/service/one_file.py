"""The report on one submission that is already read: engine, rules, verdict."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from kbh_lint.base.errors import SetupError
from kbh_lint.base.limits import TimeUp, fewer_collections, time_limit, with_room
from kbh_lint.base.records import dataclass
from kbh_lint.findings import NOTHING_FOLLOWED, Analysis, FileReport, Unread
from kbh_lint.marked import DataError
from kbh_lint.rules import Rule, apply, is_selected, load_rules
from kbh_lint.verdict import decide, weakened

if TYPE_CHECKING:
    from kbh_lint import engine as _engine
    from kbh_lint.source.submissions import Submission

DEFAULT_TIMEOUT_S = 60.0
ENGINE = "kbh_lint.engine"  # the module whose `analyse` reads a submission


@dataclass(frozen=True, slots=True)
class Options:
    """What the analysis of one file depends on besides the file. `timeout` is in seconds, 0 for none."""

    rules_dir: str
    problems_dir: str
    trace: bool = False
    timeout: float = DEFAULT_TIMEOUT_S
    raise_errors: bool = False
    engine: str = ENGINE


@dataclass(frozen=True, slots=True)
class Outcome:
    """A file's report; `stable` when running it again would give the same (so that it may be cached).

    `trouble` is a sentence where the linter itself crashed or ran out of time or memory, so that the report says
    nothing.
    """

    report: FileReport
    stable: bool
    trouble: str = ""


def lint_file(submission: Submission, options: Options, rules: tuple[Rule, ...] | None = None) -> Outcome:
    """The report on one submission: engine, rules, verdict. `rules` are those of `options`, where a run has them.

    Never raises for what is wrong with the submission; raises DataError for a malformed rule or problem, and
    ImportError or SetupError when a part of the linter is missing.
    """
    if rules is None:
        rules = load_rules_once(options.rules_dir)
    engine = cast(_Engine, import_module(options.engine))
    try:
        with time_limit(options.timeout), fewer_collections():
            analysis = with_room(
                engine.analyse,
                submission,
                problems_dir=Path(options.problems_dir),
                trace=options.trace,
                raise_errors=options.raise_errors,
            )
            return Outcome(judge(submission, rules, analysis), stable=True)
    except (DataError, ImportError, SetupError):
        raise
    except TimeUp:
        return gave_out(submission, late(options.timeout))
    except MemoryError:
        return unproven(submission, "the analysis needed more memory than it may have")
    except Exception as error:
        if options.raise_errors:
            raise
        return unproven(submission, f"the analysis failed ({_where(error)}); this is a fault of kbh-lint")


def unproven(submission: Submission, reason: str) -> Outcome:
    """The outcome for a file whose analysis did not come to an end."""
    return Outcome(judge(submission, (), Analysis(unread=(Unread(reason),))), stable=False)


def gave_out(submission: Submission, reason: str) -> Outcome:
    """The outcome where the linter itself or this machine failed: an error, and no statement about the file."""
    return replace(unproven(submission, reason), trouble=f"{submission.path}: {reason}; this says nothing of the file")


def late(seconds: float) -> str:
    """The reason given when the analysis of a file ran out of time; on another machine it might not."""
    return f"the analysis took longer than {seconds:g} s here and was stopped (--timeout gives it more)"


class _Engine(Protocol):
    def analyse(self, submission: Submission, *, problems_dir: Path, trace: bool, raise_errors: bool) -> Analysis:
        """Facts, promise states and what could not be read of one submission."""
        ...


if TYPE_CHECKING:
    _: _Engine = _engine


def judge(submission: Submission, rules: Iterable[Rule], analysis: Analysis) -> FileReport:
    """Applies the rules to the facts of an analysis, and returns the report with findings, promises and verdict."""
    known = analysis.contract is not None
    promised = {word for promise in analysis.promises for word in (promise.id, promise.kind)}
    path = str(submission.path)
    rules = tuple(rules)
    findings = apply(rules, analysis.facts, path=path, contract_known=known, promises=promised)
    promises = analysis.promises
    if analysis.doubtful:
        facts = (*analysis.facts, *analysis.doubtful)
        more = apply(rules, facts, path=path, contract_known=known, promises=promised)
        promises = weakened(promises, findings, more)
    unread = analysis.unread or (() if known else (Unread(NOTHING_FOLLOWED),))
    return FileReport(
        path=path,
        problem=submission.problem,
        contract=analysis.contract,
        target=submission.target,
        verdict=decide(promises, findings, unread, known),
        promises=promises,
        findings=findings,
        unread=unread,
        notes=(*submission.notes, *analysis.notes),
        trace=analysis.trace,
        problem_source=submission.problem_source or "",
        shares=analysis.shares,
    )


def load_rules_once(folder: str) -> tuple[Rule, ...]:
    """The rules of `folder` without their examples, loaded once while its files stay as they are."""
    try:
        with os.scandir(folder) as entries:
            stats = sorted((entry.name, entry.stat()) for entry in entries if entry.name.endswith((".yaml", ".yml")))
    except OSError:
        stats = []  # loading says what is wrong
    return _load_rules(folder, tuple((name, stat.st_mtime_ns, stat.st_size) for name, stat in stats))


@lru_cache(maxsize=4)
def _load_rules(folder: str, stamps: tuple[tuple[str, int, int], ...]) -> tuple[Rule, ...]:
    return load_rules(Path(folder), examples=False)


def select_findings(report: FileReport, select: Collection[str], ignore: Collection[str]) -> FileReport:
    """The report with only the chosen findings; the verdict stays."""
    if not select and not ignore:
        return report

    kept = tuple(f for f in report.findings if is_selected(f.rule, f.leak_class, select, ignore, f.name))
    return replace(report, findings=kept)


def _where(error: Exception) -> str:
    """`KeyError in host/calls.py:120`: enough to file a bug, without a traceback."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return type(error).__name__
    file = Path(trace.tb_frame.f_code.co_filename)
    return f"{type(error).__name__} in {file.parent.name}/{file.name}:{trace.tb_lineno}"
