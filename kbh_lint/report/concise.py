"""One line a finding, for editors and grep."""

from __future__ import annotations

from kbh_lint.findings import Report
from kbh_lint.report.entries import entries, unsaid
from kbh_lint.report.full import summary
from kbh_lint.report.text import clean, one_line


def render(report: Report, *, quiet: bool = False) -> str:
    """`path:line:column: KBH101 [verdict] message`, and one line for each file whose verdict no finding explains."""
    lines: list[str] = []
    for file in report.files:
        path = clean(file.path)
        for entry in entries(file):
            said, span = one_line("; ".join(entry.reasons[:3])), entry.span
            if entry.finding is not None:
                place = f"{clean(span.path)}:{span.line}:{span.column}"
                lines.append(f"{place}: {entry.finding.rule} [{entry.finding.verdict}] {said}")
                continue
            what = f"promise {clean(entry.promise.id)} is broken" if entry.promise is not None else entry.kind
            lines.append(f"{path}:1:1: {what}" + (f": {said}" if said else ""))
    lines += [f"error: {one_line(error)}" for error in unsaid(report)]
    if not quiet or not report.files:
        lines.append(summary(report))
    return "".join(f"{line}\n" for line in lines)
