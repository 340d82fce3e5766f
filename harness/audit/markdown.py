"""The audit as Markdown: a summary by problem and board, then each disagreement."""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.audit.cells import Audit, Cell
from harness.audit.compare import KINDS, TITLES

__all__ = ["render"]

MOST_SHOWN = 12
_MARKS = re.compile(r"([\\`*_\[\]<>|#&~!])")


def render(audit: Audit) -> str:
    """The audit as the text of audit.md."""
    return "\n".join(_lines(audit)).rstrip() + "\n"


def _lines(audit: Audit) -> Iterator[str]:
    counts = audit.counts()
    yield f"# Audit of {plain(audit.archive)}"
    yield ""
    at = f" at `{audit.revision[:12]}`" if audit.revision else ""
    only = f", {audit.only} runs of it that were named" if audit.only is not None else ""
    yield f"Layout {audit.layout}{at}{only}. {len(audit.cells)} runs, {audit.solutions} solutions read."
    yield "Made by " + ", ".join(f"{plain(name)} {plain(value)}" for name, value in audit.versions.items()) + "."
    yield ""
    yield ", ".join(f"{counts[kind]} {TITLES[kind]}" for kind in KINDS) + "."
    if audit.flagged_unannotated:
        yield f"Of those that are not annotated, {audit.flagged_unannotated} are flagged here."
    yield ""
    yield "| problem | board | runs | " + " | ".join(TITLES[kind] for kind in KINDS) + " |"
    yield "|---|---|" + "---:|" * (len(KINDS) + 1)
    for problem, board, by_kind in audit.by_problem():
        numbers = " | ".join(str(by_kind[kind]) for kind in KINDS)
        yield f"| {plain(problem)} | {plain(board)} | {sum(by_kind.values())} | {numbers} |"
    total = " | ".join(f"**{counts[kind]}**" for kind in KINDS)
    yield f"| **all** | | **{len(audit.cells)}** | {total} |"
    for kind in ("we-flag", "they-flag", "cannot-tell"):
        cells = [cell for cell in audit.cells if cell.kind == kind]
        if cells:
            yield ""
            yield f"## {TITLES[kind].capitalize()}"
            for cell in cells:
                yield from _cell(cell)
    apart = [cell for cell in audit.cells if cell.kind == "agree" and (cell.apart or cell.remarks)]
    if apart:
        yield ""
        yield "## Agree, with a difference"
        yield ""
        yield from (f"- {plain(cell.run)}: {_difference(cell)}" for cell in apart)
    if audit.troubles:
        yield ""
        yield "## Troubles"
        yield ""
        yield from (f"- {plain(trouble)}" for trouble in audit.troubles)


def _difference(cell: Cell) -> str:
    """In what an agreement is less than one: another word, other lines, whatever else was remarked."""
    said = [f"published {cell.theirs.word}, ours {cell.ours}"] if cell.apart else []
    said += [plain(remark) for remark in cell.remarks]
    if cell.remarks and cell.theirs.lines:
        ours = ", ".join(str(line) for line in sorted({one.line for one in cell.evidence if one.line})[:MOST_SHOWN])
        said.append(f"their lines {cell.their_lines}, ours {ours}")
    return "; ".join(said)


def _cell(cell: Cell) -> Iterator[str]:
    yield ""
    yield f"### {plain(cell.run)}"
    yield ""
    classes = f" ({', '.join(map(plain, cell.classes))})" if cell.classes else ""
    score = f", score {cell.theirs.score:g}" if cell.theirs.score is not None else ""
    yield f"{plain(cell.problem) or 'no problem'}, {plain(cell.board)}{score}. Published: `{code(cell.theirs.word)}`."
    yield f"Ours: `{code(cell.ours or 'none')}`{classes}."
    if cell.why:
        yield plain(cell.why[:1].upper() + cell.why[1:]) + "."
    if cell.theirs.lines:
        yield "Their lines: " + cell.their_lines + "."
    if cell.grade is not None:
        yield f"Graded here: {plain(cell.grade.outcome)}. {plain(cell.grade.text)}"
    if cell.evidence:
        yield ""
    for one in cell.evidence[:MOST_SHOWN]:
        where = f"{plain(one.path)}:{one.line}" if one.line else plain(one.path)
        named = f" {plain(one.leak_class)}" if one.leak_class else ""
        yield f"- {where}: {plain(one.by)}{named}: {plain(one.message)}"
        if one.code:
            yield f"  `{code(one.code.strip())}`"
    if len(cell.evidence) > MOST_SHOWN:
        yield f"- {len(cell.evidence) - MOST_SHOWN} more places are in audit.json"
    yield from (f"- {plain(remark)}" for remark in cell.remarks)


def plain(text: str) -> str:
    """Foreign text on one line, with characters that mean something in Markdown or HTML escaped."""
    return _MARKS.sub(r"\\\1", " ".join(text.split()))


def code(text: str) -> str:
    """Foreign text on one line, fit to stand between backticks."""
    return text.replace("`", "'").replace("\n", " ")
