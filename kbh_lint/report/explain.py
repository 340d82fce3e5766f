"""The page of a rule, for --explain on a terminal and for the documentation as Markdown."""

from __future__ import annotations

from collections.abc import Collection

from kbh_lint.rules import Example, Rule


def find(word: str, rules: Collection[Rule]) -> list[Rule]:
    """The rules that `word` names: an id, a name, or a class (which several may share)."""
    wanted = word.strip().lower()
    exact = [rule for rule in rules if wanted in (rule.id.lower(), rule.name)]
    return exact or [rule for rule in rules if rule.leak_class == wanted]


def page(rule: Rule) -> str:
    """The rule as Markdown: what and why, a bad and a good example, how to fix, references."""
    bad, good = pair(rule)
    facts = [
        f"Class `{rule.leak_class}`",
        f"verdict `{rule.verdict}`",
        f"severity {rule.severity}",
        f"confidence {rule.confidence}",
        "problems that promise `" + rule.breaks + "`" if rule.breaks else _SCOPES[rule.scope],
        *(f"KernelBench's `{check}`" for check in rule.kernelbench),
    ]
    parts = [
        f"# {rule.id}: {rule.name}",
        rule.summary,
        " · ".join(facts),
        f"## Why\n\n{rule.why}",
        f"## Example\n\n{_example(bad)}",
        f"Use instead:\n\n{_example(good)}",
        f"## How to fix\n\n{rule.remedy}",
    ]
    if rule.references:
        parts.append("## References\n\n" + "\n".join(f"- `{reference}`" for reference in rule.references))
    return "\n\n".join(parts) + "\n"


_SCOPES = {"any": "any file", "promise": "files under a contract", "fallback": "files that no other rule explains"}


def pair(rule: Rule) -> tuple[Example, Example]:
    """The rule's first bad example, and the good example that is its twin."""
    bad = rule.bad[0]
    return bad, next((good for good in rule.good if good.of == bad.name), rule.good[0])


def _example(example: Example) -> str:
    note = f"{example.note.strip()}\n\n" if example.note.strip() else ""
    fence = "```"
    while fence in example.code:
        fence += "`"
    language = "text" if example.code.startswith("=== ") else "python"  # a problem folder, file by file
    return f"{note}{fence}{language}\n{example.code.rstrip()}\n{fence}"


def listing(rules: Collection[Rule]) -> str:
    """The rules for --list-rules, a line each."""
    wide = max((len(rule.name) for rule in rules), default=0)
    return "".join(f"{rule.id}  {rule.name:<{wide}}  {rule.verdict:<11}  {_first(rule.summary)}\n" for rule in rules)


def _first(text: str) -> str:
    return " ".join(text.split())
