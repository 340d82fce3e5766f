"""What is fixed before anything of a submission runs: the copy that is graded, the target, and the bundle."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Literal

from grader.grading.first import FOLDER
from grader.grading.progress import Progress, Tell
from grader.grading.request import (
    GradeError,
    Request,
    copied,
    identity,
    options_of,
    problem_files,
    problem_of,
    versions,
)  # fmt: skip
from grader.judge import judging as judge
from grader.record import provenance
from grader.record.bundle import Bundle, BundleBusy, BundleError, redact
from grader.sandbox import cutlass
from grader.sandbox.folders import remove
from grader.sandbox.snapshot import Snapshot
from grader.score import published, scoring
from grader.score.targets import Chosen, choose_target, hardware_file
from kbh_lint.problems import Problem

__all__ = ["Job", "open_bundle", "prepare", "shown_file"]

MOST_BUNDLES = 10_000
NO_CUTLASS = (
    "it speaks of CUTLASS, of which there are no headers here that a compiler finds: name them with --cutlass or "
    "CUTLASS_PATH, or pip install nvidia-cutlass"
)


@dataclass(frozen=True, slots=True)
class Job:
    """What is fixed before anything of the submission runs."""

    request: Request
    problem: Problem
    chosen: Chosen
    snapshot: Snapshot
    files: dict[str, bytes]
    problem_files: dict[str, str]
    versions: dict[str, str]
    identity: str
    scratch: Path
    tell: Tell

    @property
    def device(self) -> Literal["cuda", "cpu"]:
        """The device that the grading runs on."""
        return self.chosen.record.device

    def workplace(self) -> Path:
        """Makes a fresh folder for one process; its path is always the same, because builds remember it."""
        remove(self.run_folder)
        return self.run_folder

    @property
    def run_folder(self) -> Path:
        """The path of the `workplace`."""
        return self.scratch / FOLDER

    @property
    def options(self) -> judge.TrialOptions:
        """How much a trial does: what the device asks for, or the request, or the published protocol."""
        found = judge.default_options(
            self.device, timeout=self.request.timeout, build_timeout=self.request.build_timeout
        )
        found = replace(found, all_cases=self.request.all_cases)
        if self.request.protocol == "2026-04":
            theirs = published.read(hardware_file(self.problem).parent)
            samples = theirs.problems[self.problem.id].trials
            return replace(found, samples=samples, later=0, warmups=theirs.warmups, published=True)
        wanted = scoring.wanted(self.problem, self.chosen)
        if self.request.samples is None:
            return replace(found, wanted=wanted)
        later = self.request.samples // 2 if found.later else 0
        first = self.request.samples - later
        asked = {label: replace(one, error=math.inf) for label, one in wanted.items()}  # no more than was asked for
        return replace(found, samples=first, later=later, warmups=min(found.warmups, first // 2), wanted=asked)


def prepare(request: Request, scratch: Path, tell: Tell, taken: Snapshot | None = None) -> Job:
    """Copies the submission, unless `taken` is its copy, chooses the target, and names the grading. Raises as `grade`
    does.
    """
    tell(Progress("read", "begin"))
    problem = problem_of(request)
    taken = taken or copied(request, problem, scratch)
    chosen = choose_target(problem, request.target, say=lambda text: tell(Progress("read", "at", text)))
    if request.protocol == "2026-04":
        scoring.check_2026_04(problem, chosen)
        if request.samples is not None:
            raise GradeError("the protocol 2026-04 says how many samples are taken; leave --samples out")
    if chosen.record.device == "cuda" and taken.speaks_of("cutlass/", "cute/") and cutlass.find() is None:
        tell(Progress("read", "wait", NO_CUTLASS))
    folder = taken.file.parent
    files = {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
    hashes, known = problem_files(problem, hardware_file(problem)), versions(chosen.record.device)
    name = identity(request, taken.sha256, hashes, f"{chosen.record.id} {chosen.record.product}", known)
    tell(Progress("read", "done", f"{problem.id} on {chosen.record.label or chosen.record.product}"))
    return Job(request, problem, chosen, taken, files, hashes, known, name, scratch, tell)


def open_bundle(job: Job) -> Bundle:
    """The bundle of this very request that was not finished, or a new one."""
    request = job.request
    stem = f"{job.problem.id}-{request.submission.stem[:40]}-{job.chosen.record.id}-{job.identity[:10]}"
    for number in range(1, MOST_BUNDLES):
        folder = request.out / (stem if number == 1 else f"{stem}-{number}")
        try:
            if not folder.exists():
                return Bundle.create(folder, _header(job), list(job.files.values()))
            found = None if request.fresh else _unfinished(folder, job)
        except BundleBusy:  # of the same request, graded by another process now
            found = None
        if found is not None:
            return found
    raise GradeError(f"{request.out} holds {MOST_BUNDLES - 1} bundles of this grading already")


def _unfinished(folder: Path, job: Job) -> Bundle | None:
    """The bundle in a folder, open for writing, when it is of the same request and not finished."""
    try:
        found = Bundle.open(folder)
    except BundleError:
        if any(folder.glob("entries/*")):
            return None  # it is broken, or none of ours
        return Bundle.create(folder, _header(job), list(job.files.values()))
    if found.finished or found.entries()[0].data.get("identity") != job.identity:
        return None
    return Bundle.open(folder, write=True)


def _header(job: Job) -> dict[str, object]:
    return {
        "identity": job.identity,
        "request": options_of(job.request),
        "submission": {
            "sha256": job.snapshot.sha256,
            "file": shown_file(job.request.submission),
            "files": {name: sha256(data).hexdigest() for name, data in job.files.items()},
        },
        "problem": {"id": job.problem.id, "files": job.problem_files},
        "versions": job.versions,
        "target": job.chosen.record.id,
        **({"provenance": provenance.to_json(request.provenance)} if (request := job.request).provenance else {}),
    }


def shown_file(path: Path) -> str:
    """A submission's name as results show it: never where on the machine it was."""
    relative = not path.is_absolute() and ".." not in path.parts
    name = str(path) if relative else path.name
    return redact(name.encode("utf-8", "replace").decode())
