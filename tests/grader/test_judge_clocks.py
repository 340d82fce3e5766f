"""Trials on a small problem: which calls are timed, by which clock, and what a batch shows."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest
from ground import OPTIONS, RIGHT, Ground, forward
from toy import HONEST, toy_problem

from grader.deck.code import load_code
from grader.judge import plan as planning
from grader.judge import seen
from grader.judge import session as sessions
from grader.judge.judging import default_options
from grader.judge.seen import Sample, Seen, prepared
from grader.record.spread import Wanted


@pytest.mark.cold
def test_a_right_submission_is_compared_on_every_call_and_timed_by_both_clocks(ground: Callable[[str], Ground]) -> None:
    here = ground("print('hello from the import')\n" + HONEST)
    result = here.trial()
    (shape,) = result.shapes
    assert result.status == shape.status == "right" and result.message.endswith("compared calls are right")
    assert result.commitment == hashlib.sha256(bytes.fromhex(result.master)).hexdigest() and result.log == "kept"
    assert here.logs == ["hello from the import\n"]
    assert shape.calls == shape.compared == len(shape.cases) and all(case.ok for case in shape.cases)
    assert shape.timing is not None and len(shape.timing.claimed) == len(shape.timing.walls) == 4
    assert all(0 < claim < wall for claim, wall in zip(shape.timing.claimed, shape.timing.walls, strict=True))
    assert len(shape.timing.sealed) == 2 and all(batch.seconds > 0 for batch in shape.timing.sealed)
    assert sum(case.digest != "" for case in shape.cases) == 2
    assert set(result.spent) == {"start", "empty calls", "import", "first calls", "calls", "batches", "launches"}
    assert 0.5 * result.seconds < sum(result.spent.values()) < result.seconds + 0.1
    assert here.replay(result) == ()


GRAPHS = """
import time
MADE = set()

def launched(x):
    if x.data_ptr() in MADE:  # the first call for an address is what a graph is made of: events see none of it
        time.sleep(0.02)
    MADE.add(x.data_ptr())
"""


def test_the_first_call_for_an_address_is_not_a_sample_where_there_are_others(
    ground: Callable[[str], Ground], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "GRAPHS", ("cpu",))
    here = ground(forward("launched(x)\n" + RIGHT + "return y", GRAPHS))
    result = here.trial(replace(OPTIONS, samples=8, warmups=0))
    (shape,) = result.shapes
    assert result.status == "right" and shape.timing is not None
    assert 4 <= len(shape.timing.claimed) == len(shape.timing.walls) <= 8 and min(shape.timing.claimed) >= 0.02
    once = Seen(samples=[Sample(1.0, 3.0, 0), Sample(2.0, 3.0, 0)])
    assert once.claimed == [1.0, 2.0], "where there are no others they are what there is"
    once.samples += [Sample(4.0, 5.0, 1), Sample(1.0, 3.0, 0)]
    assert once.claimed == [4.0]


def test_calls_up_to_the_one_that_makes_a_graph_for_an_address_are_no_samples(
    ground: Callable[[str], Ground], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "GRAPHS", ("cpu",))
    monkeypatch.setattr(seen, "LEAST_BEFORE", 1)
    monkeypatch.setattr(seen, "LEAST_AFTER", 4)
    counts = "import time\nCALLS = {}\n\ndef launched(x):\n    CALLS[x.data_ptr()] = CALLS.get(x.data_ptr(), 0) + 1\n"
    counts += "    time.sleep(0.2 if CALLS[x.data_ptr()] == 3 else 0.01)\n"
    here = ground(forward("launched(x)\n" + RIGHT + "return y", counts))
    result = here.trial(replace(OPTIONS, samples=24, warmups=0))
    (shape,) = result.shapes
    assert result.status == "right" and shape.timing is not None
    for times in (shape.timing.claimed, shape.timing.walls):  # each address has such a call; a busy machine delays one
        assert len(times) >= 8 and sum(seconds >= 0.2 for seconds in times) <= 1
    assert any("in call 3 on it" in note for note in shape.timing.notes)


def test_who_makes_something_for_an_address_is_told_by_the_calls_after_it() -> None:
    def visits(times: Sequence[float], places: int = 8) -> list[Sample]:
        return [Sample(seconds, 0.0, visit) for visit, seconds in enumerate(times) for _ in range(places)]

    assert prepared(visits([9.0, 1.0, 1.0, 1.0, 1.0])) == 1, "the first call on each place"
    assert prepared(visits([1.0, 1.0, 30.0, 1.0, 1.0, 1.0])) == 3
    assert prepared(visits([1.0, 1.2, 1.2, 30.0, 1.0, 1.0, 1.0])) == 4
    assert prepared(visits([1.0, 1.4, 1.3, 1.0, 1.0, 1.0])) == 1, "times that fall a little are times"
    assert prepared(visits([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 30.0, 1.0, 1.0, 1.0])) == 1, "so late it is the submission's"
    assert prepared(visits([1.0, 30.0, 1.0])) == 1, "too few come after it"
    assert prepared([Sample(1.0)] * 9) == prepared([]) == 0, "a device on which nothing is made for an address"
    once = visits([1.0, 1.0, 1.0, 1.0])
    assert prepared([*once, Sample(99.0, 0.0, 2)]) == 1, "one call that was disturbed says nothing"


@pytest.mark.parametrize(
    ("wanted", "hope", "calls"), [(1e-9, 1e12, 16), (1e-9, 1.0, 8), (9.0, 1.0, 8)],
    ids=["never known well", "out of reach", "known at once"],
)  # fmt: skip
def test_times_that_vary_much_get_more_samples_some_of_them_compared(
    ground: Callable[[str], Ground], monkeypatch: pytest.MonkeyPatch, wanted: float, hope: float, calls: int
) -> None:
    here = ground(HONEST)
    for name, value in (("MORE_SAMPLES", 4), ("MOST_MORE", 8), ("HOPE", hope)):
        monkeypatch.setattr(planning, name, value)
    options = replace(OPTIONS, samples=8, compare_least=4, wanted={here.label: Wanted(wanted)})
    (shape,) = here.trial(options).shapes
    assert shape.status == "right" and shape.timing is not None and len(shape.timing.claimed) == calls
    more = {f"timed/{i}" for i in range(11, 19)}
    compared = {case.case for case in shape.cases}
    assert len(compared & more) == (calls - 8) // 2, "as large a share as of the others"


def test_more_samples_are_taken_where_they_may_do() -> None:
    assert planning.reachable(0.003, 0.002, 200, 400), "three times as many: 0.17 %"
    assert planning.reachable(0.004, 0.002, 200, 400), "errors are estimates"
    assert not planning.reachable(0.010, 0.002, 200, 400), "25 times as many would have to be taken"
    assert not planning.reachable(0.010, 0.002, 0, 0)


def test_a_batch_is_timed_by_the_judge_whatever_is_claimed(ground: Callable[[str], Ground]) -> None:
    lie = (
        "import grader.candidate.clock as c, gc, time\nwork = time.perf_counter\n"
        "for o in gc.get_objects():\n    if isinstance(o, c.CpuClock): o._now = lambda: 0.0\n"
    )
    slow = "end = work() + 2e-3\nwhile work() < end: pass\n"
    result = ground(forward(slow + RIGHT + "return y", lie)).trial()
    timing = result.shapes[0].timing
    assert result.status == "right" and timing is not None
    assert median(timing.claimed) == 0.0, "the claim is what the submission made it"
    assert all(2e-3 < batch.per_call < 4e-2 for batch in timing.sealed)


def test_a_batch_whose_rehearsal_breaks_down_leaves_no_time(ground: Callable[[str], Ground]) -> None:
    broken = "import sys\n\ndef no(*_): raise ValueError('no')\n\n"
    broken += "sys.modules['grader.candidate.runner'].Runner.rehearse = no\n"
    (shape,) = ground(forward(RIGHT + "return y", broken)).trial().shapes
    assert shape.status == "crashed" and "ValueError: no in a batch" in shape.message
    assert shape.timing is None or not shape.timing.sealed


def test_the_plan_has_enough_timed_calls_after_the_warm_ups_whatever_the_key(tmp_path: Path) -> None:
    problem = toy_problem(tmp_path)
    code, (shape,) = load_code(problem), problem.reduced
    for options in (OPTIONS, default_options("cpu"), default_options("cuda")):
        for seed in range(8):
            plan = planning.plan_shape(problem, shape, bytes([seed]) * 32, options, code)
            (group,) = plan.groups
            assert len(group.timed) == options.samples and len(group.specs) + len(plan.first) == plan.calls
            assert {spec.id for spec in plan.first} == {"nominal/0", "structure/ragged/0"} <= plan.compared
            assert {"nominal/1", "structure/ragged/1"} <= {spec.id for spec in group.specs}, "some of each are left"
            assert not {spec.id for spec in group.specs[: options.warmups]} & set(group.timed)
            least = options.compare_least
            timed = [spec.id for spec in group.specs if spec.id.startswith("timed/")]
            assert least is None or len(plan.compared & set(timed)) == least
            assert {spec.id for spec in group.specs if spec.id not in timed} <= plan.compared
    orders = {
        tuple(s.id for s in planning.plan_shape(problem, shape, bytes([n]) * 32, OPTIONS, code).groups[0].specs)
        for n in range(8)
    }
    assert len(orders) == 8


@pytest.mark.parametrize(
    ("seconds", "slot", "cache", "room", "rounds"),
    [
        (1e-3, 1 << 20, 0, 1 << 30, 6),
        (10.0, 1 << 20, 0, 1 << 30, 3),
        (1e-6, 1 << 10, 0, 1 << 30, 1024),
        (1e-3, 1 << 20, 60 << 20, 1 << 40, 241),
        (1e-3, 1 << 30, 60 << 20, 1 << 31, 3),
    ],
)
def test_a_batch_is_long_and_cold_as_far_as_there_is_room(
    seconds: float, slot: int, cache: int, room: int, rounds: int
) -> None:
    assert planning.round_count("cpu", seconds, slot, cache, room) == rounds
    assert rounds <= planning.round_count("cuda", seconds, slot, cache, room) <= 2 * rounds
