"""From what ran, and what was counted, to states of promises and findings.

The proof is in the outputs: a process beside a profiler must give the bits that the timed pass gave for the same hidden
values. What the profilers say is a claim of that process, held against the time that was scored and against each other.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Literal, TypeVar

import torch

from grader.judge.judging import Held
from grader.judge.plan import TrialOptions
from grader.record.cell import FindingRecord, TrialResult
from grader.record.spread import middle
from grader.sandbox import Sandbox
from grader.sandbox.snapshot import Snapshot
from grader.silicon import counters
from grader.silicon import promises as sass
from grader.silicon.counters import Judged
from grader.silicon.kernels import SHARED, SHOWN_NAME, Tracing, library_of, same_sequence
from grader.silicon.machine_code import Kernel, MachineCode
from grader.silicon.ncu import Launch, ProfilerError, Unavailable
from grader.silicon.passes import Begun, Bench, Counted, Counting, Traces, arch_of, count, trace
from grader.silicon.rebuild import Comparison, compiled_again, compiled_beside, lacks, loaded_again, unwritten
from grader.silicon.record import CodeRow, ShapeEvidence, Silicon
from grader.silicon.sass.census import Census
from grader.silicon.shape_evidence import evidence_of
from grader.silicon.tools import ToolError
from grader.wire.marks import Instrument
from kbh_lint.findings import PromiseState, State, Verdict
from kbh_lint.problems import Problem, Promise, Shape
from kbh_lint.verdict import combine

__all__ = ["Judge", "gather", "metrics_of", "tried"]

LIBRARY_SHARE = 0.5  # of a call's time in kernels that the submission did not bring
LIBRARY_OPERATIONS = 0.02  # of the algorithm's operations on tensor cores, in such kernels
TRACED, COUNTED = 1.5, 2.0  # by which kernels may take longer under a tracer, and with counters on and empty caches
SLACK_S = 5e-6  # and for each launch: clocks of a GPU may fall between two processes
READERS = 2  # threads that read the machine code of the two builds
CACHES = 4  # inputs of fewer last-level caches may be found in one whatever is done, and accuse nobody
MISMATCH = "evidence-mismatch"
OTHER_BITS = "its results were not those of the trial, so what ran beside the profiler need not be what was timed"
T = TypeVar("T")
Layer = Literal["sass", "counters"]
Settle = Callable[[Promise, Shape, Sequence[Launch], State], Judged | None]


def gather(
    problem: Problem, snapshot: Snapshot, trial: TrialResult, *, device: str, scale: str, options: TrialOptions,
    sandbox: Sandbox, scratch: Callable[[], Path], caches: Path | None, promises: Sequence[PromiseState],
    keep: Callable[[str], str], progress: Callable[[str], None], again: Callable[[], Path | None] = lambda: None,
    held: Held = nullcontext, ahead: Callable[[Instrument], Begun | None] = lambda instrument: None,
) -> Silicon:  # fmt: skip
    """Runs a submission in three more processes, under Nsight Compute, under a tracer and compiling anew, and returns
    the evidence.

    `again` waits for the caches of a second build, if one ran beside the trial; it is made here if not. `ahead` gives
    the process of an instrument that was started before its turn, if one was. The device is used inside `held()` alone,
    and what a process left is read while the next one has it. `promises` are the source layer's states.

    A layer that this machine cannot have is missing, and the notes say why; one that it could have, and that failed
    with this submission, leaves promises unproven.
    """
    bench = Bench(
        problem, snapshot, trial, device, scale, options, sandbox, scratch, caches, keep, progress, held, ahead
    )
    capability = ".".join(map(str, torch.cuda.get_device_capability(device)))
    arch = arch_of(capability)
    cache = int(torch.cuda.get_device_properties(device).L2_cache_size)
    spent: dict[str, float] = {}
    with ThreadPoolExecutor(READERS) as readers:
        other = readers.submit(tried, lambda: compiled_beside(arch, bench, again))
        counting = _timed(spent, "counters", lambda: count(bench, metrics_of(capability, problem)))
        reading = None
        if isinstance(counting, Counting):
            reading = readers.submit(_timed, spent, "machine code", counting.read)
            if not counting.keeps:
                reading.result()
        traced = _timed(spent, "trace", lambda: trace(bench))
        counted = reading.result() if reading is not None else counting
        if isinstance(counted, Counted):
            counted = replace(counted, report=keep(counted.text))
        code: MachineCode | ProfilerError | None = ProfilerError("no machine code was found that could be")
        if isinstance(counted, Counted) and isinstance(counted.code, MachineCode) and counted.code.kernels:
            code = _timed(spent, "second build", other.result)
            if code is None:
                code = _timed(spent, "second build", lambda: compiled_again(bench, arch, scratch))
            if snapshot.collects and isinstance(code, MachineCode) and lacks(code, counted.code, counted.launched):
                code = _timed(spent, "whole build", lambda: compiled_again(bench, arch, scratch, whole=True))
    assert code is not None and not isinstance(counted, Counting)
    loaded: frozenset[tuple[str, str]] | ProfilerError = frozenset()
    if isinstance(counted, Counted) and unwritten(counted):
        loaded = _timed(spent, "second load", lambda: loaded_again(bench, metrics_of(capability, problem)))
    found = tried(Judge(bench, capability, cache, promises, counted, traced, code, loaded).silicon)
    if isinstance(found, ProfilerError):
        found = Judge(bench, capability, cache, promises, found, found, code).silicon()
    return replace(found, spent=spent)


def metrics_of(capability: str, problem: Problem) -> tuple[str, ...]:
    """The metrics that Nsight Compute is asked to record for each launch."""
    return (*counters.metrics_of(capability, problem), SHARED)


def _timed(spent: dict[str, float], name: str, work: Callable[[], T]) -> T | ProfilerError:
    """As `tried`; writes down the seconds that it took."""
    began = time.monotonic()
    found = tried(work)
    spent[name] = round(time.monotonic() - began, 2)
    return found


def tried(work: Callable[[], T]) -> T | ProfilerError:
    """The result of `work`, or the ProfilerError that says why there is none; exceptions of our own code become one as
    well.
    """
    try:
        return work()
    except ProfilerError as error:
        return error
    except Exception as error:
        return ProfilerError(f"it failed with {type(error).__name__}: {' '.join(str(error).split())[:300]}")


class Judge:
    """Makes the record from what the passes saw."""

    def __init__(
        self, bench: Bench, capability: str, cache: int, promises: Sequence[PromiseState],
        counted: Counted | ProfilerError, traces: Traces | ProfilerError, again: MachineCode | ProfilerError,
        loaded: frozenset[tuple[str, str]] | ProfilerError = frozenset(),
    ) -> None:  # fmt: skip
        self.bench, self.capability, self.cache, self.promises = bench, capability, cache, promises
        self.counted = counted if isinstance(counted, Counted) else None
        self.traces = traces if isinstance(traces, Traces) else None
        self.lost: dict[str, object] = {"counters": counted, "trace": traces}
        code = self.counted.code if self.counted is not None else ToolError("no kernels were seen")
        self.code = code if isinstance(code, MachineCode) else None
        self.again = Comparison(again, frozenset() if isinstance(loaded, ProfilerError) else loaded)
        self.per_shape: dict[str, Mapping[str, Mapping[str, State]]] = {}
        self.own = self.code.names if self.code is not None else None
        self.lost["machine code"] = code
        self.lost["loaded code"] = self.counted.loaded if self.counted is not None else code
        self.lost["second load"] = loaded
        self.contract = next(iter(bench.problem.contracts.values()))
        self.declared = {promise.id: promise for promise in bench.problem.promises_for(self.contract.id)}
        self.findings: list[FindingRecord] = []
        self.small: list[str] = []
        self.reasons: dict[str, str] = {}

    def silicon(self) -> Silicon:
        """The record of all evidence that was gathered."""
        for seen in (self.counted, self.traces):
            for label, right in seen.differences.items() if seen is not None else ():
                if not right:
                    self._mismatch(f"at {label} it gave wrong results while a profiler looked")
        shapes = [self._shape(shape) for shape in self.bench.shapes] if self.counted is not None else []
        layers: dict[str, Mapping[str, State]] = {}
        if self.counted is not None:
            layers["counters"] = self._counters()
        elif not isinstance(self.lost["counters"], Unavailable):  # who keeps them from being read shows nothing
            layers["counters"] = self._unproven("counters", counters.KINDS)
            layers["sass"] = self._unproven("sass", sass.KINDS)
        if self.traces is None and not isinstance(self.lost["trace"], Unavailable):
            self._add("kernels", "unproven", f"no trace of the kernels could be had: {self.lost['trace']}")
        if self.code is not None:
            layers["sass"] = self._sass()
            if self.code.kernels:
                self._judge_code()
        notes = [f"no {name}: {why}" for name, why in self.lost.items() if isinstance(why, (ProfilerError, ToolError))]
        notes += self.small
        notes += [f"machine code: {note}" for note in (self.code.notes if self.code is not None else ())]
        return Silicon(
            layers, self.reasons, tuple(self.findings), tuple(shapes), tuple(notes), self.capability,
            self.counted.report if self.counted else "", self.traces.reports if self.traces else (),
            self.per_shape, self._recompiled(),
        )  # fmt: skip

    # --- one shape ---

    def _shape(self, shape: Shape) -> ShapeEvidence:
        """What was seen of a shape, with the findings that it gives."""
        assert self.counted is not None
        first, *others = self.counted.calls[shape.label]
        for other in others:
            different = same_sequence(first, other)
            if different:
                self._add("kernels", "interesting", f"at {shape.label} two calls ran different kernels: {different}")
        busy, scored = self._traced(shape, first), _scored(self.bench.trial, shape.label)
        found = evidence_of(self.bench.problem, shape, first, self.capability, busy, scored, self.own)
        self._judge_time(found, len(first))
        few = counters.too_few_bytes(found.compulsory, found.read)
        if few and found.compulsory >= CACHES * self.cache:
            self._add("warm-cache", "unproven", f"at {shape.label} {few}")
        elif few:
            self.small.append(f"at {shape.label} {few}")
        self._library(shape, first, found)
        return found

    def _traced(self, shape: Shape, launches: Sequence[Launch]) -> float:
        """How long the device worked on a call, if a tracer saw the kernels that were counted."""
        traced = self.traces.calls.get(shape.label, ()) if self.traces is not None else ()
        if not traced:
            return 0.0
        if any(not _agree(tracing, launches) for tracing in traced):
            said = f"at {shape.label} other kernels ran under the tracer than under the counters"
            self._add("kernels", "interesting", said)
        return min(tracing.busy for tracing in traced)

    def _judge_time(self, found: ShapeEvidence, launches: int) -> None:
        """Kernels that take far longer than the time that was scored are not those that were timed.

        Both instruments are asked: a submission may know one of them and show it other kernels.
        """
        for seconds, most in ((found.busy, TRACED), (found.seconds, COUNTED)):
            if found.scored and seconds > most * found.scored + SLACK_S * launches:
                self._mismatch(
                    f"at {found.shape} the kernels took {seconds * 1e6:.1f} us beside a profiler, "
                    f"and {found.scored * 1e6:.1f} us when they were timed"
                )
                return

    def _library(self, shape: Shape, launches: Sequence[Launch], found: ShapeEvidence) -> None:
        """Work that a promise wants authored and that kernels of a library did: by their time, or their operations."""
        work = [promise.id for promise in self.declared.values() if "work" in promise.params]
        theirs = [launch for launch in launches if library_of(launch.kernel, self.own)]
        if not work or not theirs:
            return
        operations = math.fsum(counters.counted(theirs, self.capability).tensor.values()) / found.needed
        products = self.bench.problem.work_kind == "tensor" and operations > LIBRARY_OPERATIONS
        if found.library <= LIBRARY_SHARE and not products:
            return
        owners = ", ".join(sorted({library_of(launch.kernel, self.own) for launch in theirs}))
        share = f"{operations:.2f} times the algorithm's operations, and " if products else ""
        said = {promise.id: promise.state for promise in self.promises}
        verdict: Verdict = "rubric_leak" if any(said.get(name) == "broken" for name in work) else "unproven"
        message = f"at {shape.label} {share}{found.library:.0%} of the time, are in kernels of {owners}"
        self._add("library-kernels", verdict, message)

    # --- promises ---

    def _counters(self) -> dict[str, State]:
        """The states that the counters give."""

        def one(promise: Promise, shape: Shape, launches: Sequence[Launch], said: State) -> Judged | None:
            counts = counters.counted(launches, self.capability)
            read = self._machine_code(promise, shape, launches, said) if self.code is not None else None
            code = read.state if read is not None else None
            return counters.settle(promise, self.bench.problem, self.contract, shape, counts, said, code)

        return self._layer("counters", one)

    def _sass(self) -> dict[str, State]:
        """The states that the machine code of the kernels which ran gives."""
        return self._layer("sass", self._machine_code)

    def _machine_code(
        self, promise: Promise, shape: Shape, launches: Sequence[Launch], said: State
    ) -> Judged | None:  # fmt: skip
        """What the code that ran at a shape says, where the submission's sources compile to it."""
        settled = sass.settle(promise, said, [self._ran(launch) for launch in launches])
        if settled is None:
            return None
        for launch in launches if settled.state != "broken" else ():
            why = self._unlike(launch)
            if why:
                return Judged("unproven", f"{launch.kernel[:SHOWN_NAME]} {why}")
        return Judged(settled.state, settled.reason)

    def _ran(self, launch: Launch) -> sass.Ran:
        """What a launch ran: the code that was loaded for it, or what the caches hold under its name."""
        library, loaded = library_of(launch.kernel, self.own), self._loaded(launch)
        whole = loaded is not None and not library and not loaded.indirect_calls
        found = (loaded,) if loaded is not None and whole else tuple(one.census for one in self._found(launch))
        return sass.Ran(launch.kernel, found, library)

    def _found(self, launch: Launch) -> tuple[Kernel, ...]:
        """The machine code in the caches that a launch may have run."""
        threads, shared = math.prod(launch.block), int(launch.metrics.get(SHARED, 0.0))
        return self.code.find(launch.kernel, threads=threads, shared=shared) if self.code is not None else ()

    def _loaded(self, launch: Launch) -> Census | None:
        """The machine code that was loaded for a launch, where that is known."""
        loaded = self.counted.loaded if self.counted is not None else {}
        return loaded.get(launch.number) if not isinstance(loaded, ToolError) else None

    def _unlike(self, launch: Launch) -> str:
        """Why a kernel is not what the submission's sources compile to, as the end of a sentence; empty if it is."""
        if library_of(launch.kernel, self.own):
            return ""
        return self.again.differs(self._found(launch), self._loaded(launch))

    def _launches(self) -> Iterator[tuple[str, Launch]]:
        """Those of the first marked call of every shape, with its label."""
        for label, calls in self.counted.calls.items() if self.counted is not None else ():
            yield from ((label, launch) for launch in calls[0])

    def _judge_code(self) -> None:
        """Kernels that come out otherwise when the submission is compiled again, told once each."""
        told = set[str]()
        if self.again.lost:
            self._add("second-build", "unproven", f"no kernel could be compiled again: {self.again.lost}", "sass")
            return
        for _, launch in self._launches():
            why = self._unlike(launch) if self._found(launch) and launch.kernel not in told else ""
            if why:
                told.add(launch.kernel)
                self._add("second-build", "unproven", f"{launch.kernel[:SHOWN_NAME]} {why}", "sass")

    def _recompiled(self) -> tuple[CodeRow, ...]:
        own = ((label, one) for label, one in self._launches() if not library_of(one.kernel, self.own))
        return self.again.rows((label, self._found(one), self._loaded(one)) for label, one in own)

    def _layer(self, layer: Layer, settle: Settle) -> dict[str, State]:
        """States over all shapes, of the promises that a layer is to settle and can say something about."""
        assert self.counted is not None
        states: dict[str, State] = {}
        per_shape = self.per_shape[layer] = dict[str, Mapping[str, State]]()
        for source in self.promises:
            promise = self.declared.get(source.id)
            if promise is None or layer not in promise.settled_by:
                continue
            found: dict[str, State] = {}
            for shape in self.bench.shapes:
                said = source.shapes.get(shape.label, source.state)
                judged = settle(promise, shape, self.counted.calls[shape.label][0], said)
                if judged is not None and shape.label in self.counted.differences:
                    judged = Judged("unproven", OTHER_BITS)
                if judged is not None:
                    found[shape.label] = judged.state
                    self._compare(promise, shape, said, layer, judged)
            if found:
                per_shape[promise.id] = found
                states[promise.id] = self._combined(found, promise)
        return states

    def _unproven(self, layer: Layer, kinds: Iterable[str]) -> dict[str, State]:
        """A layer that this machine has and this submission did not let be read proves nothing."""
        known = set(kinds)
        asked = [p.id for p in self.declared.values() if layer in p.settled_by and p.kind in known]
        self.reasons |= dict.fromkeys(asked, f"no counters could be had: {self.lost['counters']}")
        return dict.fromkeys(asked, "unproven")

    def _combined(self, found: Mapping[str, State], promise: Promise) -> State:
        """Over the shapes of which something is said; those that could not be asked for again leave an `every` promise
        unproven."""
        asked = {shape.label for shape in self.bench.shapes}
        labels = [shape.label for shape in self.bench.problem.shapes if shape.label not in asked]
        missing: dict[str, State] = dict.fromkeys(labels, "unproven")
        for label in sorted(missing):
            self.reasons.setdefault(promise.id, f"no result of {label} could be asked for again")
        return combine({**found, **missing}, promise.quantifier)

    def _compare(self, promise: Promise, shape: Shape, said: State, layer: Layer, judged: Judged) -> None:
        """A layer that says something else than the source is a finding of its own."""
        if judged.state == said:
            return
        message = f"at {shape.label} the source says that {promise.id} is {said}, the {layer} {judged.state}"
        self._add(
            "layers-disagree", "interesting", f"{message}: {judged.reason}", "sass" if layer == "sass" else "counters"
        )
        self.reasons.setdefault(promise.id, f"at {shape.label} {judged.reason}")

    # --- findings ---

    def _mismatch(self, sentence: str) -> None:
        self.findings.append(
            FindingRecord("evidence", MISMATCH, "reward_hack", "run", f"evidence mismatch: {sentence}")
        )

    def _add(self, rule: str, verdict: Verdict, message: str, layer: Layer = "counters") -> None:
        self.findings.append(FindingRecord(rule, rule, verdict, layer, message))


def _scored(trial: TrialResult, label: str) -> float:
    """Seconds of a call that are scored, without the empty call of the events; 0 where it was not timed."""
    timing = next((result.timing for result in trial.shapes if result.shape == label), None)
    if timing is None or not timing.claimed:
        return 0.0
    sealed = median(batch.per_call for batch in timing.counted) if timing.sealed else 0.0
    return max(middle(timing.claimed, timing.trim) - timing.null_s, sealed, 1e-9)


def _agree(tracing: Tracing, launches: Iterable[Launch]) -> bool:
    """Whether both instruments saw kernels of the same sizes, in whatever order streams let them run."""
    one = sorted((kernel.grid, kernel.block) for kernel in tracing.kernels)
    return one == sorted((launch.grid, launch.block) for launch in launches)
