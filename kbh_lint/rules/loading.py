"""Reading rules: one YAML file each, refused with the file and the line where it asks for what is not there."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import cast, get_args

from kbh_lint.base.fact_kind import fields_of
from kbh_lint.base.facts import KINDS
from kbh_lint.findings import Verdict
from kbh_lint.marked import DataError, Fields, Items, Map, load
from kbh_lint.rules import query as q
from kbh_lint.rules.rule import KERNELBENCH_CHECKS, PLACEHOLDER, Example, Rule, RuleError
from kbh_lint.rules.twins import check_twins

MAX_RULE_BYTES = 256 * 1024

_FILE_NAME = re.compile(r"(KBH\d{3})-([a-z0-9-]+)\.yaml")
_SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_EXAMPLES = re.compile(r"\nexamples:[ \t\r]*(?=\n)")
_TOP = re.compile(r"\n[^\s#]")  # a line of the outermost mapping


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
    checks = fields.texts("kernelbench")
    for check in checks:
        if check not in KERNELBENCH_CHECKS:
            known = ", ".join(KERNELBENCH_CHECKS)
            raise fields.fail("kernelbench", f"`{check}` is not a check of KernelBench; there are {known}")
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
        kernelbench=checks,
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
    for name in PLACEHOLDER.findall(rule.message):
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
