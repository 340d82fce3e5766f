"""Writes README.md from cases.yaml and the first lines of the submissions: `python tests/hostile/hostile_table.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml
from hostile_suite import HERE, PROOFS, HostileCase, idea, load_cases


def must(case: HostileCase) -> str:
    """What must happen, in a few words."""
    words = " or ".join(case.outcomes)
    least = f"what a call alone shows of {case.least_ms:g} ms" if case.shown_alone else f"{case.least_ms:g} ms"
    words += f", at least {least}" if case.least_ms else ""
    words += ", having reached nothing" if case.tried and not case.least_ms else ""
    return words + (f", at least {case.share_of_twin:g} of its twin's time" if case.share_of_twin else "")


def row(case: HostileCase) -> str:
    """A line of the table."""
    cells = f"`{case.name}`", case.idea, must(case), PROOFS[case.proof], idea(case.twin)
    return f"| {' | '.join(cells)} |"


def unseen() -> list[dict[str, Any]]:
    """The attacks that the linter has no finding for, in groups with a reason (linter.yaml)."""
    groups: list[dict[str, Any]] = yaml.safe_load((HERE / "linter.yaml").read_text())
    return groups


def linter(cases: Sequence[HostileCase]) -> list[str]:
    """The section on what the linter says without running anything."""
    groups = unseen()
    silent = sum(len(group["cases"]) for group in groups)
    lines = [
        "## Before they run",
        "",
        f"`kbh-lint` flags {len(cases) - silent} of the {len(cases)} attacks and none of the {len(cases)} twins, rules",
        "about torch in place of kernels left aside. What it has no finding for, and why:",
        "",
        "| why | cases |",
        "|---|---|",
    ]
    return [*lines, *(f"| {g['why']} | {', '.join(f'`{name}`' for name in g['cases'])} |" for g in groups), ""]


def readme() -> str:
    """README.md: one line a case."""
    cases = load_cases()
    counts = [sum((c.device == "cpu") is on_cpu for c in cases) for on_cpu in (True, False)]
    lines = [
        "# Hostile submissions",
        "",
        "Each tries one thing. It must end as the table says, stopped by what stands under *by*. Beside each lies an",
        "honest twin, `NAME_twin.py`, that looks like it and must be graded as any other submission. After every",
        "grading the suite looks for changed files outside, connections to a server of its own, processes and",
        "scratch folders that are left, and secrets in the bundle.",
        "",
        f"{counts[0]} cases run on a CPU, {counts[1]} need a GPU (`pytest -m gpu tests/hostile`). The tables are made",
        "by `python tests/hostile/hostile_table.py` from cases.yaml and the files.",
        "",
        "Twins whose time does not matter run many in one process, and are linted one by one; `KBH_HOSTILE_ALL=1`",
        "grades each by itself. Some cases are graded in every closed kind of sandbox that is here, and those that",
        "only look around are run once without a sandbox, where they must get through: a case that cannot fail shows",
        "nothing. `make test` takes a quarter of all this, another at each commit; pytest by hand and `make test-full`",
        "take the whole.",
        "",
        "Some begin their work before the claimed clock starts, or forge it, and do the calls of a sealed batch",
        "together: `watch_and_overlap`, `batch_stacked`, `batch_threads` and `gpu_batch_merged`. A sealed call alone",
        "has nothing to share with, and what it takes is what they get.",
        "",
    ]
    lines += linter(cases)
    for device, title in (("cpu", "On a CPU"), ("cuda", "On a GPU")):
        lines += [f"## {title}", "", "| case | tries | must be | by | its twin |", "|---|---|---|---|---|"]
        lines += [row(case) for case in cases if case.device == device]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    (HERE / "README.md").write_text(readme())
