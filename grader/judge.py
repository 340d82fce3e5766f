"""Trials: one process of a submission from start to end, on a key of its own, and what the judge saw of it.

The key and the plan stay here. Nothing that the candidate says decides whether it is right: outputs are compared as the
judge copied them, inputs are checked to hold what the judge wrote, and batches are timed by the judge.
"""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from grader import plan as planning
from grader.cell import ShapeResult, TrialResult
from grader.deck import load_code
from grader.keys import derive, new_master
from grader.native import cannot_run
from grader.plan import TrialOptions, default_options
from grader.sandbox import Sandbox
from grader.session import Session
from grader.supervise import CachesError, Snapshot, remove, restore_caches
from grader.trial import Compiled, NotReplayed, Trial
from kbh_lint.problems import Problem

__all__ = ["NotReplayed", "TrialOptions", "build", "commitment", "default_options", "replay", "run_trial"]

Say = Callable[[str], None]
Held = Callable[[], AbstractContextManager[None]]


def commitment(master: bytes) -> str:
    """SHA-256 of a key, published before the submission is started and checked when the key is revealed."""
    return hashlib.sha256(master).hexdigest()


def run_trial(
    problem: Problem, snapshot: Snapshot, *, index: int, device: str, scale: str, master: bytes,
    options: TrialOptions, sandbox: Sandbox, scratch: Path, caches: Path | None,
    keep_log: Callable[[str], str], progress: Say,
) -> TrialResult:  # fmt: skip
    """One trial on fresh processes. `keep_log` stores what the submission printed and returns the key to it.

    Raises CheckError or DeckError where we, the problem or the machine are to blame.
    """
    began = time.monotonic()
    shapes = planning.graded_shapes(problem, scale)
    reason = cannot_run(snapshot, device)
    if reason:
        untouched = tuple(ShapeResult(shape.label, "not-run", "", 0, 0, (), None) for shape in shapes)
        return TrialResult(index, commitment(master), master.hex(), "refused", reason, untouched, sandbox.record, 0.0)
    _swept(scratch, caches)
    with _session(snapshot, device, options, sandbox, scratch) as session:  # it starts while the judge plans
        code = load_code(problem)
        plans = [planning.plan_shape(problem, shape, master, options, code) for shape in shapes]
        order = random.Random(derive(master, "shapes")).sample(plans, len(plans))
        trial = Trial(problem, code, master, options, device, session, progress)
        trial.run(order)
    logs = [session.log]
    if trial.goes_on:
        _swept(scratch, caches)
        with _session(snapshot, device, options, sandbox, scratch) as session:
            trial.go_on(session, order)
        logs.append(session.log)
    results = tuple(trial.result(plan) for plan in plans)
    return TrialResult(
        index=index, commitment=commitment(master), master=master.hex(), status=trial.status(results),
        message=trial.message(results), shapes=results, sandbox=sandbox.record,
        seconds=round(time.monotonic() - began, 3), log=keep_log("".join(logs)), detail=trial.detail,
        spent=trial.spent,
    )  # fmt: skip


def build(
    problem: Problem, snapshot: Snapshot, *, device: str, scale: str, options: TrialOptions, sandbox: Sandbox,
    scratch: Path, caches: Path, progress: Say, calls: int = 1, held: Held = nullcontext,
) -> Compiled:  # fmt: skip
    """Has the submission compiled in a process of its own, so many calls a shape, and keeps the compiler caches.

    It is imported before, and called inside, `held()`, which keeps other gradings from being timed meanwhile. What goes
    wrong, a trial finds again and tells. The values come from a key that is thrown away.
    """
    code, master = load_code(problem), new_master()
    with _session(snapshot, device, options, sandbox, scratch) as session:
        trial = Trial(problem, code, master, options, device, session, progress)
        said = trial.compile(planning.graded_shapes(problem, scale), calls, held)
    try:
        restore_caches(scratch / "caches", caches)
    except CachesError:  # later processes compile for themselves
        remove(caches)
    return said


def replay(
    problem: Problem, snapshot: Snapshot, trial: TrialResult, *, device: str, scale: str, options: TrialOptions,
    sandbox: Sandbox, scratch: Path, caches: Path | None, progress: Say,
) -> tuple[str, ...]:  # fmt: skip
    """Asks a fresh process for results that the trial has seen, on the same hidden values; a sentence each difference.

    A result that is wrong is a difference. Other bits that are right may be a choice made anew in each process, as
    autotuning is: they accuse nobody and show nothing, unless bits vary within the process too. Raises NotReplayed when
    nothing was shown.
    """
    code, master = load_code(problem), bytes.fromhex(trial.master)
    _swept(scratch, caches)
    with _session(snapshot, device, options, sandbox, scratch) as session:
        again = Trial(problem, code, master, options, device, session, progress)
        return tuple(again.replayed(planning.graded_shapes(problem, scale), trial))


def _swept(scratch: Path, caches: Path | None) -> None:
    """Leaves nothing in a scratch folder of what a process wrote there but compiler caches that were kept."""
    for name in ("work", "caches"):
        remove(scratch / name)
    if caches is not None:
        restore_caches(caches, scratch / "caches")


def _session(snapshot: Snapshot, device: str, options: TrialOptions, sandbox: Sandbox, scratch: Path) -> Session:
    return Session(
        snapshot, device=device, sandbox=sandbox, scratch=scratch, timeout=options.timeout,
        call_timeout=options.call_timeout, timing=options.timing, published=options.published,
    )  # fmt: skip
