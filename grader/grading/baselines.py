"""Baselines on request: what the problem's reference, torch.compile of it and a library's call take on the same shapes.

A baseline is a module of ours that goes through what a submission goes through: a process of its own in the sandbox,
values from a fresh key, the same judge, both clocks. It has times and no score, and changes nothing about the cell that
it stands beside. One that fails or is wrong says so.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from grader.deck.code import DeckError
from grader.deck.keys import new_master
from grader.grading.job import Job
from grader.grading.progress import Progress
from grader.grading.scratch import scratch_folder
from grader.grading.stages import built, tried
from grader.record.bundle import Bundle, redact, trial_from_json, trial_to_json
from grader.record.cell import Baseline, BaselineName, BaselineTime, Cell, ShapeScore, TrialResult, geometric_mean
from grader.sandbox import Sandbox
from grader.sandbox.snapshot import snapshot
from grader.score import scoring
from kbh_lint.problems import Problem

__all__ = ["Source", "beside", "source", "tried_baselines"]

COMPILED = '''

class _Reference(Model):
    """The reference under another name, so that Model can be the compiled one."""


class Model(_Reference):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        torch._dynamo.config.recompile_limit = 256  # shapes and models of one process
        self.compile(dynamic=False)
'''


@dataclass(frozen=True, slots=True)
class Source:
    """A baseline's module: `what` it calls, in a few words, and its text."""

    what: str
    text: str


def source(problem: Problem, name: BaselineName) -> Source | None:
    """The module of a baseline; None where the problem has none. Raises DeckError for a fault of the problem."""
    folder = Path(problem.path).resolve().parent
    if name == "library":
        file = folder / "library.py"
        if not file.is_file():
            return None
        text = file.read_text(encoding="utf-8")
        return Source(_said(text, file), text)
    text = (folder / "reference.py").read_text(encoding="utf-8")
    if name == "eager":
        return Source("the reference in eager PyTorch", text)
    return Source("torch.compile of the reference", text + COMPILED)


def _said(text: str, file: Path) -> str:
    try:
        said = ast.get_docstring(ast.parse(text)) or ""
    except SyntaxError as error:
        raise DeckError(f"{file.name} of {file.parent.name} cannot be read: {error.msg}") from None
    if not said.strip():
        raise DeckError(f"{file.name} of {file.parent.name} does not say in its docstring what it calls")
    return " ".join(said.split()).rstrip(".")


def tried_baselines(job: Job, bundle: Bundle, sandbox: Sandbox) -> tuple[tuple[BaselineName, str, TrialResult], ...]:
    """(name, what it calls, its trial) of each that was asked for and that the problem has; kept in the bundle."""
    done = {
        str(entry.data["name"]): trial_from_json(entry.data["trial"])
        for entry in bundle.entries()
        if entry.kind == "baseline"
    }
    found = []
    for name in job.request.baselines:
        module = source(job.problem, name)
        if module is None:
            job.tell(Progress("baseline", "done", "the problem names no call of a library", name))
            continue
        if name not in done:
            done[name] = _tried(job, bundle, sandbox, name, module)
        found.append((name, module.what, done[name]))
    return tuple(found)


def _tried(job: Job, bundle: Bundle, sandbox: Sandbox, name: BaselineName, module: Source) -> TrialResult:
    job.tell(Progress("baseline", "begin", of=name))
    text = module.text.encode()
    with scratch_folder(of=text) as scratch:  # its own, so that what is compiled is found beside any submission
        file = scratch / "baseline" / f"{name}.py"
        file.parent.mkdir()
        file.write_bytes(text)
        ours = replace(job, snapshot=snapshot(file, scratch / "submission"), scratch=scratch)
        build = built(ours, sandbox, stage="baseline", of=name)
        result = tried(
            ours, sandbox, build, index=0, master=new_master(), stage="baseline", of=name,
            keep_log=_keeper(bundle, scratch),
        )  # fmt: skip
    objects = [bundle.put(text), *([result.log] if result.log else [])]
    data = {"name": name, "what": module.what, "module": objects[0], "trial": trial_to_json(result)}
    bundle.append("baseline", data, list(dict.fromkeys(objects)))
    job.tell(Progress("baseline", "done", result.status, name))
    return result


def _keeper(bundle: Bundle, scratch: Path) -> Callable[[str], str]:
    return lambda text: bundle.put(redact(text, scratch=[scratch]).encode()) if text else ""


def beside(job: Job, cell: Cell, trials: Sequence[tuple[BaselineName, str, TrialResult]]) -> Cell:
    """The cell with its baselines, and how many times as fast the submission is where both have a time."""
    scored = {score.shape: score.t_scored for score in cell.shapes} if cell.scores is not None else {}
    return replace(cell, baselines=tuple(_record(job, scored, *one) for one in trials))


def _record(job: Job, scored: Mapping[str, float], name: BaselineName, what: str, trial: TrialResult) -> Baseline:
    scores = scoring.shape_scores(job.problem, job.chosen, [trial])
    times = tuple(_time(score, scored.get(score.shape)) for score in scores)
    speedups = [time.speedup for time in times if time.speedup is not None]
    whole = len(speedups) == len(trial.shapes) > 0
    message = trial.message.replace("the submission", "it")
    return Baseline(name, what, trial.status, message, times, geometric_mean(speedups) if whole else None)


def _time(score: ShapeScore, submission: float | None) -> BaselineTime:
    seconds = score.t_event if score.clock == "weak" else score.t_scored
    speedup = None if submission is None else seconds / submission
    return BaselineTime(score.shape, seconds, score.t_event, score.t_sealed, score.clock, speedup)
