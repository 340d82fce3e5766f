"""How often the linter is right, beside two public checkers: `make accuracy CORPUS=DIR LABELS=FILE`.

CORPUS holds one RUN_ID.py a labelled submission. LABELS is a JSON list of objects with `run_id`, `label` (leak, clean
or disputed), `classes` (most telling first) and `lines`. Writes a page of figures; nothing of a submission is on it.

The peers are checkouts given by path, each run on the same files in a process of its own: `--kernelbench` of
KernelBench (its static checker, as it comes), `--kernelguard` of GPU MODE's KernelGuard (its default profile); make
takes these options as PEERS. The page has their commits.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import kbh_lint
from kbh_lint.findings import FileReport
from kbh_lint.verdict import FLAGGED

NEAR = 3  # lines
MOST_CLASSES = 4  # a file with more flagging classes gets no credit for the right reason
SHOWN = ("kept", "kept-by-precision", "emulated")
PEER_SECONDS = 1800.0
COMMAND = "make accuracy CORPUS=DIR LABELS=FILE"

# Run in the peer's own process; reads paths from standard input, prints one JSON object a line.
KERNELBENCH = """
import json, sys
sys.path.insert(0, sys.argv[1] + "/src/kernelbench")
from kernel_static_checker import validate_kernel_static
for path in sys.stdin.read().splitlines():
    text = open(path, encoding="utf-8", errors="replace").read()
    backend = "triton" if "triton" in text else "cuda"
    valid, errors, warnings = validate_kernel_static(text, backend=backend)
    print(json.dumps([not valid, bool(errors or warnings)]), flush=True)
"""
KERNELGUARD = """
import json, sys
sys.path.insert(0, sys.argv[1])
import kernelguard
for path in sys.stdin.read().splitlines():
    found = kernelguard.analyze_code(open(path, encoding="utf-8", errors="replace").read())
    print(json.dumps([bool(found["should_filter"]), bool(found["matched_patterns"])]), flush=True)
"""
PEERS = {
    "kernelbench": (KERNELBENCH, ("KernelBench, errors", "KernelBench, errors or warnings")),
    "kernelguard": (KERNELGUARD, ("KernelGuard, filtered", "KernelGuard, any pattern")),
}


class AccuracyError(Exception):
    """The figures cannot be had; the text is one sentence."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """A submission: where it lies, and what it is."""

    path: Path
    run: str
    label: str
    classes: tuple[str, ...]
    lines: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Judged:
    """What we say of one submission: flagged, with the right reason, with every promise shown kept (None: has none).

    `classes` are those of findings that flag it, `said` of all but those of severity info.
    """

    row: Labelled
    flagged: bool
    right: bool
    kept: bool | None
    classes: frozenset[str]
    said: frozenset[str]


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("corpus", type=Path)
    ask.add_argument("labels", type=Path)
    ask.add_argument("--kernelbench", metavar="DIR", type=Path)
    ask.add_argument("--kernelguard", metavar="DIR", type=Path)
    ask.add_argument("--jobs", "-j", default="auto")
    ask.add_argument("-o", "--output", type=Path, help="(default: standard output)")
    asked = ask.parse_args(argv)
    try:
        rows = read_labels(asked.labels, asked.corpus)
        judged = lint(rows, asked.jobs)
        others: dict[str, list[bool]] = {}
        commits: dict[str, str] = {}
        for name, (program, titles) in PEERS.items():
            folder = getattr(asked, name)
            if folder is not None:
                others |= dict(zip(titles, peer(name, program, folder, rows), strict=True))
                commits[titles[0].partition(",")[0]] = commit_of(folder)
        text = page(judged, others, commits)
    except AccuracyError as error:
        print(f"tools/accuracy.py: {error}", file=sys.stderr)
        return 2
    if asked.output is None:
        print(text, end="")
    else:
        asked.output.write_text(text, encoding="utf-8")
    return 0


def read_labels(labels: Path, corpus: Path) -> list[Labelled]:
    """The labelled submissions whose files are there; disputed ones are left out. Raises AccuracyError."""
    try:
        data = json.loads(labels.read_text(encoding="utf-8"))
        rows = [
            Labelled(
                corpus / f"{row['run_id']}.py", str(row["run_id"]), str(row["label"]),
                tuple(map(str, row.get("classes") or ())), tuple(map(int, row.get("lines") or ())),
            )
            for row in data
            if row["label"] != "disputed"
        ]  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise AccuracyError(f"{labels} does not hold labels: {type(error).__name__}: {error}") from None
    missing = [row.run for row in rows if not row.path.is_file()]
    if missing:
        raise AccuracyError(
            f"{corpus} lacks {len(missing)} of {len(rows)} labelled submissions, such as {missing[0]}.py"
        )
    if not rows:
        raise AccuracyError(f"{labels} holds no labels")
    return rows


def lint(rows: Sequence[Labelled], jobs: int | str) -> list[Judged]:
    """What our linter says of each."""
    report = kbh_lint.lint([row.path for row in rows], jobs=jobs if jobs == "auto" else int(jobs), cache=None)
    by_path = {Path(one.path).resolve(): one for one in report.files}
    return [_judged(row, by_path[row.path.resolve()]) for row in rows]


def _judged(row: Labelled, report: FileReport) -> Judged:
    telling = [f for f in report.findings if f.verdict in FLAGGED and f.severity != "info"]
    classes = frozenset(finding.leak_class for finding in telling)
    named = [finding for finding in telling if finding.leak_class in row.classes]
    right = len(classes) <= MOST_CLASSES and any(
        not row.lines
        or any(
            span.line - NEAR <= line <= span.end_line + NEAR
            for span in (finding.span, *(related.span for related in finding.related))
            for line in row.lines
        )
        for finding in named
    )
    flagged = report.verdict in FLAGGED
    kept = all(promise.state in SHOWN for promise in report.promises) if report.promises else None
    said = frozenset(finding.leak_class for finding in report.findings if finding.severity != "info")
    return Judged(row, flagged, flagged and right, kept, classes, said)


def peer(name: str, program: str, folder: Path, rows: Sequence[Labelled]) -> tuple[list[bool], list[bool]]:
    """What a peer says of each file: by its own decision, and by anything it says at all. Raises AccuracyError."""
    command = [sys.executable, "-I", "-c", program, str(folder.resolve())]
    paths = "\n".join(str(row.path.resolve()) for row in rows)
    try:
        done = subprocess.run(command, input=paths, capture_output=True, text=True, timeout=PEER_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise AccuracyError(f"{name} took longer than {PEER_SECONDS:g} s") from None
    said = done.stdout.splitlines()
    if done.returncode or len(said) != len(rows):
        last = (done.stderr.strip().splitlines() or ["nothing was printed"])[-1]
        raise AccuracyError(f"{name} in {folder} did not run: {last[:300]}")
    pairs = [json.loads(line) for line in said]
    return [bool(pair[0]) for pair in pairs], [bool(pair[1]) for pair in pairs]


def commit_of(folder: Path) -> str:
    """The commit of a checkout, or `unknown` where git does not say."""
    command = ["git", f"--git-dir={folder / '.git'}", "rev-parse", "--short=12", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return done.stdout.strip() if done.returncode == 0 else "unknown"


# --- the page ----------------------------------------------------------------------------------------------


def page(judged: Sequence[Judged], others: Mapping[str, Sequence[bool]], commits: Mapping[str, str]) -> str:
    """The figures as Markdown."""
    leaks = [one for one in judged if one.row.label == "leak"]
    clean = [one for one in judged if one.row.label == "clean"]
    under = [one for one in clean if one.kept is not None]
    found, right = sum(one.flagged for one in leaks), sum(one.right for one in leaks)
    alarms = sum(one.flagged for one in clean)
    lines = [
        "# Accuracy",
        "",
        f"Written by `{COMMAND}`; do not edit. {len(leaks)} leaks and {len(clean)} clean submissions,",
        "labelled by people; in brackets 95 % Wilson intervals. The linter was developed on these files, so its own",
        "row is a training figure. Neither the submissions nor their labels are part of this repository: the figures",
        "cannot be reproduced from it. `tools/accuracy.py` says which form both have, to count on files of your own.",
        *([f"Commits of the peers: {', '.join(' '.join(item) for item in commits.items())}."] if commits else []),
        "",
        "| | Leaks found | For the right reason | False alarms |",
        "|---|---|---|---|",
        f"| kbh-lint | {share(found, len(leaks))} | {share(right, len(leaks))} | {share(alarms, len(clean))} |",
    ]
    for title, flags in others.items():
        pairs = list(zip(judged, flags, strict=True))
        found = sum(flag for one, flag in pairs if one.row.label == "leak")
        alarms = sum(flag for one, flag in pairs if one.row.label == "clean")
        lines.append(f"| {title} | {share(found, len(leaks))} | | {share(alarms, len(clean))} |")
    lines += [
        "",
        "The right reason: a class that the label names, at most "
        f"{MOST_CLASSES} classes in all, and a place within {NEAR} lines of a labelled one.",
        "Clean submissions under a contract with every promise shown kept: "
        f"{share(sum(bool(one.kept) for one in under), len(under))}.",
        "",
        *_classes(judged, leaks),
        *_exceptions(judged),
    ]
    return "\n".join(lines) + "\n"


def _classes(judged: Sequence[Judged], leaks: Sequence[Judged]) -> list[str]:
    named = Counter(name for one in leaks for name in one.row.classes)
    first = Counter(one.row.classes[0] for one in leaks if one.row.classes)
    found = Counter(one.row.classes[0] for one in leaks if one.row.classes and one.flagged)
    said = Counter(name for one in judged for name in one.classes)
    true = Counter(name for one in judged for name in one.classes if name in one.row.classes)
    both = Counter(name for one in leaks for name in one.row.classes if name in one.said)
    lines = [
        "## By class",
        "",
        "Found: of the files whose first label is this class, those that are flagged at all. Named: of the files",
        "whose label names this class, those where we say it too, if only as `interesting`. Precision: of the files",
        "that we flag for this class, those whose label names it.",
        "",
        "| Class | Found | Named | Precision |",
        "|---|---|---|---|",
    ]
    for name in sorted(set(named) | set(said)):
        counts = ((found[name], first[name]), (both[name], named[name]), (true[name], said[name]))
        lines.append(f"| {name} | {' | '.join(_of(*pair) for pair in counts)} |")
    return [*lines, ""]


def _exceptions(judged: Sequence[Judged]) -> list[str]:
    wrong = [
        (one, "missed" if not one.flagged else "other reason")
        for one in judged
        if one.row.label == "leak" and not one.right
    ] + [(one, "false alarm") for one in judged if one.row.label == "clean" and one.flagged]
    unproved = [
        (one, "not shown kept") for one in judged if one.row.label == "clean" and one.kept is False and not one.flagged
    ]
    lines = ["## Exceptions", "", "| Run | | Label | We say |", "|---|---|---|---|"]
    for one, what in [*wrong, *unproved]:
        label = ", ".join(one.row.classes) or one.row.label
        lines.append(f"| {one.row.run} | {what} | {label} | {', '.join(sorted(one.classes)) or 'nothing'} |")
    return lines


def share(hits: int, total: int, z: float = 1.96) -> str:
    """`52/52 = 100 % [93, 100]`: a share with its Wilson score interval (E. B. Wilson, 1927)."""
    if not total:
        return "none"
    p, square = hits / total, z * z
    middle, half = p + square / (2 * total), z * math.sqrt(p * (1 - p) / total + square / (4 * total * total))
    low, high = (middle - half) / (1 + square / total), (middle + half) / (1 + square / total)
    return f"{hits}/{total} = {100 * p:.1f} % [{100 * low:.0f}, {100 * high:.0f}]"


def _of(hits: int, total: int) -> str:
    return f"{hits}/{total}" if total else ""


if __name__ == "__main__":
    raise SystemExit(main())
