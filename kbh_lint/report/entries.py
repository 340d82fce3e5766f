"""What a report tells, entry by entry, whatever a format makes of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from kbh_lint.base.records import dataclass
from kbh_lint.findings import FileReport, Finding, PromiseState, Report
from kbh_lint.source.spans import Span


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing to tell of a file: a `finding`, a promise that is `broken` without a finding that says so, or that the
    file is `unproven`. `reasons` are sentences: the finding's message, why a promise is broken (there may be none), or
    what could not be read or shown.
    """

    kind: Literal["finding", "broken", "unproven"]
    severity: Literal["error", "warning", "info"]
    span: Span
    reasons: tuple[str, ...]
    finding: Finding | None = None
    promise: PromiseState | None = None


def entries(file: FileReport) -> Iterator[Entry]:
    """Yields all that must be told of a file; nothing for a file whose verdict says enough, as `clean` does."""
    top = Span(file.path, 1, 1, 1, 1)
    for finding in file.findings:
        yield Entry("finding", finding.severity, finding.span, (finding.message,), finding=finding)
    for promise in file.promises:
        if promise.state == "broken" and not any(f.breaks in (promise.id, promise.kind) for f in file.findings):
            yield Entry("broken", "error", top, tuple(filter(None, [promise.reason])), promise=promise)
    if file.verdict == "unproven":
        reasons = tuple(item.reason for item in file.unread) or tuple(
            f"the promise {promise.id} could not be shown kept or broken"
            for promise in file.promises
            if promise.state == "unproven"
        )
        yield Entry("unproven", "warning", top, reasons or ("a promise could not be shown kept or broken",))


def unsaid(report: Report) -> list[str]:
    """The errors of a run that no file's entries have, such as paths that were not found."""
    said = {item.reason for file in report.files for item in file.unread}
    return [error for error in report.errors if error not in said]
