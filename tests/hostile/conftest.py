"""Says at the end how many hostile submissions were contained and how many twins were graded as usual."""

from __future__ import annotations

from typing import Any


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Counts the properties that the tests of the suite record; they come from all workers."""
    counts = {"hostile": [0, 0], "twins": [0, 0]}
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, ()):
            for name, value in report.user_properties if getattr(report, "when", "") == "call" else ():
                if name in counts:
                    counts[name][0] += value if outcome == "passed" else 0
                    counts[name][1] += value
    if counts["hostile"][1] or counts["twins"][1]:
        terminalreporter.write_line("hostile submissions contained: {} of {}".format(*counts["hostile"]))
        terminalreporter.write_line("honest twins graded as usual: {} of {}".format(*counts["twins"]))
