"""Honest kernels keep every promise; one edit later the same file is flagged for the right reason."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from idiom_catalogue import HERE, Idiom, Twin, load

IDIOMS = load()
TWINS = [pytest.param(i, t, id=f"{i.name}-{n}") for i in IDIOMS for n, t in enumerate(i.twins)]
KEPT = {"kept", "kept-by-precision"}


def test_every_submission_here_has_an_entry_with_a_twin() -> None:
    listed = {idiom.name for idiom in IDIOMS}
    found = {f"{p.parent.name}/{p.stem}" for group in ("fp8", "int4", "kahan") for p in (HERE / group).glob("*.py")}
    assert found == listed
    assert all(idiom.twins for idiom in IDIOMS)


@pytest.mark.parametrize(("idiom", "twin"), TWINS)
def test_a_twin_is_one_edit_away_and_still_parses(idiom: Idiom, twin: Twin) -> None:
    honest = idiom.path.read_text(encoding="utf-8")
    broken = twin.text(honest)
    assert broken != honest
    ast.parse(broken)


@pytest.mark.parametrize("idiom", IDIOMS, ids=lambda idiom: idiom.name)
def test_an_honest_kernel_keeps_every_promise(idiom: Idiom) -> None:
    import kbh_lint

    report = kbh_lint.lint([idiom.path], problem=idiom.problem).files[0]
    states = {promise.id: promise.state for promise in report.promises}
    assert states and set(states.values()) <= KEPT, f"{states} {report.unread} {report.notes}"
    assert report.verdict == "clean", [(f.rule, f.message) for f in report.findings]


@pytest.mark.parametrize(("idiom", "twin"), TWINS)
def test_a_broken_twin_is_flagged_for_the_right_reason(idiom: Idiom, twin: Twin, tmp_path: Path) -> None:
    import kbh_lint

    path = tmp_path / "solution.py"
    path.write_text(twin.text(idiom.path.read_text(encoding="utf-8")), encoding="utf-8")
    report = kbh_lint.lint([path], problem=idiom.problem).files[0]
    assert report.verdict in {"rubric_leak", "reward_hack"}, f"{report.verdict} {report.unread} {report.notes}"
    assert {finding.leak_class for finding in report.findings} & set(twin.classes), report.findings
