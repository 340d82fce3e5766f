"""The gate through which others use the device while nothing is timed: shut means that nobody is inside."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from grader.judge.opening import Enough, Meanwhile, Visitor


def within(visitor: Visitor, inside: threading.Event, leave: threading.Event) -> bool:
    """One step that takes until it may leave; whether it was made."""
    try:
        with visitor.step():
            inside.set()
            assert leave.wait(30)
    except Enough:
        return False
    return True


def test_it_is_shut_at_first_and_shutting_it_waits_for_who_is_inside() -> None:
    gate, inside, leave = Meanwhile(), threading.Event(), threading.Event()
    with ThreadPoolExecutor(3) as others:
        step = others.submit(within, gate.visitor(), inside, leave)
        assert not inside.wait(0.1)
        gate.let()
        assert inside.wait(30)
        shut = others.submit(gate.shut)
        assert not shut.done()
        late = threading.Event()
        other = others.submit(within, gate.visitor(), late, leave)
        assert not late.wait(0.1), "who comes while it is being shut stays outside"
        leave.set()
        shut.result(30)
        assert step.result(30) and not other.done()
        gate.let()
        assert other.result(30)


def test_a_step_is_made_inside_what_the_gate_was_opened_for() -> None:
    gate, held = Meanwhile(), []

    @contextlib.contextmanager
    def hold() -> Iterator[None]:
        held.append("held")
        yield
        held.append("free")

    gate.let(hold)
    with gate.visitor().step():
        assert held == ["held"]
    assert held == ["held", "free"]
    with pytest.raises(ValueError, match="its own"), gate.visitor().step():
        raise ValueError("its own")
    gate.shut()


def test_who_has_enough_or_is_sent_away_makes_no_further_step() -> None:
    gate, inside, leave = Meanwhile(), threading.Event(), threading.Event()
    one, two = gate.visitor(), gate.visitor()
    with ThreadPoolExecutor(2) as others:
        first, second = others.submit(within, one, inside, leave), others.submit(within, two, inside, leave)
        one.enough()
        assert not first.result(30) and not second.done()
        gate.end()
        assert not second.result(30)
    gate.let()
    with pytest.raises(Enough), gate.visitor().step():
        pass
