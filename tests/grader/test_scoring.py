"""What two clocks are worth: floors, vetoes, the time that counts, fractions and means, by numbers worked by hand."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from grader.record.cell import SandboxRecord, SealedBatch, ShapeResult, ShapeTiming, TargetRecord, TrialResult
from grader.record.spread import of_batches, of_samples, of_trials
from grader.score.scoring import (
    NO_SCORES,
    check_2026_04,
    least_time,
    noise_limit,
    score_2026_04,
    shape_scores,
    suspicion,
    total,
    unstable,
    wanted,
)
from grader.score.targets import Chosen, TargetError
from kbh_lint.authors.floors import floor
from kbh_lint.base import paths
from kbh_lint.problems import Problem, Target, load_problem, load_targets

DECK = paths.problems_dir()
GEMM = load_problem(DECK / "01_fp8_gemm" / "problem.yaml")
TOPK = load_problem(DECK / "05_topk_bitonic" / "problem.yaml")
MOE = load_problem(DECK / "06_sonic_moe_swiglu" / "problem.yaml")
TARGETS = load_targets(DECK / "hardware.yaml")
NULL_S = 2e-6
FLOOR_GEMM = 2 * 4096**3 / 1979e12  # 69.4 us: the first shape of 01 on an H200


def on(target: Target) -> Chosen:
    record = TargetRecord(target.id, target.product, "cuda", "datasheet", 1.0, target.dram_gbps, "full")
    return Chosen(target, record)


H200 = on(TARGETS["h200"])
RTX = on(TARGETS["rtx_pro_6000"])
CPU = Chosen(
    Target("cpu", "cpu", "A CPU", 20.0, {"fp32": 0.1, "fp8": 0.1, "bf16": 0.1}),
    TargetRecord("cpu", "A CPU", "cpu", "measured", 0.1, 20.0, "reduced"),
)


def timing(
    claimed: Sequence[float], sealed: Sequence[float] = (), *, null: float = NULL_S, host_sync: bool = False
) -> ShapeTiming:
    batches = tuple(SealedBatch(4, 4 * seconds * 1.25, seconds) for seconds in sealed)
    return ShapeTiming(tuple(claimed), (), batches, null, host_sync=host_sync)


def batches(usual: SealedBatch, count: int, *more: SealedBatch) -> ShapeTiming:
    """Samples of 100 us with these batches."""
    return ShapeTiming((100e-6,) * 30, (), (usual,) * count + more, NULL_S)


def trial(index: int, found: Mapping[str, ShapeTiming | None], status: str = "right") -> TrialResult:
    shapes = tuple(ShapeResult(label, "right", "", 30, 30, (), one) for label, one in found.items())
    sandbox = SandboxRecord("plain", 0, False)
    return TrialResult(index, "", "", status, "", shapes, sandbox, 1.0)  # type: ignore[arg-type]


def same(problem: Problem, chosen: Chosen, factor: float = 2.0, index: int = 0) -> TrialResult:
    """A trial in which every shape takes `factor` times its floor by both clocks, or 3 us where that is more."""
    found = {}
    for shape in problem.shapes:
        bound = floor(problem, shape, chosen.target)
        assert bound is not None
        seconds = max(factor * bound.t_floor, 3e-6)
        found[shape.label] = timing([seconds] * 30, [seconds] * 3)
    return trial(index, found)


def first(one: ShapeTiming, *more: ShapeTiming) -> tuple[TrialResult, ...]:
    """Trials of 01 on an H200 that are ordinary but for the first shape."""
    label = GEMM.shapes[0].label
    trials = []
    for index, special in enumerate((one, *more)):
        plain = {result.shape: result.timing for result in same(GEMM, H200).shapes}
        trials.append(trial(index, {**plain, label: special}))
    return tuple(trials)


def test_fractions_of_a_gemm_are_the_floor_over_the_time() -> None:
    score = shape_scores(GEMM, H200, first(timing([100e-6] * 30, [98e-6] * 3)))[0]
    assert (score.t_scored, score.t_event, score.clock) == (100e-6, 100e-6, "proved")
    assert score.t_sealed == pytest.approx(98e-6)
    assert score.t_floor == pytest.approx(FLOOR_GEMM)
    assert score.roofline_fraction == score.peak_fraction == pytest.approx(0.694487, abs=1e-6)
    assert score.attainable_fraction == pytest.approx((FLOOR_GEMM + 2e-6) / 100e-6)


def test_the_decode_shape_is_scored_by_its_declared_regime() -> None:
    decode = GEMM.shapes[2]
    score = shape_scores(GEMM, H200, [trial(0, {decode.label: timing([28e-6] * 30, [28e-6] * 3)})])[0]
    moved = 32 * 8192 + 8192 * 8192 + 32 * 8192 * 2
    assert score.peak_fraction == pytest.approx(moved / 28e-6 / 4800e9)
    compute = replace(GEMM, shapes=(replace(decode, regime="compute"),))
    score = shape_scores(compute, H200, [trial(0, {decode.label: timing([28e-6] * 30, [28e-6] * 3)})])[0]
    assert score.peak_fraction == pytest.approx(2 * 32 * 8192 * 8192 / 28e-6 / 1979e12)
    assert score.roofline_fraction == pytest.approx(moved / 28e-6 / 4800e9)


def test_a_mixed_shape_is_scored_by_what_binds_on_the_target() -> None:
    mixed = next(shape for shape in MOE.shapes if shape.regime == "mixed")
    score = next(s for s in shape_scores(MOE, H200, [same(MOE, H200)]) if s.shape == mixed.label)
    assert score.peak_fraction == pytest.approx(score.roofline_fraction) == pytest.approx(0.5)


def test_a_claim_under_the_proof_is_scored_by_the_proof_and_called_weak() -> None:
    score = shape_scores(GEMM, H200, first(timing([80e-6] * 30, [120e-6] * 3)))[0]
    assert score.clock == "weak"
    assert score.t_scored == pytest.approx(120e-6)
    assert "50.0%" in score.notes[0]
    near = shape_scores(GEMM, H200, first(timing([100e-6] * 30, [104e-6] * 3)))[0]
    assert (near.clock, near.t_scored) == ("proved", pytest.approx(104e-6))
    assert shape_scores(GEMM, H200, first(timing([100e-6] * 30, [106e-6] * 3)))[0].clock == "weak"
    shape = GEMM.reduced[0].label
    for sealed, clock in ((10.9e-3, "proved"), (11.1e-3, "weak")):
        assert shape_scores(GEMM, CPU, [trial(0, {shape: timing([10e-3] * 10, [sealed] * 3)})])[0].clock == clock


def test_a_claim_over_the_proof_is_scored_as_claimed_and_told_on_a_gpu() -> None:
    score = shape_scores(GEMM, H200, first(timing([200e-6] * 30, [100e-6] * 3)))[0]
    assert (score.clock, score.t_scored) == ("proved", 200e-6)
    assert any("less in the sealed batch" in note for note in score.notes)
    short = TOPK.shapes[0].label  # an event pair of 2 us is in every claim, but not in every call of a batch
    near = shape_scores(TOPK, H200, [trial(0, {short: timing([12e-6] * 30, [10e-6] * 3)})])[0]
    assert not any("sealed" in note for note in near.notes)
    shape = GEMM.reduced[0].label
    warm = shape_scores(GEMM, CPU, [trial(0, {shape: timing([9e-3] * 10, [3e-3] * 3)})])[0]
    assert not any("sealed" in note for note in warm.notes)


@pytest.mark.parametrize(
    ("problem", "chosen", "seconds", "alone", "clock"),
    [
        (GEMM, H200, 100e-6, 2105e-6, "proved"),
        (GEMM, H200, 100e-6, 2115e-6, "weak"),
        (GEMM, CPU, 10e-3, 14.9e-3, "proved"),
        (GEMM, CPU, 10e-3, 15.1e-3, "weak"),
    ],
)
def test_calls_that_take_longer_alone_than_is_scored_leave_the_clock_weak(
    problem: Problem, chosen: Chosen, seconds: float, alone: float, clock: str
) -> None:
    shape = problem.shapes[0].label
    found = replace(timing([seconds] * 10, [seconds] * 3), walls=(1e-3 + alone,) * 5 + (1.0,) * 4, null_wall=1e-3)
    score = shape_scores(problem, chosen, [trial(0, {shape: found})])[0]
    assert score.clock == clock
    assert any("a call alone took" in note for note in score.notes) == (clock == "weak")
    unknown = replace(found, null_wall=0.0)
    assert shape_scores(problem, chosen, [trial(0, {shape: unknown})])[0].clock == "proved"


@pytest.mark.parametrize(
    ("problem", "chosen", "seconds", "alone", "overhead", "counts"),
    [
        (GEMM, H200, 100e-6, 260e-6, 5e-4, False),
        (GEMM, H200, 100e-6, 270e-6, 5e-4, True),
        (GEMM, H200, 100e-6, 610e-6, 2e-3, False),
        (GEMM, H200, 100e-6, 620e-6, 2e-3, True),
        (GEMM, CPU, 10e-3, 12.1e-3, 2e-4, False),
        (GEMM, CPU, 10e-3, 12.2e-3, 2e-4, True),
    ],
)
def test_a_sealed_call_alone_is_scored_where_it_takes_longer_than_the_other_clocks_say(
    problem: Problem, chosen: Chosen, seconds: float, alone: float, overhead: float, counts: bool
) -> None:
    shape = problem.shapes[0].label
    slow, least = SealedBatch(1, overhead + 5 * alone, overhead), SealedBatch(1, overhead + alone, overhead)
    found = replace(timing([seconds] * 10, [seconds] * 3), alone=(slow, least, slow))
    score = shape_scores(problem, chosen, [trial(0, {shape: found})])[0]
    assert score.t_alone == pytest.approx(alone)
    assert score.t_scored == pytest.approx(alone if counts else seconds)
    assert score.clock == ("weak" if counts else "proved")
    assert any("a sealed call took" in note for note in score.notes) == counts


@pytest.mark.parametrize(
    ("empty", "calls", "counts"),
    [(0.7e-3, 9, False), (0.7e-3, 5, True), (0.0, 9, True), (0.45e-3, 9, True)],
    ids=["as empty ones", "too few", "an older bundle", "empty ones took less"],
)
def test_calls_alone_that_are_disturbed_as_most_empty_ones_are_deny_nothing(
    empty: float, calls: int, counts: bool
) -> None:
    """Each took 0.3 ms longer than the quickest empty one, and the kernel takes 0.1 ms."""
    alone = (SealedBatch(1, 0.8e-3, 0.4e-3),) * calls
    found = replace(timing([1e-4] * 10, [1e-4] * 3), alone=alone, null_alone=empty)
    score = shape_scores(GEMM, H200, [trial(0, {GEMM.shapes[0].label: found})])[0]
    assert (score.t_scored > 1.01e-4) == (score.clock == "weak") == counts


def test_of_sealed_calls_alone_the_middle_trial_counts_and_none_where_one_has_none() -> None:
    def with_alone(*alone: float) -> ShapeTiming:
        return replace(timing([1e-4] * 10, [1e-4] * 3), alone=tuple(SealedBatch(1, one, 0.0) for one in alone))

    many = [with_alone(9e-3, 3e-3), with_alone(1e-3), with_alone(2e-3)]
    assert shape_scores(GEMM, H200, first(*many))[0].t_scored == pytest.approx(2e-3)
    assert shape_scores(GEMM, H200, first(*many[:2]))[0].t_scored == pytest.approx(1e-3)
    score = shape_scores(GEMM, H200, first(with_alone(1e-3), with_alone()))[0]
    assert (score.t_scored, score.t_alone, score.clock) == (1e-4, None, "proved")


def test_without_a_sealed_batch_the_clock_is_weak() -> None:
    score = shape_scores(GEMM, H200, first(timing([100e-6] * 30)))[0]
    assert (score.clock, score.t_sealed, score.t_scored) == ("weak", None, 100e-6)
    assert any("not proved" in note for note in score.notes)


def test_samples_under_the_floor_do_not_count() -> None:
    impossible = [0.94 * FLOOR_GEMM] * 3
    trials = first(timing([100e-6] * 27 + impossible, [100e-6] * 3))
    score = shape_scores(GEMM, H200, trials)[0]
    assert (score.vetoed, score.samples, score.t_event) == (3, 30, 100e-6)
    assert suspicion(GEMM, H200, trials) == ""


@pytest.mark.parametrize("lie", [0.94 * FLOOR_GEMM, 0.0, -1.0, math.nan, math.inf])
def test_more_than_a_tenth_of_impossible_samples_is_suspect(lie: float) -> None:
    trials = first(timing([100e-6] * 30, [100e-6] * 3), timing([100e-6] * 26 + [lie] * 4, [100e-6] * 3))
    told = suspicion(GEMM, H200, trials)
    assert told.startswith(f"4 of 30 timed calls at {GEMM.shapes[0].label} in trial 1")


def test_samples_faster_than_an_empty_call_are_vetoed() -> None:
    label = TOPK.shapes[0].label  # its floor is 0.1 us
    trials = [trial(0, {label: timing([1.7e-6] * 30, [1.7e-6] * 3)})]
    assert "faster than this target can be" in suspicion(TOPK, H200, trials)
    assert suspicion(TOPK, H200, [trial(0, {label: timing([1.9e-6] * 30, [1.9e-6] * 3)})]) == ""


def test_sealed_batches_faster_than_the_hardware_are_suspect_with_all_overhead_in_them() -> None:
    told = suspicion(GEMM, H200, first(batches(SealedBatch(100, 6e-3, 1e-4), 2, SealedBatch(100, 1e-2, 1e-4))))
    assert told.startswith(f"the sealed batches at {GEMM.shapes[0].label} in trial 0 took 60 us a call")
    assert suspicion(GEMM, H200, first(batches(SealedBatch(100, 6e-3, 1e-4), 1, SealedBatch(100, 1e-2, 1e-4)))) == ""
    assert suspicion(GEMM, H200, first(batches(SealedBatch(100, 6.7e-3, 0.0), 3))) == ""


def test_an_overhead_that_was_measured_in_a_noisy_moment_accuses_nobody() -> None:
    trials = first(batches(SealedBatch(16, 16 * 120e-6, 16 * 140e-6), 3))
    score = shape_scores(GEMM, H200, trials)[0]
    assert (suspicion(GEMM, H200, trials), score.t_sealed, score.t_scored) == ("", 0.0, 100e-6)
    assert score.clock == "weak"
    assert any("too short beside our own overhead" in note for note in score.notes)
    one_of_two = first(
        batches(SealedBatch(16, 16 * 100e-6, 0.0), 3), batches(SealedBatch(16, 16 * 120e-6, 16 * 120e-6), 3)
    )
    assert shape_scores(GEMM, H200, one_of_two)[0].clock == "weak"
    for batch in (SealedBatch(16, 16 * 200e-6, 16 * 149e-6), SealedBatch(16, 16 * 109e-6, 16 * 80e-6)):
        assert shape_scores(GEMM, H200, first(batches(batch, 3)))[0].clock == "proved"
    almost = SealedBatch(16, 16 * 200e-6, 16 * 151e-6)
    assert shape_scores(GEMM, H200, first(batches(almost, 3)))[0].clock == "weak"


def test_calls_of_a_batch_may_be_faster_than_an_empty_call_alone() -> None:
    label = TOPK.shapes[0].label  # a graph of many calls pays for one launch
    assert suspicion(TOPK, H200, [trial(0, {label: timing([4e-6] * 30, [1e-6] * 3, null=3e-6)})]) == ""


def test_a_trial_without_one_possible_sample_has_no_score() -> None:
    trials = first(timing([1e-6] * 30, [100e-6] * 3))
    assert [score.shape for score in shape_scores(GEMM, H200, trials)] == [s.label for s in GEMM.shapes[1:]]
    assert suspicion(GEMM, H200, trials)


def test_measured_peaks_veto_only_what_caches_and_better_products_cannot_explain() -> None:
    bound = floor(GEMM, GEMM.reduced[2], CPU.target)  # 33.6 MFLOP at 0.1 TFLOP/s, 0.59 MB at 20 GB/s
    assert bound is not None
    assert least_time(CPU, bound, 0.0) == pytest.approx(0.5 * bound.compute_s)
    assert least_time(CPU, replace(bound, compute_s=0.0), 0.0) == pytest.approx(0.1 * bound.memory_s)
    assert least_time(CPU, bound, 1.0) == pytest.approx(0.5)
    assert least_time(H200, bound, 0.0) == pytest.approx(0.95 * bound.t_floor)
    assert least_time(H200, bound, 1.0) == pytest.approx(0.9)


def test_a_disturbed_trial_does_not_move_the_time() -> None:
    good, bad = timing([100e-6] * 30, [99e-6] * 3), timing([300e-6] * 30, [299e-6] * 3)
    score = shape_scores(GEMM, H200, first(good, good, bad))[0]
    assert (score.t_event, score.t_sealed) == (100e-6, pytest.approx(99e-6))
    assert score.samples == 90


def test_the_time_without_the_gate_is_told_beside_the_score_and_moves_nothing_of_it() -> None:
    gated = timing([100e-6] * 30, [99e-6] * 3)
    ungated = replace(gated, ungated=(130e-6, 125e-6, 190e-6))
    plain, told = (shape_scores(GEMM, H200, first(found))[0] for found in (gated, ungated))
    assert plain.launch is None and told.t_ungated == 130e-6 and told.launch == pytest.approx(30e-6)
    assert replace(told, t_ungated=None) == plain
    assert shape_scores(GEMM, H200, first(gated, ungated))[0].launch is None, "a trial that did not look"
    fast = replace(gated, ungated=(90e-6,))
    assert shape_scores(GEMM, H200, first(fast))[0].launch == 0.0


def spread(*found: ShapeTiming) -> float:
    return shape_scores(GEMM, H200, first(*found))[0].spread


def test_the_spread_is_that_of_the_clock_which_is_scored() -> None:
    noisy, steady = [95e-6, 100e-6, 105e-6] * 10, [100e-6] * 30
    assert spread(timing(noisy, [90e-6] * 3)) == pytest.approx(of_samples(noisy))
    assert spread(timing(steady, [90e-6, 50e-6, 90e-6])) == 0.0
    assert spread(timing([80e-6] * 30, [95e-6, 100e-6, 105e-6])) == pytest.approx(of_batches([95e-6, 100e-6, 105e-6]))


def test_the_spread_of_three_trials_is_over_them() -> None:
    trials = [timing([seconds] * 30, [90e-6] * 3) for seconds in (100e-6, 100e-6, 110e-6)]
    assert spread(trials[0], trials[0], trials[1]) == 0.0
    assert spread(*trials) == pytest.approx(of_trials([100e-6, 100e-6, 110e-6], [0.0] * 3))


def test_a_shape_with_too_few_samples_has_no_spread_and_says_so() -> None:
    for found in (timing([90e-6] * 5, [80e-6] * 3), timing([80e-6] * 30, [90e-6, 100e-6])):
        score = shape_scores(GEMM, H200, first(found))[0]
        assert score.spread == 0.0 and "too few samples: no spread" in score.notes


@pytest.mark.parametrize(
    ("problem", "chosen", "place", "factor", "limit"),
    [
        (GEMM, H200, 0, 2.0, 0.015),
        (GEMM, H200, 2, 2.0, 0.005),
        (GEMM, H200, 2, 49.0, 0.005),
        (GEMM, H200, 2, 51.0, 0.03),
        (GEMM, H200, 2, 1.2, 0.03),
        (GEMM, CPU, 0, 2.0, 0.15),
    ],
    ids=["compute-bound", "memory-bound", "still memory-bound", "latency-bound", "under 20 us", "cpu"],
)
def test_repeats_may_spread_as_far_as_their_class_allows(
    problem: Problem, chosen: Chosen, place: int, factor: float, limit: float
) -> None:
    shapes = problem.shapes if chosen is H200 else problem.reduced
    bound = floor(problem, shapes[place], chosen.target)
    assert bound is not None
    seconds = factor * bound.t_floor

    def judged(step: float) -> bool:
        found = timing([seconds] * 30, [1.01 * seconds * (1 + error) for error in (-step, 0.0, step)])
        return unstable(problem, chosen, shape_scores(problem, chosen, [trial(0, {shapes[place].label: found})]))

    limit *= math.sqrt(6 / math.pi)  # so much more than their median may three batches vary
    assert (judged(0.98 * limit), judged(1.02 * limit)) == (False, True)
    score = shape_scores(problem, chosen, [trial(0, {shapes[place].label: timing([seconds])})])[0]
    assert noise_limit(problem, chosen, score) == pytest.approx(limit / math.sqrt(6 / math.pi))


def test_only_where_memory_binds_on_a_gpu_are_samples_wanted_until_their_middle_is_known_well() -> None:
    ((label, one),) = wanted(GEMM, H200).items()
    bound = floor(GEMM, GEMM.shapes[2], H200.target)
    assert bound is not None and label == GEMM.shapes[2].label and one.error == pytest.approx(0.002)
    times = (19e-6, 21e-6, 49 * bound.t_floor, 51 * bound.t_floor)  # latency binds where the floor is a fiftieth
    assert [one.of(seconds) for seconds in times] == [False, True, True, False]
    assert wanted(GEMM, CPU) == {}


def test_scores_are_geometric_means_and_none_unless_every_shape_has_one() -> None:
    shapes = shape_scores(GEMM, H200, [same(GEMM, H200)])
    assert len(shapes) == len(GEMM.shapes)
    assert total(GEMM, H200, shapes).roofline_fraction == pytest.approx(0.5)
    uneven = [replace(shapes[0], roofline_fraction=0.125), *shapes[1:]]
    assert total(GEMM, H200, uneven).roofline_fraction == pytest.approx(0.5 / 4**0.25)
    assert total(GEMM, H200, shapes[1:]) == NO_SCORES
    assert total(GEMM, H200, [*shapes[1:], shapes[1]]) == NO_SCORES
    assert total(GEMM, H200, ()) == NO_SCORES


@pytest.mark.parametrize("fault", ["wrong", "crashed", "timeout", "not-run", "absent", "untimed"])
def test_a_shape_that_failed_in_one_trial_has_no_score_and_leaves_the_cell_without_one(fault: str) -> None:
    good = same(GEMM, H200)
    last = replace(good.shapes[-1], status=fault, timing=None)  # type: ignore[arg-type]
    if fault == "crashed":
        last = replace(last, timing=good.shapes[-1].timing)  # it was timed before that
    kept = {"absent": good.shapes[:-1], "untimed": (*good.shapes[:-1], replace(last, status="right"))}
    bad = replace(good, index=1, shapes=kept.get(fault, (*good.shapes[:-1], last)))
    shapes = shape_scores(GEMM, H200, [good, bad])
    assert [score.shape for score in shapes] == [shape.label for shape in GEMM.shapes[:-1]]
    assert total(GEMM, H200, shapes) == NO_SCORES
    assert shape_scores(GEMM, H200, []) == ()


def test_what_the_submission_does_to_the_clock_is_told_once() -> None:
    found = replace(timing([100e-6] * 30, [100e-6] * 3, host_sync=True), notes=("eager batch",))
    notes = shape_scores(GEMM, H200, first(found, found))[0].notes
    assert notes.count("eager batch") == 1
    assert any("waits for the device" in note for note in notes)


times = st.floats(1.0, 1e4)


@settings(max_examples=60, deadline=None)
@example(claimed=[1.0, 1.0, 3.0], sealed=[], slower=2.0)
@given(claimed=st.lists(times, min_size=1, max_size=30), sealed=st.lists(times, max_size=4), slower=times)
def test_no_time_that_stands_scores_above_what_the_floor_leaves(
    claimed: list[float], sealed: list[float], slower: float
) -> None:
    bound = 0.5 * FLOOR_GEMM  # from half of the floor on: some are vetoed
    trials = first(timing([bound * t for t in claimed], [bound * t for t in sealed]))
    scores = shape_scores(GEMM, H200, trials)
    if scores[0].shape == GEMM.shapes[0].label:
        score = scores[0]
        assert 0 < score.roofline_fraction <= 1 / 0.95 + 1e-12
        assert score.roofline_fraction <= score.attainable_fraction
        assert score.t_scored >= max(score.t_event, score.t_sealed or 0.0)
        if not score.vetoed:  # a sample that was vetoed may count when it is slower
            later = first(timing([bound * t * slower for t in claimed], [bound * t * slower for t in sealed]))
            assert shape_scores(GEMM, H200, later)[0].roofline_fraction <= score.roofline_fraction * (1 + 1e-9)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(times, times), min_size=4, max_size=4), st.integers(0, 3), times)
def test_a_slower_shape_never_raises_a_mean(pairs: list[tuple[float, float]], place: int, slower: float) -> None:
    def means(factor: Callable[[int], float]) -> tuple[float | None, ...]:
        found = {}
        for i, (shape, (event, sealed)) in enumerate(zip(GEMM.shapes, pairs, strict=True)):
            bound = floor(GEMM, shape, H200.target)
            assert bound is not None
            unit = bound.t_floor * factor(i)
            found[shape.label] = timing([unit * event] * 3, [unit * sealed] * 3)
        scores = total(GEMM, H200, shape_scores(GEMM, H200, [trial(0, found)]))
        return scores.peak_fraction, scores.roofline_fraction, scores.attainable_fraction

    before, after = means(lambda i: 1.0), means(lambda i: slower if i == place else 1.0)
    for old, new in zip(before, after, strict=True):
        assert old is not None and new is not None and new <= old * (1 + 1e-9)


def test_the_published_score_of_a_gemm_stands_on_the_published_peak() -> None:
    found = {shape.label: timing([500e-6] * 30, [500e-6] * 3) for shape in GEMM.shapes}
    scores = score_2026_04(GEMM, RTX, shape_scores(GEMM, RTX, [trial(0, found)]))
    # 2*M*N*K / 500 us / 400 TFLOP/s: 0.68719, 0.69239, 0.02147, 2.40518
    assert scores.peak_fraction_2026_04 == pytest.approx((0.687195 * 0.692396 * 0.0214748 * 2.405182) ** 0.25, rel=1e-5)
    assert (scores.peak_fraction, scores.roofline_fraction, scores.attainable_fraction) == (None, None, None)


def test_the_published_scores_of_a_top_k_and_of_the_moe_use_their_published_formulas() -> None:
    found = {shape.label: timing([20e-6] * 50) for shape in TOPK.shapes}
    share = [525_056, 2_103_296, 2_109_440, 771_072, 2_098_688]  # bytes
    by_hand = math.prod(moved / 20e-6 / 1800e9 for moved in share) ** 0.2
    scores = score_2026_04(TOPK, RTX, shape_scores(TOPK, RTX, [trial(0, found)]))
    assert scores.peak_fraction_2026_04 == pytest.approx(by_hand)
    found = {shape.label: timing([50e-3] * 20) for shape in MOE.shapes}
    flops = [2 * 32768 * 4096 * 3072, 2 * 4096 * 2048 * 2048, 2 * 16384 * 2048 * 8192]  # without the routing factor
    by_hand = math.prod(count / 50e-3 / 200e12 for count in flops) ** (1 / 3)
    scores = score_2026_04(MOE, RTX, shape_scores(MOE, RTX, [trial(0, found)]))
    assert scores.peak_fraction_2026_04 == pytest.approx(by_hand)


def test_the_published_protocol_is_for_its_gpu_and_its_problems_only() -> None:
    with pytest.raises(TargetError, match="for rtx_pro_6000 only; this is h200"):
        check_2026_04(GEMM, H200)
    rope = load_problem(DECK / "09_fmha_preattn_mrope" / "problem.yaml")
    with pytest.raises(TargetError, match="was not scored"):
        check_2026_04(rope, RTX)
    assert check_2026_04(TOPK, RTX).trials == 50
    assert score_2026_04(GEMM, RTX, ()) == NO_SCORES


@pytest.mark.parametrize("name", [f"0{n}" for n in range(1, 8)])
def test_the_published_formulas_hold_at_every_shape(name: str) -> None:
    problem = load_problem(next(DECK.glob(f"{name}_*/problem.yaml")))
    scores = score_2026_04(problem, RTX, shape_scores(problem, RTX, [same(problem, RTX, 4.0)]))
    assert scores.peak_fraction_2026_04 is not None and 0 < scores.peak_fraction_2026_04 < 3
