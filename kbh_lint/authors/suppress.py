"""`# kbh: ignore[KBH904] reason`: what the authors of a problem have decided to live with, in their own files.

A comment speaks for the findings of the named rules on its own line; one that stands alone speaks for the line below it
too. It needs a reason, and one that hides nothing is itself a finding. Submissions have no such right: theirs are noted
and not honoured (`source.resolve`).
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from kbh_lint.authors.folder import read_text
from kbh_lint.base import facts as kinds
from kbh_lint.base.records import dataclass
from kbh_lint.findings import Fact, Finding, fact_of
from kbh_lint.rules import Rule
from kbh_lint.source.spans import Span

FILES = ("problem.yaml", "solutions.yaml", "reference*.py", "legal.py", "cases.py", "mutants.py")
MAX_COMMENTS = 200  # in one file
OWN_RULE = "KBH921"
_COMMENT = re.compile(r"#[ \t]*kbh:[ \t]*ignore\b[ \t]*(?:\[([^\]\n]*)\])?[ \t]*([^\n]*)")
_IN_YAML = re.compile(r"(?:^|(?<=[ \t]))#[ \t]*kbh:[ \t]*ignore\b.*")


@dataclass(frozen=True, slots=True)
class Suppression:
    """One comment: the rule ids in its brackets, its reason, where it stands, and the lines that it speaks for."""

    rules: tuple[str, ...]
    reason: str
    span: Span
    lines: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Settled:
    """What is left of a report's findings, facts about comments, and a note for each comment that was honoured."""

    findings: tuple[Finding, ...]
    facts: tuple[Fact, ...]
    notes: tuple[str, ...]


def files(folder: Path) -> list[Path]:
    """The files of a problem folder in which comments that ask for suppression are honoured."""
    return sorted({path for pattern in FILES for path in folder.glob(pattern) if path.is_file()})


def settle(
    findings: Iterable[Finding], paths: Sequence[Path], rules: Collection[Rule], unasked: Collection[str] = ()
) -> Settled:
    """Removes the suppressed findings. `unasked` are kinds of facts that were not looked for this time: a comment
    about a rule over them is not called unused."""
    known = {rule.id: {query.fact for query in rule.when} for rule in rules}
    open_ = list(findings)
    facts: list[Fact] = []
    notes: list[str] = []
    for item in (found for path in paths for found in read(path)):
        wrong = _wrong(item, known)
        if wrong:
            facts.append(_fact(item, *wrong))
            continue
        for rule in item.rules:
            hidden = [finding for finding in open_ if finding.rule == rule and _speaks_for(item, finding)]
            if hidden:
                open_ = [finding for finding in open_ if not any(finding is other for other in hidden)]
                notes.append(f"{Path(item.span.path).name}:{item.span.line} suppresses {rule}: {item.reason}")
            elif not known[rule] & set(unasked):
                facts.append(_fact(item, "unused", rule))
    return Settled(tuple(open_), tuple(facts), tuple(notes))


def _wrong(item: Suppression, known: Collection[str]) -> tuple[str, str] | None:
    """Why a comment cannot be honoured, and the word that is wrong in it."""
    if not item.rules:
        return "no-rule", "nothing"
    for rule in item.rules:
        if rule not in known or rule == OWN_RULE:
            return "unknown-rule", rule
    return None if item.reason else ("no-reason", ", ".join(item.rules))


def _fact(item: Suppression, state: str, rule: str) -> Fact:
    return fact_of(kinds.Suppression(state=state, rule=rule), item.span)


def _speaks_for(item: Suppression, finding: Finding) -> bool:
    return finding.span.path == item.span.path and finding.span.line in item.lines


def read(path: Path) -> list[Suppression]:
    """Reads the comments of one YAML or Python file that ask for suppression."""
    text = read_text(path)
    if text is None or "kbh:" not in text:
        return []
    lines = text.split("\n")
    comments = _python_comments(text) if path.suffix == ".py" else _yaml_comments(lines)
    found: list[Suppression] = []
    for line, column, comment in comments:
        match = _COMMENT.match(comment)
        if match is None:
            continue
        alone = not lines[line - 1][: column - 1].strip()
        span = Span(str(path), line, column, line, column + len(comment.rstrip()))
        words = tuple(word for word in re.split(r"[,\s]+", match[1] or "") if word)
        found.append(Suppression(words, match[2].strip(), span, (line, _below(lines, line)) if alone else (line,)))
        if len(found) == MAX_COMMENTS:
            break
    return found


def _below(lines: Sequence[str], line: int) -> int:
    """The next line that is not a comment: several comments may stand above what they speak for."""
    after = line + 1
    while after <= len(lines) and lines[after - 1].lstrip().startswith("#"):
        after += 1
    return after


def _yaml_comments(lines: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    for number, line in enumerate(lines, 1):
        match = _IN_YAML.search(line)
        if match is not None:
            yield number, match.start() + 1, match.group()


def _python_comments(text: str) -> Iterator[tuple[int, int, str]]:
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.start[1] + 1, token.string
    except (tokenize.TokenError, SyntaxError):
        return
