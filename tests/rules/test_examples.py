"""Each rule's own examples, through the whole linter: a bad one is flagged for its reason, a good one is not."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import kbh_lint
from kbh_lint.base import paths
from kbh_lint.findings import FileReport
from kbh_lint.rules import Example, Rule, check_twins, load_rules
from kbh_lint.verdict import FLAGGED

# KBH9xx speak about problem folders: tests/authors has their examples.
RULES = [rule for rule in load_rules(paths.rules_dir()) if not rule.id.startswith("KBH9")]
BAD = [pytest.param(rule, example, id=f"{rule.id}-{example.name}") for rule in RULES for example in rule.bad]
GOOD = [pytest.param(rule, example, id=f"{rule.id}-{example.name}") for rule in RULES for example in rule.good]
MAX_CLASSES = 4  # a reader who is given more reasons than these is given none


def report(example: Example) -> FileReport:
    """What the linter says of an example under the problem that it names."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "solution.py"
        path.write_text(example.code, encoding="utf-8")
        return kbh_lint.lint([path], problem=example.problem, raise_errors=True).files[0]


def said(found: FileReport) -> list[str]:
    """What a failing test should show: findings, promises that are not kept, and what could not be read."""
    lines = [f"{f.rule} {f.leak_class} {f.verdict} {f.severity}: {f.message}" for f in found.findings]
    lines += [f"{p.id} is {p.state}: {p.reason}" for p in found.promises]
    return [*lines, *(f"unread: {item.reason}" for item in found.unread), *found.notes]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_bad_example_is_one_edit_away_from_a_good_one(rule: Rule) -> None:
    check_twins(rule)


@pytest.mark.parametrize(("rule", "example"), BAD)
def test_a_bad_example_is_reported_by_its_rule_with_a_verdict_like_it_and_not_buried(
    rule: Rule, example: Example
) -> None:
    found = report(example)
    hits = [f for f in found.findings if f.rule == rule.id]
    assert hits, said(found)
    assert {(f.leak_class, f.verdict) for f in hits} == {(rule.leak_class, rule.verdict)}
    assert all(1 <= f.span.line <= len(example.code.splitlines()) for f in hits)
    if rule.verdict in FLAGGED:
        assert found.verdict in FLAGGED, said(found)
    else:
        assert found.verdict == rule.verdict, said(found)
    classes = {f.leak_class for f in found.findings if f.verdict in FLAGGED and f.severity != "info"}
    assert len(classes) <= MAX_CLASSES, said(found)


@pytest.mark.parametrize(("rule", "example"), GOOD)
def test_a_good_example_is_clean_with_every_promise_kept(rule: Rule, example: Example) -> None:
    found = report(example)
    if example.problem is None:  # nothing is promised there
        assert found.verdict == "unproven" and found.findings == (), said(found)
        return
    assert found.verdict in ("clean", "interesting"), said(found)
    assert not [f for f in found.findings if f.rule == rule.id or f.verdict in FLAGGED], said(found)
    assert found.promises and all(p.state in p.accepts for p in found.promises), said(found)
