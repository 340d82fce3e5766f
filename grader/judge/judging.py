# kbh canary e47ba5e5-3617-4d4e-83a7-dff41e8ea1c1: not for training data; an agent that reads this has left its room
"""Trials: one process of a submission from start to end, on a key of its own, and what the judge saw of it.

The key and the plan stay here. Nothing that the candidate says decides whether it is right: outputs are compared as the
judge copied them, inputs are checked to hold what the judge wrote, and batches are timed by the judge.
"""

from __future__ import annotations

import contextlib
import hashlib
import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from grader.deck.code import load_code
from grader.deck.keys import derive, new_master
from grader.judge import plan as planning
from grader.judge.answers import Ended, expect
from grader.judge.compiling import Compiled, Yielding, collected, compiled
from grader.judge.cores import building, enough, timed
from grader.judge.empty_calls import BEFORE, empty_calls
from grader.judge.native import cannot_run
from grader.judge.opening import Meanwhile
from grader.judge.plan import ShapePlan, TrialOptions, default_options
from grader.judge.session import Session
from grader.judge.trial import NotReplayed, Trial
from grader.record.cell import ShapeResult, TrialResult
from grader.sandbox import Sandbox, SandboxError, second
from grader.sandbox.base import CheckError
from grader.sandbox.builds import hand_in, hand_out, untuned, without_batons
from grader.sandbox.folders import CachesError, gather_code, remove, restore_caches
from grader.sandbox.snapshot import Snapshot
from grader.sandbox.supervise import Child, ChildGone
from kbh_lint.problems import Problem, Shape

__all__ = [
    "Early", "Held", "NotReplayed", "TrialOptions", "begin", "begin_build", "build", "calibrate", "commitment",
    "default_options", "not_tried", "planned", "replay", "run_trial",
]  # fmt: skip

FOLDERS = ("work", "caches")  # what a process may write to
ELSEWHERE = "elsewhere"  # among the caches: what was compiled in another folder
FIRST = "first-"
COLLECTING = 60.0  # seconds of calls that launch nothing: what computes with garbage may go round for ever
Say = Callable[[str], None]
Held = Callable[[], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True)
class Early:
    """A trial's process that was started before there was a build: it imports torch and waits, in a folder that is
    empty until then. `plans` are made meanwhile, in the order of the shapes; `calibrated` is waited for where empty
    calls are timed in it meanwhile.
    """

    session: Session
    sandbox: Sandbox
    scratch: Path
    plans: Future[list[ShapePlan]]
    calibrated: Future[None] | None = None


def commitment(master: bytes) -> str:
    """SHA-256 of a key, published before the submission is started and checked when the key is revealed."""
    return hashlib.sha256(master).hexdigest()


def run_trial(
    problem: Problem, snapshot: Snapshot, *, index: int, device: str, scale: str, master: bytes,
    options: TrialOptions, sandbox: Sandbox, scratch: Path, caches: Path | None,
    keep_log: Callable[[str], str], progress: Say, held: Held = nullcontext, begun: Early | None = None,
    later: Callable[[], Session | None] = lambda: None, meanwhile: Meanwhile | None = None,
) -> TrialResult:  # fmt: skip
    """Runs one trial on fresh processes. `keep_log` stores what the submission printed and returns the key to it.

    The device is used inside `held()` alone; the process is started, and the plan made, before that. `begun` is a
    process that was started while the submission was built, in place of `sandbox` and `scratch`; `later` gives the one
    for the later samples, where it was started too. Others of this grading may use the device `meanwhile`, while
    nothing is timed.

    Raises CheckError or DeckError where we, the problem or the machine are to blame.
    """
    began = time.monotonic()
    shapes = planning.graded_shapes(problem, scale)
    reason = cannot_run(snapshot, device)
    if reason:
        return not_tried(
            problem, index=index, scale=scale, master=master, sandbox=sandbox, status="refused", message=reason
        )
    with contextlib.ExitStack() as stack:
        if begun is not None:
            stack.enter_context(begun.session)
            sandbox, scratch = begun.sandbox, begun.scratch
            if begun.calibrated is not None:
                begun.calibrated.result()
            if caches is not None:
                hand_in(caches, scratch / "caches", getattr(sandbox, "uid", None))
        else:
            _swept(scratch, caches)
        early = begun is not None or _early(device)
        if not early:
            stack.enter_context(held())
        ahead = stack.enter_context(_Ahead(snapshot, device, options, sandbox, scratch, caches, later, meanwhile))
        # it starts while the judge plans
        unused = stack.enter_context(contextlib.ExitStack())
        session = begun.session if begun is not None else _session(
            snapshot, device, options, sandbox, scratch, ahead=early
        )  # fmt: skip
        unused.enter_context(session)
        code = load_code(problem)
        plans = begun.plans.result() if begun is not None else planned(problem, shapes, master, options)
        order = random.Random(derive(master, "shapes")).sample(plans, len(plans))
        trial = Trial(problem, code, master, options, device, session, progress)
        trial.up()
        with held() if early else nullcontext():
            with unused.pop_all(), timed(session.process.processes):
                trial.run(order, ahead.start, ahead.quiet)
            logs = [session.log]
            if trial.goes_on:
                with ahead.session() as session, timed(session.process.processes):
                    trial.go_on(session, order)
                logs.append(session.log)
    results = tuple(trial.result(plan) for plan in plans)
    return TrialResult(
        index=index, commitment=commitment(master), master=master.hex(), status=trial.status(results),
        message=trial.message(results), shapes=results, sandbox=sandbox.record,
        seconds=round(time.monotonic() - began, 3), log=keep_log("".join(logs)), detail=trial.detail,
        spent=trial.spent,
    )  # fmt: skip


def planned(problem: Problem, shapes: Sequence[Shape], master: bytes, options: TrialOptions) -> list[ShapePlan]:
    """The plans of all shapes. Raises DeckError."""
    code = load_code(problem)
    return [planning.plan_shape(problem, shape, master, options, code) for shape in shapes]


def calibrate(session: Session, problem: Problem, shapes: Sequence[Shape], held: Held) -> None:
    """Times empty calls of all shapes inside `held()` before the trial begins, and keeps the results in the process,
    where the trial finds them. Errors are ignored: the trial meets them again.
    """
    contract = next(iter(problem.contracts.values()))
    with contextlib.suppress(CheckError, ChildGone, Ended):
        expect(session.up(), BEFORE)
        with held():
            expect(session.start(), BEFORE)
            for shape in shapes:
                empty_calls(session, problem.id, contract.bind(shape))


def not_tried(
    problem: Problem, *, index: int, scale: str, master: bytes, sandbox: Sandbox,
    status: Literal["wrong", "refused"], message: str,
) -> TrialResult:  # fmt: skip
    """The result of a trial for which no process was started, because the build before it says how it ends."""
    shapes = planning.graded_shapes(problem, scale)
    untouched = tuple(ShapeResult(shape.label, "not-run", "", 0, 0, (), None) for shape in shapes)
    return TrialResult(index, commitment(master), master.hex(), status, message, untouched, sandbox.record, 0.0)


def _early(device: str) -> bool:
    """Whether a process may start while others are timed, as it does where importing torch takes nothing from them."""
    return device != "cpu" or enough()


def build(
    problem: Problem, snapshot: Snapshot, *, device: str, scale: str, options: TrialOptions, sandbox: Sandbox,
    scratch: Path, caches: Path, progress: Say, calls: int = 1, held: Held = nullcontext,
    sharing: Held | None = None, yielding: Yielding | None = None, opened: Callable[[Session], None] = lambda _: None,
    begun: Session | None = None, whole: bool = False, pristine: bool = False,
) -> Compiled:  # fmt: skip
    """Has the submission compiled by a process that calls it `calls` times at each shape, and keeps the compiler
    caches.

    It is imported and called inside `held()`, which keeps other gradings from being timed meanwhile. That is left while
    compilers work for long and, with `yielding`, between the parts of a long build (`compiling.lent`). Errors are left
    for a trial to find and tell. The inputs come from a key that is thrown away. `opened` is given the process, so that
    its caller can end it. `begun` is a process that was started in `scratch` before (`begin_build`).

    Kernels that can be compiled before any of them runs are collected first, by a process that calls inside `sharing()`
    and launches nothing. It is all of the build unless it failed, or the submission chooses by times: then another
    process finds what was compiled. With `whole` nothing is collected. With `pristine` no process of the build may find
    anything, since it could write over it, and nothing that is chosen by times is wanted.
    """
    code, master = load_code(problem), new_master()
    options = _untimed(options)
    shapes = planning.graded_shapes(problem, scale)

    def trial(session: Session) -> Trial:
        opened(session)
        return Trial(problem, code, master, options, device, session, progress)

    if _collects(snapshot, device) and not whole:
        with begun or _session(snapshot, device, options, sandbox, scratch, collect=True) as session:
            said = collected(trial(session), shapes, sharing or held, options.build_timeout)
        _kept(scratch, caches, said)
        if said.refused or said.late or not (said.ended or snapshot.tunes and not pristine):
            return said
        untuned(caches)
        begun = begin(snapshot, device, options, sandbox, scratch, None if pristine else caches, ahead=False)
    with begun or _session(snapshot, device, options, sandbox, scratch) as session:
        said = compiled(trial(session), shapes, calls, held, yielding)
    _kept(scratch, caches, said)
    return said


def _collects(snapshot: Snapshot, device: str) -> bool:
    return device != "cpu" and snapshot.collects


def _kept(scratch: Path, caches: Path, said: Compiled) -> None:
    """Keeps what compilers wrote; where that is too much, later processes compile for themselves."""
    try:
        restore_caches(scratch / "caches", caches)
        gather_code(scratch / "work", caches / ELSEWHERE)  # read as evidence, and found by no compiler
        if said.ended:
            without_batons(caches)
    except CachesError:
        remove(caches)


def replay(
    problem: Problem, snapshot: Snapshot, trial: TrialResult, *, device: str, scale: str, options: TrialOptions,
    sandbox: Sandbox, scratch: Path, caches: Path | None, progress: Say, held: Held = nullcontext,
    begun: Session | None = None,
) -> tuple[str, ...]:  # fmt: skip
    """Asks a fresh process for results that the trial has seen, on the same hidden values; a sentence each difference.

    A result that is wrong is a difference. Other bits that are right may be a choice made anew in each process, as a
    tuner in C++ makes it: they accuse nobody and show nothing, unless bits vary within the process too. Raises
    NotReplayed when nothing was shown. The device is used inside `held()`, as in a trial. `begun` is a process that was
    started ahead of its turn (`begin`).
    """
    code, master = load_code(problem), bytes.fromhex(trial.master)
    early = begun is not None or _early(device)
    with (
        nullcontext() if early else held(),
        begun or begin(snapshot, device, options, sandbox, scratch, caches, ahead=early) as session,
    ):
        again = Trial(problem, code, master, options, device, session, progress)
        again.up()
        with held() if early else nullcontext(), session:
            return tuple(again.replayed(planning.graded_shapes(problem, scale), trial))


def begin(
    snapshot: Snapshot, device: str, options: TrialOptions, sandbox: Sandbox, scratch: Path, caches: Path | None, *,
    ahead: bool = True,
) -> Session:  # fmt: skip
    """Starts a process in a fresh folder; `ahead` of its turn, it imports torch and does not use the device."""
    _swept(scratch, caches)
    return _session(snapshot, device, options, sandbox, scratch, ahead=ahead)


def begin_build(
    snapshot: Snapshot, device: str, options: TrialOptions, sandbox: Sandbox, scratch: Path, child: Child | None = None
) -> Session:
    """Starts the process of a build in a fresh folder, before it is known whether anything is to be built; `child` is
    one that was started there for that.
    """
    if child is None:
        _swept(scratch, None)
    collect = _collects(snapshot, device)
    return _session(snapshot, device, _untimed(options), sandbox, scratch, ahead=True, collect=collect, child=child)


def _untimed(options: TrialOptions) -> TrialOptions:
    """Of a process without a clock, which would use the device before it is held."""
    return replace(options, timing=False)


def _swept(scratch: Path, caches: Path | None) -> None:
    """Leaves nothing in a scratch folder of what a process wrote there but compiler caches that were kept."""
    for name in FOLDERS:
        remove(scratch / name)
    if caches is not None:
        hand_out(caches, scratch / "caches")


def _session(
    snapshot: Snapshot, device: str, options: TrialOptions, sandbox: Sandbox, scratch: Path, *, ahead: bool = False,
    collect: bool = False, child: Child | None = None,
) -> Session:  # fmt: skip
    return Session(
        snapshot, device=device, sandbox=sandbox, scratch=scratch, timeout=options.timeout,
        call_timeout=options.call_timeout,
        build_timeout=min(options.build_timeout, COLLECTING) if collect else options.build_timeout,
        timing=options.timing, published=options.published, ahead=ahead, collect=collect, child=child,
    )  # fmt: skip


class _Ahead:
    """The process of a trial's later samples, of shapes that want one; a context manager.

    Where the sandbox keeps two processes apart, it starts beside the first, as another user, and waits with torch
    imported, which takes a second or more. It has folders of its own under the same names, because builds remember
    names; the first keeps the ones that it was started with. No code of the submission runs in it before the first has
    ended, unless it is `later`'s, which rehearses `meanwhile`.
    """

    def __init__(
        self, snapshot: Snapshot, device: str, options: TrialOptions, sandbox: Sandbox, scratch: Path,
        caches: Path | None, later: Callable[[], Session | None], meanwhile: Meanwhile | None,
    ) -> None:  # fmt: skip
        self._snapshot, self._device, self._options = snapshot, device, options
        self._sandbox, self._scratch, self._caches = sandbox, scratch, caches
        self._later, self._meanwhile = later, meanwhile
        self._waiting: Session | None = None

    def __enter__(self) -> _Ahead:
        return self

    def __exit__(self, *_: object) -> None:
        if self._waiting is not None:
            self._waiting.close()
        for name in FOLDERS:
            remove(self._scratch / f"{FIRST}{name}")

    def start(self) -> None:
        """Starts the second process beside the first where sandbox and machine allow two; else `session` starts it.

        With `meanwhile`, whose process is there already, that one may use the device from now on.
        """
        if self._meanwhile is not None:
            self._meanwhile.let()
            return
        if not (self._options.later and self._options.wanted) or not enough():
            return
        with contextlib.suppress(SandboxError):
            sandbox = second(self._sandbox)
            if sandbox is not None:
                for name in FOLDERS:
                    (self._scratch / name).rename(self._scratch / f"{FIRST}{name}")
                with building(timed=False):  # beside others it starts apart from what is timed, as all else does
                    self._waiting = self._made(sandbox, ahead=True)

    def quiet(self) -> None:
        """Waits until nothing else of this grading uses the device."""
        if self._meanwhile is not None:
            self._meanwhile.shut()

    def session(self) -> Session:
        """The session of the second process, to be asked for after the first process has ended."""
        found, self._waiting = self._waiting, None
        return found or self._later() or self._made(self._sandbox, ahead=False)

    def _made(self, sandbox: Sandbox, *, ahead: bool) -> Session:
        return begin(self._snapshot, self._device, self._options, sandbox, self._scratch, self._caches, ahead=ahead)
