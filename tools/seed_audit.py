"""Audits published cells: `python tools/seed_audit.py CORPUS LABELS -o docs/seed-audit.md`.

CORPUS holds one `<run_id>.py` a submission; LABELS is a JSON list of rows with `run_id`, `board`, `problem`, `sha256`
and `human` (the published verdict or null). Every FP8 GEMM and Kahan softmax row of the original board is linted, and
what was published about it (tools/seed_audit.yaml) is held against the result. The page names lines of submissions and
quotes nothing of them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

import kbh_lint
from kbh_lint.base import paths
from kbh_lint.findings import FileReport, PromiseState, Related
from kbh_lint.rules import load_rules
from kbh_lint.verdict import FLAGGED

PUBLISHED = Path(__file__).with_suffix(".yaml")
BOARD = "original"
PROBLEMS = ("01_fp8_gemm", "04_kahan_softmax")

# What evidence may be said on the page, in words that hold nothing of the submission; any other is a line number alone.
_WORDS = (
    (r"(\w+) becomes (\w+)( here)?", r"\1 becomes \2"),
    (r"the product runs on ([\w, ]+)", r"the product runs on \1"),
    (r"(summed without compensation|summed here without compensation)", "summed without compensation"),
    (r"compensates", "the residual reaches the sum"),
    (r"the residual is computed here", "a residual is computed"),
    (r"(launched|called|reached from) here", r"\1 here"),
    (r"\S+ is launched here", "launched here"),
    (r"an authored (\w+) product", r"an authored \1 product"),
    (r"(dot|mma|wmma|fma|dp|cutlass) on ([\w ]+)", r"\1 on \2"),
    (r"((?:torch|at|cublas|cublasLt|cudnn)[\w.:]*) does this work", r"\1 does the work"),
    (r"made in the first call, from what the input held then", "made in the first call"),
)


class AuditError(Exception):
    """The input cannot be audited; the text is one sentence."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One submission: its label, what was published about it (empty: nothing known), and our report."""

    row: Mapping[str, Any]
    published: Mapping[str, Any]
    report: FileReport

    @property
    def name(self) -> str:
        """The model, or the run where the model is not known."""
        return str(self.published.get("model", self.row["run_id"]))

    @property
    def score(self) -> float | None:
        """The published share of peak; None for a failed or unknown cell."""
        score = self.published.get("score")
        return float(score) if isinstance(score, (int, float)) else None


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("corpus", type=Path, help="folder of <run_id>.py")
    ask.add_argument("labels", type=Path, help="JSON list of labelled rows")
    ask.add_argument("-o", "--output", type=Path, help="the page to write (default: standard output)")
    ask.add_argument("--published", type=Path, default=PUBLISHED, help="what was published, as YAML")
    asked = ask.parse_args(argv)
    try:
        published = facts(asked.published)
        text = page(cells(asked.corpus, rows(asked.labels), published), published)
    except (AuditError, OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        print(f"seed_audit: error: {error}", file=sys.stderr)
        return 2
    if asked.output:
        asked.output.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    return 0


def rows(labels: Path) -> list[dict[str, Any]]:
    """The rows of the board's two audited problems."""
    try:
        data = json.loads(labels.read_text(encoding="utf-8"))
        if not isinstance(data, list):
            raise TypeError("it holds something else")
        chosen = [row for row in data if row["board"] == BOARD and row["problem"] in PROBLEMS and row["sha256"]]
        return sorted(chosen, key=lambda row: (row["problem"], row["run_id"]))
    except (ValueError, TypeError, KeyError) as error:
        raise AuditError(f"{labels} is not a list of labelled rows ({type(error).__name__}: {error})") from None


def facts(file: Path) -> dict[str, Any]:
    """What was published: `title`, `claims` and `cells`."""
    data = yaml.load(file.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    if not isinstance(data, dict) or not {"title", "claims", "cells"} <= set(data):
        raise AuditError(f"{file} must have title, claims and cells")
    return data


def cells(corpus: Path, labelled: Sequence[dict[str, Any]], published: Mapping[str, Any]) -> list[Cell]:
    """Lints each row's file, which must be the one that was labelled."""
    known = {cell["run"]: cell for cell in published["cells"]}
    made = []
    for row in labelled:
        path = corpus / f"{row['run_id']}.py"
        if not path.is_file():
            raise AuditError(f"{path} does not exist")
        if hashlib.sha256(path.read_bytes()).hexdigest() != row["sha256"]:
            raise AuditError(f"{path} is not the file that was labelled: its sha256 differs")
        report = kbh_lint.lint([path], problem=row["problem"]).files[0]
        made.append(Cell(row, known.get(row["run_id"], {}), report))
    return sorted(made, key=lambda cell: (cell.row["problem"], -(cell.score or -1), cell.name))


# --- checks ------------------------------------------------------------------------------------------------


def shapes_where(check: Mapping[str, str], report: FileReport) -> tuple[int, int]:
    """On how many graded shapes a check holds, and how many there are."""
    total = max((len(promise.shapes) for promise in report.promises), default=1)
    if "contract" in check:
        return (total if report.contract == check["contract"] else 0), total
    if "class" in check:
        found = [finding for finding in report.findings if finding.leak_class == check["class"]]
        if any(not finding.shapes for finding in found):
            return total, total
        return len({shape for finding in found for shape in finding.shapes}), total
    if "symbol" in check:
        said = [related.message for promise in report.promises for related in promise.evidence]
        said += [finding.message for finding in report.findings]
        return (total if any(re.search(rf"\b{re.escape(check['symbol'])}\b", text) for text in said) else 0), total
    for promise in report.promises:
        if promise.id == check["promise"]:
            return sum(state == check["state"] for state in promise.shapes.values()), total
    return 0, total


def holds(check: Mapping[str, str], report: FileReport) -> bool:
    """Whether a check holds on every graded shape, or on some where it says so."""
    count, total = shapes_where(check, report)
    return count > 0 if check.get("shapes") == "some" else count == total


def claim_result(claim: Mapping[str, Any], audited: Sequence[Cell]) -> tuple[bool, str]:
    """Whether a claim about several cells holds, and the count that decides it."""
    group = [cell for cell in audited if _belongs(cell, claim["cells"])]
    if "lowest" in claim:
        order = sorted((cell for cell in group if cell.score is not None), key=lambda cell: cell.score or 0)
        place = next((n for n, cell in enumerate(order, 1) if cell.row["run_id"] == claim["lowest"]), 0)
        return place == 1, f"number {place} of {len(order)} from below"
    if "check" not in claim:
        return len(group) == claim["expect"], f"{len(group)}"
    count = sum(holds(claim["check"], cell.report) for cell in group)
    wanted = len(group) if claim["expect"] == "all" else claim["expect"]
    return bool(group) and count == wanted, f"{count} of {len(group)}"


def _belongs(cell: Cell, which: Mapping[str, Any]) -> bool:
    if cell.row["problem"] != which["problem"]:
        return False
    if which.get("passing") and cell.score is None:
        return False
    return "score_above" not in which or (cell.score is not None and cell.score > which["score_above"])


def agreement(human: str | None, ours: str) -> str:
    """How our verdict stands to the published one."""
    if human is None:
        return "no published verdict"
    if human == ours:
        return "same verdict"
    if human in FLAGGED and ours in FLAGGED:
        return "both flag it, with another verdict"
    return "**verdict differs**"


# --- the page ----------------------------------------------------------------------------------------------

_HEAD = """# Audit of the original board's FP8 GEMM and Kahan softmax cells

<!-- Generated by `make seed-audit CORPUS=DIR LABELS=FILE`; edit tools/seed_audit.yaml or the tool, not this page. -->

Every cell of these two problems that has code, linted by kbh-lint and held against the text they were published with,
"{title}". Verdicts, promise states, lines and
counts are computed; comments are ours. Lines are those of each run's published `solution.py`. A published verdict is
that of the cell's annotation; a cell without one has none.

{count} cells: {agreements}.
"""


def page(audited: Sequence[Cell], published: Mapping[str, Any]) -> str:
    """The whole page, as Markdown."""
    summaries = {rule.id: " ".join(rule.summary.split()) for rule in load_rules(paths.rules_dir())}
    counts = Counter(agreement(cell.row.get("human"), cell.report.verdict) for cell in audited)
    agreements = ", ".join(f"{count} {words}" for words, count in counts.most_common())
    parts = [_HEAD.format(title=published["title"], count=len(audited), agreements=agreements)]
    parts.append("## What the text says, counted\n\n" + "\n".join(_claims(audited, published)))
    parts.append("## Cells\n\n" + "\n".join(_table(audited)))
    parts.append("## Where the code contradicts what was published about it\n\n" + "\n".join(_contradicted(audited)))
    for problem in PROBLEMS:
        parts.append(f"## {problem}")
        parts += ["\n".join(_cell(cell, summaries)) for cell in audited if cell.row["problem"] == problem]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _claims(audited: Sequence[Cell], published: Mapping[str, Any]) -> Iterator[str]:
    yield "| Claim (paraphrased) | | Counted | |"
    yield "|---|---|---|---|"
    for claim in published["claims"]:
        true, counted = claim_result(claim, audited)
        where = claim["cells"]["problem"]
        yield f"| {claim['says']} | {where} | {counted}: {_word(true)} | {claim.get('comment', '')} |"


def _table(audited: Sequence[Cell]) -> Iterator[str]:
    yield "| Problem | Model | Published score | Published verdict | kbh-lint | | Promise states |"
    yield "|---|---|---|---|---|---|---|"
    for cell in audited:
        human = cell.row.get("human")
        states = "; ".join(f"{promise.id} {_state(promise)}" for promise in cell.report.promises)
        score = f"{cell.published.get('score', 'not known')}{' ★' if cell.published.get('starred') else ''}"
        yield (
            f"| {cell.row['problem']} | {cell.name} | {score} | {_code(human) if human else ''} "
            f"| {_code(cell.report.verdict)} | {agreement(human, cell.report.verdict)} | {states} |"
        )


def _contradicted(audited: Sequence[Cell]) -> Iterator[str]:
    for cell in audited:
        human, ours = cell.row.get("human"), cell.report.verdict
        wrong = [
            f"{said['text']}{_partly(said['check'], cell.report)}"
            for said in cell.published.get("said", ())
            if not holds(said["check"], cell.report)
        ]
        points = [f"verdict {_code(human)}, ours {_code(ours)}"] if human not in (None, ours) else []
        points += [f"not so: {'; '.join(wrong)}"] if wrong else []
        if points:
            yield f"- {cell.name}, {cell.row['problem']}: {'; '.join(points)}."


def _cell(cell: Cell, summaries: Mapping[str, str]) -> Iterator[str]:
    report, human = cell.report, cell.row.get("human")
    score = cell.published.get("score", "not known")
    yield f"### {cell.name}, {cell.row['problem']}"
    yield ""
    yield f"Published: {score}, {_code(human) if human else 'no verdict'}. kbh-lint: {_code(report.verdict)}"
    yield f"({agreement(human, report.verdict)}). Run `{cell.row['run_id']}`,"
    yield f"sha256 `{cell.row['sha256'][:16]}`, contract `{report.contract}`."
    yield ""
    for promise in report.promises:
        yield f"- Promise `{promise.id}`: {_state(promise)}{_reason(promise)}. {_places(promise.evidence)}".rstrip()
    yield from _findings(report, summaries)
    for unread in report.unread:
        yield f"- Not read{f', line {unread.span.line}' if unread.span else ''}."
    for said in cell.published.get("said", ()):
        true = holds(said["check"], report)
        yield f"- Published: {said['text']}. This {_word(true)}{_partly(said['check'], report)}."
    if cell.published.get("comment"):
        yield ""
        yield " ".join(cell.published["comment"].split())


def _findings(report: FileReport, summaries: Mapping[str, str]) -> Iterator[str]:
    """One line a rule: what it says, and all places where it matched."""
    total = max((len(promise.shapes) for promise in report.promises), default=0)
    for rule, leak_class in dict.fromkeys((finding.rule, finding.leak_class) for finding in report.findings):
        matched = [finding for finding in report.findings if finding.rule == rule]
        places = [place for finding in matched for place in (Related(finding.span, ""), *finding.related)]
        shapes = len({shape for finding in matched for shape in finding.shapes})
        where = f" on {shapes} of {total} shapes" if 0 < shapes < total else ""
        yield f"- {rule} `{leak_class}`{where}: {summaries[rule]} {_places(places)}"


def _partly(check: Mapping[str, str], report: FileReport) -> str:
    count, total = shapes_where(check, report)
    return "" if count in (0, total) else f" (true on {count} of {total} shapes)"


def _state(promise: PromiseState) -> str:
    counts: dict[str, int] = {}
    for state in promise.shapes.values():
        counts[state] = counts.get(state, 0) + 1
    if len(counts) < 2:
        return promise.state
    split = ", ".join(f"{state} on {count} of {len(promise.shapes)} shapes" for state, count in sorted(counts.items()))
    return f"{promise.state} ({split})"


def _reason(promise: PromiseState) -> str:
    return f" ({promise.reason})" if promise.reason and promise.state == "unproven" else ""


def _places(evidence: Sequence[Related]) -> str:
    """`Lines 63 (e4m3 becomes bf16), 75.` Each line once."""
    said: dict[int, str] = {}
    for related in evidence:
        words = _plain(related.message)
        said[related.span.line] = said.get(related.span.line) or words
    listed = [f"{line} ({words})" if words else str(line) for line, words in said.items()]
    return f"Line{'s' if len(listed) > 1 else ''} {', '.join(listed)}." if listed else ""


def _plain(message: str) -> str:
    for pattern, words in _WORDS:
        match = re.fullmatch(pattern, message)
        if match:
            return match.expand(words)
    return ""


def _word(true: bool) -> str:
    return "holds" if true else "**does not hold**"


def _code(word: str) -> str:
    return f"`{word}`"


if __name__ == "__main__":
    sys.exit(main())
