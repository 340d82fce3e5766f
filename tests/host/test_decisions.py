"""Which way a branch on an unknown goes: by default, where a run is told to, and where the inputs leave one answer."""

from __future__ import annotations

from kbh_lint.host.values import taint
from kbh_lint.host.values.decisions import ALL, Asked
from kbh_lint.host.values.run_state import Decisions
from kbh_lint.host.values.tensors import Sort, Unknown

PLAIN, LIKELY = Unknown((), "a number"), Unknown((), "a flag", likely=True)
PID = taint.of_symbol("os.getpid")


def test_a_branch_goes_the_likely_way_unless_its_place_is_forced() -> None:
    assert [Decisions({}).choice("here", value) for value in (PLAIN, LIKELY)] == [False, True]
    assert Decisions({"here": True}).choice("here", PLAIN) is True
    assert Decisions({"there": True}).choice("here", PLAIN) is False


def test_a_question_about_the_caller_is_answered_otherwise_at_all_its_branches() -> None:
    decisions = Decisions({Asked("os.getpid"): True})
    assert [decisions.choice(place, PID) for place in ("a", "b")] == [True, True]
    assert decisions.choice("c", PLAIN) is False


def test_all_questions_about_the_caller_can_be_answered_otherwise_at_once() -> None:
    decisions = Decisions({ALL: True})
    assert (decisions.choice("a", PID), decisions.choice("b", PLAIN)) == (True, False)


def test_late_branches_go_the_other_way_only_when_a_run_is_contrary() -> None:
    decisions = Decisions({})
    decisions.late.add("here")
    assert decisions.choice("here", PLAIN) is False
    decisions.contrary = True
    assert (decisions.choice("here", PLAIN), decisions.choice("there", PLAIN)) == (True, False)


def test_what_the_legal_inputs_decide_is_kept_so_that_another_run_can_ask() -> None:
    decisions = Decisions({})
    assert decisions.assume("here", None, True, ()) is True
    assert decisions.settled["here"].likely
    assert Decisions({"here": False}).assume("here", None, True, ()) is False


def test_a_loop_over_elements_meets_both_answers_and_one_over_files_only_one() -> None:
    decisions = Decisions({})
    assert [decisions.side("elements", PLAIN, [7]) for _ in range(3)] == [False, True, False]
    path = Unknown((), "a path", likely=True, sort=Sort.PATH)
    assert [decisions.side("files", path, [7]) for _ in range(3)] == [True] * 3
    assert decisions.mixed == {"elements"}


def test_a_loop_around_the_call_that_asks_meets_both_answers_too() -> None:
    decisions = Decisions({})
    rounds = [[1, (9, "here")], [2, (9, "here")], [3, (9, "here")]]
    assert [decisions.side("elements", PLAIN, askers) for askers in rounds] == [False, True, False]
    apart = [[4, (9, "there")], [5, (9, "elsewhere")]]
    assert [decisions.side("others", PLAIN, askers) for askers in apart] == [False, False]
