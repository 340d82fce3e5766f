"""docs/facts.md tells of the facts that there are: the classes of `facts` and `folder_facts`, with their attributes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kbh_lint.base import paths
from kbh_lint.base.fact_kind import fields_of
from kbh_lint.base.facts import KINDS
from kbh_lint.rules import load_rules
from kbh_lint.rules.query import Query, unknown

DOC = Path(__file__).parents[2] / "docs" / "facts.md"
ROW = re.compile(r"^\| ((?:`\w+`(?:, )?)+) \|", re.M)


def sections() -> dict[str, str]:
    """The text on each kind of fact."""
    text = DOC.read_text(encoding="utf-8")
    return dict(re.findall(r"^\*\*`([a-z0-9-]+)`\*\*(.*?)(?=^\*\*`|\Z)", text, re.M | re.S))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_fact_is_documented_with_its_attributes(kind: str) -> None:
    text = sections()[kind]
    assert [name for name in fields_of(KINDS[kind]) if f"`{name}`" not in text] == []


def test_the_page_tells_of_no_fact_and_no_attribute_that_nobody_makes() -> None:
    told = sections()
    assert set(told) == set(KINDS)
    for kind, text in told.items():
        table = text.partition("| Attribute |")[2].partition("\n\n")[0]
        rows = {name for row in ROW.findall(table) for name in re.findall(r"`(\w+)`", row)}
        assert rows <= set(fields_of(KINDS[kind])), kind


def test_rules_ask_only_for_facts_that_there_are() -> None:
    asked = {query.fact for rule in load_rules(paths.rules_dir(), examples=False) for query in rule.when}
    assert len(asked) > 40 and asked <= set(KINDS)
    assert unknown(Query("product", same=("where",))) == "`same` names `where`, which the outer fact does not have"
