"""Rules: one YAML file each, with the query, the texts and the examples. docs/writing-rules.md is the manual."""

from __future__ import annotations

from kbh_lint.rules.loading import load_rule, load_rules, parse_rule
from kbh_lint.rules.matching import (
    MAX_FINDINGS,
    MAX_RELATED,
    apply,
    by_line,
    describe_shapes,
    fill,
    is_selected,
    unknown_words,
)
from kbh_lint.rules.rule import KERNELBENCH_CHECKS, Example, Rule, RuleError
from kbh_lint.rules.twins import check_twins

__all__ = [
    "KERNELBENCH_CHECKS", "MAX_FINDINGS", "MAX_RELATED", "Example", "Rule", "RuleError", "apply", "by_line",
    "check_twins", "describe_shapes", "fill", "is_selected", "load_rule", "load_rules", "parse_rule", "unknown_words",
]  # fmt: skip
