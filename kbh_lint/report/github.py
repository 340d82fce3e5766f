"""GitHub workflow commands: findings as annotations on the lines of a pull request."""

from __future__ import annotations

import re

from kbh_lint.findings import FileReport, Finding, Report
from kbh_lint.report.text import clean
from kbh_lint.source.spans import Span

_LEVELS = {"error": "error", "warning": "warning", "info": "notice"}


def render(report: Report) -> str:
    """One `::error ...::` command a finding, and one for each file whose verdict no finding explains."""
    lines: list[str] = []
    for file in report.files:
        lines += [_finding(finding) for finding in file.findings]
        lines += _file(file)
    lines += [f"::error title=kbh-lint::{_data(error)}" for error in report.errors]
    return "".join(f"{line}\n" for line in lines)


def _finding(finding: Finding) -> str:
    text = finding.message
    if finding.shapes:
        text += f" (on {'; '.join(finding.shapes)})"
    for item in finding.related:
        text += f"\n{item.span.path}:{item.span.line}: {item.message}"
    return _command(_LEVELS[finding.severity], finding.span, f"{finding.rule} {finding.verdict}", text)


def _file(file: FileReport) -> list[str]:
    top = Span(file.path, 1, 1, 1, 1)
    lines = [
        _command("error", top, "broken promise", f"the promise {promise.id} is broken. {promise.reason}".strip())
        for promise in file.promises
        if promise.state == "broken" and not any(f.breaks in (promise.id, promise.kind) for f in file.findings)
    ]
    if file.verdict == "unproven":
        reasons = "; ".join(item.reason for item in file.unread) or "a promise could not be shown kept or broken"
        lines.append(_command("warning", top, "unproven", reasons))
    return lines


def _command(level: str, span: Span, title: str, text: str) -> str:
    fields = {"file": span.path, "line": span.line, "endLine": span.end_line, "title": f"kbh-lint: {title}"}
    if span.line == span.end_line:  # GitHub refuses columns on a range of lines
        fields |= {"col": span.column, "endColumn": span.end_column}
    said = ",".join(f"{key}={_property(str(value))}" for key, value in fields.items())
    return f"::{level} {said}::{_data(text)}"


def _data(text: str) -> str:
    """A text as a command holds it; what would drive a terminal is written out, for logs are read in one too."""
    text = re.sub(r"[^\r\n]+", lambda line: clean(line[0]), text)
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
