"""One line a finding, for editors and grep."""

from __future__ import annotations

from kbh_lint.findings import Report
from kbh_lint.report.full import summary, unsaid
from kbh_lint.report.text import clean, one_line


def render(report: Report, *, quiet: bool = False) -> str:
    """`path:line:column: KBH101 [verdict] message`, and one line for each file whose verdict no finding explains."""
    lines: list[str] = []
    for file in report.files:
        path = clean(file.path)
        for finding in file.findings:
            span = finding.span
            place = f"{clean(span.path)}:{span.line}:{span.column}"
            lines.append(f"{place}: {finding.rule} [{finding.verdict}] {one_line(finding.message)}")
        for promise in file.promises:
            if promise.state == "broken" and not any(f.breaks in (promise.id, promise.kind) for f in file.findings):
                lines.append(f"{path}:1:1: promise {clean(promise.id)} is broken{_because(promise.reason)}")
        if file.verdict == "unproven":
            reasons = [u.reason for u in file.unread] or [p.id for p in file.promises if p.state == "unproven"]
            lines.append(f"{path}:1:1: unproven{_because('; '.join(reasons[:3]))}")
    lines += [f"error: {one_line(error)}" for error in unsaid(report)]
    if not quiet or not report.files:
        lines.append(summary(report))
    return "".join(f"{line}\n" for line in lines)


def _because(reason: str) -> str:
    return f": {one_line(reason)}" if reason else ""
