"""docs/facts.md and the rules speak of the same facts."""

from __future__ import annotations

import re
from pathlib import Path

from kbh_lint import paths
from kbh_lint.query import Query
from kbh_lint.rules import load_rules

DOC = Path(__file__).parents[2] / "docs" / "facts.md"


def queries(query: Query) -> list[Query]:
    """A query with all inside it."""
    return [query, *(deep for inner in (*query.also, *query.unless) for deep in queries(inner))]


def sections() -> dict[str, str]:
    """The text on each kind of fact."""
    text = DOC.read_text(encoding="utf-8")
    return dict(re.findall(r"^\*\*`([a-z0-9-]+)`\*\*(.*?)(?=^\*\*`|\Z)", text, re.M | re.S))


def test_every_fact_and_attribute_that_a_rule_asks_for_is_documented() -> None:
    known = sections()
    for rule in load_rules(paths.rules_dir()):
        for query in (deep for when in rule.when for deep in queries(when)):
            assert query.fact in known, f"{rule.id}: {query.fact}"
            missing = [name for name, _ in query.where if f"`{name}`" not in known[query.fact]]
            assert not missing, f"{rule.id}: {query.fact} has no documented {missing}"


def test_every_word_that_a_message_fills_in_is_documented() -> None:
    known = sections()
    for rule in load_rules(paths.rules_dir()):
        for word in set(re.findall(r"\{(\w+)\}", rule.message)) - {"shapes"}:
            assert any(f"`{word}`" in known[query.fact] for query in rule.when), f"{rule.id}: {word}"
