"""Queries over facts, and the findings they make."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbh_lint.findings import Fact, Related
from kbh_lint.marked import DataError, load
from kbh_lint.rules import MAX_FINDINGS, MAX_RELATED, Rule, apply, fill, parse_rule
from kbh_lint.rules.query import by_kind, match, read_when
from kbh_lint.source.spans import Span

FOUR = ("s1", "s2", "s3", "s4")


def fact(kind: str = "product", line: int = 1, shapes: tuple[str, ...] = FOUR, **attrs: Any) -> Fact:
    return Fact(kind, attrs, Span("x.py", line, 1, line, 5), shapes=shapes, total=4)


def matched(when: str, *facts: Fact) -> list[Fact]:
    grouped = by_kind(facts)
    queries = read_when(load(f"when: {when}", "r.yaml")["when"], "r.yaml", 1)
    return [found for query in queries for found in match(query, grouped)]


@pytest.mark.parametrize(
    ("condition", "value", "holds"),
    [
        ("bf16", "bf16", True),
        ("bf16", "e4m3", False),
        ("[bf16, f16]", "f16", True),
        ("[bf16, f16]", "f32", False),
        ("{not: e4m3}", "bf16", True),
        ("{not: [bf16, f16]}", "f16", False),
        ("{not: {ge: 3}}", 2, True),
        ("{ge: 2, lt: 4}", 2, True),
        ("{ge: 2, lt: 4}", 4, False),
        ("{gt: 2}", 2, False),
        ("{le: 2.5}", 2, True),
        ("{ge: 1}", True, False),
        ("{ge: 1}", "2", False),
        ("true", True, True),
        ("true", 1, False),
        ("1", True, False),
        ("1", 1.0, True),
        ("{has: w}", ("x", "w"), True),
        ("{has: [a, x]}", ("x", "w"), True),
        ("{has: w}", "w", False),
        ("{has: w}", (), False),
        ("{present: true}", 0, True),
        ("{present: true}", None, False),
        ("{present: false}", "x", False),
    ],
)
def test_a_condition_on_an_attribute(condition: str, value: Any, holds: bool) -> None:
    found = matched(f"{{fact: product, where: {{a: {condition}}}}}", fact(a=value))
    assert bool(found) is holds


def test_a_missing_attribute_passes_only_not_and_absent() -> None:
    tests = {"x": False, "[x]": False, "{ge: 0}": False, "{has: x}": False, "{present: true}": False}
    tests |= {"{not: x}": True, "{present: false}": True, "null": True}
    for condition, holds in tests.items():
        assert bool(matched(f"{{fact: product, where: {{a: {condition}}}}}", fact())) is holds, condition


@pytest.mark.parametrize(("shapes", "some", "every"), [((), False, False), (("s1",), True, False), (FOUR, False, True)])
def test_some_is_not_all_and_every_is_all_of_the_traced_shapes(
    shapes: tuple[str, ...], some: bool, every: bool
) -> None:
    one = fact(shapes=shapes)
    assert bool(matched("{fact: product, shapes: some}", one)) is some
    assert bool(matched("{fact: product, shapes: every}", one)) is every
    assert matched("{fact: product}", one) == [one]


def test_unless_and_also_look_at_all_facts_and_same_ties_them_to_the_matched_one() -> None:
    wide, narrow = fact(kernel="k", engine="bf16"), fact(kernel="k", engine="e4m3")
    elsewhere = fact(kernel="other", engine="e4m3")
    query = "{fact: product, where: {engine: bf16}, unless: [{fact: product, same: [kernel], where: {engine: e4m3}}]}"
    assert matched(query, wide, elsewhere) == [wide]
    assert matched(query, wide, narrow) == []
    also = query.replace("unless", "also")
    assert matched(also, wide, elsewhere) == []
    assert matched(also, wide, narrow) == [wide]
    nobody = "{fact: product, also: [{fact: product, same: [absent]}]}"
    assert matched(nobody, wide) == []


def test_alternatives_report_a_fact_once() -> None:
    rule = rule_of("{any: [{fact: product}, {fact: product, where: {engine: bf16}}]}")
    assert len(apply([rule], [fact(engine="bf16")], path="x.py", contract_known=True)) == 1


def rule_of(when: str, scope: str = "any", message: str = "found {engine} on {shapes}", breaks: str = "") -> Rule:
    text = f"""\
id: KBH101
name: some-rule
class: some-class
verdict: rubric_leak
severity: error
confidence: high
scope: {scope}
{f"breaks: {breaks}" if breaks else ""}
summary: s
why: w
remedy: r
references: []
when: {when}
message: "{message}"
examples:
  bad: [{{name: a, code: "1"}}, {{name: b, code: "2"}}]
  good: [{{name: a, code: "3"}}, {{name: b, code: "4"}}]
"""
    return parse_rule(text, "KBH101-some-rule.yaml")


def test_facts_at_one_place_become_one_finding_with_their_shapes_and_related_places() -> None:
    def seen(shape: str, line: int) -> Fact:
        one = fact(engine="bf16", shapes=(shape,))
        related = (Related(Span("x.py", line, 1, line, 2), "loaded here"),)
        return Fact(one.kind, one.attrs, one.span, related, one.shapes, one.total)

    (finding,) = apply([rule_of("{fact: product}")], [seen("s1", 7), seen("s2", 8), seen("s2", 7)], path="x.py",
                       contract_known=True)  # fmt: skip
    assert finding.shapes == ("s1", "s2")
    assert [item.span.line for item in finding.related] == [7, 8]
    assert finding.message == "found bf16 on 2 of 4 graded shapes"


def test_related_places_and_findings_are_bounded() -> None:
    many = tuple(Related(Span("x.py", n, 1, n, 2), "x") for n in range(2, 60))
    spread = Fact("product", {}, Span("x.py", 1, 1, 1, 2), many)
    (finding,) = apply([rule_of("{fact: product}")], [spread], path="x.py", contract_known=True)
    assert len(finding.related) == MAX_RELATED
    flood = [fact(line=n, kernel=f"k{n}") for n in range(1, MAX_FINDINGS + 50)]
    named = replace(rule_of("{fact: product}"), message="{kernel}")
    assert len(apply([named], flood, path="x.py", contract_known=True)) == MAX_FINDINGS


def test_the_same_said_of_several_places_is_one_finding_with_the_places_in_it() -> None:
    facts = [fact(line=9), fact(line=3), fact(line=5)]
    (found,) = apply([rule_of("{fact: product}")], facts, path="x.py", contract_known=True)
    assert found.span.line == 3
    assert [(r.span.line, r.message) for r in found.related] == [(5, "and here"), (9, "and here")]


def test_a_promise_scoped_rule_is_silent_without_a_contract_or_without_that_promise() -> None:
    facts = [fact(engine="bf16")]
    plain, breaking = rule_of("{fact: product}", "promise"), rule_of("{fact: product}", "promise", breaks="fp8")
    assert apply([plain, breaking], facts, path="x.py", contract_known=False) == ()
    assert len(apply([plain], facts, path="x.py", contract_known=True)) == 1
    assert apply([breaking], facts, path="x.py", contract_known=True, promises={"int4"}) == ()
    assert apply([breaking], facts, path="x.py", contract_known=True, promises={"fp8"})[0].breaks == "fp8"


def test_findings_are_in_the_order_of_lines_and_a_fact_without_a_place_is_at_the_first_line() -> None:
    facts = [fact(line=9, kernel="b"), fact(line=3, kernel="a"), Fact("product", {"kernel": "c"}, None)]
    named = replace(rule_of("{fact: product}"), message="{kernel}")
    found = apply([named], facts, path="x.py", contract_known=True)
    assert [(f.span.path, f.span.line) for f in found] == [("x.py", 1), ("x.py", 3), ("x.py", 9)]


def test_a_message_is_filled_from_attributes_and_nothing_else() -> None:
    text = "{kernel} {operands} {none} {kernel.__class__} {0} {shapes}"
    filled = fill(text, fact(kernel="k", operands=("x", "w"), none=None), FOUR, 4)
    assert filled == "k x, w unknown {kernel.__class__} unknown every graded shape"


_VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.lists(st.text(max_size=3))
_PLAIN = st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False) | st.text(max_size=5)
_CONDITIONS = st.recursive(
    _PLAIN | st.lists(_PLAIN, min_size=1, max_size=3),
    lambda inner: (
        st.fixed_dictionaries({"not": inner})
        | st.dictionaries(st.sampled_from(["ge", "gt", "le", "lt"]), st.integers(-5, 5), min_size=1)
        | st.fixed_dictionaries({"has": st.text(max_size=3)})
        | st.fixed_dictionaries({"present": st.booleans()})
    ),
    max_leaves=3,
)


@given(condition=_CONDITIONS, value=_VALUES)
def test_a_condition_or_its_negation_holds_but_never_both(condition: Any, value: Any) -> None:
    import yaml

    def asks(tested: Any) -> bool:
        text = yaml.safe_dump({"fact": "product", "where": {"a": tested}}, allow_unicode=True)
        (query,) = read_when(load(text, "r.yaml"), "r.yaml", 1)
        return bool(list(match(query, by_kind([fact(a=value)]))))

    try:
        outcome = asks(condition)
    except DataError as error:
        assert "r.yaml:" in str(error)
        return
    if condition is None:
        assert outcome is (value is None)
    elif not (isinstance(condition, dict) and _depth(condition) >= 4):
        assert asks({"not": condition}) is not outcome


def _depth(condition: Any) -> int:
    return 1 + max(map(_depth, condition.values()), default=0) if isinstance(condition, dict) else 0


@given(st.text(max_size=200))
def test_any_text_as_a_rule_file_is_a_rule_or_one_sentence(text: str) -> None:
    with pytest.raises(DataError) as caught:
        parse_rule(text, "KBH101-some-rule.yaml")
    assert str(caught.value).startswith("KBH101-some-rule.yaml:")
