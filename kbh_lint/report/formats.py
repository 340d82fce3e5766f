"""The formats of `kbh-lint --output-format`: a row each, which renders a report by the module of its name.

A further one is its module here, its row below, and a line in docs/reports.md.
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
    """One format; `for_people`: who reads it reads all of standard output, so what is said beside it may stand there,
    and its errors are in it."""

    render: Callable[[Report, Given], str]
    for_people: bool = False


FORMATS: Mapping[str, Format] = {
    "full": Format(
        lambda report, given: _late("full").render(report, given.rules(), colour=given.colour, quiet=given.quiet),
        for_people=True,
    ),
    "concise": Format(lambda report, given: _late("concise").render(report, quiet=given.quiet), for_people=True),
    "json": Format(lambda report, given: _late("json_v1").render(report, given.version)),
    "github": Format(lambda report, _: _late("github").render(report)),
    "sarif": Format(lambda report, given: _late("sarif").render(report, given.rules(), given.version)),
    "annotation": Format(lambda report, given: _late("annotation").render(report, given.rules())),
}
