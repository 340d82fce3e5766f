"""Check and practice benchmark of a submission on public keys, by the judge that grades it later.

Nothing here draws a secret key, and nothing is told beyond what `kbh problems check` tells on the same public seeds:
of a benchmark the times, of a check also what the linter says, whose rules are public. Importing this imports torch.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import torch

from grader.authoring.run import public_master, told
from grader.deck.code import DeckError
from grader.grading.check import CheckReport, report_of
from grader.grading.job import Job
from grader.grading.linting import lint_snapshot
from grader.grading.progress import Progress
from grader.grading.request import GradeError, Request, versions
from grader.grading.scratch import scratch_folder
from grader.grading.stages import Built, built, tried
from grader.judge import judging as judge
from grader.judge.resources import give_back
from grader.judge.turns import Standing, practising
from grader.record.cell import ShapeScore, TrialResult
from grader.record.words import aligned, fraction, seconds
from grader.sandbox import Sandbox, SandboxError, choose, harden_judge
from grader.sandbox.base import CheckError
from grader.sandbox.snapshot import snapshot
from grader.score import scoring
from grader.score.targets import Chosen, TargetError, choose_target
from grader.wire.driver import GpuError
from harness.judging.base import SOLUTION, Answer, Ask, Outcome
from kbh_lint.base import paths
from kbh_lint.findings import Finding
from kbh_lint.marked import DataError
from kbh_lint.problems import Problem, Shape, load_problem
from kbh_lint.report.text import one_line

__all__ = ["practise"]

GPU_SAMPLES, GPU_WARMUPS, BATCHES = 30, 5, 2
PLAIN_ERRORS = (CheckError, DataError, DeckError, GpuError, GradeError, OSError, SandboxError, TargetError)
OUTCOMES: dict[str, tuple[Outcome, int]] = {
    "passed": ("passed", 0), "failed": ("failed", 1), "not-checkable": ("not-checkable", 2),
}  # fmt: skip
MOST_FINDINGS = 40
PLACES = (str(Path(torch.__file__).parents[1]), str(Path(__file__).resolve().parents[2]))  # libraries, this program
Say = Callable[[str, bool], None]  # a sentence, and whether it is one of many that may be left out


@dataclass(frozen=True, slots=True)
class _Practice(Job):
    """A job that is no grading: `limit` bounds the seconds of the submission's process; few samples, or none."""

    limit: float
    timing: bool

    @property
    def options(self) -> judge.TrialOptions:
        """The options of the trial: a check times nothing, a benchmark takes fewer samples than a grading."""
        options = judge.default_options(self.device, timeout=self.limit, build_timeout=self.limit)
        found = replace(options, timing=self.timing, later=0)
        if not self.timing or self.device == "cpu":
            return found
        return replace(found, samples=GPU_SAMPLES, warmups=GPU_WARMUPS, batches=BATCHES)


def practise(ask: Ask, say: Say, tell: Callable[[Standing], None]) -> Answer:
    """Judges what `ask` asks for. `tell` is told of the turns on the device. Never raises for what is wrong: that is
    the answer.
    """
    files = ask.contents()
    try:
        with practising(ask.came, tell), scratch_folder(of=files[SOLUTION]) as scratch:
            job = _job(ask, files, scratch, say)
            answer = _checked(ask, job, say) if ask.what == "check" else _timed(ask, job, say)
    except PLAIN_ERRORS as error:
        answer = _trouble(_sentence(error))
    finally:
        give_back(ask.device)
    return answer


def _job(ask: Ask, files: dict[str, bytes], scratch: Path, say: Say) -> _Practice:
    problem = _problem(ask.problem)
    chosen = _chosen(ask.problem, ask.target, ask.device)
    given = scratch / "given"
    for name, data in files.items():
        (given / name).parent.mkdir(parents=True, exist_ok=True)
        (given / name).write_bytes(data)
    (given / "run.json").write_bytes(b"{}")  # so that it is read as the archive of a run will be
    taken = snapshot(given / SOLUTION, scratch / "submission")
    labels = [shape.label for shape in _shapes(problem, chosen)]
    return _Practice(
        Request(given / SOLUTION, problem.id), problem, chosen, taken, {}, {}, versions(chosen.record.device), "",
        scratch, _Told(say, labels, timing=ask.what == "benchmark"), ask.work_s, ask.what == "benchmark",
    )  # fmt: skip


@cache
def _problem(path: str) -> Problem:
    return load_problem(Path(path))


@cache
def _chosen(path: str, target: str, device: str) -> Chosen:
    return choose_target(_problem(path), target, device=device)


class _Told:
    """Tells an agent how far it is: of a check each call, of a benchmark each shape once."""

    def __init__(self, say: Say, labels: Sequence[str], *, timing: bool) -> None:
        self._say, self._labels, self._timing = say, labels, timing
        self._seen: list[str] = []

    def __call__(self, progress: Progress) -> None:
        label = next((label for label in self._labels if progress.text.startswith(f"{label}: ")), None)
        if progress.stage == "build":
            self._say("building" if progress.state == "begin" else progress.text or "building", False)
        elif label is None:
            self._say(progress.text, "empty call" in progress.text)
        elif not self._timing:
            self._say(progress.text, True)
        elif label not in self._seen:
            self._seen.append(label)
            self._say(f"{label}: shape {len(self._seen)} of {len(self._labels)}", False)


def _checked(ask: Ask, job: _Practice, say: Say) -> Answer:
    """Every case on each public seed, until one is wrong, and what the linter says."""
    linted = _linted(job, say) if ask.lint else []
    sandbox, build = _place(ask, job)
    job = replace(job, limit=ask.turn_s)
    reports: list[CheckReport] = []
    for seed in ask.seeds:
        say(f"seed {seed}, {len(reports) + 1} of {len(ask.seeds)}", False)
        trial = tried(job, sandbox, build, index=0, master=public_master(seed), keep_log=lambda text: "")
        reports.append(_report(job, trial))
        if reports[-1].outcome != "passed":
            break
    last = reports[-1]
    outcome, code = OUTCOMES[last.outcome]
    seeds = f"  on the public seed{_of(ask.seeds[: len(reports)])}; a grading draws values of its own"
    text = "\n".join([told(last).rstrip("\n"), seeds, *linted]) + "\n"
    return Answer(outcome, code, last.message, text, None, _worst(reports))


def _timed(ask: Ask, job: _Practice, say: Say) -> Answer:
    """Times by both clocks on the first public seed, and what fractions of the least time they are."""
    sandbox, build = _place(ask, job)
    master = public_master(ask.seeds[0])
    job = replace(job, limit=ask.turn_s)
    trial = tried(job, sandbox, build, index=0, master=master, keep_log=lambda text: "")
    report = _report(job, trial)
    outcome, code = OUTCOMES[report.outcome]
    error = _worst([report])
    if report.outcome != "passed":
        return Answer(outcome, code, report.message, told(report, rows=False), None, error)
    doubt = scoring.suspicion(job.problem, job.chosen, [trial])
    scores = scoring.shape_scores(job.problem, job.chosen, [trial])
    score = scoring.total(job.problem, job.chosen, scores).roofline_fraction
    found = {one.shape: one.roofline_fraction for one in scores}
    if doubt:
        return Answer("suspect", 1, doubt, f"{_head(job)}\nsuspect, so there is no score: {doubt}\n", None, error)
    if score is None:
        why = "no time of every shape stands, so there is no score"
        return Answer("trouble", 2, why, "\n".join([_head(job), *_rows(scores), why]) + "\n", None, error, found)
    message = f"practice score {fraction(score)}, the geometric mean of the fractions of the least time"
    text = [_head(job), *_rows(scores), message, *_notes(scores)]
    return Answer("passed", 0, message, "\n".join(text) + "\n", score, error, found)


def _place(ask: Ask, job: _Practice) -> tuple[Sandbox, Built]:
    """The sandbox, and the submission's build: that of an earlier check, benchmark or grading where there is one."""
    harden_judge()
    sandbox = choose(device=job.device, wanted=ask.sandbox)
    return sandbox, built(job, sandbox)


def _report(job: _Practice, trial: TrialResult) -> CheckReport:
    report = report_of(
        job.problem, trial, solution=SOLUTION, sha256=job.snapshot.sha256, device=job.device,
        scale=job.chosen.record.scale, seconds=trial.seconds,
    )  # fmt: skip
    detail = report.detail
    for place in ("<scratch>/submission", *PLACES):  # an agent finds its own files; ours lie nowhere for it
        detail = detail.replace(f"{place}/", "")
    return replace(report, detail=detail)


def _worst(reports: Sequence[CheckReport]) -> float | None:
    """The worst error in units of its bound; None where none was measured."""
    found = [
        case.error / case.tolerance if math.isfinite(case.error) else math.inf
        for report in reports
        for case in report.cases
        if case.error is not None and case.tolerance
    ]
    return max(found, default=None)


def _of(seeds: Sequence[int]) -> str:
    """` 42`, or `s 42, 123 and 456`."""
    *most, last = map(str, seeds)
    return f"s {', '.join(most)} and {last}" if most else f" {last}"


def _head(job: _Practice) -> str:
    record = job.chosen.record
    where = record.label or record.product
    return f"practice: {job.problem.id} on {where}, public values and few samples; a grading decides"


def _rows(scores: Sequence[ShapeScore]) -> list[str]:
    rows = [("shape", "time", "least time", "fraction")]
    rows += [(s.shape, seconds(s.t_scored), seconds(s.t_floor), fraction(s.roofline_fraction)) for s in scores]
    return list(aligned(rows))


def _notes(scores: Sequence[ShapeScore]) -> Iterator[str]:
    for score in scores:
        yield from (f"  note: at {score.shape}: {note}" for note in score.notes)


def _linted(job: _Practice, say: Say) -> list[str]:
    """The linter's verdict, findings and promises. Its rules are public; it knows no key, no case and no oracle."""
    say("linting", False)
    record = job.chosen.record
    deck = Path(job.problem.path).resolve().parent.parent
    own = None if deck == paths.problems_dir().resolve() else deck
    report = lint_snapshot(job.snapshot, job.problem.id, record.id if record.device == "cuda" else None, own).report
    lines = [f"linter: {report.verdict}"]
    lines += [_found(one) for one in report.findings[:MOST_FINDINGS]]
    lines += [f"promise {one.id}: {one.state}{f' ({one.reason})' if one.reason else ''}" for one in report.promises]
    lines += [f"not read: {one.reason}" for one in report.unread[:MOST_FINDINGS]]
    return [one_line(lines[0]), *(f"  {one_line(line)}" for line in lines[1:])]


def _found(one: Finding) -> str:
    return f"{os.path.basename(one.span.path)}:{one.span.line}: {one.rule} [{one.verdict}] {one.message}"


def _shapes(problem: Problem, chosen: Chosen) -> Sequence[Shape]:
    return problem.shapes if chosen.record.scale == "full" else problem.reduced


def _trouble(sentence: str) -> Answer:
    return Answer("trouble", 2, sentence, f"it could not be judged: {sentence}\n")


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"the judge has no place for its files ({(error.strerror or 'unknown').lower()})"
    return str(error)
