"""The report for people: each finding with its code, why it matters, what it breaks and on which shapes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from textwrap import wrap
from typing import TYPE_CHECKING

from kbh_lint.findings import NOTHING_FOLLOWED, FileReport, Finding, PromiseState, Related, Report
from kbh_lint.report.entries import unsaid
from kbh_lint.report.text import Paint, Sources, clean, excerpt, one_line
from kbh_lint.source.spans import Span

if TYPE_CHECKING:
    from kbh_lint.rules import Rule

WIDTH = 110
MAX_EVIDENCE = 4
_COLOURS = {
    "reward_hack": "red",
    "rubric_leak": "red",
    "bug": "red",
    "unproven": "yellow",
    "interesting": "yellow",
    "clean": "green",
}
_MARKS = {"kept": "kept", "kept-by-precision": "kept by precision", "emulated": "emulated", "broken": "BROKEN"}
_STATE_COLOURS = {"kept": "green", "kept-by-precision": "green", "broken": "red"}
_SEVERITY_COLOURS = {"error": "red", "warning": "yellow", "info": "blue"}


def render(report: Report, rules: Mapping[str, Rule], *, colour: bool = False, quiet: bool = False) -> str:
    """The whole report as text.

    `rules` (by id) give the why and the remedy; `quiet` leaves out files without findings.
    """
    paint, sources = Paint(colour), Sources()
    parts = [
        "\n".join(_file(file, rules, paint, sources))
        for file in report.files
        if not quiet or file.findings or file.verdict not in ("clean", "interesting")
    ]
    parts += [f"{paint('error', 'red')}: {one_line(error)}" for error in unsaid(report)]
    if not quiet or parts or not report.files:
        parts.append(summary(report))
    return "\n\n".join(part for part in parts if part) + "\n"


def summary(report: Report) -> str:
    """`3 files: 1 rubric_leak, 2 clean`; without any file, that nothing was followed."""
    counts: dict[str, int] = {}
    for file in report.files:
        counts[file.verdict] = counts.get(file.verdict, 0) + 1
    said = ", ".join(f"{counts[verdict]} {verdict}" for verdict in _COLOURS if verdict in counts)
    files = f"{len(report.files)} file{'s' * (len(report.files) != 1)}"
    return f"{files}: {said or NOTHING_FOLLOWED}"


def _file(file: FileReport, rules: Mapping[str, Rule], paint: Paint, sources: Sources) -> Iterator[str]:
    about = [part for part in (file.problem, file.contract and f"contract {file.contract}", file.target) if part]
    head = f"{paint(clean(file.path), 'bold')}: {paint(file.verdict, _COLOURS[file.verdict])}"
    yield f"{head}  ({one_line(', '.join(about))})" if about else head
    explained: set[str] = set()
    total = max((len(promise.shapes) for promise in file.promises), default=0)
    for finding in file.findings:
        yield ""
        rule = None if finding.rule in explained else rules.get(finding.rule)
        explained.add(finding.rule)
        yield from _finding(finding, rule, total, paint, sources)
    if file.promises:
        yield ""
        for promise in file.promises:
            told = any(finding.breaks in (promise.id, promise.kind) for finding in file.findings)
            yield from _promise(promise, file.path, None if told else sources, paint)
        yield from _shares(file)
    for unread in file.unread:
        place = f" ({_place(unread.span)})" if unread.span else ""
        yield from _note(paint("unread", "yellow"), unread.reason + place)
    for note in file.notes:
        yield from _note(paint("note", "blue"), note)
    if file.trace is not None:
        yield ""
        yield "  trace:"
        yield from (f"    {clean(line)}" for line in file.trace)


def _finding(finding: Finding, rule: Rule | None, total: int, paint: Paint, sources: Sources) -> Iterator[str]:
    word = paint(f"{finding.severity}[{finding.rule}]", _SEVERITY_COLOURS[finding.severity])
    yield f"{word} {paint(one_line(finding.message), 'bold')}"
    numbers = [finding.span.line, *(item.span.line for item in finding.related)]
    gutter = len(str(max(numbers)))
    yield f"{' ' * gutter}{paint('-->', 'blue')} {_place(finding.span)}"
    yield from _code(finding.span, "", gutter, paint, sources, "^", finding.severity)
    shown = {finding.span.path: finding.span.line}
    for item in finding.related:
        if item.span.path not in shown:
            yield f"{' ' * gutter}{paint(':::', 'blue')} {_place(item.span)}"
        shown[item.span.path] = item.span.line
        yield from _code(item.span, item.message, gutter, paint, sources, "-", "info")
    pad = " " * gutter
    facts = [f"verdict {finding.verdict}", f"class {finding.leak_class}", f"{finding.confidence} confidence"]
    if finding.breaks:
        facts.insert(0, f"breaks {finding.breaks}")
    if finding.shapes:
        every = total > 1 and len(finding.shapes) == total
        facts.append(f"on all {total} graded shapes" if every else "on " + "; ".join(finding.shapes))
    yield from _wrapped(f"{pad} = ", one_line(", ".join(facts)))
    if rule is not None:
        yield from _wrapped(f"{pad} = why: ", one_line(rule.why))
        yield from _wrapped(f"{pad} = fix: ", one_line(rule.remedy))


def _code(
    span: Span, message: str, gutter: int, paint: Paint, sources: Sources, mark: str, severity: str
) -> Iterator[str]:
    bar = paint("|", "blue")
    line = sources.line(span.path, span.line)
    if line is None:
        if message:
            yield f"{paint(str(span.line).rjust(gutter), 'blue')} {bar} {one_line(message)}"
        return
    last = span.end_column if span.end_line == span.line else len(line) + 1
    text, skip, length = excerpt(line, span.column, last)
    said = f" {one_line(message)}" if message else ""
    yield f"{paint(str(span.line).rjust(gutter), 'blue')} {bar} {text}"
    yield f"{' ' * gutter} {bar} {' ' * skip}{paint(mark * length + said, _SEVERITY_COLOURS[severity])}"


def _promise(promise: PromiseState, path: str, sources: Sources | None, paint: Paint) -> Iterator[str]:
    """A promise with its evidence; a broken one that no finding tells about gets its code lines from `sources`."""
    state = paint(_MARKS.get(promise.state, promise.state), _STATE_COLOURS.get(promise.state, "yellow"))
    line = f"  promise {clean(promise.id)}: {state}"
    if promise.reason:
        line += f" ({one_line(promise.reason)})"
    yield line
    if len(set(promise.shapes.values())) > 1:
        yield from (f"      on {one_line(shape)}: {value}" for shape, value in promise.shapes.items())
    shown = promise.evidence[:MAX_EVIDENCE]
    if promise.state != "broken" or sources is None:
        yield from dict.fromkeys(f"      {_evidence(item, path)}" for item in shown)  # both operands often say the same
        return
    gutter = max((len(str(item.span.line)) for item in shown), default=1)
    for item in shown:
        code = _code(item.span, item.message, gutter, paint, sources, "^", "error")
        yield from (f"      {line}" for line in code)


def _shares(file: FileReport) -> Iterator[str]:
    """Who does what, on the shape where authored kernels do least."""
    if not file.shares:
        return
    least = min(file.shares, key=lambda label: tuple(share or 0.0 for share in file.shares[label]["kernels"]))
    said = ", ".join(f"{who} {_percent(done)} and {moved:.0%}" for who, (done, moved) in file.shares[least].items())
    alike = all(doers == file.shares[least] for doers in file.shares.values())
    every = "" if alike else f", on {one_line(least)}"
    yield f"  shares of operations and bytes{every}: {said}"


def _percent(share: float | None) -> str:
    return "?" if share is None else f"{share:.0%}"


def _evidence(item: Related, path: str) -> str:
    place = f"line {item.span.line}" if item.span.path == path else _place(item.span)
    return f"{place}: {one_line(item.message)}"


def _note(word: str, text: str) -> Iterator[str]:
    yield from _wrapped(f"  {word}: ", one_line(text), indent="    ")


def _place(span: Span) -> str:
    return f"{clean(span.path)}:{span.line}:{span.column}"


def _wrapped(head: str, text: str, indent: str | None = None) -> Iterator[str]:
    indent = " " * len(head) if indent is None else indent
    lines = wrap(text, WIDTH - len(indent), break_long_words=False, break_on_hyphens=False) or [""]
    yield head + lines[0]
    yield from (indent + line for line in lines[1:])
