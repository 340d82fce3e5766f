"""What `kbh-lint` prints instead of linting: a rule's page, the rules, the problems."""

from __future__ import annotations

import argparse
import sys

from kbh_lint.base import paths
from kbh_lint.base.errors import UsageError
from kbh_lint.problems import load_deck
from kbh_lint.report.explain import find, listing, page
from kbh_lint.rules import load_rules
from kbh_lint.service.one_file import load_rules_once


def show(args: argparse.Namespace) -> int:
    """Prints what was asked for. Returns 0; raises UsageError, RuleError or ProblemError."""
    if args.list_problems:
        sys.stdout.write(problems(args.problems_dir))
    if args.list_rules:
        sys.stdout.write(listing(load_rules_once(str(paths.rules_dir(args.rules_dir)))))
    if args.explain:
        sys.stdout.write(explain(args.explain, args.rules_dir))
    return 0


def explain(word: str, rules_dir: str | None) -> str:
    """The pages of the rules that `word` names. Raises UsageError with the nearest names when there are none."""

    rules = load_rules(paths.rules_dir(rules_dir))
    found = find(word, rules)
    if not found:
        from difflib import get_close_matches

        names = [name for rule in rules for name in (rule.id, rule.name, rule.leak_class)]
        near = list(dict.fromkeys(get_close_matches(word, names, 3, 0.5)))
        hint = f"; did you mean {' or '.join(near)}?" if near else "; see --list-rules"
        raise UsageError(f"no rule is called `{word}`{hint}")
    return "\n".join(page(rule) for rule in found)


def problems(problems_dir: str | None) -> str:
    """The problems of the deck as text: id, title, contracts, promises. Raises UsageError when there is none,
    ProblemError."""

    folder = paths.problems_dir(problems_dir)
    deck = load_deck(folder)
    if not len(deck):
        raise UsageError(f"there are no problems in {folder}")
    lines: list[str] = []
    for problem in deck.values():
        state = "" if problem.contracts else f" ({problem.status}: no contract)"
        lines.append(f"{problem.id}  {problem.title}{state}")
        if problem.contracts:
            lines.append(f"    contracts: {', '.join(problem.contracts)}; {len(problem.shapes)} graded shapes")
        lines += [
            f"    promises {promise.id} ({', '.join([*promise.contracts, f'{promise.quantifier} shape'])}):"
            f" {' '.join(promise.text.split())}"
            for promise in problem.promises
        ]
    return "".join(f"{line}\n" for line in lines)
