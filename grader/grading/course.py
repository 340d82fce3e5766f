"""The course of a grading: lint, build, trials, evidence, verdict, with every step in a bundle.

The linter reads and the candidate runs one and the same read-only copy. A key is committed to in the bundle before the
process that gets values from it starts. A grading that was cut goes on after its last finished trial.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from grader.deck.keys import new_master
from grader.grading.ahead import Ahead
from grader.grading.baselines import beside, tried_baselines
from grader.grading.beside import Beside
from grader.grading.first import First
from grader.grading.job import Job, open_bundle, prepare, shown_file
from grader.grading.linting import LINTER, Linted, lint_snapshot
from grader.grading.progress import Progress, Tell
from grader.grading.request import Request
from grader.grading.stages import Built, built, held, tried, untimed
from grader.grading.verdicts import Standing, outcome_of, verdict_of
from grader.judge import judging as judge
from grader.record.bundle import Bundle, cell_to_json, redact, trial_from_json, trial_to_json
from grader.record.cell import SCORED, Cell, Scores, ShapeScore, TrialResult, VerdictRecord
from grader.record.words import seconds
from grader.sandbox import Sandbox, SandboxError, choose, harden_judge
from grader.score import scoring
from grader.silicon import Silicon, silicon_from_json, silicon_to_json
from grader.silicon.gather import gather
from kbh_lint.findings import PromiseState

__all__ = ["graded"]


def graded(request: Request, scratch: Path, progress: Tell, first: First) -> tuple[Cell, Path]:
    """As `grade.grade`, in `scratch`, a folder of this grading alone; `first` holds processes that were started before
    torch was imported.
    """
    job = prepare(request, scratch, progress, first.snapshot())
    with open_bundle(job) as bundle:
        cell = _graded(job, bundle, first)
        bundle.append("cell", cell_to_json(cell))
        progress(Progress("score", "done", cell.outcome))
        return cell, bundle.folder


def _graded(job: Job, bundle: Bundle, first: First) -> Cell:
    with Ahead(job, first.child, first.tracer) as ahead:
        return _graded_with(job, bundle, ahead, first)


def _graded_with(job: Job, bundle: Bundle, ahead: Ahead, at_first: First) -> Cell:
    linted, report_hash = _lint(job, bundle, ahead, at_first)
    hoped = _verdict(job, linted, report_hash, () if job.request.evidence else None)
    if job.request.strict and not job.request.all_evidence and not hoped.accepted:
        left = replace(_verdict(job, linted, report_hash, None), why=hoped.why)
        return _cell(job, Standing(True, job.device, left, ran=False))
    try:
        sandbox = _sandbox(job)
    except SandboxError as error:
        if not (job.request.strict and job.device == "cuda"):
            raise
        why = f"on a GPU --strict wants a sandbox: {error}"
        unboxed = replace(hoped, accepted=False, why=why)
        return _cell(job, Standing(True, job.device, unboxed, ran=False))
    with Beside(job, sandbox, at_first.again) as second:
        wanted = _profiled(job, bundle)
        if wanted:
            second.start()
        done = [trial_from_json(entry.data) for entry in bundle.entries() if entry.kind == "trial"]
        _abandon(bundle, len(done))
        first = None if done else _committed(bundle, 0)
        if first is not None:
            ahead.start_trial(sandbox, first)
        build = built(job, sandbox, begun=lambda: ahead.building(sandbox, wanted))
        ahead.built()
        if wanted and not build.failed:
            second.start_late()
            ahead.start(sandbox, build.caches)
        trials = _trials(job, bundle, sandbox, build, ahead, done, first)
        verdict = _verdict(job, linted, report_hash, None)
        if job.request.evidence and trials and all(trial.status == "right" for trial in trials):
            replay, lost = _evidence(job, bundle, trials, sandbox, build.caches, ahead)
            silicon = None
            if job.device == "cuda" and replay == ():
                promises = linted.report.promises
                silicon = _silicon(job, bundle, trials, sandbox, build.caches, promises, second.finish, ahead)
            verdict = _verdict(job, linted, report_hash, replay, lost, silicon)
    job.tell(Progress("score", "begin"))
    suspicion = scoring.suspicion(job.problem, job.chosen, trials)
    cell = _cell(job, Standing(job.request.strict, job.device, verdict, "", trials, suspicion, sandbox.record))
    if job.request.baselines and cell.scores is not None:
        return beside(job, cell, tried_baselines(job, bundle, sandbox))
    return cell


def _profiled(job: Job, bundle: Bundle) -> bool:
    """Whether profilers are to watch the submission."""
    return job.request.evidence and not any("silicon" in entry.data for entry in bundle.entries())


def _lint(job: Job, bundle: Bundle, ahead: Ahead, at_first: First) -> tuple[Linted, str]:
    job.tell(Progress("lint", "begin"))
    record = job.chosen.record
    target = record.id if record.device == "cuda" else None
    probe = threading.Thread(target=_probed, args=(job, ahead, _profiled(job, bundle)), daemon=True)
    probe.start()
    linter = at_first.linter(job.snapshot)
    linted = lint_snapshot(job.snapshot, job.problem.id, target, job.request.problems_dir, linter)
    probe.join()
    key = bundle.put(linted.data)
    if not any(entry.kind == "lint" and key in entry.objects for entry in bundle.entries()):
        bundle.append("lint", {"report": key}, [key])
    job.tell(Progress("lint", "done", linted.report.verdict))
    return linted, key


def _probed(job: Job, ahead: Ahead, traced: bool) -> None:
    """Has the sandbox probed that `_sandbox` wants next, which finds the answer there; what is wrong, it tells. The
    process of the build is started in it, and waits; if the submission is to be `traced`, that of the tracer begins.
    """
    with contextlib.suppress(SandboxError, OSError):
        harden_judge()  # before, because a probe looks whether it can read the judge
        sandbox = choose(device=job.device, wanted=job.request.sandbox)
        ahead.start_build(sandbox)
        if traced:
            ahead.start_tracer(sandbox)


def _verdict(
    job: Job, linted: Linted, report_hash: str, replay: Sequence[str] | None, lost: str = "",
    silicon: Silicon | None = None,
) -> VerdictRecord:  # fmt: skip
    return verdict_of(
        linted.report, job.problem, device=job.device, linter=LINTER, target=job.chosen.record.id, replay=replay,
        lost=lost, silicon=silicon, report_hash=report_hash, provenance=job.request.provenance,
    )  # fmt: skip


def _sandbox(job: Job) -> Sandbox:
    """The sandbox that was asked for. Without --strict a GPU is used also where there is none, and the cell says so."""
    job.tell(Progress("sandbox", "begin"))
    harden_judge()
    wanted = job.request.sandbox
    try:
        found = choose(device=job.device, wanted=wanted)
    except SandboxError:
        if wanted != "auto" or job.request.strict:
            raise
        found = choose(device=job.device, wanted="plain")
    job.tell(Progress("sandbox", "done", found.record.kind))
    return found


def _trials(
    job: Job, bundle: Bundle, sandbox: Sandbox, build: Built, ahead: Ahead, done: Sequence[TrialResult],
    first: bytes | None,
) -> tuple[TrialResult, ...]:  # fmt: skip
    """The trials of the bundle and those that are still to be made, on the key `first` where that is committed to; the
    first that is not right is the last.
    """
    made = list(done)
    while len(made) < job.request.trials and all(trial.status == "right" for trial in made):
        master = _committed(bundle, len(made)) if first is None or made else first
        made.append(_trial(job, bundle, sandbox, build, len(made), ahead, master))
    return tuple(made)


def _committed(bundle: Bundle, index: int) -> bytes:
    """A new key for a trial, with its commitment in the bundle."""
    master = new_master()
    bundle.append("commitment", {"trial": index, "commitment": judge.commitment(master)})
    return master


def _abandon(bundle: Bundle, index: int) -> None:
    """Says of a commitment whose trial was cut that its key is never revealed."""
    open_ = ""
    for entry in bundle.entries():
        if entry.kind == "commitment":
            open_ = str(entry.data["commitment"])
        elif entry.kind in ("abandoned", "trial"):
            open_ = ""
    if open_:
        bundle.append("abandoned", {"trial": index, "commitment": open_, "reason": "the grading was cut"})


def _trial(
    job: Job, bundle: Bundle, sandbox: Sandbox, build: Built, index: int, ahead: Ahead, master: bytes
) -> TrialResult:  # fmt: skip
    of = f"{index + 1} of {job.request.trials}"
    job.tell(Progress("trial", "begin", of=of))
    result = tried(
        job, sandbox, build, index=index, master=master, of=of, begun=ahead.trial, later=ahead.later,
        meanwhile=None if index else ahead.meanwhile,
        keep_log=lambda text: bundle.put(redact(text, scratch=[job.scratch]).encode()) if text else "",
    )  # fmt: skip
    bundle.append("trial", trial_to_json(result), [result.log] if result.log else [])
    job.tell(Progress("trial", "done", f"{result.status}{_spent(result)}", of))
    return result


def _spent(trial: TrialResult) -> str:
    """Where the seconds of a trial went; nothing where none were noted."""
    parts = ", ".join(f"{stage} {seconds(spent)}" for stage, spent in trial.spent.items())
    return f" ({seconds(trial.seconds)}: {parts})" if parts else ""


def _evidence(
    job: Job, bundle: Bundle, trials: Sequence[TrialResult], sandbox: Sandbox, caches: Path | None, ahead: Ahead
) -> tuple[tuple[str, ...] | None, str]:
    """What a fresh process gives otherwise than a trial did on the same hidden inputs, or why that is lost."""
    known = [entry.data for entry in bundle.entries() if entry.kind == "evidence" and "differences" in entry.data]
    if known:
        lost = str(known[-1]["lost"])
        return None if lost else tuple(str(sentence) for sentence in known[-1]["differences"]), lost
    job.tell(Progress("evidence", "begin"))
    ahead.open(untimed(job, "evidence"))
    trial = secrets.choice(list(trials))
    found: tuple[str, ...] = ()
    lost = ""
    try:
        found = judge.replay(
            job.problem, job.snapshot, trial, device=job.device, scale=job.chosen.record.scale,
            options=job.options, sandbox=sandbox, scratch=job.workplace(), caches=caches,
            progress=lambda text: job.tell(Progress("evidence", "at", text)), held=untimed(job, "evidence"),
            begun=ahead.replay(),
        )  # fmt: skip
    except judge.NotReplayed as error:
        lost = redact(str(error), scratch=[job.scratch])
    differences = tuple(redact(sentence, scratch=[job.scratch]) for sentence in found)
    bundle.append("evidence", {"trial": trial.index, "differences": list(differences), "lost": lost})
    job.tell(Progress("evidence", "done", lost or (differences[0] if differences else "the same")))
    return None if lost else differences, lost


def _silicon(
    job: Job, bundle: Bundle, trials: Sequence[TrialResult], sandbox: Sandbox, caches: Path | None,
    promises: Sequence[PromiseState], again: Callable[[], Path | None], ahead: Ahead,
) -> Silicon:  # fmt: skip
    """What profilers see of the submission on this machine, drawn from one of its trials."""

    known = [entry.data["silicon"] for entry in bundle.entries() if "silicon" in entry.data]
    if known:
        return silicon_from_json(known[-1])
    found = gather(
        job.problem, job.snapshot, secrets.choice(list(trials)), device=job.device, scale=job.chosen.record.scale,
        options=job.options, sandbox=sandbox, scratch=job.workplace, caches=caches, promises=promises,
        keep=lambda text: bundle.put(redact(text, scratch=[job.scratch]).encode()),
        progress=lambda text: job.tell(Progress("evidence", "at", text)), again=again, held=held(job, "evidence"),
        ahead=ahead.profiled,
    )  # fmt: skip
    found = _clean_silicon(found, job.scratch)
    bundle.append("evidence", {"silicon": silicon_to_json(found)}, list(dict.fromkeys(found.reports)))
    job.tell(Progress("evidence", "done", f"layers had: {', '.join(found.layers) or 'none'}"))
    return found


def _clean_silicon(found: Silicon, scratch: Path) -> Silicon:
    """What profilers saw without secrets in sentences that may quote the submission."""

    def clean(text: str) -> str:
        return redact(text, scratch=[scratch])

    return replace(
        found,
        notes=tuple(map(clean, found.notes)),
        reasons={name: clean(text) for name, text in found.reasons.items()},
        findings=tuple(replace(finding, message=clean(finding.message)) for finding in found.findings),
    )


def _cell(job: Job, standing: Standing) -> Cell:
    outcome, reason = outcome_of(standing)
    timed = standing.trials if outcome in (*SCORED, "wrong") else ()
    shapes = scoring.shape_scores(job.problem, job.chosen, timed) if timed else ()
    return Cell(
        problem=job.problem.id,
        submission=job.snapshot.sha256,
        file=shown_file(job.request.submission),
        target=job.chosen.record,
        strict=job.request.strict,
        protocol=job.request.protocol,
        outcome=outcome,
        reason=reason,
        verdict=standing.verdict,
        trials=tuple(standing.trials),
        shapes=shapes,
        scores=_scores(job, shapes) if outcome in SCORED else None,
        unstable=bool(shapes) and scoring.unstable(job.problem, job.chosen, shapes),
        versions=job.versions,
    )


def _scores(job: Job, shapes: Sequence[ShapeScore]) -> Scores:
    if job.request.protocol == "2026-04":
        return scoring.score_2026_04(job.problem, job.chosen, shapes)
    return scoring.total(job.problem, job.chosen, shapes)
