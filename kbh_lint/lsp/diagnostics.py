"""From a report to what an editor shows: diagnostics with UTF-16 positions, and the text of a hover."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from lsprotocol import types

from kbh_lint.findings import FileReport, Finding
from kbh_lint.rules import Rule
from kbh_lint.source.spans import Span

SOURCE = "kbh-lint"
MAX_DIAGNOSTICS = 200
_SEVERITIES = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "info": types.DiagnosticSeverity.Information,
}


def diagnostics(report: FileReport, text: str) -> list[types.Diagnostic]:
    """The diagnostics of a report on the document `text`: findings, promises that are open, and what was not read."""
    lines = text.split("\n")
    found = [_finding(finding, report, lines) for finding in report.findings]
    told = {finding.breaks for finding in report.findings}
    for promise in report.promises:
        if promise.state == "broken" and not told & {promise.id, promise.kind}:
            found.append(_at_top(f"the promise {promise.id} is broken", types.DiagnosticSeverity.Error))
        elif promise.state == "unproven":
            why = f": {promise.reason}" if promise.reason else ""
            found.append(_at_top(f"the promise {promise.id} is unproven{why}", types.DiagnosticSeverity.Information))
    for item in report.unread:
        place = _range(item.span, lines) if item.span is not None and _same(item.span.path, report.path) else _TOP
        found.append(_plain(f"not read: {item.reason}", place, types.DiagnosticSeverity.Information))
    return found[:MAX_DIAGNOSTICS]


def _finding(finding: Finding, report: FileReport, lines: Sequence[str]) -> types.Diagnostic:
    here = _same(finding.span.path, report.path)
    related = [(item.span, item.message) for item in finding.related]
    if not here:
        related.insert(0, (finding.span, "here"))
    return types.Diagnostic(
        range=_range(finding.span, lines) if here else _TOP,
        message=f"{finding.message} [{finding.verdict}]",
        severity=_SEVERITIES[finding.severity],
        code=finding.rule,
        source=SOURCE,
        related_information=[
            types.DiagnosticRelatedInformation(_location(span, report.path, lines), message)
            for span, message in related
        ],
    )


def _location(span: Span, own: str, lines: Sequence[str]) -> types.Location:
    # of another file only the lines are known here; its columns are given as they are
    place = _range(span, lines) if _same(span.path, own) else _raw(span)
    return types.Location(Path(os.path.abspath(span.path)).as_uri(), place)


def _same(path: str, other: str) -> bool:
    return os.path.realpath(path) == os.path.realpath(other)


def _at_top(message: str, severity: types.DiagnosticSeverity) -> types.Diagnostic:
    return _plain(message, _TOP, severity)


def _plain(message: str, place: types.Range, severity: types.DiagnosticSeverity) -> types.Diagnostic:
    return types.Diagnostic(place, message, severity=severity, source=SOURCE)


_TOP = types.Range(types.Position(0, 0), types.Position(0, 1))


def _raw(span: Span) -> types.Range:
    start = types.Position(max(span.line - 1, 0), max(span.column - 1, 0))
    return types.Range(start, types.Position(max(span.end_line - 1, 0), max(span.end_column - 1, 0)))


def _range(span: Span, lines: Sequence[str]) -> types.Range:
    """Characters counted from 1 become UTF-16 units counted from 0, within the document."""
    return types.Range(_position(span.line, span.column, lines), _position(span.end_line, span.end_column, lines))


def _position(line: int, column: int, lines: Sequence[str]) -> types.Position:
    row = min(max(line - 1, 0), max(len(lines) - 1, 0))
    before = lines[row][: max(column - 1, 0)] if lines else ""
    return types.Position(row, len(before.encode("utf-16-le", "surrogatepass")) // 2)


def hover(shown: Sequence[types.Diagnostic], at: types.Position, rules: Mapping[str, Rule]) -> str:
    """What the rules that speak at a position say, as Markdown; empty when none does."""
    found = dict.fromkeys(str(item.code) for item in shown if item.code and _holds(item.range, at))
    return "\n\n---\n\n".join(_about(rules[rule]) for rule in found if rule in rules)


def _holds(place: types.Range, at: types.Position) -> bool:
    start, end = (place.start.line, place.start.character), (place.end.line, place.end.character)
    return start <= (at.line, at.character) <= end


def _about(rule: Rule) -> str:
    head = f"**{rule.id} {rule.name}** ({rule.verdict}): {rule.summary}"
    return f"{head}\n\n{rule.why}\n\n**How to fix.** {rule.remedy}\n\n`kbh-lint --explain {rule.id}` has examples."
