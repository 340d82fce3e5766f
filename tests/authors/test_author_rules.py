"""The examples of the KBH9xx rules are problem folders: a bad one is flagged for its reason, a good one is clean."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from authors_support import RULES, build, report, said
from shares import taken

from kbh_lint.authors import execution
from kbh_lint.rules import Example, Rule, check_twins

AUTHOR = [rule for rule in RULES if rule.id.startswith("KBH9")]
RUN = {"KBH903", "KBH911", "KBH913"}  # these need the problem's code to be run
BAD = [pytest.param(rule, example, id=f"{rule.id}-{example.name}") for rule in AUTHOR for example in rule.bad]
GOOD = [pytest.param(rule, example, id=f"{rule.id}-{example.name}") for rule in AUTHOR for example in rule.good]


@pytest.fixture(scope="module")
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The examples whose code must be run, of those that are tried, as decks by example."""
    root = tmp_path_factory.mktemp("run")
    asked = [example.code for example in taken(request, "example")]
    decks = {}
    for rule in AUTHOR:
        for side in (rule.bad, rule.good) if rule.id in RUN else ():
            for example in side:
                if example.code in asked:
                    decks[f"{rule.id} {example.name}"] = build(example.code, root / f"{rule.id}-{example.name}").parent
    return decks


@pytest.fixture(scope="module")
def answers(run: dict[str, Path]) -> Mapping[str, Any]:
    """What one child process says about all of them: starting one costs seconds."""
    pytest.importorskip("torch")
    found, why_not = execution.ask([deck / "11_bf16_gemm" for deck in run.values()])
    assert found, why_not
    return found


def files(rule: Rule, example: Example, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The reports on an example."""
    if rule.id not in RUN:
        return report(build(example.code, request.getfixturevalue("tmp_path")).parent)
    known = request.getfixturevalue("answers")
    monkeypatch.setattr(execution, "ask", lambda folders: (known, ""))
    deck = request.getfixturevalue("run")[f"{rule.id} {example.name}"]
    return report(deck, trusted=deck)


@pytest.mark.parametrize("rule", AUTHOR, ids=lambda rule: rule.id)
def test_a_bad_example_is_one_edit_away_from_a_good_one(rule: Rule) -> None:
    check_twins(rule)


@pytest.mark.parametrize(("rule", "example"), BAD)
def test_a_bad_folder_is_reported_by_its_rule(
    rule: Rule, example: Example, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = files(rule, example, request, monkeypatch)
    hits = [f for file in found for f in file.findings if f.rule == rule.id]
    assert hits, said(found)
    assert "unknown" not in " ".join(f.message for f in hits).replace("unknown-", ""), said(found)
    assert any(file.verdict == "bug" for file in found)


@pytest.mark.parametrize(("rule", "example"), GOOD)
def test_a_good_folder_is_clean(
    rule: Rule, example: Example, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = files(rule, example, request, monkeypatch)
    assert [file.verdict for file in found] == ["clean"] * len(found), said(found)
