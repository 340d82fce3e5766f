"""Reports as plain data and back: the fields of JSON v1, which the cache stores too."""

from __future__ import annotations

from typing import Any

from kbh_lint.findings import FileReport, Finding, PromiseState, Related, Report, Unread
from kbh_lint.source.spans import Span

VERSION = 1
NAME = "kbh-lint"


def report_to_dict(report: Report, tool_version: str) -> dict[str, object]:
    """The report as plain data of JSON v1 (kbh_lint/schemas/report-v1.json)."""
    return {
        "version": VERSION,
        "tool": {"name": NAME, "version": tool_version},
        "files": [file_to_dict(file) for file in report.files],
        "errors": list(report.errors),
    }


def file_to_dict(file: FileReport) -> dict[str, object]:
    """The report on one file as plain data: an item of `files` in JSON v1."""
    data: dict[str, Any] = {
        "path": file.path,
        "problem": file.problem,
        "problem_source": file.problem_source,
        "contract": file.contract,
        "target": file.target,
        "verdict": file.verdict,
        "promises": [_promise(promise) for promise in file.promises],
        "findings": [_finding(finding) for finding in file.findings],
        "unread": [{"reason": item.reason, **_place(item.span)} for item in file.unread],
        "notes": list(file.notes),
    }
    if file.shares:
        data["shares"] = {
            label: {who: {"operations": done, "bytes": moved} for who, (done, moved) in doers.items()}
            for label, doers in file.shares.items()
        }
    if file.trace is not None:
        data["trace"] = list(file.trace)
    return data


def _place(span: Span | None) -> dict[str, object]:
    if span is None:
        return {"path": None, "line": None, "column": None, "end_line": None, "end_column": None}
    return {
        "path": span.path,
        "line": span.line,
        "column": span.column,
        "end_line": span.end_line,
        "end_column": span.end_column,
    }


def _related(items: tuple[Related, ...]) -> list[dict[str, Any]]:
    return [{"message": item.message, **_place(item.span)} for item in items]


def _promise(promise: PromiseState) -> dict[str, object]:
    return {
        "id": promise.id,
        "kind": promise.kind,
        "quantifier": promise.quantifier,
        "accepts": list(promise.accepts),
        "state": promise.state,
        "shapes": dict(promise.shapes),
        "evidence": _related(promise.evidence),
        "reason": promise.reason,
    }


def _finding(finding: Finding) -> dict[str, object]:
    return {
        "rule": finding.rule,
        "name": finding.name,
        "class": finding.leak_class,
        "verdict": finding.verdict,
        "severity": finding.severity,
        "confidence": finding.confidence,
        "layer": finding.layer,
        "message": finding.message,
        **_place(finding.span),
        "related": _related(finding.related),
        "shapes": list(finding.shapes),
        "breaks": finding.breaks,
    }


# --- back --------------------------------------------------------------------------------------------------


def file_from_dict(data: dict[str, Any]) -> FileReport:
    """The inverse of `file_to_dict`. Raises KeyError or TypeError on data of another form."""
    trace = data.get("trace")
    return FileReport(
        path=data["path"],
        problem=data["problem"],
        contract=data["contract"],
        target=data["target"],
        verdict=data["verdict"],
        promises=tuple(_read_promise(item) for item in data["promises"]),
        findings=tuple(_read_finding(item) for item in data["findings"]),
        unread=tuple(Unread(item["reason"], _span(item)) for item in data["unread"]),
        notes=tuple(data["notes"]),
        trace=None if trace is None else tuple(trace),
        problem_source=data["problem_source"],
        shares={
            label: {who: (share["operations"], share["bytes"]) for who, share in doers.items()}
            for label, doers in data.get("shares", {}).items()
        },
    )


def _span(data: dict[str, Any]) -> Span | None:
    if data["line"] is None:
        return None
    return Span(data["path"], data["line"], data["column"], data["end_line"], data["end_column"])


def _sure_span(data: dict[str, Any]) -> Span:
    return Span(data["path"], data["line"], data["column"], data["end_line"], data["end_column"])


def _read_related(items: list[dict[str, Any]]) -> tuple[Related, ...]:
    return tuple(Related(_sure_span(item), item["message"]) for item in items)


def _read_promise(data: dict[str, Any]) -> PromiseState:
    return PromiseState(
        id=data["id"],
        state=data["state"],
        shapes=dict(data["shapes"]),
        evidence=_read_related(data["evidence"]),
        reason=data["reason"],
        quantifier=data["quantifier"],
        kind=data["kind"],
        accepts=tuple(data["accepts"]),
    )


def _read_finding(data: dict[str, Any]) -> Finding:
    return Finding(
        rule=data["rule"],
        name=data["name"],
        leak_class=data["class"],
        verdict=data["verdict"],
        severity=data["severity"],
        confidence=data["confidence"],
        layer=data["layer"],
        message=data["message"],
        span=_sure_span(data),
        related=_read_related(data["related"]),
        shapes=tuple(data["shapes"]),
        breaks=data["breaks"],
    )
