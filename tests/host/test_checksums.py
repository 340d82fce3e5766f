"""Two numbers of different calls are equal when they were read from the same contents."""

from __future__ import annotations

from itertools import count

from kbh_lint.frontends import python
from kbh_lint.host.run import Run
from kbh_lint.host.values import checksums, unknowns
from kbh_lint.host.values.session import Session
from kbh_lint.host.values.tensors import Content, Storage, Unknown

COUNTER = count(1)


def run() -> Run:
    return Run(Session(python.lower("", "solution.py"), {}, (9, 0)), {})


def inputs(label: str = "input:x") -> list[Content]:
    """What one tensor holds at a first and at a second call."""
    storage = Storage(COUNTER)
    return [Content(storage, "f32", call, label) for call in (1, 2)]


def test_sums_of_the_same_contents_are_equal_and_of_others_differ() -> None:
    of = run()
    first, second = inputs()
    old, same, other = (Unknown((c,), "a sum", made=m) for c, m in ((first, 1), (first, 2), (second, 2)))
    assert checksums.same_value(of, old, same) is True
    assert checksums.same_value(of, old, other) is False
    assert of.memory.compared


def test_sums_collide_where_a_run_looks_for_keys_that_miss_a_change_but_whole_reads_do_not() -> None:
    of = run()
    of.memory.colliding = True
    first, second = inputs()
    assert checksums.same_value(of, Unknown((first,), made=1), Unknown((second,), made=2)) is True
    whole = [Unknown((c,), made=m, reading="tolist") for c, m in ((first, 1), (second, 2))]
    assert checksums.same_value(of, *whole) is False


def test_numbers_of_one_call_or_of_different_inputs_are_not_compared() -> None:
    of = run()
    (x, _), (_, y) = inputs(), inputs("input:y")
    assert checksums.same_value(of, Unknown((x,), made=1), Unknown((x,), made=1)) is None
    assert checksums.same_value(of, Unknown((x,), made=1), Unknown((y,), made=2)) is None


def test_an_order_holds_where_ranges_do_not_meet() -> None:
    small, large, any_ = Unknown(range=(0, 3)), Unknown(range=(8, 9)), Unknown()
    assert unknowns.by_range("<", small, large) is True
    assert unknowns.by_range(">=", small, large) is False
    assert unknowns.by_range("<", small, 2) is None
    assert unknowns.by_range("<", small, any_) is None


def test_no_content_is_looked_at_behind_the_first_input_that_is_asked_for() -> None:
    state, one, other = (inputs(label)[0] for label in ("state:w", "input:x", "input:y"))
    assert set(checksums.outside([other, one, state])) == {"state:w", "input:x", "input:y"}
    assert set(checksums.outside([other, one, state], until="input:")) == {"state:w", "input:x"}
