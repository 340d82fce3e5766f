"""Rules: one YAML file each, with the query, the texts and the examples. docs/writing-rules.md is the manual."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, cast, get_args

from kbh_lint.base.fact_kind import fields_of
from kbh_lint.base.facts import KINDS
from kbh_lint.base.records import dataclass
from kbh_lint.findings import Fact, Finding, Related, Verdict
from kbh_lint.marked import DataError, Fields, Items, Map, load
from kbh_lint.rules import query as q
from kbh_lint.source.spans import Span
from kbh_lint.verdict import explained

MAX_RULE_BYTES = 256 * 1024
MAX_RELATED = 24
MAX_FINDINGS = 200  # of one rule in one file
TWIN_LINES = 6  # a bad example differs from its good twin by at most this many lines

_FILE_NAME = re.compile(r"(KBH\d{3})-([a-z0-9-]+)\.yaml")
_SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_EXAMPLES = re.compile(r"\nexamples:[ \t\r]*(?=\n)")
_TOP = re.compile(r"\n[^\s#]")  # a line of the outermost mapping
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


class RuleError(DataError):
    """A rule file that cannot be used; its text is one sentence with the file and the line."""


@dataclass(frozen=True, slots=True)
class Example:
    """Code that a rule must flag (bad) or pass (good). `of` names the bad example that a good one is the twin of."""

    name: str
    code: str
    line: int
    problem: str | None = None
    note: str = ""
    of: str | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. `when` holds alternatives: a fact that any of them matches becomes a finding.

    `scope` says when it speaks: always (`any`), under a contract that makes the promise which it `breaks` (`promise`),
    or as `promise` and only where no other rule found a leak (`fallback`). `layer` is the kind of evidence it is about.
    """

    id: str
    name: str
    leak_class: str
    verdict: Verdict
    severity: str
    confidence: str
    layer: str
    scope: str
    breaks: str | None
    summary: str
    why: str
    remedy: str
    references: tuple[str, ...]
    when: tuple[q.Query, ...]
    message: str
    bad: tuple[Example, ...]
    good: tuple[Example, ...]
    path: str


# --- loading -----------------------------------------------------------------------------------------------


def load_rules(folder: Path, *, examples: bool = True, check_examples: bool = False) -> tuple[Rule, ...]:
    """All rules of `folder` in the order of their ids.

    Without `examples` they are left unread where they come last in the file, and are none: linting has no use for
    them, and they are most of the text. With `check_examples` each bad example must also be one edit away from a
    good one (slower; tests and the documentation do it). Raises RuleError: no such folder, a malformed file, an id
    or a name used twice.
    """
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix in (".yaml", ".yml"))
    except OSError:
        raise RuleError(str(folder), 1, "there is no such folder of rules") from None
    rules: list[Rule] = []
    ids: dict[str, Rule] = {}
    for path in paths:
        rule = load_rule(path, examples=examples)
        for word in (rule.id, rule.name):
            if word in ids:
                raise RuleError(str(path), 1, f"`{word}` is also used by {ids[word].path}")
            ids[word] = rule
        if check_examples:
            check_twins(rule)
        rules.append(rule)
    return tuple(rules)


def load_rule(path: Path, *, examples: bool = True) -> Rule:
    """The rule in one file; `examples` as for `load_rules`. Raises RuleError."""
    try:
        if path.stat().st_size > MAX_RULE_BYTES:
            raise RuleError(str(path), 1, f"a rule file may have at most {MAX_RULE_BYTES // 1024} KiB")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise RuleError(str(path), 1, f"the rule cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise RuleError(str(path), 1, "the rule is not UTF-8 text") from None
    head = None if examples else _head(text)
    if head is not None:
        try:
            return _parsed(head, str(path), headed=True)
        except DataError:
            pass  # the whole file decides, and says what is wrong
    return parse_rule(text, str(path))


def _head(text: str) -> str | None:
    """The rule down to its examples; None where they do not stand last as a block of their own."""
    found = _EXAMPLES.search(text)
    return text[: found.start()] if found and not _TOP.search(text, found.end()) else None


def parse_rule(text: str, path: str) -> Rule:
    """The rule that `text` holds; `path` names it in messages and must end in `KBH123-slug.yaml`."""
    try:
        return _parsed(text, path)
    except DataError as error:
        raise RuleError(error.path, error.line, error.message) from None


@lru_cache(maxsize=512)
def _parsed(text: str, path: str, headed: bool = False) -> Rule:
    """The same text is parsed once in a process: a server, and everything that lints again and again, reads the files
    before each run, since they may have changed, but parsing all of them takes longer than linting one submission."""
    return _parse(load(text, path), path, headed)


def _parse(data: Map, path: str, headed: bool = False) -> Rule:
    fields = Fields(data, path, "the rule")
    rule_id, name = fields.text("id"), fields.text("name")
    named = _FILE_NAME.fullmatch(Path(path).name)
    if named is None:
        raise DataError(path, 1, "a rule file must be called KBH and three digits, `-`, its name, `.yaml`")
    for key, value, wanted in (("id", rule_id, named[1]), ("name", name, named[2])):
        if value != wanted:
            raise fields.fail(key, f"`{key}` is `{value}`, but the file is called {Path(path).name}")
    leak_class = fields.text("class")
    if not _SLUG.fullmatch(leak_class):
        raise fields.fail("class", f"`class` must be lower-case words joined by `-`; it is `{leak_class}`")
    breaks = fields.text("breaks") if "breaks" in data else None
    if fields.take("when") is None:
        raise DataError(path, data.line, "the rule needs `when`, the query over facts")
    bad, good = ((), ()) if headed else _examples(fields.mapping("examples"), path)
    rule = Rule(
        id=rule_id,
        name=name,
        leak_class=leak_class,
        verdict=cast(Verdict, fields.choice("verdict", get_args(Verdict))),
        severity=fields.choice("severity", ("error", "warning", "info")),
        confidence=fields.choice("confidence", ("high", "medium", "low")),
        layer=fields.choice("layer", ("source", "ptx", "sass", "run"), "source"),
        scope=fields.choice("scope", ("any", "promise", "fallback")),
        breaks=breaks,
        summary=fields.text("summary").strip(),
        why=fields.text("why").strip(),
        remedy=fields.text("remedy").strip(),
        references=fields.texts("references"),
        when=q.read_when(data.get("when"), path, data.lines.get("when", 1)),
        message=fields.text("message").strip(),
        bad=bad,
        good=good,
        path=path,
    )
    fields.done()
    _check_facts(rule, data)
    return rule


def _check_facts(rule: Rule, data: Map) -> None:
    """Refuses a rule that asks for a fact or an attribute that no analysis makes, or fills one into its message."""
    for query in rule.when:
        fault = q.unknown(query)
        if fault:
            raise DataError(rule.path, data.lines.get("when", 1), fault)
    known = {name for query in rule.when for name in fields_of(KINDS[query.fact])} | {"shapes"}
    for name in _PLACEHOLDER.findall(rule.message):
        if name not in known:
            raise DataError(
                rule.path, data.lines.get("message", 1), f"the message fills in `{name}`, which is no attribute"
            )


def _examples(data: Map, path: str) -> tuple[tuple[Example, ...], tuple[Example, ...]]:
    fields = Fields(data, path, "`examples`")
    bad = _example_list(fields.items("bad"), path, "bad")
    good = _example_list(fields.items("good"), path, "good")
    fields.done()
    names = {example.name for example in bad}
    for example in good:
        if example.of is not None and example.of not in names:
            raise DataError(path, example.line, f"`of: {example.of}` names no bad example of this rule")
    return bad, good


def _example_list(items: Items, path: str, side: str) -> tuple[Example, ...]:
    if len(items) < 2:
        raise DataError(path, items.line, f"a rule needs at least two {side} examples; this has {len(items)}")
    found: list[Example] = []
    for item, line in zip(items, items.lines, strict=True):
        if not isinstance(item, Map):
            raise DataError(path, line, "an example must be a mapping with `name` and `code`")
        fields = Fields(item, path, f"the {side} example")
        example = Example(
            name=fields.text("name"),
            code=fields.text("code"),
            line=item.lines["code"],
            problem=fields.text("problem") if "problem" in item else None,
            note=fields.text("note", ""),
            of=fields.text("of") if side == "good" and "of" in item else None,
        )
        fields.done()
        if any(other.name == example.name for other in found):
            raise DataError(path, line, f"two {side} examples are called `{example.name}`")
        found.append(example)
    return tuple(found)


def check_twins(rule: Rule) -> None:
    """Raises RuleError when a bad example is not one small edit away from a good one (from its own, by `of`)."""
    for bad in rule.bad:
        twins = [good for good in rule.good if good.of == bad.name] or list(rule.good)
        nearest = min(_distance(bad.code, good.code) for good in twins)
        if nearest > TWIN_LINES:
            raise RuleError(
                rule.path,
                bad.line,
                f"the bad example `{bad.name}` differs from its nearest good twin by {nearest} lines;"
                f" at most {TWIN_LINES} are allowed, so that the example shows the edit that matters",
            )
        if nearest == 0:
            raise RuleError(rule.path, bad.line, f"the bad example `{bad.name}` is the same as a good one")


def _distance(one: str, other: str) -> int:
    from difflib import SequenceMatcher  # start-up: linting compares no examples

    left, right = one.splitlines(), other.splitlines()
    changes = SequenceMatcher(None, left, right, autojunk=False).get_opcodes()
    return sum(max(a2 - a1, b2 - b1) for tag, a1, a2, b1, b2 in changes if tag != "equal")


# --- choosing ----------------------------------------------------------------------------------------------


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


# --- matching ----------------------------------------------------------------------------------------------


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
    """The order that findings are listed in: those in the file itself first, then by line."""
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

    return _PLACEHOLDER.sub(value, template)


def describe_shapes(count: int, total: int) -> str:
    """`2 of 4 graded shapes`, `every graded shape`, or `any shape` for what is not tied to shapes."""
    if not count:
        return "any shape"
    if count >= total:
        return "every graded shape" if total else f"{count} graded shape{'s' * (count > 1)}"
    return f"{count} of {total} graded shapes"
