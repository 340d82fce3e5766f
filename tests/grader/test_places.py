"""Where tensors of timed calls lie, and what of a batch's time is ours: both must not decide a score."""

from __future__ import annotations

from dataclasses import replace
from itertools import count, cycle
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from grader.candidate.clock import Untimed
from grader.candidate.clock.gate import GATE_S, SOONER_S, WAITS, Gate
from grader.candidate.clock.outside import run
from grader.candidate.runner import Runner, _Place
from grader.judge import batches, empty_calls, single_calls
from grader.judge import plan as planning
from grader.judge.batches import FIRST_ALONE, MOST_ALONE, SPELLS, lone_calls, sealed_batches
from grader.judge.empty_calls import measure_empty
from grader.judge.seen import Null, Sample, Seen
from grader.judge.trial import Trial
from grader.record.cell import LEAST_MIDDLE, SealedBatch, ShapeTiming
from grader.wire.frames import Frame, Kind

anything: Any = None
gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.mark.parametrize(
    ("device", "models", "slot_bytes", "slots"),
    [
        ("cpu", 1, 1 << 10, 3),
        ("cpu", 5, 1 << 10, 5),
        ("cuda", 1, 1 << 20, 32),
        ("cuda", 1, 1 << 30, 4),
        ("cuda", 1, 8 << 30, 3),
        ("cuda", 12, 8 << 30, 12),
        ("cuda", 1, 0, 32),
    ],
)
def test_calls_on_a_gpu_take_turns_in_several_places_as_far_as_there_is_room(
    device: str, models: int, slot_bytes: int, slots: int
) -> None:
    assert planning.slot_count(device, models, slot_bytes) == slots


@pytest.mark.parametrize(
    ("weights", "models"), [(1 << 10, 1), (1 << 20, 16), (64 << 20, 16), (1 << 30, 4), (5 << 30, 1)]
)
def test_models_take_turns_in_as_many_places_and_never_lie_in_the_cache(
    weights: int, models: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(single_calls, "cache_bytes", lambda _: 50 << 20)
    monkeypatch.setattr(single_calls, "ring_room", lambda _: 20 << 30)
    trial, case = Trial.__new__(Trial), SimpleNamespace(state={"w": SimpleNamespace(nbytes=weights)})
    trial.options, trial.session = planning.default_options("cuda"), SimpleNamespace(device=None)  # type: ignore[assignment]
    assert single_calls.instances(trial, case) == models  # type: ignore[arg-type]
    monkeypatch.setattr(single_calls, "ring_room", lambda _: 4 << 30)
    assert single_calls.instances(trial, case) == {1 << 30: 1, 64 << 20: 16}.get(weights, models)  # type: ignore[arg-type]


@pytest.mark.parametrize(("making", "models"), [(0.01, 16), (0.3, 13), (1.0, 4), (30.0, 4)])
def test_models_that_take_long_to_make_are_as_many_as_it_takes_to_leave_the_cache(
    making: float, models: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(single_calls, "cache_bytes", lambda _: 50 << 20)
    monkeypatch.setattr(single_calls, "ring_room", lambda _: 20 << 30)
    trial, case = Trial.__new__(Trial), SimpleNamespace(state={"w": SimpleNamespace(nbytes=25 << 20)})
    trial.options, trial.session = planning.default_options("cuda"), SimpleNamespace(device=None)  # type: ignore[assignment]
    assert single_calls.instances(trial, case, making) == models  # type: ignore[arg-type]


def test_a_gate_opens_sooner_once_several_calls_in_a_row_have_waited_for_the_device() -> None:
    armed, waits = list[float](), False
    gate = Gate.__new__(Gate)
    gate._wait_value, gate._address, gate._until, gate._waits = lambda *_: None, 0, 0, 0
    gate._word = SimpleNamespace(value=0)  # type: ignore[assignment]
    gate._opener = SimpleNamespace(arm=armed.append, disarm=lambda: waits)  # type: ignore[assignment]

    def call() -> float:
        gate.shut(0)
        assert gate.open() is waits
        return armed[-1]

    waits = True
    assert [call() for _ in range(WAITS + 2)] == [GATE_S] * WAITS + [SOONER_S] * 2
    waits = False
    assert call() == SOONER_S and call() == GATE_S


def on(device: str) -> Any:
    """A trial on a device, as far as its batches need one."""
    session = SimpleNamespace(device=torch.device(device), in_bytes=1 << 10, out_bytes=1 << 10)
    return SimpleNamespace(session=session, options=planning.default_options(device), on_gpu=device == "cuda")


def empty_batches(device: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What is learned of empty batches: 1 ms, 2 us to map the inputs of a call, 10 us for a copy, and up to 0.4 ms."""
    late, longer, prepared = cycle([0.0, 1e-4, 4e-4, 2e-4, 3e-4]), count(1.012e-3, 5e-5), [0, 1]
    monkeypatch.setattr(empty_calls, "ring_room", lambda _: 1 << 40)

    def prepare(rounds: int, example: None, doing: str, *, copies: int = 1) -> Frame:
        prepared[:] = [rounds, copies]
        return Frame(Kind.READY, 0)

    def batch(cases: None, rounds: int, lot: object, doing: str) -> Any:
        return SimpleNamespace(
            answer=Frame(Kind.DONE, 0), wall=1e-3 + rounds * (2e-6 + 1e-5 * prepared[1]) + next(late)
        )

    judge: Any = SimpleNamespace(
        device=torch.device(device), in_bytes=1000, out_bytes=1000, prepare=prepare, batch=batch,
        load=lambda *_, **__: Frame(Kind.READY, 0, (1.0,)),
        call=lambda *_: SimpleNamespace(answer=Frame(Kind.DONE, 0, (3e-6, 0.0)), wall=5e-4),
        alone=lambda *_: SimpleNamespace(answer=Frame(Kind.DONE, 0), wall=next(longer)),
    )  # fmt: skip
    binding: Any = None
    return measure_empty(judge, binding)


def test_of_a_batch_on_a_gpu_as_much_is_ours_as_it_may_have_been(monkeypatch: pytest.MonkeyPatch) -> None:
    null = empty_batches("cuda", monkeypatch)
    assert null.error == pytest.approx(1e-4), "only the quickest count"
    assert null.overhead(100, 2e-3) == pytest.approx(1e-3 + 100 * 12e-6 + 1e-4 + 0.07 * 7e-4)
    assert (null.seconds, null.wall, null.canary) == (3e-6, 5e-4, 1.0)


def test_other_processes_of_a_cpu_excuse_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert empty_batches("cpu", monkeypatch).overhead(100, 1.0) == pytest.approx(1e-3 + 100 * 12e-6)


def test_mapping_the_inputs_is_ours_however_cheap_a_copy_is(monkeypatch: pytest.MonkeyPatch) -> None:
    walls = {(3, 0): 1e-3, (512, 0): 6.09e-3, (512, 1): 8e-3, (512, 2): 8e-3}
    monkeypatch.setattr(empty_calls, "_batches", lambda _, rounds, copies=1, times=5: [walls[rounds, copies]] * times)
    null = empty_calls._of_gpu(None, 3, 512)  # type: ignore[arg-type]
    assert (null.mapping, null.copy) == (pytest.approx(10e-6), 0.0), "a second copy costs nothing, mapping does"


def test_of_what_is_left_of_a_batch_on_a_gpu_a_part_may_come_of_calls_in_a_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    null, rounds = empty_batches("cuda", monkeypatch), 100
    before, copies = 1e-3 + rounds * 2e-6 + 1e-4, rounds * 10e-6
    wall = before + copies + 10e-3
    batch = SealedBatch(rounds, wall, null.overhead(rounds, wall))
    assert batch.per_call == pytest.approx(0.93 * 110e-6 - 10e-6), "of calls and of copies"


@pytest.mark.parametrize(
    ("slow", "first", "later", "counted"),
    [(1, 0.1, 1e-4, [(100, 1e-4)] * 2), (9, 0.1, 0.1, [(3, 0.1)] * 2), (3, 1e-2, 2e-4, [(100, 2e-4)] * 2)],
    ids=["the first waited for what is loaded once", "calls are as slow as that", "all short ones were disturbed"],
)
def test_a_short_batch_that_denies_the_claim_is_repeated_before_one_counts(
    monkeypatch: pytest.MonkeyPatch, slow: int, first: float, later: float, counted: list[tuple[int, float]]
) -> None:
    state, run = Seen(status="right", samples=[Sample(1e-4)] * 10), list[tuple[int, int]]()

    def batch(runs: object, rounds: int, number: int, *, prepared: bool) -> SealedBatch:
        run.append((number, rounds))
        return SealedBatch(rounds, rounds * (first if len(run) <= slow else later), 0.0)

    monkeypatch.setattr(batches._Runs, "one", batch)
    monkeypatch.setattr(planning, "round_count", lambda _, seconds, *__: 100 if seconds < 1e-3 else 10)
    sealed_batches(on("cpu"), anything, state, [])
    assert [(one.rounds, pytest.approx(one.per_call)) for one in state.sealed] == counted
    assert len({number for number, _ in run}) == len(run), "values never repeat"


@pytest.mark.parametrize(
    ("walls", "runs"),
    [
        ([1.0, 1.01, 1.3, 1.0], 3),
        ([9.0, 1.0, 6.0, 1.2, 1.02, 1.0], 5),
        ([1.0 + 0.2 * n for n in range(12)], 11),
        ([1.1, 1.1, 1.12, 1.0, 1.0], 5),
        ([1.1] * 12, 11),
        ([1.4] * 9, 9),
        ([40.0] * 3 + [1.0, 1.0, 1.01], 6),
        ([1.4] * 3 + [30.0] * 3 + [1.0, 1.02, 1.0], 9),
    ],
    ids=[
        "two agree",
        "some were disturbed",
        "none agree",
        "above the claim",
        "always above",
        "far above it",
        "a spell disturbed all",
        "a long spell did",
    ],
)
def test_batches_of_a_gpu_are_repeated_until_the_quickest_bear_a_claim_out_and_those_count(
    monkeypatch: pytest.MonkeyPatch, walls: list[float], runs: int
) -> None:
    state, run, left = Seen(status="right", samples=[Sample(1.05e-2)] * 10), list[int](), iter(walls)

    def batch(runs: object, rounds: int, number: int, *, prepared: bool) -> SealedBatch:
        run.append(number)
        return SealedBatch(10, 10 * (1e-2 if rounds == 3 else next(left)) * 1e-2, 0.0)

    monkeypatch.setattr(batches._Runs, "one", batch)
    monkeypatch.setattr(planning, "round_count", lambda *_: 10)
    paused = list[float]()
    monkeypatch.setattr(batches.time, "sleep", paused.append)
    for name in ("cache_bytes", "ring_room", "health_of"):
        monkeypatch.setattr(batches, name, lambda _: {})
    sealed_batches(on("cuda"), anything, state, [])
    assert len(state.sealed) == runs and len(set(run)) == len(run) == 1 + len(paused) + runs, "values never repeat"
    timing = ShapeTiming((1e-2,) * 10, (), tuple(state.sealed), 0.0, quickest=planning.QUICKEST)
    quickest = [w * 1e-2 for w in sorted(walls[:runs])]
    assert [one.per_call for one in timing.counted] == pytest.approx(quickest[:2])
    assert [one.per_call for one in timing.repeats] == pytest.approx(quickest[:3])
    assert replace(timing, quickest=0).counted == replace(timing, quickest=0).repeats == timing.sealed


def test_batches_of_calls_that_are_truly_slow_are_not_made_again_as_long_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    state, run = Seen(status="right", samples=[Sample(1e-4)] * 10), list[int]()

    def batch(runs: object, rounds: int, number: int, *, prepared: bool) -> SealedBatch:
        run.append(rounds)
        return SealedBatch(rounds, rounds * 0.1, 0.0)

    monkeypatch.setattr(batches._Runs, "one", batch)
    monkeypatch.setattr(planning, "round_count", lambda _, seconds, *__: 100 if seconds < 1e-3 else 10)
    monkeypatch.setattr(batches.time, "sleep", lambda seconds: None)
    for name in ("cache_bytes", "ring_room", "health_of"):
        monkeypatch.setattr(batches, name, lambda _: {})
    sealed_batches(on("cuda"), anything, state, [])
    assert 100 not in run and run[-2:] == [3, 3] and len(SPELLS) == 3


def test_what_a_batch_of_one_call_costs_is_measured_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    for device in ("cpu", "cuda"):
        null = empty_batches(device, monkeypatch)
        error = 5e-5 * (empty_calls.QUICKEST - 1)
        assert (null.alone, null.alone_error) == (pytest.approx(1.012e-3), pytest.approx(error)), "the quickest"
        assert null.overhead(1, 5e-3) == pytest.approx(null.alone + null.alone_error)
        assert null.alone_middle > null.alone + null.alone_error


def test_no_shape_s_empty_call_alone_costs_more_than_another_s_and_its_own_bytes_explain() -> None:
    """A slow spell of the host, while one of three was measured, excuses nothing."""
    costs = {"small": (6e-4, 6.2e-4), "slow": (8e-4, 9e-4), "large": (7e-4, 7.1e-4)}
    null = Null(0.0, 0.0, 1e-3, 0.0, 1e-6, 0.0, alone_error=1e-5)
    nulls = {label: replace(null, alone=one, alone_middle=middle) for label, (one, middle) in costs.items()}
    found = empty_calls.together(nulls, {"small": 0, "slow": 5_000_000, "large": 100_000_000})
    assert found["small"] == nulls["small"] and found["large"] == nulls["large"], "bytes explain it"
    assert (found["slow"].alone, found["slow"].alone_middle) == pytest.approx((6.3e-4, 6.5e-4))
    assert found["slow"].batch == null.batch
    unknown = {"one": replace(null, alone=8e-4), "two": replace(null, alone=1e-4)}
    assert empty_calls.together(unknown, {"one": 0, "two": 0}) == unknown, "there it was not measured"


@pytest.mark.parametrize(
    ("walls", "runs"),
    [
        ([1.0], 1),
        ([9.0, 1.0], 2),
        ([9.0] * 100, len(SPELLS) * MOST_ALONE),
        ([9.0] * 40 + [1.0] * 5, 41),
        ([9.0, None], 1),
        ([3.0] * 40, LEAST_MIDDLE),
        ([9.0] * 4 + [3.0] * 40, 9),
    ],
    ids=[
        "the first is near",
        "the first was disturbed",
        "all take longer",
        "those of one spell do",
        "one breaks down",
        "all take as much longer as empty ones do",
        "their middle does",
    ],
)
def test_a_call_alone_is_repeated_until_it_leaves_the_other_clocks_possible(
    monkeypatch: pytest.MonkeyPatch, walls: list[float | None], runs: int
) -> None:
    state, run = Seen(status="right", samples=[Sample(1e-3)] * 10, sealed=[SealedBatch(3, 3e-3, 0.0)]), list[int]()

    def batch(runs: object, rounds: int, number: int, *, prepared: bool, alone: bool) -> SealedBatch | None:
        wall = walls[len(run)]
        assert rounds == 1 and alone and prepared == bool(run)
        run.append(number)
        return None if wall is None else SealedBatch(1, 1e-3 * wall, 0.0)

    trial = on("cpu")
    trial.nulls, trial.denied = {"x": SimpleNamespace(alone_middle=2e-3)}, set()
    monkeypatch.setattr(batches._Runs, "one", batch)
    monkeypatch.setattr(batches.time, "sleep", lambda seconds: None)
    lone_calls(trial, SimpleNamespace(label="x"), state, [])  # type: ignore[arg-type]
    assert [one.per_call for one in state.alone] == pytest.approx([1e-3 * w for w in walls[:runs] if w is not None])
    assert len(set(run)) == len(run) and min(run) >= FIRST_ALONE, "values never repeat"


def test_a_second_process_makes_calls_alone_where_those_of_the_first_deny_what_is_scored_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is scored may be less than when they were made: the first on each slot count until there are others."""
    state, run = Seen(status="right", samples=[Sample(3e-3)] * 10, sealed=[SealedBatch(3, 3e-3, 0.0)]), list[bool]()

    def batch(runs: object, rounds: int, number: int, *, prepared: bool, alone: bool) -> SealedBatch:
        assert number == FIRST_ALONE + len(run)
        run.append(prepared)
        return SealedBatch(1, walls.pop(0), 0.0)

    trial, label = on("cpu"), SimpleNamespace(label="x")
    trial.nulls, trial.denied = {"x": SimpleNamespace(alone_middle=0.0)}, set()
    monkeypatch.setattr(batches._Runs, "one", batch)
    monkeypatch.setattr(batches.time, "sleep", lambda seconds: None)
    walls = [3e-3]
    lone_calls(trial, label, state, [])  # type: ignore[arg-type]
    lone_calls(trial, label, state, [])  # type: ignore[arg-type]
    assert run == [False] and not trial.denied, "it leaves the claim possible, in the next process too"
    state.samples = [Sample(1e-3)] * 10
    walls = [3e-3, 1e-3]
    lone_calls(trial, label, state, [])  # type: ignore[arg-type]
    assert run == [False, False, True], "its process is another one, which has prepared none"
    state.samples, walls = [Sample(5e-4)] * 10, [3e-3] * 1000
    state.sealed, state.alone = [SealedBatch(3, 1e-3, 0.0)], []
    run.clear()
    lone_calls(trial, label, state, [])  # type: ignore[arg-type]
    assert trial.denied == {"x"}


def test_no_call_is_made_alone_where_no_batch_came_to_an_end() -> None:
    for state in (
        Seen(status="right", samples=[Sample(1e-3)]),
        Seen(status="wrong", sealed=[SealedBatch(3, 1e-3, 0.0)]),
    ):
        lone_calls(on("cpu"), anything, state, [])
        assert state.alone == []


@pytest.mark.gpu
@gpu
def test_the_outputs_of_calls_on_a_gpu_lie_in_as_many_places_as_there_are_slots_and_never_hold_old_results() -> None:
    torch.cuda.empty_cache()
    runner, size = Runner(torch.device("cuda"), Untimed(lambda: None)), (64, 1 << 16)
    runner.calls = [_Place({}, (torch.zeros(size, device="cuda"),)) for _ in range(8)]
    found = []
    for call in range(32):
        run(runner._poison(call % 8))
        fresh = torch.empty(size, device="cuda")
        assert bool(fresh.view(torch.uint8).eq(0xFF).all())
        found.append(fresh.fill_(1.0).data_ptr())
        del fresh
    rounds = [found[begun : begun + 8] for begun in (8, 16, 24)]  # the first may find what another test left free
    assert rounds[0] == rounds[1] == rounds[2] and len(set(rounds[0])) == 8


def test_a_cpu_keeps_no_memory_for_the_time_of_a_call() -> None:
    runner = Runner(torch.device("cpu"), Untimed(lambda: None))
    runner.calls = [_Place({}, (torch.zeros(4, 8),))] * 3
    run(runner._poison(1))
    assert runner.kept == []
