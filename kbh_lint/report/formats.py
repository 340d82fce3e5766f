"""The formats of `kbh-lint --output-format`: a row each, which renders a report by the module of its name.

A further one is its module here, its row below, and a line in docs/reports.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

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


def _full(report: Report, given: Given) -> str:
    from kbh_lint.report import full  # start-up: a report has one format

    return full.render(report, given.rules(), colour=given.colour, quiet=given.quiet)


def _concise(report: Report, given: Given) -> str:
    from kbh_lint.report import concise  # start-up: a report has one format

    return concise.render(report, quiet=given.quiet)


def _json(report: Report, given: Given) -> str:
    from kbh_lint.report import json_v1  # start-up: a report has one format

    return json_v1.render(report, given.version)


def _github(report: Report, _: Given) -> str:
    from kbh_lint.report import github  # start-up: a report has one format

    return github.render(report)


def _sarif(report: Report, given: Given) -> str:
    from kbh_lint.report import sarif  # start-up: a report has one format

    return sarif.render(report, given.rules(), given.version)


def _annotation(report: Report, given: Given) -> str:
    from kbh_lint.report import annotation  # start-up: a report has one format

    return annotation.render(report, given.rules())


FORMATS: Mapping[str, Callable[[Report, Given], str]] = {
    "full": _full, "concise": _concise, "json": _json, "github": _github, "sarif": _sarif, "annotation": _annotation,
}  # fmt: skip
