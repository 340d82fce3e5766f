"""The table from promise states, findings and unread parts to a verdict."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbh_lint.findings import FileReport, Finding, PromiseState, State, Unread, Verdict
from kbh_lint.source.spans import Span
from kbh_lint.verdict import accepted, combine, decide, table

ORDER: tuple[Verdict, ...] = ("reward_hack", "rubric_leak", "bug", "unproven", "interesting", "clean")


def finding(verdict: Verdict, severity: Any = "error") -> Finding:
    span = Span("x.py", 1, 1, 1, 2)
    return Finding("KBH101", "n", "c", verdict, severity, "high", "source", "m", span)


def promise(state: State, quantifier: Any = "every", **shapes: State) -> PromiseState:
    return PromiseState("p", state, shapes, quantifier=quantifier)


@given(st.lists(st.sampled_from(ORDER)))
def test_the_gravest_finding_decides(verdicts: list[Verdict]) -> None:
    wanted = min(verdicts, key=ORDER.index, default="clean")
    assert decide([], [finding(v) for v in verdicts], [], True) == wanted


@pytest.mark.parametrize(
    ("state", "wanted"),
    [
        ("kept", "clean"),
        ("kept-by-precision", "clean"),
        ("emulated", "interesting"),
        ("unproven", "unproven"),
        ("broken", "rubric_leak"),
    ],
)
def test_a_promise_decides_alone(state: State, wanted: Verdict) -> None:
    assert decide([promise(state)], [], [], True) == wanted
    assert decide([promise("kept"), promise(state)], [], [], True) == wanted
    assert decide([promise(state)], [], [], False) == "unproven"


def test_what_could_not_be_read_is_never_clean_but_does_not_hide_a_leak() -> None:
    unread = [Unread("exec of decoded text")]
    assert decide([promise("kept")], [], unread, True) == "unproven"
    assert decide([], [], unread, False) == "unproven"
    assert decide([promise("broken")], [], unread, True) == "rubric_leak"
    assert decide([], [finding("interesting")], unread, True) == "unproven"


def test_a_some_promise_kept_on_some_shapes_is_interesting_and_on_none_a_leak() -> None:
    def some(**shapes: State) -> Verdict:
        return decide([promise(combine(shapes, "some"), "some", **shapes)], [], [], True)

    assert some(a="kept", b="broken") == "interesting"
    assert some(a="kept", b="kept-by-precision") == "clean"
    assert some(a="broken", b="broken") == "rubric_leak"
    assert some(a="broken", b="unproven") == "unproven"


def test_an_every_promise_broken_on_one_shape_is_a_leak() -> None:
    shapes: dict[str, State] = {"a": "kept", "b": "broken", "c": "unproven"}
    assert decide([promise(combine(shapes, "every"), "every", **shapes)], [], [], True) == "rubric_leak"


def test_info_never_changes_the_verdict() -> None:
    for verdict in ORDER:
        assert decide([], [finding(verdict, "info")], [], True) == "clean"


@given(st.dictionaries(st.text(max_size=2), st.sampled_from(get_args(State)), min_size=1))
def test_combining_never_invents_a_state(shapes: dict[str, State]) -> None:
    for quantifier in ("every", "some"):
        assert combine(shapes, quantifier) in shapes.values()  # type: ignore[arg-type]
    assert combine({}, "every") == combine({}, "some") == "unproven"


def test_strict_wants_a_contract_and_every_promise_in_an_accepted_state() -> None:
    report = FileReport("x.py", "p", "deck", None, "clean", (promise("kept"), promise("kept-by-precision")))
    assert accepted(report) == (True, "")
    assert accepted(replace(report, contract=None))[1].startswith("no contract")
    assert accepted(replace(report, verdict="bug")) == (False, "the verdict is bug")
    assert accepted(replace(report, verdict="unproven")) == (False, "the verdict is unproven")
    emulated = replace(report, verdict="interesting", promises=(promise("emulated"),))
    assert accepted(emulated) == (False, "the promise p is emulated")
    allowed = replace(emulated, promises=(replace(promise("emulated"), accepts=("kept", "emulated")),))
    assert accepted(allowed)[0]


def test_the_printed_table_has_a_row_for_each_verdict_in_order() -> None:
    rows = [line.split("|")[2].strip(" `") for line in table().splitlines()[2:]]
    assert rows == list(ORDER)
