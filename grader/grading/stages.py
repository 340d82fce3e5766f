"""The two stages of a grading that a submission and a baseline share: compiling, and a trial in its turn."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch

from grader.grading.job import Job
from grader.grading.progress import Progress, Stage
from grader.grading.scratch import comes_again
from grader.judge import judging as judge
from grader.judge.compiling import Compiled, Yielding
from grader.judge.cores import building
from grader.judge.judging import Early
from grader.judge.native import cannot_run
from grader.judge.opening import Meanwhile
from grader.judge.resources import give_back
from grader.judge.session import Session
from grader.judge.ticking import Ticking
from grader.judge.turns import alone, together, wanted
from grader.record.bundle import redact
from grader.record.cell import TrialResult
from grader.sandbox import Sandbox, seen_at
from grader.sandbox.base import CheckError
from grader.sandbox.builds import Builds, build_key, builds_folder
from grader.sandbox.folders import remove, restore_caches

__all__ = ["Built", "built", "compiles", "held", "shared_calls", "tried", "untimed", "waiting", "yielding"]

MOST_WAITING = 2.0  # times what building may take: so long the build of another grading is waited for


def waiting(job: Job, stage: Stage, of: str = "") -> Callable[[str], None]:
    """The function that tells people, by a sentence that it is given, why `stage` waits for the device."""
    return lambda text: job.tell(Progress(stage, "wait", text, of))


def held(job: Job, stage: Stage, of: str = "") -> Callable[[], AbstractContextManager[None]]:
    """The function that makes a context in which `stage` holds the device alone; people are told what it waits for."""
    return lambda: alone(job.device, waiting(job, stage, of))


def untimed(
    job: Job, stage: Stage, of: str = "", *, afresh: bool = False
) -> Callable[[], AbstractContextManager[None]]:  # fmt: skip
    """As `held`, for calls that the judge does not time: other such calls may use the device meanwhile, unless the
    submission tunes itself, since what it finds fastest on a shared device would not be fastest when it is scored.
    """
    hold = alone if job.snapshot.tunes else together
    return lambda: hold(job.device, waiting(job, stage, of), afresh=afresh)


def shared_calls(job: Job, stage: Stage, of: str = "") -> Callable[[], AbstractContextManager[None]]:
    """As `untimed`, also for a submission that tunes itself: for builds whose choices are thrown away."""
    return lambda: together(job.device, waiting(job, stage, of))


def yielding(job: Job, stage: Stage, of: str = "") -> Yielding:
    """How a long build lets waiting gradings have the device before it goes on."""
    return Yielding(partial(wanted, job.device), untimed(job, stage, of, afresh=True))


@dataclass(frozen=True, slots=True)
class Built:
    """What came of building: compiler caches for the processes that follow, or why no process is to follow."""

    caches: Path | None = None
    failed: str = ""


def compiles(job: Job) -> bool:
    """Whether a submission compiles what a later process finds again: on a CPU nothing is."""
    return job.device != "cpu" and not cannot_run(job.snapshot, job.device)


def built(
    job: Job, sandbox: Sandbox, *, stage: Stage = "build", of: str = "",
    begun: Callable[[], Session | None] = lambda: None,
) -> Built:  # fmt: skip
    """The build of the submission: that of an earlier grading, or one that is made now, by the process that `begun`
    gives or a new one.

    One grading at a time makes the build of a submission, and the others wait for it. A build that takes longer than it
    may is not tried again: that is the end. A submission that fails here in another way fails in the trial too, which
    is where that counts; what it compiled until then is kept for this grading alone.
    """
    if not compiles(job):
        return Built()
    job.tell(Progress(stage, "begin", of=of))
    record, kind = job.chosen.record, sandbox.record.kind
    seen = seen_at(sandbox)  # compilers note paths
    parts = (job.problem.id, record.id, record.product, record.scale, kind, str(seen or job.scratch))
    key = build_key(job.snapshot.sha256, parts, job.versions)
    spare = job.scratch / "builds"
    builds = Builds(builds_folder() if seen or comes_again(job.scratch) else spare, spare)
    with builds.making(key, waiting(job, stage, of), MOST_WAITING * job.options.build_timeout):
        found = builds.find(key)
        if found is not None:
            if stage == "build":
                job.tell(Progress(stage, "done", "from an earlier grading"))
            return Built(found)
        made = builds.begin(key)
        try:
            with (
                building(job.snapshot.calls_nvcc),
                Ticking(lambda text: job.tell(Progress(stage, "at", text, of))) as say,
            ):
                said = _compiled(job, sandbox, made, say, stage, of, begun)
        except BaseException:
            remove(made)
            raise
        if stage == "build":
            job.tell(Progress(stage, "done", said.refused or said.ended))
        if said.refused or said.late:
            remove(made)
            return Built(failed=said.ended if said.late else "")
        if said.ended:
            return Built(Builds(spare, spare).keep(key, _moved(made, spare)))
        return Built(builds.keep(key, made))


def _compiled(
    job: Job, sandbox: Sandbox, caches: Path, say: Callable[[str], None], stage: Stage, of: str,
    begun: Callable[[], Session | None],
) -> Compiled:  # fmt: skip
    """A build; once more alone where the memory of the device did not do for those that were made at once."""

    def compiled(hold: Callable[[], AbstractContextManager[None]]) -> Compiled:
        session = begun()
        return judge.build(
            job.problem, job.snapshot, device=job.device, scale=job.chosen.record.scale, options=job.options,
            sandbox=sandbox, scratch=job.workplace() if session is None else job.run_folder, caches=caches,
            progress=say, held=hold, sharing=shared_calls(job, stage, of), yielding=yielding(job, stage, of),
            begun=session,
        )  # fmt: skip

    try:
        return compiled(untimed(job, stage, of))
    except (CheckError, torch.OutOfMemoryError):
        if job.snapshot.tunes:
            raise
        return compiled(held(job, stage, of))


def _moved(made: Path, folder: Path) -> Path:
    """A build that is not to be found by others, in another folder."""
    place = folder / made.name
    if made != place and made.is_dir():
        restore_caches(made, place)
        remove(made)
    return place


def tried(
    job: Job, sandbox: Sandbox, build: Built, *, index: int, master: bytes, keep_log: Callable[[str], str],
    stage: Stage = "trial", of: str = "", begun: Callable[[], Early | None] = lambda: None,
    later: Callable[[], Session | None] = lambda: None, meanwhile: Meanwhile | None = None,
) -> TrialResult:  # fmt: skip
    """One trial while nothing else is timed on the device, without secrets in what the submission said. `begun` gives
    its process, if one was started ahead, `later` that of its later samples, and `meanwhile` lets others in.
    """
    if build.failed:
        return _clean(judge.not_tried(
            job.problem, index=index, scale=job.chosen.record.scale, master=master, sandbox=sandbox, status="wrong",
            message=build.failed,
        ), job.scratch)  # fmt: skip
    give_back(job.device)
    with Ticking(lambda text: job.tell(Progress(stage, "at", text, of))) as say:
        result = judge.run_trial(
            job.problem, job.snapshot, index=index, device=job.device, scale=job.chosen.record.scale, master=master,
            options=job.options, sandbox=sandbox, scratch=job.workplace(), caches=build.caches, keep_log=keep_log,
            progress=say, held=held(job, stage, of), begun=begun(), later=later, meanwhile=meanwhile,
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
