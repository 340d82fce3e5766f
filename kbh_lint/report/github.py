"""GitHub workflow commands: findings as annotations on the lines of a pull request."""

from __future__ import annotations

import re

from kbh_lint.findings import Report
from kbh_lint.report.entries import Entry, entries
from kbh_lint.report.text import clean
from kbh_lint.source.spans import Span

_LEVELS = {"error": "error", "warning": "warning", "info": "notice"}


def render(report: Report) -> str:
    """One `::error ...::` command a finding, and one for each file whose verdict no finding explains."""
    lines: list[str] = []
    for file in report.files:
        lines += [_entry(entry) for entry in entries(file)]
    lines += [f"::error title=kbh-lint::{_data(error)}" for error in report.errors]
    return "".join(f"{line}\n" for line in lines)


def _entry(entry: Entry) -> str:
    level = _LEVELS[entry.severity]
    if entry.promise is not None:
        text = " ".join([f"the promise {entry.promise.id} is broken.", *entry.reasons])
        return _command(level, entry.span, "broken promise", text)
    text, finding = "; ".join(entry.reasons), entry.finding
    if finding is None:
        return _command(level, entry.span, entry.kind, text)
    if finding.shapes:
        text += f" (on {'; '.join(finding.shapes)})"
    for item in finding.related:
        text += f"\n{item.span.path}:{item.span.line}: {item.message}"
    return _command(level, entry.span, f"{finding.rule} {finding.verdict}", text)


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
