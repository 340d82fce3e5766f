"""SARIF 2.1.0, for code-scanning services."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from kbh_lint.findings import FileReport, Finding, Report
from kbh_lint.report.entries import entries
from kbh_lint.source.spans import Span

if TYPE_CHECKING:
    from kbh_lint.rules import Rule

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
PROMISE_RULE = "broken-promise"  # what a broken promise is reported under when no rule says why
_LEVELS = {"error": "error", "warning": "warning", "info": "note"}


def render(report: Report, rules: Mapping[str, Rule], tool_version: str) -> str:
    """The report as one SARIF run. What could not be read becomes a notification of the invocation, not a result."""
    used: dict[str, int] = {}
    results = [result for file in report.files for result in _results(file, used)]
    invocation: dict[str, Any] = {"executionSuccessful": not report.errors}
    notifications = [item for file in report.files for item in _unread(file)]
    notifications += [{"level": "error", "message": {"text": error}} for error in report.errors]
    if notifications:
        invocation["toolExecutionNotifications"] = notifications
    run = {
        "tool": {"driver": {"name": "kbh-lint", "version": tool_version, "rules": [_rule(i, rules) for i in used]}},
        "columnKind": "unicodeCodePoints",
        "invocations": [invocation],
        "results": results,
        "properties": {"verdicts": {file.path: file.verdict for file in report.files}},
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def _results(file: FileReport, used: dict[str, int]) -> Iterable[dict[str, Any]]:
    for finding in file.findings:
        yield _result(finding, used.setdefault(finding.rule, len(used)))
    for promise in file.promises:
        if promise.state == "broken" and not any(f.breaks in (promise.id, promise.kind) for f in file.findings):
            places = [item.span for item in promise.evidence] or [Span(file.path, 1, 1, 1, 1)]
            yield {
                "ruleId": PROMISE_RULE,
                "ruleIndex": used.setdefault(PROMISE_RULE, len(used)),
                "level": "error",
                "message": {"text": f"The promise {promise.id} is broken. {promise.reason}".strip()},
                "locations": [_location(places[0])],
            }


def _result(finding: Finding, index: int) -> dict[str, object]:
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": _LEVELS[finding.severity],
        "message": {"text": finding.message},
        "locations": [_location(finding.span)],
        "properties": {
            "class": finding.leak_class,
            "verdict": finding.verdict,
            "confidence": finding.confidence,
            "layer": finding.layer,
            "shapes": list(finding.shapes),
            "breaks": finding.breaks,
        },
    }
    if finding.related:
        result["relatedLocations"] = [
            {"id": number, **_location(item.span), "message": {"text": item.message}}
            for number, item in enumerate(finding.related, 1)
        ]
    return result


def _unread(file: FileReport) -> Iterable[dict[str, Any]]:
    said = [(item.reason, item.span or Span(file.path, 1, 1, 1, 1)) for item in file.unread]
    if not said:
        said = [(reason, e.span) for e in entries(file) if e.kind == "unproven" for reason in e.reasons]
    for reason, span in said:
        yield {"level": "warning", "message": {"text": reason}, "locations": [_location(span)]}


def _location(span: Span) -> dict[str, object]:
    region = {
        "startLine": max(1, span.line),
        "startColumn": max(1, span.column),
        "endLine": max(1, span.end_line),
        "endColumn": max(1, span.end_column),
    }
    return {"physicalLocation": {"artifactLocation": {"uri": _uri(span.path)}, "region": region}}


def _uri(path: str) -> str:
    pure = PurePath(path)
    text = pure.as_posix()
    try:
        data = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        data = text.encode("utf-8", "replace")
    return ("file://" if pure.is_absolute() else "") + quote(data, safe="/")


def _rule(rule_id: str, rules: Mapping[str, Rule]) -> dict[str, object]:
    rule = rules.get(rule_id)
    if rule is None:
        return {"id": rule_id, "shortDescription": {"text": "A promise of the problem is broken."}}
    return {
        "id": rule.id,
        "name": rule.name,
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.why},
        "help": {"text": rule.remedy},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        "properties": {"class": rule.leak_class, "verdict": rule.verdict, "tags": [rule.leak_class, rule.verdict]},
    }
