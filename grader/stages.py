"""The two stages of a grading that a submission and a baseline share: compiling, and a trial in its turn."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from grader import judge
from grader.beside import beside
from grader.builds import Builds, build_key, builds_folder
from grader.bundle import redact
from grader.cell import TrialResult
from grader.job import Job, Progress, Stage
from grader.native import cannot_run
from grader.resources import give_back
from grader.sandbox import Sandbox
from grader.scratch import comes_again
from grader.supervise import remove
from grader.ticking import Ticking
from grader.turns import turn

__all__ = ["built", "tried", "waiting"]


def waiting(job: Job, stage: Stage, of: str = "") -> Callable[[str], None]:
    """Tells people that a stage has to wait for the device."""
    return lambda text: job.tell(Progress(stage, "wait", text, of))


def built(
    job: Job, sandbox: Sandbox, *, stage: Stage = "build", of: str = "", again: Path | None = None
) -> Path | None:  # fmt: skip
    """The compiler caches of a submission: those of an earlier grading, or what a first process fills now.

    A submission that fails here fails in the trial too, which is where that counts. On a CPU nothing is compiled that
    a process would find again. Where that is nvcc's work, a second process compiles everything too, beside the first if
    there is one, and leaves what it compiled in `again`; nothing is there if it did not come to its end.
    """
    if job.device == "cpu" or cannot_run(job.snapshot, job.device):
        return None
    job.tell(Progress(stage, "begin", of=of))
    record, kind = job.chosen.record, sandbox.record.kind
    parts = (job.problem.id, record.id, record.product, record.scale, kind, str(job.scratch))
    key = build_key(job.snapshot.sha256, parts, job.versions)
    spare = job.scratch / "builds"
    builds = Builds(builds_folder() if comes_again(job.scratch) else spare, spare)
    found = builds.find(key)
    if found is not None:
        with beside(job, sandbox, again):  # alone, and not while the device is held, as it would be later
            pass
        if stage == "build":
            job.tell(Progress(stage, "done", "from an earlier grading"))
        return found
    made = builds.begin(key)
    try:
        with beside(job, sandbox, again), Ticking(lambda text: job.tell(Progress(stage, "at", text, of))) as say:
            said = judge.build(
                job.problem, job.snapshot, device=job.device, scale=record.scale, options=job.options, sandbox=sandbox,
                scratch=job.workplace(), caches=made, progress=say,
                held=lambda: turn(job.device, waiting(job, stage, of)),
            ).refused  # fmt: skip
    except BaseException:
        remove(made)
        raise
    if stage == "build":
        job.tell(Progress(stage, "done", said))
    if said:
        remove(made)
        return None
    return builds.keep(key, made)


def tried(
    job: Job, sandbox: Sandbox, caches: Path | None, *, index: int, master: bytes, keep_log: Callable[[str], str],
    stage: Stage = "trial", of: str = "",
) -> TrialResult:  # fmt: skip
    """One trial while nothing else is timed on the device, without secrets in what the submission said."""
    give_back(job.device)
    saying = Ticking(lambda text: job.tell(Progress(stage, "at", text, of)))
    held = nullcontext() if cannot_run(job.snapshot, job.device) else turn(job.device, waiting(job, stage, of))
    with held, saying as say:
        result = judge.run_trial(
            job.problem, job.snapshot, index=index, device=job.device, scale=job.chosen.record.scale, master=master,
            options=job.options, sandbox=sandbox, scratch=job.workplace(), caches=caches, keep_log=keep_log,
            progress=say,
        )  # fmt: skip
    return _clean(result, job.scratch)


def _clean(trial: TrialResult, scratch: Path) -> TrialResult:
    def clean(text: str) -> str:
        return redact(text, scratch=[scratch])

    shapes = tuple(
        replace(
            shape, message=clean(shape.message), cases=tuple(replace(c, message=clean(c.message)) for c in shape.cases)
        )
        for shape in trial.shapes
    )
    return replace(trial, message=clean(trial.message), detail=clean(trial.detail), shapes=shapes)
