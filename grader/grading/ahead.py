"""The processes of a grading, started while what comes before them goes on, so that importing torch is not waited for.

That of the build starts while the linter reads, that of the trial while the submission is built, and those of the
evidence pass while the trial runs. Each waits. Two things that take seconds come earlier, and no submission sees them:
while one is read and built, instruments start in their processes, and where compilers leave the device alone meanwhile,
empty calls are timed in the trial's. All but that of the build have a user, a sandbox and a folder of their own.

Where no other grading of the command is timed, those that have a turn after the first calls of the trial import the
submission and try it beside those, while nothing is timed (`grader.judge.opening`). Else no code of it runs in a
process before the replay goes on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import torch

from grader.grading.first import AHEAD, PLACES
from grader.grading.job import Job
from grader.grading.stages import compiles, held, shared_calls
from grader.judge import judging as judge
from grader.judge import plan as planning
from grader.judge.cores import building, enough, kept_away, set_free, shared
from grader.judge.judging import Early
from grader.judge.opening import Meanwhile, Rehearse, Step, Waiting, alike, opened, rehearsal
from grader.judge.session import Session
from grader.judge.turns import counters_at_once
from grader.sandbox import Sandbox, SandboxError, second, seen_at
from grader.sandbox.base import CheckError
from grader.sandbox.builds import hand_in
from grader.sandbox.folders import remove
from grader.sandbox.supervise import Child, ChildGone
from grader.silicon.gather import metrics_of
from grader.silicon.ncu import ProfilerError
from grader.silicon.passes import Begun, begin
from grader.wire.marks import UNSEEN_CALLS, Instrument

__all__ = ["Ahead"]

INSTRUMENTS: tuple[Instrument, ...] = ("counters", "trace")
THREADS = 8  # plans, empty calls, later samples, the replay, and two for each instrument: it begins, it is opened
FAULTS = (CheckError, OSError, ProfilerError, SandboxError)  # what cannot be started ahead is started in its turn
T = TypeVar("T")


class Ahead:
    """A context manager: what was started and not taken is ended with it, and their folders go. `first` gives the
    process of the build where it was started before the job was known, and `tracer` that of the tracer.
    """

    def __init__(
        self, job: Job, first: Callable[[], Child | None] = lambda: None,
        tracer: Callable[[], Child | None] = lambda: None,
    ) -> None:  # fmt: skip
        self._job, self._place, self._first, self._early = job, job.scratch / AHEAD, first, tracer
        self._build: Session | None = None
        self._trial: Early | None = None
        self._replay: Waiting | None = None
        self._later: Waiting | None = None
        self._meanwhile, self._lets = Meanwhile(), False
        self._profiled: dict[Instrument, Begun] = {}
        self._beside_build: dict[Instrument, tuple[Sandbox, Future[None]]] = {}  # those that started beside it
        self._threads = ThreadPoolExecutor(THREADS)

    def __enter__(self) -> Ahead:
        return self

    def __exit__(self, *_: object) -> None:
        self._meanwhile.end()
        early = None if self._trial is None else self._trial.session
        waiting = [one.session for one in (self._replay, self._later) if one is not None]
        for started in (self._build, early, *waiting):
            _end(started)
        for begun in self._profiled.values():
            with contextlib.suppress(OSError, SandboxError):
                begun.end()
        self._threads.shutdown(cancel_futures=True)
        remove(self._place)

    def start_build(self, sandbox: Sandbox) -> None:
        """Starts the process of the build, or takes the one that another thread has started; does nothing where nothing
        is compiled.
        """
        if compiles(self._job) and enough():
            job = self._job
            with contextlib.suppress(*FAULTS), building(job.snapshot.calls_nvcc):
                child = self._first()
                place = job.workplace() if child is None else job.run_folder
                self._build = judge.begin_build(job.snapshot, job.device, job.options, sandbox, place, child)

    def start_tracer(self, sandbox: Sandbox) -> None:
        """Has the tracer begin to use the device while the linter reads, for a submission that is to be traced: that
        takes 5 to 7 s on an H100. Not where others are timed meanwhile.
        """
        if self._job.device != "cpu" and compiles(self._job) and enough() and not shared():
            self._start_instrument(sandbox, "trace", None, self._early)

    def start_trial(self, sandbox: Sandbox, master: bytes) -> None:
        """Starts the process of the first trial, whose key is `master`, and has its plans made; nothing where there is
        no build to be waited for.
        """
        if compiles(self._job) and enough():
            job = self._job

            def trial(own: Sandbox, scratch: Path) -> Early:
                session = judge.begin(job.snapshot, job.device, job.options, own, scratch, None)
                shapes = planning.graded_shapes(job.problem, job.chosen.record.scale)
                plans = self._threads.submit(judge.planned, job.problem, shapes, master, job.options)
                calibrated = None
                if job.snapshot.apart and not shared() and job.options.timing:
                    calibrated = self._threads.submit(judge.calibrate, session, job.problem, shapes, self._quiet)
                return Early(session, own, scratch, plans, calibrated)

            self._trial = self._started("trial", sandbox, trial)

    def _quiet(self) -> AbstractContextManager[None]:
        """The device for empty calls, when the instruments that start beside the build have begun to use it."""
        for _, begun in list(self._beside_build.values()):
            begun.result()
        return held(self._job, "build")()

    def building(self, sandbox: Sandbox, traced: bool) -> Session | None:
        """As `build`, for a build that is made now. If the submission is to be `traced`, the processes under profilers
        start meanwhile.

        None of them starts where others are timed, and the one that reads counters not beside nvcc either, which works
        for long: nobody else could read counters then.
        """
        if traced and self._job.device != "cpu" and enough() and not shared():
            self._start_instrument(sandbox, "trace", None, self._early)
            turn = None if self._job.snapshot.calls_nvcc else counters_at_once(self._job.device)
            if turn is not None:
                self._start_instrument(sandbox, "counters", turn)
        return self.build()

    def _start_instrument(
        self, sandbox: Sandbox, instrument: Instrument, turn: ExitStack | None,
        child: Callable[[], Child | None] = lambda: None,
    ) -> None:  # fmt: skip
        """Starts an instrument's process once, and has it begin to use the device, which counters need a `turn` for."""
        with ExitStack() as unused:
            if turn is not None:
                unused.enter_context(turn)
            if instrument in self._beside_build:
                return
            with kept_away(), contextlib.suppress(*FAULTS):
                own = second(sandbox, PLACES[instrument])
                if own is None:
                    return
                begun = self._beside(instrument, own, self._place / instrument, None, self._metrics(), child())
                unused.pop_all()
                self._profiled[instrument] = replace(begun, turn=turn)
                self._beside_build[instrument] = own, self._threads.submit(self._begin, begun.session)

    def _metrics(self) -> tuple[str, ...]:
        job = self._job
        return metrics_of(".".join(map(str, torch.cuda.get_device_capability(job.device))), job.problem)

    def _begin(self, session: Session) -> None:
        """Has a process begin to use the device; what goes wrong is told when it is used."""
        with contextlib.suppress(*FAULTS, ChildGone):
            session.up()
            with shared_calls(self._job, "build")():
                session.start()

    def _beside(
        self, instrument: Instrument, sandbox: Sandbox, scratch: Path, caches: Path | None, metrics: Sequence[str],
        child: Child | None = None,
    ) -> Begun:  # fmt: skip
        job = self._job
        return begin(
            instrument, job.snapshot, device=job.device, options=job.options, sandbox=sandbox, scratch=scratch,
            caches=caches, metrics=metrics, own=True, child=child,
        )  # fmt: skip

    def start(self, sandbox: Sandbox, caches: Path | None) -> None:
        """Starts the processes of the evidence pass on what was built; none where this machine has too few processors
        left, or where the sandbox does not keep processes apart. A process that cannot be started here is started, or
        its error told, in its turn.
        """
        if self._job.device == "cpu" or not enough():
            return
        job = self._job
        self._lets = self._trial is not None and not (shared() or job.snapshot.tunes)

        def waiting(sandbox: Sandbox, scratch: Path) -> Waiting:
            return Waiting(judge.begin(job.snapshot, job.device, job.options, sandbox, scratch, caches))

        def profiled(instrument: Instrument, sandbox: Sandbox, scratch: Path) -> Begun:
            return self._beside(instrument, sandbox, scratch, caches, self._metrics())

        with kept_away():
            self._replay = self._started("replay", sandbox, waiting)
            if self._lets and job.options.later and job.options.wanted and seen_at(sandbox):
                self._later = self._started("later", sandbox, waiting)  # its folders have the trial's names there
            self._hand_in(caches)
            for instrument in INSTRUMENTS:
                if instrument not in self._profiled:
                    begun = self._started(instrument, sandbox, partial(profiled, instrument))
                    if begun is not None:
                        self._profiled[instrument] = begun
        if self._lets:
            self._open_beside()

    def _hand_in(self, caches: Path | None) -> None:
        """Gives what was built to instruments that started beside the build; where that fails others start."""
        for instrument, (own, _) in self._beside_build.items():
            begun = self._profiled.get(instrument)
            if begun is None or caches is None:
                continue
            try:
                hand_in(caches, begun.scratch / "caches", getattr(own, "uid", None))
            except FAULTS:
                del self._profiled[instrument]
                with contextlib.suppress(OSError, SandboxError):
                    begun.end()
                remove(begun.scratch)

    @property
    def meanwhile(self) -> Meanwhile | None:
        """The gate for work of this grading that may go on beside the first calls of its first trial; None where
        another grading is timed, or where the submission tunes itself and needs the device alone.
        """
        return self._meanwhile if self._lets else None

    def _open_beside(self) -> None:
        """Has the processes that wait import the submission and rehearse it when the first trial lets them."""
        job = self._job
        scale = job.chosen.record.scale
        once = partial(rehearsal, job.problem, scale, job.device, 1)
        timed = partial(alike, job.problem, scale) if job.options.timing else None

        def tried(waiting: Waiting | None, before: Rehearse | None = None) -> Waiting | None:
            if waiting is None:
                return None
            visitor = self._meanwhile.visitor()
            found = self._threads.submit(opened, waiting.session, visitor.step, once, before)
            return replace(waiting, visitor=visitor, opened=found)

        self._replay, self._later = tried(self._replay), tried(self._later, timed)
        self._open_profiled()

    def open(self, held: Callable[[], AbstractContextManager[None]]) -> None:
        """Has the processes beside instruments import the submission and rehearse it, inside `held()`, while the replay
        goes on: their first calls take some seconds.
        """
        _end(self.later())  # nobody wanted it
        waiting = [begun.session for begun in self._profiled.values()]
        for session in (*waiting, *([self._replay.session] if self._replay else [])):
            everywhere(session)
        self._meanwhile.let(held)
        self._open_profiled()

    def _open_profiled(self) -> None:
        """The one that counts is opened in its turn where another grading counts. A submission that tunes is not
        rehearsed: it would have the device alone for that.
        """
        job = self._job
        rehearse = None if job.snapshot.tunes else partial(
            rehearsal, job.problem, job.chosen.record.scale, job.device, UNSEEN_CALLS + 1
        )  # fmt: skip
        for instrument, begun in self._profiled.items():
            if begun.opened is not None:
                continue
            turn = begun.turn
            if instrument == "counters" and turn is None:
                turn = counters_at_once(job.device)
                if turn is None:
                    continue
            step = self._meanwhile.visitor().step
            waited = self._threads.submit(self._opened, instrument, begun.session, step, rehearse)
            self._profiled[instrument] = replace(begun, opened=waited, turn=turn)

    def _opened(self, instrument: Instrument, session: Session, step: Step, rehearse: Rehearse | None) -> bool:
        if instrument in self._beside_build:
            self._beside_build[instrument][1].result()  # two threads must not ask one process
        return opened(session, step, rehearse)

    def build(self) -> Session | None:
        """Hands over the process of the build, once; None where none was started ahead."""
        found, self._build = self._build, None
        return found

    def built(self) -> None:
        """Ends the process of a build that was not needed, because others need the folder that it was started in."""
        _end(self.build())

    def trial(self) -> Early | None:
        """Hands over the process of the first trial, once; None where none was started ahead."""
        found, self._trial = self._trial, None
        return found

    def later(self) -> Session | None:
        """Hands over the process of the first trial's later samples, once; None where none was started ahead."""
        waiting, self._later = self._later, None
        found = _taken(waiting)
        everywhere(found)
        return found

    def replay(self) -> Session | None:
        """Hands over the process of the replay, once; None where none was started ahead."""
        waiting, self._replay = self._replay, None
        return _taken(waiting)

    def profiled(self, instrument: Instrument) -> Begun | None:
        """Hands over the process that was started under a profiler, once; None where there is none."""
        return self._profiled.pop(instrument, None)

    def _started(self, name: str, sandbox: Sandbox, start: Callable[[Sandbox, Path], T]) -> T | None:
        with contextlib.suppress(*FAULTS):
            own = second(sandbox, PLACES[name])
            if own is not None:
                return start(own, self._place / name)
        return None


def everywhere(session: Session | None) -> None:
    """Lets the process of a session, which was kept off the processors of what is timed, run on all of them."""
    if session is not None:
        set_free(session.process.processes())


def _taken(waiting: Waiting | None) -> Session | None:
    if waiting is None:
        return None
    with contextlib.suppress(OSError, SandboxError):
        return waiting.taken()
    return None


def _end(session: Session | None) -> None:
    if session is not None:
        with contextlib.suppress(OSError, SandboxError):
            session.close()
