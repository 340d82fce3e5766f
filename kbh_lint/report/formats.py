"""The formats of `kbh-lint --output-format`: a row each, which renders a report by the module of its name.

A further one is its module here and its row below, which `make docs` puts into docs/reports.md. The module has a
function `render`, which is handed what it uses of the report and of `Given`, and returns the whole output:

    def render(report: Report) -> str:
        lines = []
        for file in report.files:
            for entry in entries(file):  # findings, broken promises without one, and that a file is unproven
                name = [entry.promise.id] if entry.promise else []  # a broken promise may have no reasons
                lines.append(f"{one_line(file.path)} {entry.kind} {one_line('; '.join([*name, *entry.reasons]))}")
        lines += [f"error {one_line(error)}" for error in unsaid(report)]
        return "".join(f"{line}\n" for line in lines)

`entries` and `unsaid` are of `kbh_lint.report.entries`, `one_line` and `clean` of `kbh_lint.report.text`. An entry has
`kind` (finding, broken, unproven), `severity` (error, warning, info), `span` (path, lines and columns from 1) and
`reasons`; a finding, with rule, verdict, shapes and related places, is `entry.finding`
(`kbh_lint.findings.Finding`), a promise that is broken without one `entry.promise`. What holds of
every format, and tests/report/test_formats.py asks of each row:

- Any text but ours may be hostile: messages, reasons, paths, names of promises, shapes, errors. It goes through
  `clean` or `one_line`, which write out what drives a terminal and what XML forbids even as `&#27;`, and then through
  the format's own escaping; output is UTF-8 without control characters other than line feeds.
- A file in which nothing was followed, or a promise could not be shown, says `unproven` and why, never `clean`.
- A promise that is broken without a finding is told, by its name.
- Errors of the run are in what is `for_people`; of other formats they are on standard error, too.
- The same report gives the same text, of no file as well: no clock, no path of this machine, no order of a set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from kbh_lint.base.records import dataclass

if TYPE_CHECKING:
    from kbh_lint.findings import Report
    from kbh_lint.rules import Rule


@dataclass(frozen=True, slots=True)
class Given:
    """What a format may use beside the report. `rules`, by id, are read when they are asked for."""

    rules: Callable[[], Mapping[str, Rule]]
    colour: bool
    quiet: bool
    version: str


def _late(name: str) -> Any:
    """A module of this folder, loaded now: a report has one format, and `--help` none."""
    return import_module(f"kbh_lint.report.{name}")


@dataclass(frozen=True, slots=True)
class Format:
    """One format; `serves` says for whom it is, and what; `for_people`: who reads it reads all of standard output, so
    what is said beside it may stand there, and its errors are in it."""

    render: Callable[[Report, Given], str]
    serves: str
    for_people: bool = False


FORMATS: Mapping[str, Format] = {
    "full": Format(
        lambda report, given: _late("full").render(report, given.rules(), colour=given.colour, quiet=given.quiet),
        "People (the default): code line, caret, why it matters, what it breaks and on which shapes, related places.",
        for_people=True,
    ),
    "concise": Format(
        lambda report, given: _late("concise").render(report, quiet=given.quiet),
        "Editors and grep: `path:line:column: KBH101 [verdict] message`.",
        for_people=True,
    ),
    "json": Format(
        lambda report, given: _late("json_v1").render(report, given.version),
        "Programs: version 1, described by [`kbh_lint/schemas/report-v1.json`](../kbh_lint/schemas/report-v1.json).",
    ),
    "github": Format(
        lambda report, _: _late("github").render(report),
        "GitHub Actions: workflow commands that annotate lines.",
    ),
    "sarif": Format(
        lambda report, given: _late("sarif").render(report, given.rules(), given.version),
        "Code-scanning services: SARIF 2.1.0.",
    ),
    "annotation": Format(
        lambda report, given: _late("annotation").render(report, given.rules()),
        "Per-run annotations: one YAML document a file, with verbatim quotes.",
    ),
}


def docs_table() -> str:
    """The formats as a table, for docs/reports.md."""
    rows = "".join(f"| `{name}` | {row.serves} |\n" for name, row in FORMATS.items())
    return f"| Format | For |\n|---|---|\n{rows}"
