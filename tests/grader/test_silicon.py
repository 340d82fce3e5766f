"""From counts and traces to states of promises and findings, on the deck's own problems without a GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from grader.judge.judging import default_options
from grader.record.cell import CaseOutcome, SandboxRecord, ShapeResult, ShapeTiming, TrialResult
from grader.sandbox.snapshot import Snapshot
from grader.silicon import Silicon, silicon_from_json, silicon_to_json
from grader.silicon import gather as gathering
from grader.silicon.counters import (
    CHIPS,
    DURATION,
    LEAST_READ,
    MOST_OTHER,
    MOST_PADDING,
    MOST_UNPACKED,
    TENSOR,
    Judged,
    compulsory,
    counted,
    metrics_of,
    settle,
)
from grader.silicon.gather import Judge, tried
from grader.silicon.kernels import SHARED, Traced, Tracing
from grader.silicon.machine_code import Kernel, MachineCode
from grader.silicon.ncu import Launch, ProfilerError, Unavailable, may_count
from grader.silicon.passes import Bench, Counted, Traces
from grader.silicon.rebuild import unwritten
from grader.silicon.sass.census import Census
from grader.silicon.sass.products import Product
from grader.silicon.tools import ToolError
from kbh_lint.findings import PromiseState, State
from kbh_lint.problems import Problem, Promise, Shape, load_problem

DECK = Path(__file__).parents[2] / "problems"
CHIP = "9.0"
TYPES = {"fp8": "fp8", "fp16": "fp16", "bf16": "bf16_dst_fp32"}


def deck(name: str) -> Problem:
    """A problem whose promises the counters may settle too."""
    problem = load_problem(DECK / name / "problem.yaml")
    layers = ("source", "counters", "run")
    return replace(problem, promises=tuple(replace(promise, settled_by=layers) for promise in problem.promises))


GEMM = deck("01_fp8_gemm")
NO_CODE = ToolError("no report here")
UNBUILT = ProfilerError("there was nothing to build")


def launch(problem: Problem, label: str, *, kernel: str = "_product", call: int = 3, read: float = 1.0,
           seconds: float = 1e-4, **share: float) -> Launch:  # fmt: skip
    """A kernel that runs `share` of the shape's operations in a type and reads `read` of its compulsory bytes."""
    index = [shape.label for shape in problem.shapes].index(label)
    shape, contract = problem.shapes[index], next(iter(problem.contracts.values()))
    metrics = dict.fromkeys(metrics_of(CHIP, problem), 0.0)
    metrics |= {DURATION: seconds, CHIPS[CHIP].read: read * compulsory(problem, contract, shape)}
    metrics |= {f"{TENSOR}{TYPES[kind]}.sum": value * problem.work(shape)[0] for kind, value in share.items()}
    return Launch(1, index + 1, call, kernel, (64, 1, 1), (128, 1, 1), CHIP, metrics)


def bench(problem: Problem, seconds: float = 1e-4) -> Bench:
    case = CaseOutcome("timed/0", True, 0.0, 1.0, digest="0" * 64)
    timing = ShapeTiming((seconds,), (seconds,), (), 0.0)
    shapes = tuple(ShapeResult(shape.label, "right", "", 1, 1, (case,), timing) for shape in problem.shapes)
    trial = TrialResult(0, "", "00" * 32, "right", "", shapes, SandboxRecord("plain", 0, False), 1.0)
    nothing = Snapshot(Path("solution.py"), "", "")
    return Bench(
        problem, nothing, trial, "cuda", "full", default_options("cuda"), None, Path, None, lambda text: "",
        lambda text: None,
    )  # type: ignore[arg-type]  # fmt: skip


def judged(
    launches: Sequence[Launch], *, problem: Problem = GEMM, source: State = "kept", per_shape: Mapping[str, State] = {},
    seconds: float = 1e-4, differences: Mapping[str, bool] = {}, again: Sequence[Launch] | None = None,
    traces: Mapping[str, Tracing] | None = None, code: MachineCode | None = None,
    cache: int = 1 << 20, rebuilt: MachineCode | ProfilerError | None = None,
    loaded: Mapping[int, Census] | ToolError = NO_CODE,
    second: frozenset[tuple[str, str]] | ProfilerError = frozenset(),
) -> Silicon:  # fmt: skip
    """What the judge makes of one launch a shape, seen in two marked calls."""
    labels = [shape.label for shape in problem.shapes]
    calls = {
        label: (
            tuple(one for one in launches if one.model == number),
            tuple(one for one in (launches if again is None else again) if one.model == number),
        )
        for number, label in enumerate(labels, 1)
    }
    promise = problem.promises[0]
    states = [PromiseState(promise.id, source, dict(per_shape), kind=promise.kind)]
    states += [PromiseState(p.id, source, kind=p.kind) for p in problem.promises if p.id != promise.id]
    seen = (
        Unavailable("none here")
        if traces is None
        else Traces({label: (trace,) for label, trace in traces.items()}, {}, ())
    )
    counted_calls = Counted(calls, differences, "r" * 64, code or ToolError("none here"), loaded)
    again = rebuilt or code or UNBUILT
    return Judge(bench(problem, seconds), CHIP, cache, states, counted_calls, seen, again, second).silicon()


def everywhere(problem: Problem = GEMM, **share: float) -> list[Launch]:
    return [launch(problem, shape.label, **share) for shape in problem.shapes]  # type: ignore[arg-type]


def rules(silicon: Silicon) -> set[tuple[str, str]]:
    return {(finding.rule, finding.verdict) for finding in silicon.findings}


@pytest.mark.parametrize(
    ("source", "share", "state", "words"),
    [
        ("kept", {"fp8": 1.0}, "kept", "1.00 in fp8"),
        ("kept", {"fp8": 2.0, "bf16": 0.02}, "kept", "2.00 in fp8, 0.02 in bf16"),
        ("kept", {"fp8": 5.0}, "kept", "padded 5.0 times"),
        ("kept", {"fp8": 0.99}, "unproven", "only a part"),
        ("kept", {"fp8": 1.0, "bf16": 0.03}, "unproven", "so are others"),
        ("kept", {"fp16": 1.0}, "emulated", "fp8 was written and fp16 ran"),
        ("emulated", {"fp16": 1.0, "fp8": 0.01}, "emulated", "fp16 ran"),
        ("broken", {"fp16": 1.0}, "broken", "ran in fp16"),
        ("unproven", {"fp16": 1.0}, "broken", "ran in fp16"),
        ("kept", {"bf16": 1.0}, "broken", "other tensor cores"),
        ("kept", {"fp16": 0.5, "bf16": 0.5}, "broken", "other tensor cores"),
        ("kept", {"fp8": 0.5, "fp16": 0.5}, "emulated", "fp16 ran"),
        ("kept", {}, "broken", "did not run on tensor cores"),
        ("kept", {"fp16": 0.6}, "broken", "other tensor cores"),
    ],
)
def test_the_operations_that_ran_say_what_became_of_fp8_products(
    source: State, share: dict[str, float], state: State, words: str
) -> None:
    promise, shape = GEMM.promises[0], GEMM.shapes[2]
    counts = counted([launch(GEMM, shape.label, **share)], CHIP)  # type: ignore[arg-type]
    found = settle(promise, GEMM, GEMM.contracts["deck"], shape, counts, source)
    assert found is not None
    assert (found.state, words in found.reason) == (state, True), found.reason


@pytest.mark.parametrize(("read", "state"), [(1.0, "kept"), (1.3, "kept"), (3.5, "unproven")])
def test_weights_that_stay_packed_are_read_as_few_bytes(read: float, state: State) -> None:
    problem = deck("07_w4a16_gemm")
    counts = counted([launch(problem, problem.shapes[0].label, read=read, bf16=1.0)], CHIP)
    found = settle(problem.promises[0], problem, problem.contracts["deck"], problem.shapes[0], counts, "kept")
    assert found is not None
    assert found.state == state


@pytest.mark.parametrize(
    ("requested", "state"),
    [(1.0, "kept"), (1.2, "kept"), (2.0, "unproven"), (0.5, "unproven"), (0.0, "unproven")],
)
def test_lines_that_are_fetched_twice_are_told_from_unpacked_weights_by_what_loads_ask_for(
    requested: float, state: State
) -> None:
    problem = deck("07_w4a16_gemm")
    shape, contract = problem.shapes[0], problem.contracts["deck"]
    one = launch(problem, shape.label, read=2.0, bf16=1.0)
    metrics = {**one.metrics, **dict.fromkeys(CHIPS[CHIP].requested, 0.0)}
    metrics[CHIPS[CHIP].requested[1]] = requested * compulsory(problem, contract, shape)
    found = settle(
        problem.promises[0], problem, contract, shape, counted([replace(one, metrics=metrics)], CHIP), "kept"
    )
    assert found is not None
    assert found.state == state
    assert ("fetched again" in found.reason) == (state == "kept")


@pytest.mark.parametrize(
    ("source", "nibbles", "same", "state"),
    [
        ("kept", 16, True, "kept"),
        ("kept", 0, True, "unproven"),  # what multiplies takes nothing apart: it reads unpacked weights
        ("kept", 1, True, "unproven"),
        ("unproven", 16, True, "unproven"),
        ("kept", 16, False, "unproven"),  # another program was read than the one that its sources compile to
    ],
)
def test_packed_weights_that_are_read_again_are_told_from_unpacked_ones_by_the_machine_code(
    source: State, nibbles: int, same: bool, state: State
) -> None:
    problem = load_problem(DECK / "07_w4a16_gemm" / "problem.yaml")
    promise = next(one for one in problem.promises if one.kind == "int4-packed")
    census = Census(
        "_product", "sm_90a", True, {}, {Product("HMMA", "16816", "bf16", "bf16", "f32"): 8}, {}, nibbles=nibbles
    )
    found = MachineCode((Kernel(census, "x.cubin", "0" * 64),), (), "13.0")
    other = MachineCode((Kernel(replace(census, digest="another"), "x.cubin", "0" * 64),), (), "13.0")
    silicon = judged(
        everywhere(problem, read=3.0, bf16=1.0), problem=problem, source=source, code=found,
        rebuilt=found if same else other,
    )  # fmt: skip
    assert silicon.layers["counters"][promise.id] == state
    assert silicon.shapes_by_layer["counters"][promise.id] == dict.fromkeys([s.label for s in problem.shapes], state)
    assert any("so many would be read of unpacked ones" in one.message for one in silicon.findings) == (
        state != source and state != "kept"
    )


def test_bytes_that_loads_ask_for_are_counted_where_a_promise_needs_them() -> None:
    assert set(CHIPS[CHIP].requested) <= set(metrics_of(CHIP, deck("07_w4a16_gemm")))
    assert not set(CHIPS[CHIP].requested) & set(metrics_of(CHIP, GEMM))


def test_counters_say_nothing_about_promises_that_they_cannot_see() -> None:
    promise = next(promise for promise in GEMM.promises if promise.kind == "authored-compute")
    counts = counted(everywhere(fp8=1.0)[:1], CHIP)
    assert settle(promise, GEMM, GEMM.contracts["deck"], GEMM.shapes[0], counts, "kept") is None


def test_a_chip_without_a_table_of_counters_is_refused() -> None:
    with pytest.raises(Unavailable, match=r"compute capability 3\.5"):
        metrics_of("3.5", GEMM)


def test_a_layer_that_agrees_on_every_shape_makes_no_finding() -> None:
    silicon = judged(everywhere(fp8=1.0))
    assert silicon.layers == {"counters": {"fp8-products": "kept"}}
    assert silicon.findings == () and silicon.reasons == {}
    assert [shape.tensor["fp8"] for shape in silicon.shapes] == [shape.needed for shape in silicon.shapes]


def test_one_shape_that_is_emulated_makes_the_promise_emulated_and_a_disagreement_is_a_finding() -> None:
    launches = everywhere(fp8=1.0)
    launches[2] = launch(GEMM, "32x8192x8192", fp16=1.0)
    silicon = judged(launches)
    assert silicon.layers["counters"]["fp8-products"] == "emulated"
    assert rules(silicon) == {("layers-disagree", "interesting")}
    assert "at 32x8192x8192" in silicon.reasons["fp8-products"]
    told = judged(launches, per_shape={"32x8192x8192": "emulated"})
    assert told.findings == () and told.layers == silicon.layers


def test_a_shape_that_could_not_be_asked_for_again_leaves_the_promise_unproven() -> None:
    whole = bench(GEMM)
    some = replace(whole, trial=replace(whole.trial, shapes=whole.trial.shapes[:3]))
    calls = {one: ((launch(GEMM, one, fp8=1.0),),) for one in [shape.label for shape in GEMM.shapes[:3]]}
    states = [PromiseState("fp8-products", "kept", kind="fp8-products")]
    silicon = Judge(
        some, CHIP, 0, states, Counted(calls, {}, "", ToolError(""), ToolError("")), Unavailable(""), UNBUILT
    ).silicon()
    assert silicon.layers["counters"]["fp8-products"] == "unproven"
    assert silicon.reasons == {"fp8-products": "no result of 4096x14336x4096 could be asked for again"}


def test_a_wrong_result_beside_a_profiler_is_a_mismatch() -> None:
    silicon = judged(everywhere(fp8=1.0), differences={"32x8192x8192": False})
    assert ("evidence", "reward_hack") in rules(silicon)
    assert silicon.layers["counters"]["fp8-products"] == "unproven"


def test_right_results_of_other_bits_accuse_nobody_and_prove_nothing() -> None:
    silicon = judged(everywhere(fp8=1.0), differences={"32x8192x8192": True})
    assert silicon.layers["counters"]["fp8-products"] == "unproven"
    assert "need not be what was timed" in silicon.reasons["fp8-products"]
    assert rules(silicon) == {("layers-disagree", "interesting")}


def test_kernels_that_take_far_longer_than_what_was_scored_are_a_mismatch() -> None:
    assert rules(judged(everywhere(fp8=1.0), seconds=0.6e-4)) == set()
    assert rules(judged(everywhere(fp8=1.0), seconds=0.4e-4)) == {("evidence", "reward_hack")}
    short = Tracing((Traced(True, "_product", (64, 1, 1), (128, 1, 1), 0.0, 0.4e-4),))
    shown_to_one = judged(everywhere(fp8=1.0), seconds=0.4e-4, traces={"4096x4096x4096": short})
    assert ("evidence", "reward_hack") in rules(shown_to_one), "the counters alone saw a long kernel"
    long = Tracing((Traced(True, "_product", (64, 1, 1), (128, 1, 1), 0.0, 1.6e-4),))
    silicon = judged(everywhere(fp8=1.0), traces={"4096x4096x4096": long})
    assert rules(silicon) == {("evidence", "reward_hack")}
    assert "took 160.0 us beside a profiler, and 100.0 us when they were timed" in silicon.findings[0].message


def test_inputs_that_were_not_read_from_memory_leave_the_number_unproven() -> None:
    assert rules(judged(everywhere(fp8=1.0, read=0.91))) == set()
    silicon = judged(everywhere(fp8=1.0, read=0.5))
    assert rules(silicon) == {("warm-cache", "unproven")}
    small = judged(everywhere(fp8=1.0, read=0.5), cache=60 << 20)
    assert rules(small) == set() and any("that a cold call must read" in note for note in small.notes)


def test_time_in_a_librarys_kernels_is_told_with_the_librarys_name() -> None:
    silicon = judged(everywhere(fp8=1.0, kernel="nvjet_qqtst_128x256"))  # type: ignore[arg-type]
    assert rules(silicon) == {("library-kernels", "unproven")}
    assert (
        "1.00 times the algorithm's operations, and 100% of the time, are in kernels of cuBLAS"
        in silicon.findings[0].message
    )
    known = judged(everywhere(fp8=1.0, kernel="nvjet_qqtst_128x256"), source="broken")  # type: ignore[arg-type]
    assert ("library-kernels", "rubric_leak") in rules(known)


def test_products_in_a_librarys_kernels_are_told_however_short_they_are() -> None:
    def beside(share: float) -> list[Launch]:
        short = everywhere(bf16=share, seconds=1e-5, kernel="nvjet_tst")  # type: ignore[arg-type]
        return [*everywhere(fp8=1.0), *short]

    assert ("library-kernels", "unproven") in rules(judged(beside(0.1), seconds=2e-4))
    assert rules(judged(beside(0.01), seconds=2e-4)) == set()


def test_other_kernels_in_the_second_call_are_told() -> None:
    again = everywhere(fp8=1.0, kernel="_other")  # type: ignore[arg-type]
    assert rules(judged(everywhere(fp8=1.0), again=again)) == {("kernels", "interesting")}


def test_a_tracer_that_saw_other_kernels_is_told_and_one_that_agrees_gives_the_length() -> None:
    same = Tracing((Traced(True, "_product", (64, 1, 1), (128, 1, 1), 0.0, 9e-5),))
    other = Tracing((Traced(True, "_product", (32, 1, 1), (128, 1, 1), 0.0, 9e-5),))
    labels = [shape.label for shape in GEMM.shapes]
    silicon = judged(everywhere(fp8=1.0), traces=dict.fromkeys(labels, same))
    assert rules(silicon) == set() and [shape.busy for shape in silicon.shapes] == [9e-5] * len(labels)
    assert rules(judged(everywhere(fp8=1.0), traces={labels[0]: other})) == {("kernels", "interesting")}


def test_evidence_goes_into_a_bundle_and_comes_back_the_same() -> None:
    silicon = judged(everywhere(fp8=1.0, read=0.5), differences={"32x8192x8192": False})
    assert silicon_from_json(silicon_to_json(silicon)) == silicon


def test_counters_that_a_machine_lacks_are_missing_and_those_that_a_submission_breaks_prove_nothing() -> None:
    states = [PromiseState("fp8-products", "kept", kind="fp8-products")]
    lacking = Judge(
        bench(GEMM), CHIP, 0, states, Unavailable("no program"), Unavailable("no tracer"), UNBUILT
    ).silicon()
    assert lacking.layers == {} and lacking.findings == ()
    assert lacking.notes[:2] == ("no counters: no program", "no trace: no tracer")
    broken = Judge(
        bench(GEMM), CHIP, 0, states, ProfilerError("no report"), ProfilerError("no trace"), UNBUILT
    ).silicon()
    assert broken.layers == {"counters": {"fp8-products": "unproven"}, "sass": {}}
    compiled = replace(GEMM, promises=tuple(replace(p, settled_by=("source", "sass")) for p in GEMM.promises))
    other = Judge(bench(compiled), CHIP, 0, states, ProfilerError("no report"), Unavailable(""), UNBUILT).silicon()
    assert other.layers["sass"]["fp8-products"] == "unproven"
    assert broken.reasons == {"fp8-products": "no counters could be had: no report"}
    assert rules(broken) == {("kernels", "unproven")}


def test_the_counters_are_asked_for_what_tells_versions_of_a_kernel_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def count(bench: Bench, metrics: Sequence[str]) -> Counted:
        asked.extend(metrics)
        raise Unavailable("none here")

    def trace(bench: Bench) -> Traces:
        raise Unavailable("none here")

    monkeypatch.setattr(gathering.torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(gathering.torch.cuda, "get_device_properties", lambda device: SimpleNamespace(L2_cache_size=1))
    monkeypatch.setattr(gathering, "count", count)
    monkeypatch.setattr(gathering, "trace", trace)
    some = bench(GEMM)
    found = gathering.gather(
        GEMM, some.snapshot, some.trial, device="cuda", scale="full", options=some.options, sandbox=some.sandbox,
        scratch=Path, caches=None, promises=(), keep=lambda text: "", progress=lambda text: None,
    )  # fmt: skip
    assert {SHARED, DURATION} <= set(asked) and found.layers == {} and set(found.spent) == {"counters", "trace"}


def test_a_fault_of_ours_is_told_in_one_sentence_and_ends_nothing() -> None:
    def fail() -> None:
        raise KeyError("some\nthing")

    found = tried(fail)
    assert isinstance(found, ProfilerError) and not isinstance(found, Unavailable)
    assert "KeyError" in str(found) and "\n" not in str(found)


def test_only_root_may_count_where_the_driver_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grader.silicon.ncu.DRIVER", tmp_path / "params")
    assert may_count(1000)
    (tmp_path / "params").write_text("ResmanDebugLevel: 1\nRmProfilingAdminOnly: 1\n")
    assert may_count(0) and not may_count(1000)
    (tmp_path / "params").write_text("RmProfilingAdminOnly: 0\n")
    assert may_count(1000)


def code(*types: str, kernel: str = "_product", conversions: int = 0, threads: int | None = None) -> MachineCode:
    """Machine code with a version of a kernel for each type of product."""
    kernels = []
    for kind in types:
        product = Product("HMMA" if kind == "f16" else "QGMMA", "", kind, kind, "f32")
        census = Census(kernel, "sm_90a", True, {}, {product: 4}, {("e4m3", "f16"): conversions} if conversions else {})
        kernels.append(Kernel(census, "x.cubin", "0" * 64, threads))
    return MachineCode(tuple(kernels), (), "13.0")


@pytest.mark.parametrize(
    ("found", "state"),
    [
        (code("e4m3"), "kept"),
        (code("f16", conversions=8), "emulated"),
        (code("f16"), "broken"),
        (code("e4m3", "f16"), "unproven"),
        (code("e4m3", kernel="_another"), "unproven"),
    ],
)
def test_the_machine_code_of_the_kernels_that_ran_is_a_layer_of_its_own(found: MachineCode, state: State) -> None:
    problem = replace(GEMM, promises=tuple(replace(p, settled_by=("source", "sass")) for p in GEMM.promises))
    silicon = judged(everywhere(fp8=1.0), problem=problem, code=found)
    assert silicon.layers["sass"]["fp8-products"] == state
    assert ("layers-disagree", "interesting") in rules(silicon) or state == "kept"


def test_code_that_a_second_build_does_not_give_again_proves_nothing() -> None:
    problem = replace(GEMM, promises=tuple(replace(p, settled_by=("source", "sass")) for p in GEMM.promises))
    ran, launches = code("e4m3"), everywhere(fp8=1.0)
    same = judged(launches, problem=problem, code=ran)
    assert [row.again for row in same.code] == [True] and same.findings == ()
    (kernel,) = ran.kernels
    other = replace(ran, kernels=(replace(kernel, census=replace(kernel.census, digest="another")),))
    swapped = judged(launches, problem=problem, code=ran, rebuilt=other)
    assert swapped.layers["sass"]["fp8-products"] == "unproven"
    assert "other instructions than come out" in swapped.reasons["fp8-products"]
    assert [row.again for row in swapped.code] == [False] and ("second-build", "unproven") in rules(swapped)
    lost = judged(launches, problem=problem, code=ran, rebuilt=ProfilerError("it crashed"))
    assert lost.layers["sass"]["fp8-products"] == "unproven" and ("second-build", "unproven") in rules(lost)
    assert sum(finding.rule == "second-build" for finding in lost.findings) == 1


def test_what_the_driver_had_loaded_counts_before_what_a_cache_holds() -> None:
    problem = replace(GEMM, promises=tuple(replace(p, settled_by=("source", "sass")) for p in GEMM.promises))
    launches, cached = everywhere(fp8=1.0), code("e4m3")
    (own,), (wide,) = cached.kernels, code("bf16").kernels
    same = judged(launches, problem=problem, code=cached, loaded={1: own.census})
    assert same.layers["sass"]["fp8-products"] == "kept" and [row.loaded for row in same.code] == [True]
    swapped = judged(launches, problem=problem, code=cached, loaded={1: replace(own.census, digest="another")})
    assert swapped.layers["sass"]["fp8-products"] == "unproven"
    assert "was loaded with other instructions" in swapped.reasons["fp8-products"]
    other = judged(launches, problem=problem, code=cached, loaded={1: wide.census})
    assert other.layers["sass"]["fp8-products"] == "broken"
    two = code("e4m3", "f16")  # versions that a cache alone cannot tell apart
    assert judged(launches, problem=problem, code=two).layers["sass"]["fp8-products"] == "unproven"
    assert judged(launches, problem=problem, code=two, loaded={1: own.census}).layers["sass"]["fp8-products"] == "kept"


def test_code_that_no_file_holds_is_compared_with_what_a_second_process_loads() -> None:
    problem = replace(GEMM, promises=tuple(replace(p, settled_by=("source", "sass")) for p in GEMM.promises))
    launches, none = everywhere(fp8=1.0), MachineCode((), (), "13.0")
    census = replace(code("e4m3").kernels[0].census, digest="of NVRTC")

    def state(second: frozenset[tuple[str, str]] | ProfilerError, found: MachineCode = none) -> Silicon:
        return judged(launches, problem=problem, code=found, rebuilt=UNBUILT, loaded={1: census}, second=second)

    same = state(frozenset({("_product", "of NVRTC")}))
    assert same.layers["sass"]["fp8-products"] == "kept" and same.findings == ()
    assert [(row.again, row.loaded) for row in same.code] == [(True, True)]
    other = state(frozenset({("_product", "of another text")}))
    assert other.layers["sass"]["fp8-products"] == "unproven"
    assert "could not be compiled again" in other.reasons["fp8-products"]
    lost = state(ProfilerError("it crashed"))
    assert lost.layers["sass"]["fp8-products"] == "unproven" and "no second load: it crashed" in lost.notes
    written = state(frozenset({("_product", "of NVRTC")}), code("e4m3"))  # a file holds it: that is compiled again
    assert written.layers["sass"]["fp8-products"] == "unproven"


def test_kernels_that_no_file_holds_are_those_of_the_submission_alone() -> None:
    launches = [launch(GEMM, "4096x4096x4096", kernel=name) for name in ("_product", "_other", "nvjet_qqtst_128x256")]
    numbered = [replace(one, number=at) for at, one in enumerate(launches)]
    census = code("e4m3").kernels[0].census
    found = Counted({"a": (tuple(numbered),)}, {}, "", code("e4m3"), dict.fromkeys(range(3), census))
    assert unwritten(found) == {"_other"}
    assert unwritten(replace(found, loaded={0: census})) == set()
    assert unwritten(replace(found, loaded=NO_CODE)) == unwritten(replace(found, code=NO_CODE)) == set()


def test_code_that_calls_what_is_not_listed_is_read_from_the_caches() -> None:
    problem = replace(GEMM, promises=tuple(replace(p, settled_by=("source", "sass")) for p in GEMM.promises))
    cached = code("e4m3")
    (kernel,) = cached.kernels
    calling = Census("_product", "sm_90a", True, {}, {}, {}, indirect_calls=1, digest=kernel.census.digest)
    silicon = judged(everywhere(fp8=1.0), problem=problem, code=cached, loaded={1: calling})
    assert silicon.layers["sass"]["fp8-products"] == "kept"


def test_broken_machine_code_stays_broken_though_it_was_not_compiled_again() -> None:
    problem = replace(GEMM, promises=tuple(replace(p, settled_by=("source", "sass")) for p in GEMM.promises))
    silicon = judged(everywhere(bf16=1.0), problem=problem, code=code("bf16"), rebuilt=ProfilerError("it crashed"))
    assert silicon.layers["sass"]["fp8-products"] == "broken"


def test_bundles_of_before_there_was_a_second_build_are_read() -> None:
    data = silicon_to_json(judged(everywhere(fp8=1.0)))
    assert isinstance(data, dict)
    for name in ("shapes_by_layer", "code", "spent"):
        del data[name]
    assert silicon_from_json(data).code == ()


def test_a_template_library_in_the_submissions_own_machine_code_is_not_a_library() -> None:
    launches = everywhere(fp8=1.0, kernel="_ZN7cutlass13device_kernelI")  # type: ignore[arg-type]
    assert rules(judged(launches, code=code("e4m3"))) == {("library-kernels", "unproven")}
    assert rules(judged(launches, code=code("e4m3", kernel="_ZN7cutlass13device_kernelI"))) == set()
    assert rules(judged(launches)) == set()  # nobody knows


def test_the_documentation_has_the_limits_of_the_code() -> None:
    text = " ".join((DECK.parent / "docs" / "silicon.md").read_text().split())
    slack = f"{gathering.SLACK_S * 1e6:.0f} us a launch"
    for said in (
        f"traced kernels may take {gathering.TRACED} times the scored time and {slack}",
        f"all others at most {MOST_OTHER} of it; more than {MOST_PADDING:.0f} times is reported as padding",
        f"less than {LEAST_READ} of the compulsory input bytes",
        f"more than {gathering.LIBRARY_OPERATIONS} of the algorithm's tensor operations",
    ):
        assert said in text, said
    assert (gathering.LIBRARY_SHARE, MOST_UNPACKED) == (0.5, 0.5)  # "half" in words


def test_a_shape_of_which_the_code_says_nothing_is_left_to_the_other_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = replace(GEMM, promises=tuple(replace(p, settled_by=("source", "sass")) for p in GEMM.promises))
    launches, found = everywhere(fp8=1.0), code("e4m3")
    whole = Judge._machine_code

    def but_one(self: Judge, promise: Promise, shape: Shape, ran: Sequence[Launch], said: State) -> Judged | None:
        return None if shape == problem.shapes[1] else whole(self, promise, shape, ran, said)

    monkeypatch.setattr(Judge, "_machine_code", but_one)
    assert judged(launches, problem=problem, code=found).layers["sass"]["fp8-products"] == "kept"
    monkeypatch.setattr(Judge, "_machine_code", lambda *given: None)
    assert judged(launches, problem=problem, code=found).layers.get("sass", {}) == {}
