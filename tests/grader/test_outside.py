"""Calls are made with nothing of ours below them, and what they return or raise comes to who asked for it."""

from __future__ import annotations

import contextlib
import gc
import sys
import threading
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from grader.candidate.clock import outside as module
from grader.candidate.clock.outside import Steps, outside, run


def below() -> list[FrameType]:
    """The frames below the function that called this one, as far as that of `run`."""
    found, frame = [], sys._getframe(2)
    while True:
        found.append(frame)
        if frame.f_code is run.__code__ or frame.f_back is None:
            return found
        frame = frame.f_back


def test_a_called_function_finds_no_frame_of_ours_but_that_of_the_loop_which_holds_nothing() -> None:
    secret = object()

    def function() -> tuple[list[str], set[str], bool]:
        frames = below()
        held = [value for frame in frames for value in frame.f_locals.values()]
        return [f.f_code.co_name for f in frames], set(frames[-1].f_locals), any(value is secret for value in held)

    def inner() -> Steps[Any]:
        kept = secret
        return (yield from outside(function)), kept

    def steps() -> Steps[Any]:
        kept = secret
        return (yield from inner()), kept

    names, held, reached = run(steps())[0][0]
    assert names == ["run"] and held == {"ended", "pulled"} and not reached


def test_results_come_back_in_order_whatever_they_are() -> None:
    values: list[Any] = [None, [], 0, (), StopIteration, "text"]

    def steps() -> Steps[list[Any]]:
        found = []
        for value in values:
            found.append((yield from outside(lambda one: one, value)))
        return found

    assert run(steps()) == values


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_a_call_raises_is_raised_where_it_was_asked_for_and_the_next_call_is_made(
    kind: type[BaseException],
) -> None:
    said: list[str] = []

    def raises() -> None:
        raise kind("of the call")

    def steps() -> Steps[str]:
        try:
            yield from outside(raises)
        except kind as error:
            said.append(str(error))
        finally:
            said.append("in the end")
        return (yield from outside(lambda: "next"))

    assert run(steps()) == "next" and said == ["of the call", "in the end"] and not module._RAISED
    with pytest.raises(kind, match="of the call"):
        run(outside(raises))
    assert not module._RAISED


def test_a_call_that_raises_stop_iteration_does_not_end_the_others() -> None:
    def steps() -> Steps[str]:
        with pytest.raises(RuntimeError, match="raised StopIteration"):
            yield from outside(next, iter(()))
        return (yield from outside(lambda: "next"))

    assert run(steps()) == "next"


def test_what_a_call_raised_is_gone_when_it_was_dealt_with_and_with_it_what_the_call_held() -> None:
    class Large:
        pass

    freed = list[bool]()

    def raises() -> None:
        large = Large()
        weakref.finalize(large, freed.append, True)
        raise ValueError

    def steps() -> Steps[list[bool]]:
        with contextlib.suppress(ValueError):
            yield from outside(raises)
        return list(freed)

    gc.disable()
    try:
        assert run(steps()) == [True]
    finally:
        gc.enable()


def test_what_the_generator_raises_itself_ends_the_loop() -> None:
    def steps() -> Steps[None]:
        yield from outside(int)
        raise KeyError("ours")

    with pytest.raises(KeyError, match="ours"):
        run(steps())


def test_steps_without_a_call_end_at_once_and_loops_lie_in_one_another() -> None:
    def none() -> Steps[int]:
        yield from ()
        return 7

    def steps() -> Steps[int]:
        return (yield from outside(run, none())) + (yield from outside(run, outside(int, "5")))

    assert run(steps()) == 12


def test_threads_do_not_hear_of_each_other_s_calls() -> None:
    wait, found = threading.Barrier(2), dict[str, BaseException | int]()

    def call(fail: bool) -> int:
        wait.wait(10)
        if fail:
            raise ValueError
        return 3

    def thread(name: str, fail: bool) -> None:
        def steps() -> Steps[None]:
            for _ in range(50):
                try:
                    found[name] = yield from outside(call, fail)
                except ValueError as error:
                    found[name] = error

        run(steps())

    def start(target: Callable[..., None], *arguments: Any) -> threading.Thread:
        started = threading.Thread(target=target, args=arguments)
        started.start()
        return started

    for one in [start(thread, "right", False), start(thread, "raises", True)]:
        one.join()
    assert found["right"] == 3 and isinstance(found["raises"], ValueError)
