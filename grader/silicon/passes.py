"""Fresh processes that are asked again for results of a trial, with a profiler beside them."""

from __future__ import annotations

import os
import random
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch

from grader.candidate.clock.profile import MARK, UNSEEN_CALLS
from grader.deck.against import digest_of, hold
from grader.deck.cases import CaseSpec, materialise, model_group
from grader.deck.code import Code, load_code
from grader.judge import plan as planning
from grader.judge.plan import TrialOptions
from grader.judge.session import Session
from grader.record.cell import CaseOutcome, TrialResult
from grader.sandbox import Sandbox, SandboxError
from grader.sandbox.builds import hand_out
from grader.sandbox.supervise import ChildGone, Snapshot
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
from grader.silicon.sass import Census
from grader.silicon.tools import ToolError
from grader.wire.channel import Frame, Kind, clean_text
from kbh_lint.problems import Problem, Shape

__all__ = ["MARKED_CALLS", "TRACED_CALLS", "Bench", "Counted", "Traces", "arch_of", "count", "same_results", "trace"]

MARKED_CALLS = 2  # the counters repeat, and every one costs a run of each kernel for each group of metrics
TRACED_CALLS = 5  # a tracer's times vary by some per cent from call to call
REPORT = Path("work", "ncu.csv")
TRACES = Path("work", "tmp")  # TMPDIR of the process
MOST_REPORT = 32 << 20  # bytes
MOST_TRACE = 64 << 20
EXIT_SECONDS = 120.0
ACCELERATED = 9  # the first major version whose tensor cores need code for that very chip


@dataclass(frozen=True, slots=True)
class Bench:
    """What all passes share. `scratch` gives a fresh folder, always at the same path; `keep` stores a raw text, and
    `held` holds the device.
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

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """The graded shapes of which results can be asked for again."""
        seen = {result.shape for result in self.trial.shapes if any(case.digest for case in result.cases)}
        return tuple(shape for shape in planning.graded_shapes(self.problem, self.scale) if shape.label in seen)

    def case(self, label: str) -> CaseOutcome:
        """A hidden case of a shape that a timed pass saw, drawn now."""
        result = next(result for result in self.trial.shapes if result.shape == label)
        return random.SystemRandom().choice([case for case in result.cases if case.digest])


@dataclass(frozen=True, slots=True)
class Counted:
    """The launches of each marked call of each shape, what differed from the trial, and the key of the raw report.

    `differences` are shapes with other results than the trial's, and whether those were right at least. `code` is the
    machine code in the caches of that process, and `loaded` what the driver had loaded for each launch, by its number;
    or why they cannot be read here.
    """

    calls: dict[str, tuple[tuple[Launch, ...], ...]]
    differences: Mapping[str, bool]
    report: str
    code: MachineCode | ToolError
    loaded: Mapping[int, Census] | ToolError


@dataclass(frozen=True, slots=True)
class Traces:
    """The timelines of each marked call of each shape, what differed from the trial, and the keys of the raw texts."""

    calls: dict[str, tuple[Tracing, ...]]
    differences: Mapping[str, bool]
    reports: tuple[str, ...]


def count(bench: Bench, metrics: Sequence[str]) -> Counted:
    """Every shape once more under Nsight Compute. Raises ProfilerError, and Unavailable where nobody may count."""
    ncu = find_ncu()
    if bench.sandbox.record.kind == "landlock":
        raise Unavailable("Nsight Compute needs a network of its own, which Landlock does not give")
    if not may_count(bench.sandbox.record.uid):
        raise Unavailable("the driver lets only root read its counters (RmProfilingAdminOnly)")
    scratch = bench.scratch()
    log = scratch / REPORT
    log.parent.mkdir(parents=True, exist_ok=True)
    profiled = Profiled(bench.sandbox, "counters", ncu, tuple(metrics), log)
    models, differences = _asked(bench, profiled, scratch, MARKED_CALLS)
    text = _text(log, MOST_REPORT)
    launches = parse(text, metrics)
    numbers = range(UNSEEN_CALLS + 1, UNSEEN_CALLS + MARKED_CALLS + 1)
    found = {
        label: tuple(tuple(one for one in launches if (one.model, one.call) == (model, call)) for call in numbers)
        for model, label in models.items()
    }
    code, loaded = _code(bench, scratch / "caches", launches), _loaded(bench, report_beside(log), ncu, launches)
    return Counted(found, differences, bench.keep(text), code, loaded)


def _code(bench: Bench, caches: Path, launches: Sequence[Launch]) -> MachineCode | ToolError:
    """The machine code that the process had compiled for the GPU that it ran on."""
    try:
        return collect(caches, _arch(launches), bench.sandbox)
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
    """Every shape once more under torch's profiler. Raises ProfilerError, and Unavailable where torch has none."""
    if not torch.profiler.kineto_available():
        raise Unavailable("this torch was built without a profiler")
    scratch = bench.scratch()
    models, differences = _asked(bench, Profiled(bench.sandbox, "trace"), scratch, TRACED_CALLS)
    found, texts = {}, []
    for model, label in models.items():
        calls = []
        for call in range(UNSEEN_CALLS + 1, UNSEEN_CALLS + TRACED_CALLS + 1):
            text = _text(scratch / TRACES / f"{MARK}-{model}-{call}.json", MOST_TRACE)
            calls.append(parse_trace(text))
            texts.append(text)
        found[label] = tuple(calls)
    return Traces(found, differences, tuple(bench.keep(text) for text in texts))


def _asked(bench: Bench, sandbox: Profiled, scratch: Path, marked: int) -> tuple[dict[int, str], dict[str, bool]]:
    """Asks for results of each shape, `marked` of them for a profiler. Returns labels by model, and differences."""
    if bench.caches is not None:
        hand_out(bench.caches, scratch / "caches")
    code, found = load_code(bench.problem), dict[str, bool]()
    models: dict[int, str] = {}
    with Session(
        bench.snapshot, device=bench.device, sandbox=sandbox, scratch=scratch, timeout=bench.options.timeout,
        call_timeout=bench.options.timeout, build_timeout=bench.options.build_timeout, timing=False, ahead=True,
    ) as session:  # fmt: skip
        try:
            bench.say("starting a process beside a profiler")
            _expect(session.up(), "when it was started")
            with bench.held():
                _expect(session.start(), "when it was started")
                _expect(session.submission(), "when it was imported")
                for model, shape in enumerate(bench.shapes, 1):
                    bench.say(f"profiling {shape.label}")
                    other = _again(bench, code, session, shape, marked)
                    if other is not None:
                        found[shape.label] = other
                    models[model] = shape.label
                session.leave(EXIT_SECONDS)
        except ChildGone as gone:
            raise ProfilerError(f"beside a profiler {gone}") from gone
    return models, found


def _again(bench: Bench, code: Code, session: Session, shape: Shape, marked: int) -> bool | None:
    """Calls on one input, the last ones marked. None if those gave what the trial saw, else whether they are right."""
    seen = bench.case(shape.label)
    spec = CaseSpec(seen.case, "nominal", state=model_group(seen.model))
    master = bytes.fromhex(bench.trial.master)
    case = materialise(bench.problem, shape, spec, master, device=bench.device, code=code, state=None)
    _expect(session.load(case.binding, [case.state], rounds=planning.LEAST_ROUNDS), f"at {shape.label}")
    marks, right = [], True
    for number in range(UNSEEN_CALLS + marked):
        index = number % planning.LEAST_ROUNDS
        _expect(session.call(index, case.inputs, f"run at {shape.label}").answer, f"at {shape.label}")
        outputs = session.outputs(index)
        marks.append(digest_of(outputs))
        if marks[-1] != seen.digest:
            right &= hold(bench.problem, code, case, outputs, master).result.ok
    return None if same_results(marks, seen.digest, right) else right


def same_results(marks: Sequence[str], trial: str, right: bool) -> bool:
    """Whether marked calls gave the trial's bits, or right ones from a model whose unmarked calls differ already.

    Other bits in marked calls alone do not count as chance: they are what a submission gives that sees the marks.
    """
    unmarked, marked = set(marks[:UNSEEN_CALLS]), set(marks[UNSEEN_CALLS:])
    return marked == {trial} or (len(unmarked) > 1 and right)


def _expect(answer: Frame, when: str) -> None:
    if answer.kind not in (Kind.READY, Kind.DONE):
        said = clean_text(answer.text.partition("\n")[0], 300) or answer.kind.name
        raise ProfilerError(f"beside a profiler the submission failed {when}: {said}")


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
