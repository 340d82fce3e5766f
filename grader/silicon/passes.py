"""Fresh processes that are asked again for results of a trial, with a profiler beside them."""

from __future__ import annotations

import os
import random
import stat
from collections.abc import Callable, Mapping, Sequence, Set
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import torch

from grader.deck.against import hold
from grader.deck.cases import Case, CaseSpec, materialise, model_group
from grader.deck.code import Code, load_code
from grader.deck.digest import digest_of
from grader.judge import plan as planning
from grader.judge.plan import TrialOptions
from grader.judge.session import Session
from grader.judge.turns import counters
from grader.record.cell import CaseOutcome, TrialResult
from grader.sandbox import Sandbox, SandboxError
from grader.sandbox.builds import hand_out
from grader.sandbox.snapshot import Snapshot
from grader.sandbox.supervise import Child, ChildGone
from grader.silicon.kernels import Tracing, parse_trace
from grader.silicon.loaded import loaded_code
from grader.silicon.machine_code import MachineCode, collect
from grader.silicon.ncu import (
    Launch,
    Ncu,
    Profiled,
    ProfilerError,
    Unavailable,
    find_ncu,
    may_count,
    parse,
    report_beside,
)
from grader.silicon.sass.census import Census
from grader.silicon.tools import ToolError
from grader.wire.frames import Frame, Kind, clean_text
from grader.wire.marks import MARK, UNSEEN_CALLS, Instrument
from kbh_lint.problems import Problem, Shape

__all__ = [
    "MARKED_CALLS", "TRACED_CALLS", "Begun", "Bench", "Counted", "Counting", "Traces", "arch_of", "begin", "count",
    "expect", "same_results", "trace",
]  # fmt: skip

MARKED_CALLS = 1  # the counters repeat, and every call costs a run of each kernel for each group of metrics
TRACED_CALLS = 2  # of which the quickest counts; each holds the device for 0.2 s
MOST_LOADS = 4  # of a model whose right results have other bits than the trial's
REPORT = Path("work", "ncu.csv")
TRACES = Path("work", "tmp")  # TMPDIR of the process
MOST_REPORT = 32 << 20  # bytes
MOST_TRACE = 64 << 20
EXIT_SECONDS = 120.0
ACCELERATED = 9  # the first major version whose tensor cores need code for that very chip


@dataclass(frozen=True, slots=True)
class Begun:
    """A process with an instrument beside it that has imported torch, or is about to, and has not used the device.

    Its folder is its own until all of the evidence is read where it was started ahead of its turn, and else the next
    process gets it. `counts` is Nsight Compute, with the table that it writes. `opened` is waited for where another
    thread has the submission imported and rehearsed (`opened`), and says whether the process can be used further; for
    counters, `turn` holds those of the device since before that.
    """

    session: Session
    scratch: Path
    counts: Profiled | None = None
    own: bool = False
    opened: Future[bool] | None = None
    turn: ExitStack | None = None

    def end(self) -> None:
        """Ends a process that was started ahead and is not needed. Raises what a sandbox raises."""
        with self.turn or nullcontext():
            self.session.close()


def _none_ahead(instrument: Instrument) -> Begun | None:
    return None


@dataclass(frozen=True, slots=True)
class Bench:
    """What all passes share. `scratch` gives a fresh folder, always at the same path; `keep` stores a raw text,
    `held` holds the device, and `ahead` gives the process of an instrument that was started before, if one was.
    `known` has the machine code that was read, by its bytes: that of a second build is mostly that of the first.
    """

    problem: Problem
    snapshot: Snapshot
    trial: TrialResult
    device: str
    scale: str
    options: TrialOptions
    sandbox: Sandbox
    scratch: Callable[[], Path]
    caches: Path | None
    keep: Callable[[str], str]
    say: Callable[[str], None]
    held: Callable[[], AbstractContextManager[None]] = nullcontext
    ahead: Callable[[Instrument], Begun | None] = _none_ahead
    known: dict[str, tuple[Census, ...]] = field(default_factory=dict)

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """The graded shapes of which results can be asked for again."""
        seen = {result.shape for result in self.trial.shapes if any(case.digest for case in result.cases)}
        return tuple(shape for shape in planning.graded_shapes(self.problem, self.scale) if shape.label in seen)

    @property
    def copied(self) -> set[str]:
        """Shapes whose models may be copies of one that is slow to make, as they were in the trial."""
        return {result.shape for result in self.trial.shapes if result.copied}

    def case(self, label: str) -> CaseOutcome:
        """A hidden case of the shape `label` that the trial compared, drawn at random now."""
        result = next(result for result in self.trial.shapes if result.shape == label)
        return random.SystemRandom().choice([case for case in result.cases if case.digest])


@dataclass(frozen=True, slots=True)
class Counted:
    """The launches of each marked call of each shape, and what differed from the trial.

    `differences` are shapes with other results than the trial's, and whether those were right at least. `text` is the
    raw report, `report` its key where it is kept. `code` is the
    machine code in the caches of that process, and `loaded` what the driver had loaded for each launch, by its number;
    or why they cannot be read here.
    """

    calls: dict[str, tuple[tuple[Launch, ...], ...]]
    differences: Mapping[str, bool]
    text: str
    code: MachineCode | ToolError
    loaded: Mapping[int, Census] | ToolError
    report: str = ""

    @property
    def launched(self) -> set[str]:
        """The names of all kernels that were counted."""
        return {launch.kernel for calls in self.calls.values() for launches in calls for launch in launches}


@dataclass(frozen=True, slots=True)
class Traces:
    """The timelines of each marked call of each shape, what differed from the trial, and the keys of the raw texts."""

    calls: dict[str, tuple[Tracing, ...]]
    differences: Mapping[str, bool]
    reports: tuple[str, ...]


def begin(
    instrument: Instrument, snapshot: Snapshot, *, device: str, options: TrialOptions, sandbox: Sandbox, scratch: Path,
    caches: Path | None, metrics: Sequence[str], own: bool = False, child: Child | None = None,
) -> Begun:  # fmt: skip
    """Starts a submission's process under an instrument in a fresh folder; `child` is a process that was started there
    for that.

    Raises Unavailable where the instrument cannot be had, and what a sandbox raises.
    """
    profiled = Profiled(sandbox, instrument)
    if instrument == "counters":
        profiled = _counting(sandbox, scratch / REPORT, metrics)
    elif not torch.profiler.kineto_available():
        raise Unavailable("this torch was built without a profiler")
    if caches is not None:
        hand_out(caches, scratch / "caches")
    session = Session(
        snapshot, device=device, sandbox=profiled, scratch=scratch, timeout=options.timeout,
        call_timeout=options.timeout, build_timeout=options.build_timeout, timing=False, ahead=True, child=child,
    )  # fmt: skip
    return Begun(session, scratch, profiled if instrument == "counters" else None, own)


def _counting(sandbox: Sandbox, log: Path, metrics: Sequence[str]) -> Profiled:
    ncu = find_ncu()
    if sandbox.record.traits.no_counters:
        raise Unavailable(sandbox.record.traits.no_counters)
    if not may_count(sandbox.record.uid):
        raise Unavailable("the driver lets only root read its counters (RmProfilingAdminOnly)")
    log.parent.mkdir(parents=True, exist_ok=True)
    return Profiled(sandbox, "counters", ncu, tuple(metrics), log)


def count(bench: Bench, metrics: Sequence[str]) -> Counting:
    """Runs every shape once more under Nsight Compute. Raises ProfilerError, and Unavailable where counters cannot be
    read.
    """
    begun = _begun(bench, "counters", metrics)
    models, differences = _asked(bench, begun, MARKED_CALLS)
    return Counting(bench, begun, tuple(metrics), models, differences)


@dataclass(frozen=True, slots=True)
class Counting:
    """A process that was counted and has ended; what it wrote, compiled and loaded is still to be read."""

    bench: Bench
    begun: Begun
    metrics: tuple[str, ...]
    models: Mapping[int, str]
    differences: Mapping[str, bool]

    @property
    def keeps(self) -> bool:
        """Whether the files of this pass stay when the next process is started."""
        return self.begun.own

    def read(self) -> Counted:
        """Reads all that Nsight Compute wrote. Stores nothing, so another thread may call it. Raises ProfilerError."""
        bench, profiled = self.bench, self.begun.counts
        assert profiled is not None and profiled.log is not None and profiled.ncu is not None
        text = _text(profiled.log, MOST_REPORT)
        launches = parse(text, self.metrics)
        numbers = range(UNSEEN_CALLS + 1, UNSEEN_CALLS + MARKED_CALLS + 1)
        found = {
            label: tuple(tuple(one for one in launches if (one.model, one.call) == (model, call)) for call in numbers)
            for model, label in self.models.items()
        }
        with ThreadPoolExecutor(1) as other:
            loaded = other.submit(_loaded, bench, report_beside(profiled.log), profiled.ncu, launches)
            code = _code(bench, self.begun.scratch / "caches", launches)
            return Counted(found, self.differences, text, code, loaded.result())


def _code(bench: Bench, caches: Path, launches: Sequence[Launch]) -> MachineCode | ToolError:
    """The machine code that the process had compiled for the GPU that it ran on."""
    try:
        return collect(caches, _arch(launches), bench.sandbox, bench.known)
    except (ToolError, SandboxError) as error:
        return ToolError(str(error))


def _loaded(
    bench: Bench, report: Path, ncu: Ncu, launches: Sequence[Launch]
) -> Mapping[int, Census] | ToolError:  # fmt: skip
    """The machine code that the driver had loaded for each launch."""
    try:
        return loaded_code(report, ncu, bench.sandbox, launches, _arch(launches))
    except ToolError as error:
        return error


def _arch(launches: Sequence[Launch]) -> str:
    """The architecture of the one chip that all launches ran on. Raises ToolError."""
    chips = {launch.capability for launch in launches}
    if len(chips) != 1:
        raise ToolError("no kernel ran" if not chips else "kernels ran on several kinds of GPU")
    return arch_of(chips.pop())


def arch_of(capability: str) -> str:
    """The architecture whose code a chip of a compute capability runs: `sm_90a` for 9.0."""
    major, _, minor = capability.partition(".")
    accelerated = "a" if major.isdigit() and int(major) >= ACCELERATED else ""
    return f"sm_{major}{minor}{accelerated}"


def trace(bench: Bench) -> Traces:
    """Runs every shape once more under torch's profiler. Raises ProfilerError, and Unavailable where torch has none."""
    begun = _begun(bench, "trace", ())
    models, differences = _asked(bench, begun, TRACED_CALLS)
    found, texts = {}, []
    for model, label in models.items():
        calls = []
        for call in range(UNSEEN_CALLS + 1, UNSEEN_CALLS + TRACED_CALLS + 1):
            text = _text(begun.scratch / TRACES / f"{MARK}-{model}-{call}.json", MOST_TRACE)
            calls.append(parse_trace(text))
            texts.append(text)
        found[label] = tuple(calls)
    return Traces(found, differences, tuple(bench.keep(text) for text in texts))


def _begun(bench: Bench, instrument: Instrument, metrics: Sequence[str]) -> Begun:
    """The process that was started ahead, or one that starts now. Raises ProfilerError."""
    bench.say("starting a process beside a profiler")
    early = bench.ahead(instrument)
    if early is not None and (early.opened is None or early.opened.result()):  # it may wait for the device itself
        return early
    if early is not None:
        early.end()
    return begin(
        instrument, bench.snapshot, device=bench.device, options=bench.options, sandbox=bench.sandbox,
        scratch=bench.scratch(), caches=bench.caches, metrics=metrics,
    )  # fmt: skip


def _asked(bench: Bench, begun: Begun, marked: int) -> tuple[dict[int, str], dict[str, bool]]:
    """Asks for results of each shape, `marked` of them for a profiler, and waits for the process's end, while it has
    the device: Nsight Compute gives no counters to two at once. Returns labels by model, and differences.
    """
    code, found = load_code(bench.problem), dict[str, bool]()
    models: dict[int, str] = {}
    turn = nullcontext() if begun.counts is None else begun.turn or counters(bench.device, bench.say)
    with turn, begun.session as session:
        try:
            expect(session.up(), "when it was started")
            with bench.held():
                if begun.opened is None:
                    expect(session.start(), "when it was started")
                    expect(session.submission(), "when it was imported")
                for shape in bench.shapes:
                    bench.say(f"profiling {shape.label}")
                    other = _again(bench, code, session, shape, marked)
                    if other is not None:
                        found[shape.label] = other
                    models[session.loads] = shape.label  # as the process numbers them
                if begun.counts is not None:
                    session.leave(EXIT_SECONDS)  # it writes its report when the process ends by itself
        except ChildGone as gone:
            raise ProfilerError(f"beside a profiler {gone}") from gone
    return models, found


def expect(answer: Frame, when: str) -> None:
    """Raises ProfilerError with what the submission said, if `answer` says that it failed."""
    if answer.kind not in (Kind.READY, Kind.DONE):
        said = clean_text(answer.text.partition("\n")[0], 300) or answer.kind.name
        raise ProfilerError(f"beside a profiler the submission failed {when}: {said}")


def _again(bench: Bench, code: Code, session: Session, shape: Shape, marked: int) -> bool | None:
    """Calls on one input, the last ones marked. None if those gave what the trial saw, else whether they are right.

    The model may be a copy of one that was rehearsed, where the trial had copies; where that gives other results, the
    submission makes one itself.
    """
    seen = bench.case(shape.label)
    spec = CaseSpec(seen.case, "nominal", state=model_group(seen.model))
    master = bytes.fromhex(bench.trial.master)
    case = materialise(bench.problem, shape, spec, master, device=bench.device, code=code, state=None)
    for copies in (True, False) if shape.label in bench.copied else (False,):
        unmarked = set[str]()
        for number in range(MOST_LOADS):  # bits that vary by chance need not vary in two calls
            loaded = session.load(case.binding, [case.state], rounds=planning.LEAST_ROUNDS, copies=copies)
            expect(loaded, f"at {shape.label}")
            right = _results(bench, code, session, case, seen, marked, unmarked, cold=number > 0)
            if not right:
                break
        if right is None or loaded.numbers[:1] != (1.0,):
            break
    return right


def _results(
    bench: Bench, code: Code, session: Session, case: Case, seen: CaseOutcome, marked: int, unmarked: set[str], *,
    cold: bool,
) -> bool | None:  # fmt: skip
    """What `_again` returns, of the model that was loaded; adds what its unmarked calls gave to `unmarked`.

    All calls but the first are made in one place, where a submission that keeps a graph for an address need not make it
    anew. With `cold` each finds an empty L2, as in the trial: blocks that add to one sum come in other orders then.
    """
    shape, master = case.shape, bytes.fromhex(bench.trial.master)
    marks, right = [], True
    for number in range(UNSEEN_CALLS + marked):
        index = min(number, 1)
        if cold:
            session.flush()
        expect(session.call(index, case.inputs, f"run at {shape.label}").answer, f"at {shape.label}")
        outputs = session.outputs(index)
        marks.append(digest_of(outputs, master))
        right &= marks[-1] == seen.digest or hold(bench.problem, code, case, outputs, master).result.ok
    unmarked.update(marks[:UNSEEN_CALLS])
    return None if same_results(unmarked, marks[UNSEEN_CALLS:], seen.digest, right) else right


def same_results(unmarked: Set[str], marked: Sequence[str], trial: str, right: bool) -> bool:
    """Whether the calls that are marked for the profiler gave the trial's results bit for bit, or right ones of a model
    whose unmarked calls already differ from one another.

    Other bits in marked calls alone do not count as chance: they are what a submission gives that sees the marks.
    """
    return set(marked) == {trial} or (len(unmarked) > 1 and right)


def _text(path: Path, most: int) -> str:
    """A file that the submission's process may have made: plain, and not too large. Raises ProfilerError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        raise ProfilerError(f"the profiler wrote no {path.name}") from None
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ProfilerError(f"the profiler's {path.name} is not a file")
        data = file.read(most + 1)
    if len(data) > most:
        raise ProfilerError(f"the profiler's {path.name} has more than {most} bytes")
    return data.decode("utf-8", "replace")
