"""Every parameter of a promise is used by an analysis, or refused when the problem is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbh_lint.base import dtypes, paths
from kbh_lint.base.fact_kind import kind_name
from kbh_lint.marked import DataError
from kbh_lint.problems import load_deck, parse_problem
from kbh_lint.problems.promise_kinds import KINDS, PromiseKind
from kbh_lint.rules import load_rules

DECK = Path(__file__).resolve().parents[2] / "problems"
KAHAN, GEMM = "04_kahan_softmax", "01_fp8_gemm"


@pytest.mark.parametrize(
    ("problem", "old", "new", "said"),
    [
        (KAHAN, "{work: reduction, inputs: [x]}", "{work: sorting, inputs: [x]}", "the analysis knows only"),
        (KAHAN, "{over: [x], term: exp}", "{over: [x], term: log}", "`term` is `log`"),
        (KAHAN, "{over: [x], term: exp}", "{over: [y], term: exp}", "`over` names `y`"),
        (KAHAN, "{over: [x], term: exp}", "{over: [x], terms: exp}", "not `terms`"),
        (KAHAN, "{over: [x], term: exp}", "{over: x, term: exp}", "must be a list"),
        (GEMM, "product: [e4m3]", "product: [bf16]", "`product` is `bf16`"),
    ],
)
def test_a_parameter_that_no_analysis_uses_is_refused(problem: str, old: str, new: str, said: str) -> None:
    path = DECK / problem / "problem.yaml"
    text = path.read_text()
    assert old in text
    with pytest.raises(DataError, match=said):
        parse_problem(text.replace(old, new), path)


def test_the_deck_has_only_parameters_that_their_kind_uses() -> None:
    deck = load_deck(DECK)
    for promise in (promise for name in deck for promise in deck[name].promises):
        assert promise.params.keys() <= promise.kind.params.keys(), promise.id


def test_each_group_of_narrow_types_has_the_promise_that_products_run_on_it() -> None:
    narrow = {row.group for row in dtypes.ROWS if row.narrow}
    assert narrow == {kind.group for kind in PromiseKind if kind.group}


def test_rules_that_break_a_kind_of_promise_ask_for_the_facts_that_it_names() -> None:
    for rule in load_rules(paths.rules_dir(), examples=False):
        if rule.breaks in KINDS:
            asked = {query.fact for query in rule.when}
            assert asked <= {kind_name(kind) for kind in KINDS[rule.breaks].facts}, rule.id
