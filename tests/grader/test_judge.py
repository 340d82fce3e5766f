"""Trials with real processes on a small problem: what becomes of one, right, wrong, crashed or out of time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from ground import MASTER, OPTIONS, RIGHT, Ground, forward
from toy import HONEST

from grader.deck.keys import new_master
from grader.judge import batches


def test_no_value_is_drawn_twice_and_another_key_draws_others(ground: Callable[[str], Ground]) -> None:
    here = ground(forward("print('in', hash(x.numpy().tobytes()))\n" + RIGHT + "return y"))

    def seen(master: bytes) -> list[str]:
        here.logs.clear()
        here.trial(master=master)
        return [line for line in here.logs[0].splitlines() if line.startswith("in")]

    first, second = seen(MASTER), seen(new_master())
    assert len(set(first)) == len(first) > 20 and not set(first) & set(second)


def test_no_value_is_seen_twice_where_lone_calls_are_made_again_because_something_disturbed_them(
    ground: Callable[[str], Ground], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "denies", lambda *_: True)
    here = ground(forward("print('in', hash(x.numpy().tobytes()))\n" + RIGHT + "return y"))
    result = here.trial()
    inputs = [line for line in here.logs[0].splitlines() if line.startswith("in")]
    assert result.status == "right" and len(set(inputs)) == len(inputs) > batches.MOST_ALONE


def test_calls_alone_that_deny_what_is_scored_are_made_again_in_another_process(
    ground: Callable[[str], Ground], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No value comes twice there either, and no other call is made."""
    monkeypatch.setattr(batches, "SPELLS", (0.0,))
    monkeypatch.setattr(batches, "denies", lambda *_: True)
    body = "print('in', hash(x.numpy().tobytes()))\n" + RIGHT + "return y"
    here = ground(forward(body, "print('imported')"))
    result = here.trial(replace(OPTIONS, later=True))
    assert result.status == "right", result.message
    inputs = [line for line in "".join(here.logs).splitlines() if line.startswith("in")]
    timing, shapes = result.shapes[0].timing, len(result.shapes)
    assert timing is not None and len(timing.alone) == 2 * batches.MOST_ALONE
    assert len(set(inputs)) == len(inputs) > shapes * len(timing.alone)
    assert sum(line == "imported" for line in "".join(here.logs).splitlines()) == 2


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("x.mul_(1.0001)\n" + RIGHT + "return y", "it changed its input x"),
        (RIGHT + "return y if len(x) < 0 else y.t().contiguous().t()", "y is not contiguous"),
        (RIGHT + "self.n = getattr(self, 'n', 0) + 1\nreturn y if self.n < 9 else y + 1", "are off by more than"),
        (RIGHT + "self.n = getattr(self, 'n', 0) + 1\nassert self.n < 8\nreturn y", "raised AssertionError"),
    ],
)
def test_what_goes_wrong_on_some_calls_only_is_found(ground: Callable[[str], Ground], body: str, words: str) -> None:
    result = ground(forward(body)).trial()
    assert result.status == "wrong" and words in result.message


def test_an_output_kept_for_the_address_of_an_input_is_wrong(ground: Callable[[str], Ground]) -> None:
    memo = "key = x.data_ptr()\nif key in kept: return kept[key].clone()\n" + RIGHT + "kept[key] = y\nreturn y"
    result = ground(forward(memo, "kept = {}")).trial(replace(OPTIONS, all_cases=True))
    assert result.status == "wrong" and sum(not case.ok for case in result.shapes[0].cases) > 3


def test_models_take_turns_with_weights_of_their_own(ground: Callable[[str], Ground]) -> None:
    shared = (
        "global first\nfirst = self.w if first is None else first\n" + RIGHT.replace("self.w", "first") + "return y"
    )
    assert ground(forward(shared, "first = None")).trial().status == "wrong"


def test_the_first_wrong_result_is_the_last_that_is_asked_for_and_comes_before_any_time(
    ground: Callable[[str], Ground],
) -> None:
    here = ground("count = [0]\n" + forward("count[0] += 1\nprint(count)\nreturn x @ self.w"))  # used is ignored
    (shape,) = here.trial().shapes
    assert shape.status == "wrong" and "structure/ragged/0 at " in shape.message
    assert shape.timing is None and here.logs.pop().count("[") <= 2
    (shape,) = here.trial(replace(OPTIONS, all_cases=True)).shapes
    assert shape.status == "wrong" and shape.timing is not None and here.logs.pop().count("[") > 8
    assert {case.case for case in shape.cases if not case.ok} == {"structure/ragged/0", "structure/ragged/1"}


def test_a_call_that_hangs_is_stopped_alone_by_its_own_limit(ground: Callable[[str], Ground]) -> None:
    text = forward(RIGHT + "import signal\nself.n = getattr(self, 'n', 0) + 1\nif self.n > 3: signal.pause()\nreturn y")
    result = ground(text).trial(replace(OPTIONS, call_timeout=0.5))
    assert result.shapes[0].status == "timeout" and "did not finish within 0.5 s; it was to run" in result.message


def test_who_refuses_after_a_wrong_result_is_wrong(ground: Callable[[str], Ground]) -> None:
    later = "self.n = getattr(self, 'n', 0) + 1\nif self.n > 3: raise RuntimeError('No CUDA GPUs are available')\n"
    result = ground(forward(later + RIGHT + "return y + 1")).trial()
    assert result.status == "wrong" and "off by more than" in result.message


def test_code_that_needs_a_gpu_is_refused_without_being_started(ground: Callable[[str], Ground]) -> None:
    result = ground("import cupy\n" + HONEST).trial()
    assert result.status == "refused" and "it uses cupy" in result.message and result.shapes[0].status == "not-run"
