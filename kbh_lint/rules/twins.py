"""Whether the examples of a rule show the edit that matters: each bad one is a small edit away from a good one."""

from __future__ import annotations

from kbh_lint.rules.rule import Rule, RuleError

TWIN_LINES = 6  # a bad example differs from its good twin by at most this many lines


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
