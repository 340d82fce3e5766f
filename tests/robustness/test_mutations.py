"""Edits that change nothing a submission does change nothing the linter says."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from random import Random

import pytest
from fixtures import Fixture, load
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mutations import MUTATIONS

import kbh_lint
from kbh_lint.findings import FileReport
from kbh_lint.source.spans import Span

FIXTURES = load()
Said = tuple[str, dict[str, str], list[str]]


def lint(folder: Path, fixture: Fixture, text: str) -> FileReport:
    path = folder / "solution.py"
    path.write_text(text, encoding="utf-8")
    return kbh_lint.lint([path], problem=fixture.problem, raise_errors=True).files[0]


def said(report: FileReport) -> Said:
    """What must stay: the verdict, the state of each promise, the rules that speak."""
    states = {promise.id: promise.state for promise in report.promises}
    return report.verdict, dict(states), sorted({finding.rule for finding in report.findings})


def spans(report: FileReport) -> list[Span]:
    found = [finding.span for finding in report.findings]
    found += [related.span for finding in report.findings for related in finding.related]
    found += [evidence.span for promise in report.promises for evidence in promise.evidence]
    return [*found, *(hole.span for hole in report.unread if hole.span is not None)]


def is_inside(span: Span, report: FileReport, text: str) -> bool:
    """Whether a span names a line and columns that the file has; a column may be the one past the last character."""
    lines = text.split("\n")
    return (
        span.path == report.path
        and 1 <= span.line <= span.end_line <= len(lines)
        and 1 <= span.column <= len(lines[span.line - 1]) + 1
        and 1 <= span.end_column <= len(lines[span.end_line - 1]) + 1
    )


@cache
def as_written(index: int, folder: Path) -> Said:
    return said(lint(folder, FIXTURES[index], FIXTURES[index].text))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mutated")


PARTS = 5  # each draws from every fifth fixture; make test has one of them at each commit
INDEX = st.integers(0, len(FIXTURES) - 1)


def of_part(part: int, index: int) -> int:
    """One of the fixtures of a part."""
    return range(part, len(FIXTURES), PARTS)[index % len(range(part, len(FIXTURES), PARTS))]


EDITS = st.lists(st.sampled_from(sorted(MUTATIONS)), min_size=1, max_size=4)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@settings(max_examples=150 // PARTS, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(INDEX, EDITS, st.integers(0, 999))
def test_a_harmless_edit_changes_neither_verdict_nor_promises(
    folder: Path, part: int, index: int, edits: list[str], seed: int
) -> None:
    index = of_part(part, index)
    fixture = FIXTURES[index]
    text = fixture.text
    for edit in edits:
        text = MUTATIONS[edit](text, Random(seed), fixture.sizes)
        ast.parse(text)
    report = lint(folder, fixture, text)
    assert said(report) == as_written(index, folder), [hole.reason for hole in report.unread]
    assert all(is_inside(span, report, text) for span in spans(report))


@pytest.mark.parametrize("part", range(PARTS))
@settings(max_examples=60 // PARTS, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(INDEX, st.data())
def test_a_damaged_submission_never_raises_and_its_spans_stay_inside(
    folder: Path, part: int, index: int, data: st.DataObject
) -> None:
    index = of_part(part, index)
    text = FIXTURES[index].text
    lines = text.splitlines(keepends=True)
    for _ in range(data.draw(st.integers(1, 4))):
        first = data.draw(st.integers(0, len(lines) - 1))
        count = data.draw(st.integers(1, 3))
        lines[first : first + count] = lines[first : first + count][: data.draw(st.integers(0, 2))]
        lines = lines or ["\n"]
    text = "".join(lines)
    path = folder / "solution.py"
    path.write_text(text, encoding="utf-8")
    (report,) = kbh_lint.lint([path], problem=FIXTURES[index].problem, raise_errors=True).files or (None,)
    if report is not None and text.strip():
        assert all(is_inside(span, report, text) for span in spans(report))


@pytest.mark.parametrize("name", sorted(MUTATIONS))
def test_every_kind_of_edit_changes_some_fixture_and_keeps_it_python(name: str) -> None:
    changed = 0
    for fixture in FIXTURES:
        text = MUTATIONS[name](fixture.text, Random(7), fixture.sizes)
        ast.parse(text)
        changed += text != fixture.text
    assert changed >= 5
