"""From facts to findings: which rules speak, and what they say where."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import Any, cast

from kbh_lint.findings import Fact, Finding, Related
from kbh_lint.rules import query as q
from kbh_lint.rules.rule import PLACEHOLDER, Rule
from kbh_lint.source.spans import Span
from kbh_lint.verdict import explained

MAX_RELATED = 24
MAX_FINDINGS = 200  # of one rule in one file


def is_selected(
    rule_id: str, leak_class: str, select: Collection[str], ignore: Collection[str], name: str = ""
) -> bool:
    """Whether --select and --ignore leave this rule in: words are ids, prefixes of ids, names or classes."""

    def hit(words: Collection[str]) -> bool:
        return any(w in (leak_class, name) or (w.startswith("KBH") and rule_id.startswith(w)) for w in words)

    return (not select or hit(select)) and not hit(ignore)


def unknown_words(words: Iterable[str], rules: Collection[Rule]) -> list[str]:
    """The words of --select or --ignore that no rule answers to."""
    return [word for word in words if not any(is_selected(r.id, r.leak_class, (word,), (), r.name) for r in rules)]


def apply(
    rules: Iterable[Rule],
    facts: Iterable[Fact],
    *,
    path: str,
    contract_known: bool,
    promises: Collection[str] = (),
) -> tuple[Finding, ...]:
    """The findings of `rules` over `facts`, in the order of lines.

    `promises` holds the ids and kinds of the contract's promises: a promise-scoped rule that breaks a promise the
    problem does not make is silent. A rule of the scope `fallback` speaks last, under a contract, where no finding
    says that the file is a leak. A fact without a span is reported at the first line of `path`.
    """
    grouped = q.by_kind(facts)
    found: list[Finding] = []
    last: list[Rule] = []
    for rule in rules:
        if rule.scope != "any" and (not contract_known or (rule.breaks and rule.breaks not in promises)):
            continue
        if rule.scope == "fallback":
            last.append(rule)
        else:
            found.extend(_findings(rule, grouped, path))
    if not explained(found):
        found += [finding for rule in last for finding in _findings(rule, grouped, path)]
    found.sort(key=by_line(path))
    return tuple(found)


def by_line(path: str) -> Callable[[Finding], tuple[bool, str, int, int, str]]:
    """The sort key by which findings are listed: those in the file `path` first, then by line."""
    return lambda f: (f.span.path != path, f.span.path, f.span.line, f.span.column, f.rule)


def _findings(rule: Rule, grouped: dict[str, list[Fact]], path: str) -> list[Finding]:
    merged: dict[Span, list[Fact]] = {}
    seen: set[int] = set()
    for query in rule.when:
        for fact in q.match(query, grouped):
            if id(fact) in seen:
                continue
            seen.add(id(fact))
            span = fact.span or Span(path, 1, 1, 1, 1)
            if span in merged or len(merged) < MAX_FINDINGS:
                merged.setdefault(span, []).append(fact)
    return _gathered([_finding(rule, span, facts) for span, facts in merged.items()])


def _gathered(findings: list[Finding]) -> list[Finding]:
    """One finding where a rule says the same of several places: the first place, with the others beside it."""
    alike: dict[tuple[str, tuple[str, ...]], list[Finding]] = {}
    for finding in sorted(findings, key=lambda f: (f.span.path, f.span.line, f.span.column)):
        alike.setdefault((finding.message, finding.shapes), []).append(finding)
    out: list[Finding] = []
    for first, *others in alike.values():
        places = [Related(other.span, "and here") for other in others]
        context = [item for finding in (first, *others) for item in finding.related]
        related = [item for item in (*places, *context) if item.span != first.span]
        out.append(replace(first, related=tuple(_spread(related))))
    return out


def _finding(rule: Rule, span: Span, facts: list[Fact]) -> Finding:
    shapes = tuple(dict.fromkeys(shape for fact in facts for shape in fact.shapes))
    related = dict.fromkeys(item for fact in facts for item in fact.related if item.span != span)
    total = max(fact.total for fact in facts)
    return Finding(
        rule=rule.id,
        name=rule.name,
        leak_class=rule.leak_class,
        verdict=rule.verdict,
        severity=cast(Any, rule.severity),
        confidence=cast(Any, rule.confidence),
        layer=cast(Any, rule.layer),
        message=fill(rule.message, facts[0], shapes, total),
        span=span,
        related=tuple(_spread(list(related))),
        shapes=shapes,
        breaks=rule.breaks,
    )


def _spread(related: list[Related]) -> list[Related]:
    """At most MAX_RELATED places, not two of them the same span."""
    spans: dict[Span, Related] = {}
    for item in related:
        spans.setdefault(item.span, item)
    return list(spans.values())[:MAX_RELATED]


def fill(template: str, fact: Fact, shapes: tuple[str, ...], total: int) -> str:
    """The message with `{attr}` replaced from the fact, and `{shapes}` by "2 of 4 graded shapes"."""

    def value(found: re.Match[str]) -> str:
        name = found[1]
        if name == "shapes" and name not in fact.attrs:
            return describe_shapes(len(shapes), total)
        item = fact.attrs.get(name)
        if isinstance(item, (tuple, list, set, frozenset)):
            return ", ".join(str(part) for part in item) or "nothing"
        return "unknown" if item is None else str(item)

    return PLACEHOLDER.sub(value, template)


def describe_shapes(count: int, total: int) -> str:
    """`2 of 4 graded shapes`, `every graded shape`, or `any shape` for what is not tied to shapes."""
    if not count:
        return "any shape"
    if count >= total:
        return "every graded shape" if total else f"{count} graded shape{'s' * (count > 1)}"
    return f"{count} of {total} graded shapes"
