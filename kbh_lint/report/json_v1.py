"""JSON v1: the machine-readable report; `kbh_lint/schemas/report-v1.json` is its schema."""

from __future__ import annotations

import json

from kbh_lint.findings import Report
from kbh_lint.report.data import report_to_dict


def render(report: Report, tool_version: str) -> str:
    """The report as indented ASCII JSON."""
    return json.dumps(report_to_dict(report, tool_version), indent=1) + "\n"
