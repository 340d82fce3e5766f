"""The table from promise states, findings and unread parts to a verdict."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbh_lint.base import paths
from kbh_lint.engine import broken_promises
from kbh_lint.findings import Analysis, Fact, FileReport, Finding, PromiseState, Related, State, Unread, Verdict
from kbh_lint.rules import load_rules
from kbh_lint.service.one_file import judge
from kbh_lint.source.spans import Span
from kbh_lint.source.submissions import Submission
from kbh_lint.verdict import accepted, combine, decide, table

ORDER: tuple[Verdict, ...] = ("reward_hack", "rubric_leak", "bug", "unproven", "interesting", "clean")
RULES = load_rules(paths.rules_dir(), examples=False)


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
        ("broken", "unproven"),
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
    assert decide([promise("broken")], [finding("rubric_leak")], unread, True) == "rubric_leak"
    assert decide([], [finding("interesting")], unread, True) == "unproven"


def test_a_some_promise_kept_on_some_shapes_is_interesting_and_on_none_a_leak() -> None:
    def some(**shapes: State) -> Verdict:
        return decide([promise(combine(shapes, "some"), "some", **shapes)], [], [], True)

    assert some(a="kept", b="broken") == "interesting"
    assert some(a="kept", b="kept-by-precision") == "clean"
    assert some(a="broken", b="broken") == "unproven"
    assert some(a="broken", b="unproven") == "unproven"


@given(st.lists(st.sampled_from(ORDER)), st.lists(st.sampled_from(get_args(State))), st.booleans(), st.booleans())
def test_nothing_is_a_leak_without_a_finding(
    verdicts: list[Verdict], states: list[State], unread: bool, known: bool
) -> None:
    holes = [Unread("x")] if unread else []
    verdict = decide(list(map(promise, states)), [finding(one) for one in verdicts], holes, known)
    assert verdict not in ("rubric_leak", "reward_hack") or verdict in verdicts


def broken(state: State, **shapes: State) -> Analysis:
    """What an analysis says of a file whose only promise has these states, shown at line 7."""
    place = Related(Span("x.py", 7, 1, 7, 2), "the product runs on bf16")
    one = replace(promise(state, **shapes), evidence=(place,), kind="fp8-products")
    return Analysis(facts=tuple(broken_promises([one])), promises=(one,), contract="deck")


SUBMISSION = Submission(Path("x.py"), "")


def test_an_every_promise_broken_on_one_shape_is_a_leak_and_the_finding_says_where() -> None:
    shapes: dict[str, State] = {"a": "kept", "b": "broken", "c": "unproven"}
    report = judge(SUBMISSION, RULES, broken(combine(shapes, "every"), **shapes))
    (found,) = report.findings
    assert (report.verdict, found.rule, found.verdict, found.span.line) == ("rubric_leak", "KBH121", "rubric_leak", 7)
    assert found.shapes == ("b",) and "the product runs on bf16" in found.message


def test_a_rule_that_says_more_is_not_repeated_by_the_general_one() -> None:
    analysis = broken("broken", a="broken")
    wide = Fact("product", {"upcast": True, "narrow": ("x",)}, Span("x.py", 3, 1, 3, 2), (), ("a",), 1)
    report = judge(SUBMISSION, RULES, replace(analysis, facts=(wide, *analysis.facts)))
    assert (report.verdict, [found.rule for found in report.findings]) == ("rubric_leak", ["KBH101"])


def test_without_any_rule_a_broken_promise_is_not_clean() -> None:
    report = judge(SUBMISSION, (), broken("broken", a="broken"))
    assert (report.verdict, report.findings) == ("unproven", ())


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
