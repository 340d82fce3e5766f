"""How our verdict on a solution stands to what was published about its run: the table that docs/audit.md prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from kbh_lint.findings import FileReport, Verdict
from kbh_lint.verdict import FLAGGED

__all__ = ["CLASSES", "KINDS", "TITLES", "Class", "Kind", "class_of", "compare", "table"]

Class = Literal["sound", "leak", "beside", "none"]
Kind = Literal["agree", "we-flag", "they-flag", "cannot-tell", "beside", "not-annotated"]

KINDS: tuple[Kind, ...] = ("agree", "we-flag", "they-flag", "cannot-tell", "beside", "not-annotated")
TITLES: Mapping[Kind, str] = {
    "agree": "agree", "we-flag": "we flag", "they-flag": "they flag", "cannot-tell": "cannot tell",
    "beside": "not about the source", "not-annotated": "not annotated",
}  # fmt: skip
# Words of published verdicts by what they say of the source. Any other word is `beside`.
CLASSES: Mapping[Class, tuple[str, ...]] = {
    "sound": ("clean", "interesting", "counted"),
    "leak": ("rubric_leak", "reward_hack", "leak"),
    "beside": ("bug", "contamination", "harness_limited", "fail", "not_counted", "disputed"),
    "none": ("",),
}
_BY_WORD = {word: group for group, words in CLASSES.items() for word in words}
_SOUND: tuple[Verdict, ...] = ("clean", "interesting")


def class_of(word: str) -> Class:
    """The class of a published verdict: what it says of the source."""
    return _BY_WORD.get(word, "beside")


def compare(word: str, report: FileReport | None, missing: str = "") -> tuple[Kind, str]:
    """The kind of a cell, and one sentence on why where that needs one. `word` is the published verdict; `report` is
    None where there is no solution that can be read, and `missing` says why.
    """
    said = class_of(word)
    if said == "none":
        return "not-annotated", missing
    if said == "beside":
        return "beside", missing
    if report is None:
        return "cannot-tell", missing
    flagged = report.verdict in FLAGGED
    if flagged:
        return ("agree", "") if said == "leak" else ("we-flag", "")
    if report.verdict not in _SOUND:
        return "cannot-tell", _open(report)
    if report.contract is None:
        return "cannot-tell", "no problem of the deck says what it must promise, so finding nothing is no evidence"
    return ("agree", "") if said == "sound" else ("they-flag", "")


def _open(report: FileReport) -> str:
    if any("is not Python" in item.reason for item in report.unread) and report.contract is None:
        return "it is not in the language that is read: it is not Python"
    return "it is unproven: something on the way to the result could not be read, or a promise not be shown"


def table() -> str:
    """The table of verdicts in Markdown, made by asking `compare`."""
    columns: tuple[tuple[Verdict, ...], ...] = (_SOUND, ("rubric_leak", "reward_hack", "bug"), ("unproven",))
    lines = ["| published | " + " | ".join("ours: " + ", ".join(f"`{word}`" for word in one) for one in columns) + " |"]
    lines.append("|---|---|---|---|")
    for group, words in CLASSES.items():
        said = ", ".join(f"`{word}`" for word in words if word) or "nothing"
        said += ", any other word" if group == "beside" else ""
        kinds = []
        for column in columns:
            found = {
                compare(w, FileReport("", None, "a contract", None, verdict))[0] for w in words for verdict in column
            }
            kinds.append(", ".join(TITLES[kind] for kind in KINDS if kind in found))
        lines.append(f"| {said} | " + " | ".join(kinds) + " |")
    return "\n".join(lines) + "\n"
