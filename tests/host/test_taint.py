"""A value that says who runs the program stays recognisable in what is computed from it."""

from __future__ import annotations

import pytest

from kbh_lint.base.values import Sym
from kbh_lint.host.values import taint
from kbh_lint.host.values.cpp_objects import LibraryField
from kbh_lint.host.values.objects import LibObject, Method
from kbh_lint.host.values.tensors import Taint, Unknown

PID = taint.of_symbol("os.getpid")
FIRST, SECOND = taint.tainted(Taint(clock=1)), taint.tainted(Taint(clock=2))


def test_a_taint_is_found_inside_lists_and_tuples() -> None:
    assert taint.source(1, ["a", (2, PID)]) == Taint("os.getpid")


def test_values_that_nobody_asked_for_have_none() -> None:
    assert taint.source(1, Unknown((), "sizeof"), ["a"]) is None


def test_one_clock_reading_says_nothing_of_the_caller_and_the_gap_of_two_calls_does() -> None:
    assert taint.symbol_of(FIRST) == ""
    assert taint.source(FIRST, FIRST) == Taint(clock=1)
    assert taint.source(FIRST, SECOND) == Taint("time")


def test_what_was_asked_for_counts_before_a_clock() -> None:
    assert taint.source(FIRST, PID) == Taint("os.getpid")


@pytest.mark.parametrize(
    ("value", "unknown"),
    [
        (Sym("torch.backends.cuda.flag"), True),
        (Sym("torch.nn.Linear"), False),  # a class is what it is
        (LibObject("torch.cuda.current_stream"), False),  # the interpreter itself makes it
        (LibObject("numpy.random.state"), True),
        (LibraryField("cpp:field"), True),
        (Method(LibObject("collections.deque"), "append"), False),
        (3, False),
    ],
)
def test_what_a_library_gives_is_not_known_unless_it_is_made_here(value: object, unknown: bool) -> None:
    assert taint.of_library(value) is unknown
